"""Typed cells: the numbers, percentages, ranges, spreads and dates that a text states, each with its place in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from math import isfinite
from typing import Literal

from evidence_assets.reasoning.tables.lexicon import lexicon, words
from evidence_assets.reasoning.tables.text import latin_digits, plain_text, unit_in

Kind = Literal["number", "percentage", "range", "spread", "date"]


@dataclass(frozen=True)
class CellValue:
    """One value stated in a text, with the words that it was read from and their place in the reading copy."""

    kind: Kind
    value: float  # the number; the middle of a range; the proleptic ordinal day of a date
    text: str
    start: int
    end: int
    unit: str = ""  # unit or counted noun as written, "%" for percentages
    comparator: str = ""  # "<", ">", "≤", "≥" or "≈" where the text bounds the value instead of stating it
    scale: float = 1.0  # factor by which a word behind the number scaled it; the value holds it already

    @property
    def bounds(self) -> bool:
        """Whether it bounds the value; "up to 97" names the value that is reached."""
        return self.comparator in {">", "≥", "<", "≤"} and not self.text.lower().startswith("up to")

    def states(self, value: float) -> bool:
        """Whether a value is what this claims, at the claim's own precision and within its bound."""
        if self.bounds:
            return value >= self.value if self.comparator in {">", "≥"} else value <= self.value
        decimals = re.search(r"\.(\d+)", self.text)
        half_a_digit = 0.5 * 10.0 ** -(len(decimals[1]) if decimals else 0)
        allowed = max(0.03 * abs(self.value), half_a_digit) if self.comparator == "≈" else half_a_digit
        return abs(value - self.value) <= allowed + 1e-9

    def is_met(self, value: float) -> bool:
        """Whether a number is what this demands: strictly beyond "over 5", at least "at least 5", else stated."""
        if self.comparator in {">", "<"}:
            return value > self.value if self.comparator == ">" else value < self.value
        return self.states(value)


@dataclass(frozen=True)
class Cell:
    """A cell: the text as given, the reading copy without markup, and the values found in it."""

    text: str
    plain: str
    values: tuple[CellValue, ...]

    @property
    def quantity(self) -> CellValue | None:
        """First value that can be compared as a quantity, or None."""
        return next((v for v in self.values if v.kind in {"number", "percentage", "range"}), None)

    @property
    def number(self) -> float | None:
        return None if self.quantity is None else self.quantity.value

    @property
    def is_one_amount(self) -> bool:
        """Whether it is one number and no more than its bound and unit; "20s" and "5 A" are no amounts."""
        value = self.quantity
        if value is None or len(self.values) > 1 or value.text != self.plain:
            return False
        return value.unit in {"", "%"} or (len(value.unit) > 1 and value.unit.casefold() not in words("no_units"))

    @property
    def mostly_value(self) -> bool:
        """Whether it is mostly its values: "64 (53.3%)" is, "Phase 3 trial in Finland" is not."""
        letters = sum(character.isalpha() for character in self.plain)
        of_values = sum(character.isalpha() for value in self.values for character in value.text)
        return bool(self.values) and letters - of_values <= 3


# Spaces separate thousands only in a number that no other number stands beside: "10 200 30", "10 200, 300" and "5 100%"
# are lists. Behind a word a single digit is rather its number ("Group 1 200 patients").
_SPACED = (
    r"(?<!\d[\s,;/|])(?<!\d[,;/|]\s)(?:(?:(?<![^\W\d_]\s)[1-9]|[1-9]\d{1,2})(?:[ \u00a0\u202f\u2009]\d{3})+"
    r"|[1-9](?:[ ]\d{3}){2,})(?:\.\d+|,\d{1,2})?(?!\.?\d|\s?%|\s?[,;/|]?\s?\d)"
)
_DIGITS = rf"(?:{_SPACED}|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+\.\d+|(?<!\d,)\d+,\d{{1,2}}(?![\d,])|\d+|\.\d+)"
_NUMBER = rf"(?<![\w.])(?<![A-Za-z][-–])[+\-–]?\s?{_DIGITS}(?:[eE][+-]?\d+)?(?!\d)"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE_FORMS = ("%Y-%m-%d", "%d %b %Y", "%b %d %Y", "%b %Y", "%m/%Y", "%Y")
_COMPARATORS: dict[str, str] = lexicon()["comparators"]
_COMPARATOR = "|".join(re.escape(word) for word in sorted(_COMPARATORS, key=len, reverse=True))
_SCALES: dict[str, float] = lexicon()["scales"]
_SCALED_DIGITS = 6  # 2.3 million is 2,300,000, which binary fractions miss
_SCALE = r"(?:[\s-]?(?:thousand|million|billion|trillion)s?\b|\s?(?-i:[bB]n)\b|(?-i:[KkMB])(?![A-Za-z]))"
_PERCENT = r"(?:%|percentage\s+points?|percent\b|per\s+cent\b)"
_STARS = r"(?:\s?\*{1,4})?"
_SPREAD = r"(?:±|\+/-|\+-|(?:SD|SE|s\.d\.|s\.e\.)[:=\s])"

_PATTERN = re.compile(
    rf"""
    (?P<p_value>\bp(?:[\s-]?values?)?\s*(?:<=|>=|[<>=≤≥:]|of|was|is)\s*(?:0,\d+(?![\d,])|\d*\.?\d+)(?:e[+-]?\d+)?)
  | (?P<date>(?<!\d)\d{{4}}-\d{{2}}-\d{{2}}(?!\d)|(?<!\d)\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}\s+\d{{4}}(?!\d)
      |\b{_MONTH}(?:\s+\d{{1,2}}(?:st|nd|rd|th)?\s?,?)?\s+\d{{4}}(?!\d)|(?<![\d/])(?:0?[1-9]|1[0-2])/[12]\d{{3}}(?![\d/])
      |(?<=[(\[])(?:1[5-9]\d\d|20\d\d)(?=[a-z]?[)\]]))
  | (?P<level>\b\d{{2}}(?:\.\d+)?\s?%\s?(?:CI|confidence|CrI)\b)
  | (?P<num>(?:(?P<cmp>(?<!\w)(?:{_COMPARATOR}))\s*)?(?P<spread>{_SPREAD}\s?)?(?P<currency>[$€£])?
      (?P<val>{_NUMBER})
      (?P<scale>{_SCALE}|(?(currency)(?-i:m)(?![A-Za-z])|(?!)))?[⁰¹²³⁴⁵⁶⁷⁸⁹]*
      (?:(?P<range_pct>\s?%)?\s?(?:[–—-]|to(?=\s))\s?[$€£]?(?P<to>(?<![\d.])\s?{_DIGITS}(?:[eE][+-]?\d+)?))?
      (?:{_STARS}|\s?[†‡§])(?P<pct>\s?{_PERCENT}{_STARS})?
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORD_AFTER = re.compile(r"(?:\s|-(?=[A-Za-z]))?(°\s?[CF]\b|[^\W\d_]+(?:/[^\W\d_]+)?)")


def to_float(digits: str) -> float:
    """Number from its written form; a comma before the last one or two digits is a decimal sign."""
    digits = re.sub(r"\s", "", digits).replace("–", "-")
    if re.fullmatch(r"[+-]?\d+,\d{1,2}", digits):
        digits = digits.replace(",", ".")
    return float(digits.replace(",", ""))


def parse_values(plain: str) -> tuple[CellValue, ...]:
    """All values in a reading copy, in order; p-values, confidence levels and numbers beyond all floats stay text."""
    text = latin_digits(plain)
    values: list[CellValue] = []
    for match in _PATTERN.finditer(text):
        value = _quantity(match, text) if match["num"] else _date(match) if match["date"] else None
        values += [value] if value else []
    return tuple(value for value in values if isfinite(value.value))


def as_under(value: CellValue, header: str) -> CellValue:
    """A value as cells below a header write it: "23 million" is 23 under "Cost (million EUR)"."""
    word = re.search(r"\b(thousand|million|billion|trillion|bn)s?\b", header, re.IGNORECASE)
    if word is None or value.scale == 1.0:
        return value
    written = round(value.value / _SCALES[word[1].lower()], _SCALED_DIGITS)
    return replace(value, value=written, unit=value.unit or unit_in(header), scale=1.0)


@lru_cache(maxsize=1 << 16)
def parse_cell(text: str) -> Cell:
    """Read one cell."""
    plain = plain_text(text)
    # Numbers that markup or a line break held apart are not one number with spaces.
    values = parse_values(plain if plain == text else re.sub(r"(?<=\d) (?=\d)", "\n", plain))
    if len(values) == 1 and values[0].kind == "number" and re.fullmatch(r"\(\s?\d[^()]*\)", plain):
        values = (replace(values[0], kind="spread"),)  # "(0.075)" alone is that of the estimate above it
    return Cell(text, plain, values)


def _date(match: re.Match[str]) -> CellValue | None:
    written = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b|[,.]", " ", match["date"].lower())
    written = " ".join(re.sub(r"([a-z]{3})[a-z]*", r"\1", written).split())
    for form in _DATE_FORMS:
        try:
            day = datetime.strptime(written, form)
        except ValueError:
            continue
        return CellValue("date", float(day.toordinal()), match["date"], match.start(), match.end())
    return None


def _quantity(match: re.Match[str], text: str) -> CellValue:
    to = to_float(match["to"]) if match["to"] else None
    scaling = re.sub(r"[\s-]", "", match["scale"] or "").lower().removesuffix("s")
    scale = float(_SCALES[scaling]) if scaling else 1.0
    number = to_float(match["val"])
    number = number if scale == 1.0 else round(number * scale, _SCALED_DIGITS)
    percent = bool(match["pct"] or match["range_pct"])
    kind: Kind = "percentage" if percent else "number"
    if to is not None and to > number:  # "87 - 3" is no range
        number, kind = (number + to) / 2, "range"
    unit, end = ("%", match.end()) if percent else _unit_after(text, match.end())
    if match["spread"]:
        kind = "spread"
    said = text[match.start() : end].strip()
    comparator = _COMPARATORS.get((match["cmp"] or "").lower(), "")
    return CellValue(kind, number, said, match.start(), end, unit, comparator, scale)


def _unit_after(text: str, position: int) -> tuple[str, int]:
    """Word directly behind a number if it can be a unit or a counted noun."""
    match = _WORD_AFTER.match(text, position)
    word = match[1].lower() if match else ""
    if match is None or word in words("not_counted") or (len(word) == 1 and word not in words("units")):
        return "", position
    return match[1], match.end()
