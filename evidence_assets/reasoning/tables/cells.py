"""Typed cells: the values that a table cell or a sentence states, beside its untouched text.

Numbers with their units, percentages, ranges, deviations, p-values, counts and dates are found in one string; every
value keeps its span in the reading copy (`Cell.plain`), so that a reader can check it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, Literal

from evidence_assets.reasoning.tables.lexicon import lexicon, words
from evidence_assets.reasoning.tables.text import latin_digits, plain_text, unit_in

Kind = Literal["number", "percentage", "count", "range", "deviation", "p_value", "date"]


@dataclass(frozen=True)
class CellValue:
    """One value stated in a text.

    ``kind``: ``count`` is a whole number of something named ("161 children"); ``deviation`` a spread that stands alone.
    ``value``: The number; the middle of a range; the proleptic ordinal day of a date.
    ``unit``: Unit or counted noun as written, "%" for percentages, empty if none.
    ``low``, ``high``: Bounds of a range or of a confidence interval.
    ``deviation``: Spread given with the value, by ± or in parentheses.
    ``comparator``: "<", ">", "≤", "≥" or "≈" where the text bounds the value instead of stating it.
    ``scale``: Factor by which a word behind the number scaled it; the value holds it already.
    ``text``, ``start``, ``end``: The words it was read from, and where they stand in the reading copy.
    """

    kind: Kind
    value: float
    text: str
    start: int
    end: int
    unit: str = ""
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    comparator: str = ""
    scale: float = 1.0

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

    def is_met(self, value: float, bound: str = "") -> bool:
        """Whether a number is what this asks for; of one that its cell only bounds ("less than 1"), whether it
        must be."""
        for side, sign in (("<≤", 1), (">≥", -1)):
            if bound and bound in side:
                room = sign * (self.value - value)
                inclusive = self.comparator != side[0] or bound != side[1]
                return bool(self.comparator) and self.comparator in side and (room > 0 or (room == 0 and inclusive))
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
        return next((v for v in self.values if v.kind in {"number", "percentage", "count", "range"}), None)

    @property
    def number(self) -> float | None:
        return None if self.quantity is None else self.quantity.value

    @property
    def mostly_value(self) -> bool:
        """Whether it is mostly its values: "64 (53.3%)" is, "Phase 3 trial in Finland" is not."""
        letters = sum(character.isalpha() for character in self.plain)
        of_values = sum(character.isalpha() for value in self.values for character in value.text)
        return bool(self.values) and letters - of_values <= 3


# Spaces part thousands only in a number that no other number stands beside: "10 200 30", "10 200, 300" and "5 100%" are
# lists. Behind a word a single digit is rather its number ("Group 1 200 patients").
_SPACED = (
    r"(?<!\d[\s,;/|])(?<!\d[,;/|]\s)(?:(?:(?<![^\W\d_]\s)[1-9]|[1-9]\d{1,2})(?:[ \u00a0\u202f\u2009]\d{3})+"
    r"|[1-9](?:[ ]\d{3}){2,})(?:\.\d+|,\d{1,2})?(?!\.?\d|\s?%|\s?[,;/|]?\s?\d)"
)
_DIGITS = rf"(?:{_SPACED}|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+\.\d+|(?<!\d,)\d+,\d{{1,2}}(?![\d,])|\d+|\.\d+)"
_NUMBER = rf"(?<![\w.])(?<![A-Za-z][-–])[+\-–]?\s?{_DIGITS}(?:[eE][+-]?\d+)?(?![\d])"
_PLAIN_NUMBER = rf"[+\-–]?\s?{_DIGITS}(?:[eE][+-]?\d+)?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE_FORMS = ("%Y-%m-%d", "%d %b %Y", "%b %d %Y", "%b %Y", "%m/%Y", "%Y")
_COMPARATORS: dict[str, str] = lexicon()["comparators"]
_COMPARATOR = "|".join(re.escape(word) for word in sorted(_COMPARATORS, key=len, reverse=True))
_SCALES: dict[str, float] = lexicon()["scales"]
_SCALE = r"(?:[\s-]?(?:thousand|million|billion|trillion)s?\b|\s?(?-i:[bB]n)\b|(?-i:[KkMB])(?![A-Za-z]))"
_PERCENT = r"(?:%|percentage\s+points?|percent\b|per\s+cent\b)"

_PATTERN = re.compile(
    rf"""
    (?P<p>\bp(?:[\s-]?values?(?:\s*(?P<p_colon>:))?)?\s*(?P<p_cmp><=|>=|[<>=≤≥]|of|was|is|(?(p_colon)|(?!)))\s*
      (?P<p_val>(?:0,\d+(?![\d,])|\d*\.?\d+)(?:[eE][+-]?\d+)?))
  | (?P<date>(?<!\d)\d{{4}}-\d{{2}}-\d{{2}}(?!\d)|(?<!\d)\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}\s+\d{{4}}(?!\d)
      |\b{_MONTH}(?:\s+\d{{1,2}}(?:st|nd|rd|th)?\s?,?)?\s+\d{{4}}(?!\d)|(?<![\d/])(?:0?[1-9]|1[0-2])/[12]\d{{3}}(?![\d/])
      |(?<=[(\[])(?:1[5-9]\d\d|20\d\d)(?=[a-z]?[)\]]))
  | (?P<level>\b\d{{2}}(?:\.\d+)?\s?%\s?(?:CI|confidence|CrI)\b)
  | (?P<num>(?:(?P<cmp>(?<!\w)(?:{_COMPARATOR}))\s*)?(?P<spread>(?:±|\+/-|\+-)\s?)?(?P<currency>[$€£])?
      (?P<val>{_NUMBER})
      (?P<scale>{_SCALE}|(?(currency)(?-i:m)(?![A-Za-z])|(?!)))?[⁰¹²³⁴⁵⁶⁷⁸⁹]*
      (?:
          (?P<range_pct>\s?%)?\s?(?:[–—-]|to(?=\s))\s?[$€£]?(?P<to>(?<![\d.])\s?{_DIGITS}(?:[eE][+-]?\d+)?)
          (?P<to_pct>\s?{_PERCENT})?
      )?
      (?:\s?\*{{1,4}}|\s?[†‡§])?
      (?P<pct>\s?{_PERCENT}(?:\s?\*{{1,4}})?)?
      (?:\s?(?:±|\+/-|\+-)\s?(?P<dev>{_DIGITS})(?:\s?%)?(?:\s?\*{{1,4}})?)?
      (?:\s?\(\s?(?:±|\+/-|SD:?|SE:?|s\.d\.|s\.e\.)\s?=?\s?(?P<pdev>{_DIGITS})\s?%?\s?\)(?:\s?\*{{1,4}})?)?
      (?:\s?\(\s?(?P<bare>{_DIGITS})\s?\)(?:\s?\*{{1,4}})?)?
      (?:\s?[\(\[]\s?(?:\d{{2}}(?:\.\d+)?\s?%\s?(?:CI|CrI|confidence\s+interval)\s?:?,?\s?)?
          (?P<lo>{_PLAIN_NUMBER})\s?%?\s?(?:,|;|to|[–—-])\s?(?P<hi>{_PLAIN_NUMBER})\s?%?\s?[\)\]])?
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SCALE_WORD = re.compile(r"\b(thousand|million|billion|trillion|bn)s?\b", re.IGNORECASE)
_SHORT = 200
_SPACE_IN_NUMBERS = re.compile(r"(?<=\d) (?=\d)")
_SPACED_NUMBER = re.compile(r"\d+(?: \d+)+")
_WORD_AFTER = re.compile(r"(?:\s|-(?=[A-Za-z]))?(°\s?[CF]\b|[^\W\d_]+(?:/[^\W\d_]+)?)")


def to_float(digits: str) -> float:
    r"""Number from its written form: thousands separators dropped, a comma before one or two digits is a decimal sign.

    >>> to_float("535,544"), to_float("3,14"), to_float("- 0.87"), to_float(".5"), to_float("1\u202f234")
    (535544.0, 3.14, -0.87, 0.5, 1234.0)
    """
    digits = re.sub(r"\s", "", digits).replace("–", "-")
    if re.fullmatch(r"[+-]?\d+,\d{1,2}", digits):
        digits = digits.replace(",", ".")
    return float(digits.replace(",", ""))


def parse_values(plain: str) -> tuple[CellValue, ...]:
    """All values in a reading copy, in order; each is read once. A number too large for a float stays text."""
    text = latin_digits(plain)
    found: list[CellValue] = []
    for match in _PATTERN.finditer(text):
        if match["num"]:
            found.extend(_quantities(match, text))
        elif value := _date(match) if match["date"] else _p_value(match) if match["p"] else None:
            found.append(value)
    return tuple(v for v in found if all(isfinite(n or 0.0) for n in (v.value, v.low, v.high, v.deviation)))


def as_under(value: CellValue, header: str) -> CellValue:
    """A value as the cells below a header write it, where the header names a scale and the value was written with one.

    >>> (value,) = parse_values("23 million")
    >>> as_under(value, "Cost (million EUR)").value, as_under(value, "Cost (EUR)").value
    (23.0, 23000000.0)
    """
    word = _SCALE_WORD.search(header)
    if word is None or value.scale == 1.0:
        return value
    down = 1.0 / _SCALES[word[1].lower()]
    names = ("value", "low", "high", "deviation", "scale")
    scaled: dict[str, Any] = {name: _scaled(n, down) for name in names if (n := getattr(value, name)) is not None}
    return replace(value, unit=value.unit or unit_in(header), **scaled)


def parse_cell(text: str) -> Cell:
    """Read one cell.

    >>> [(v.kind, v.value, v.unit) for v in parse_cell("535,544 children 161 children hospitalised").values]
    [('count', 535544.0, 'children'), ('count', 161.0, 'children')]
    >>> value = parse_cell("[BOLD] 0.215***(0.075)").values[0]
    >>> value.value, value.deviation
    (0.215, 0.075)
    """
    # The same short texts come again and again, in a table and in its selections; long ones would fill the memory.
    return _parse_short(text) if len(text) <= _SHORT else _parse(text)


def _parse(text: str) -> Cell:
    plain = plain_text(text)
    values = parse_values(_apart(plain, text))
    alone = re.fullmatch(r"\(\s?(?:±\s?)?([^()]*)\)", plain)
    if alone and len(values) == 1 and values[0].kind == "number" and values[0].value >= 0:
        # "(0.075)" on a line of its own is the spread of the estimate above it.
        only = values[0]
        values = (CellValue("deviation", only.value, only.text, only.start, only.end, only.unit, deviation=only.value),)
    return Cell(text, plain, values)


def _apart(plain: str, text: str) -> str:
    """Copy of equal length in which numbers that a mark or a line break held apart do not read as one with spaces."""
    if plain == text or all(spaced in text for spaced in set(_SPACED_NUMBER.findall(plain))):
        return plain
    return _SPACE_IN_NUMBERS.sub("\n", plain)


_parse_short = lru_cache(maxsize=1 << 16)(_parse)


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


def _p_value(match: re.Match[str]) -> CellValue:
    comparator = _COMPARATORS.get(match["p_cmp"], "")
    value = float(match["p_val"].replace(",", "."))
    return CellValue("p_value", value, match["p"], match.start(), match.end(), unit="p", comparator=comparator)


def _scaled(number: float, scale: float) -> float:
    """Product as if written out: 2.3 million is 2,300,000, which binary fractions miss."""
    return float(Decimal(repr(number)) * Decimal(repr(scale))) if scale != 1.0 else number


def _quantities(match: re.Match[str], text: str) -> list[CellValue]:
    written = to_float(match["val"])
    to = to_float(match["to"]) if match["to"] else None
    low = to_float(match["lo"]) if match["lo"] else None
    high = to_float(match["hi"]) if match["hi"] else None
    deviation = next((to_float(match[name]) for name in ("dev", "pdev", "bare") if match[name]), None)
    scaling = re.sub(r"[\s-]", "", match["scale"] or "").lower().removesuffix("s")
    scale = float(_SCALES[scaling]) if scaling else 1.0
    number = _scaled(written, scale)
    if low is not None and high is not None and low <= written <= high:
        low, high = _scaled(low, scale), _scaled(high, scale)
    percent = bool(match["pct"] or match["range_pct"] or match["to_pct"])
    comparator = _COMPARATORS.get((match["cmp"] or "").lower(), "")
    kind: Kind = "percentage" if percent else "number"
    if to is not None and to < number:
        # "87 - 3.2" is no range: two values that share what surrounds them.
        unit = "%" if percent else ""
        return [
            CellValue(kind, value, match[name], match.start(name), match.end(name), unit, scale=factor)
            for name, value, factor in (("val", number, scale), ("to", to, 1.0))
        ]
    if to is not None:
        low, high = number, to
        number, kind = (low + high) / 2, "range"
    unit, end = ("%", match.end()) if percent else _unit_after(text, match.end())
    if kind == "number" and unit and not _is_measure(unit) and number.is_integer():
        kind = "count"
    if match["spread"]:
        kind, deviation = "deviation", number
    said = text[match.start() : end].strip()
    return [CellValue(kind, number, said, match.start(), end, unit, low, high, deviation, comparator, scale)]


def _is_measure(unit: str) -> bool:
    """Whether a unit measures instead of naming what is counted; "mg/dL" and "m²" by what they begin with."""
    return "°" in unit or unit.lower().split("/")[0].rstrip("²³") in words("units")


def _unit_after(text: str, position: int) -> tuple[str, int]:
    """Word directly behind a number if it can be a unit or a counted noun."""
    match = _WORD_AFTER.match(text, position)
    if (
        match is None
        or match[1].lower() in words("not_counted")
        or (len(match[1]) == 1 and match[1].lower() not in words("units"))
    ):
        return "", position
    return match[1], match.end()
