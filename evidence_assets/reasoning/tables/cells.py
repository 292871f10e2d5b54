"""Typed values in cells and texts: numbers, times, percentages, ranges, spreads and dates, with their offsets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from math import isfinite
from operator import ge, gt, le, lt
from typing import Literal

from evidence_assets.reasoning.tables.cell_text import extract_unit, normalize_digits, strip_markup
from evidence_assets.reasoning.tables.lexicon import load_lexicon, word_list

_COMPARISONS = {">": gt, "<": lt, "≥": ge, "≤": le}
ValueKind = Literal["number", "percentage", "range", "spread", "date"]


@dataclass(frozen=True)
class CellValue:
    """A value in a text, with the words that state it and their offsets in the plain text."""

    kind: ValueKind
    value: float  # of a range its middle, of a date the proleptic ordinal day, of a time its hours
    text: str
    start: int
    end: int
    unit: str = ""  # unit or counted noun in the text, "%" for percentages
    comparator: str = ""  # "<", ">", "≤", "≥" or "≈" in front of the value
    scale: float = 1.0  # factor of a word such as "million"; `value` is already multiplied by it

    @classmethod
    def bound(cls, comparator: str, value: float) -> CellValue:
        """A bound that no text states."""
        return cls("number", value, f"{value:g}", 0, 0, comparator=comparator)

    @property
    def is_bound(self) -> bool:
        """Whether the text states only a bound; "up to 97" states the value itself."""
        return self.comparator in {">", "≥", "<", "≤"} and not self.text.lower().startswith("up to")

    @property
    def is_date(self) -> bool:
        """Whether it is a date or may be a year."""
        is_year = self.kind == "number" and not self.unit and 1900 <= self.value <= 2100 and self.value % 1 == 0
        return self.kind == "date" or is_year

    @property
    def is_time(self) -> bool:
        return ":" in self.text or self.unit.lower() in _HALF_DAYS

    def states(self, value: float) -> bool:
        """Whether a number agrees with this value at its written precision, or is within its bound."""
        if self.is_bound:
            return value >= self.value if self.comparator in {">", "≥"} else value <= self.value
        decimals = re.search(r"\.(\d+)", self.text)
        tolerance = 0.0 if self.is_time else 0.5 * 10.0 ** -(len(decimals[1]) if decimals else 0)
        if self.comparator == "≈":
            tolerance = max(0.03 * abs(self.value), tolerance)
        return abs(value - self.value) <= tolerance + 1e-9

    def is_met(self, value: float) -> bool:
        """Whether a number meets this condition: strictly for "over 5", inclusively for "at least 5"."""
        compare = _COMPARISONS.get(self.comparator)
        return self.states(value) if compare is None else compare(value, self.value)


@dataclass(frozen=True)
class Cell:
    """A cell: its original text, its plain text without markup, and the values in it."""

    text: str
    plain: str
    values: tuple[CellValue, ...]

    @property
    def quantity(self) -> CellValue | None:
        """The first value that can be compared as a quantity, or None; opening hours cannot."""
        kinds = {"number", "percentage", "range"}
        return next((v for v in self.values if v.kind in kinds and not (v.kind == "range" and v.is_time)), None)

    @property
    def is_known(self) -> bool:
        """Whether the cell has a text that states something; "n/a" and "–" do not."""
        return bool(self.plain) and self.plain.casefold() not in word_list("no_value")

    @property
    def number(self) -> float | None:
        return None if self.quantity is None else self.quantity.value

    @property
    def is_one_amount(self) -> bool:
        """Whether the cell is one number with at most a bound and a unit; "20s" and "5 A" are not."""
        value = self.quantity
        if value is None or len(self.values) > 1 or value.text != self.plain:
            return False
        unit = value.unit.casefold()
        return unit in {"", "%"} or (len(unit) > 1 and unit not in word_list("number_suffixes"))

    @property
    def is_mostly_value(self) -> bool:
        """Whether the cell has little text apart from its values: "64 (53.3%)", but not "Phase 3 trial in Finland"."""
        letters = sum(char.isalpha() for char in self.plain)
        value_letters = sum(char.isalpha() for value in self.values for char in value.text)
        return bool(self.values) and letters - value_letters <= 3


# Spaces separate thousands only if no other number is adjacent: "10 200 30", "10 200, 300" and "5 100%" are lists. A
# single digit after a word belongs to the word ("Group 1 200 patients").
_SPACED = (
    r"(?<!\d[\s,;/|])(?<!\d[,;/|]\s)(?:(?:(?<![^\W\d_]\s)[1-9]|[1-9]\d{1,2})(?:[ \u00a0\u202f\u2009]\d{3})+"
    r"|[1-9](?:[ ]\d{3}){2,})(?:\.\d+|,\d{1,2})?(?!\.?\d|\s?%|\s?[,;/|]?\s?\d)"
)
_POINTED = r"\d{1,3}(?:\.\d{3})+,\d{1,2}(?![\d,])"  # 1.299,00
_TIME = r"\d{1,2}(?::[0-5]\d){1,2}(?:\.\d+)?(?!:?\d)"
_HALF_DAYS = {"am": 0, "pm": 12}
_DIGITS = (
    rf"(?:{_SPACED}|{_POINTED}|{_TIME}|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+\.\d+|(?<!\d,)\d+,\d{{1,2}}(?![\d,])"
    r"|\d+|\.\d+)"
)
_NUMBER = rf"(?<![\w.])(?<![A-Za-z][-–])[+\-–]?\s?{_DIGITS}(?:[eE][+-]?\d+)?(?!\d)"
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE_FORMATS = ("%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d %m %Y", "%d %b %Y", "%b %d %Y", "%b %Y", "%m/%Y", "%Y")
_COMPARATORS: dict[str, str] = load_lexicon()["comparators"]
_COMPARATOR = "|".join(re.escape(word) for word in sorted(_COMPARATORS, key=len, reverse=True))
_SCALES: dict[str, float] = load_lexicon()["scales"]
_SCALED_DIGITS = 6  # 2.3 * 1e6 is not exactly 2,300,000 in binary
_SCALE = r"(?:[\s-]?(?:thousand|million|billion|trillion)s?\b|\s?(?-i:[bB]n)\b|(?-i:[KkMB])(?![A-Za-z]))"
_PERCENT = r"(?:%|percentage\s+points?|percent\b|per\s+cent\b)"
_STARS = r"(?:\s?\*{1,4})?"
_SPREAD = r"(?:±|\+/-|\+-|(?:SD|SE|s\.d\.|s\.e\.)[:=\s])"

_PATTERN = re.compile(
    rf"""
    (?P<p_value>\bp(?:[\s-]?values?)?\s*(?:<=|>=|[<>=≤≥:]|of|was|is)\s*(?:0,\d+(?![\d,])|\d*\.?\d+)(?:e[+-]?\d+)?)
  | (?P<date>(?<!\d)\d{{4}}-\d{{2}}-\d{{2}}(?!\d)|(?<!\d)\d{{1,2}}(?:st|nd|rd|th)?\s+{MONTH}\s+\d{{4}}(?!\d)
      |(?<![\d./])\d{{1,2}}(?P<mark>[./])\d{{1,2}}(?P=mark)\d{{4}}(?![\d/])
      |\b{MONTH}(?:\s+\d{{1,2}}(?:st|nd|rd|th)?\s?,?)?\s+\d{{4}}(?!\d)
      |(?<![\d/])(?:0?[1-9]|1[0-2])/[12]\d{{3}}(?![\d/])|(?<=[(\[])(?:1[5-9]\d\d|20\d\d)(?=[a-z]?[)\]]))
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
    """Parse a number, or a time as hours; a comma before the last one or two digits is a decimal point."""
    digits = re.sub(r"\s", "", digits).replace("–", "-")
    if ":" in digits:
        sign = -1 if digits.startswith("-") else 1
        parts = digits.strip("+-").split(":")
        return sign * sum(float(part) / 60.0**i for i, part in enumerate(parts))
    if re.fullmatch(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d{1,2}", digits):
        digits = digits.replace(".", "").replace(",", ".")
    return float(digits.replace(",", ""))


def parse_values(plain: str) -> tuple[CellValue, ...]:
    """Values in a plain text; p-values, confidence levels and numbers beyond the float range are not parsed."""
    text = normalize_digits(plain)
    values: list[CellValue] = []
    for match in _PATTERN.finditer(text):
        value = _parse_quantity(match, text) if match["num"] else _parse_date(match) if match["date"] else None
        values += [value] if value else []
    return tuple(value for value in values if isfinite(value.value))


def rescale_to_header(value: CellValue, header: str) -> CellValue:
    """A value on the scale of a header: "23 million" is 23 below "Cost (million EUR)"."""
    word = re.search(r"\b(thousand|million|billion|trillion|bn)s?\b", header, re.IGNORECASE)
    if word is None or value.scale == 1.0:
        return value
    rescaled = round(value.value / _SCALES[word[1].lower()], _SCALED_DIGITS)
    return replace(value, value=rescaled, unit=value.unit or extract_unit(header), scale=1.0)


@lru_cache(maxsize=1 << 16)
def parse_cell(text: str) -> Cell:
    """Parse the text of a cell."""
    plain = strip_markup(text)
    # Numbers separated by markup or a line break are not one number with a space.
    values = parse_values(plain if plain == text else re.sub(r"(?<=\d) (?=\d)", "\n", plain))
    if len(values) == 1 and values[0].kind == "number" and re.fullmatch(r"\(\s?\d[^()]*\)", plain):
        values = (replace(values[0], kind="spread"),)  # "(0.075)" alone belongs to the estimate above it
    return Cell(text, plain, values)


def _parse_date(match: re.Match[str]) -> CellValue | None:
    text = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b|[,.]", " ", match["date"].lower())
    text = " ".join(re.sub(r"([a-z]{3})[a-z]*", r"\1", text).split())
    for date_format in _DATE_FORMATS:
        try:
            day = datetime.strptime(text, date_format)
        except ValueError:
            continue
        unit = "" if "%d" in date_format else "month"
        return CellValue("date", float(day.toordinal()), match["date"], match.start(), match.end(), unit)
    return None


def _parse_quantity(match: re.Match[str], text: str) -> CellValue:
    to = to_float(match["to"]) if match["to"] else None
    scaling = re.sub(r"[\s-]", "", match["scale"] or "").lower().removesuffix("s")
    scale = float(_SCALES[scaling]) if scaling else 1.0
    number = to_float(match["val"])
    number = number if scale == 1.0 else round(number * scale, _SCALED_DIGITS)
    percent = bool(match["pct"] or match["range_pct"])
    kind: ValueKind = "percentage" if percent else "number"
    if to is not None and to > number:  # "87 - 3" is no range
        number = (number + to) / 2
        kind = "range"
    unit, end = ("%", match.end()) if percent else _find_unit(text, match.end())
    if match["spread"]:
        kind = "spread"
    if unit.lower() in _HALF_DAYS and 0 <= number < 13:
        number = number % 12 + _HALF_DAYS[unit.lower()]
    comparator = _COMPARATORS.get((match["cmp"] or "").lower(), "")
    return CellValue(kind, number, text[match.start() : end].strip(), match.start(), end, unit, comparator, scale)


def _find_unit(text: str, position: int) -> tuple[str, int]:
    """The word directly after a number, if it can be a unit or a counted noun, and the offset after it."""
    match = _WORD_AFTER.match(text, position)
    word = match[1].lower() if match else ""
    is_unit = word not in word_list("non_units") if len(word) > 1 else word in word_list("one_letter_units")
    return (match[1], match.end()) if match and is_unit else ("", position)
