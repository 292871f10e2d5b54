"""Typed cells: the values that a table cell or a sentence states, beside its untouched text.

What belongs here: finding numbers with their units, percentages, ranges, deviations, p-values, stars, counts and dates
in one string. Every value keeps its span in the reading copy (`Cell.plain`), so that a reader can check it. What the
values mean for a claim is decided by the reasoner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Literal

from evidence_assets.methods.table_text import latin_digits, plain_text

VERSION = "1"

Kind = Literal["number", "percentage", "count", "range", "deviation", "p_value", "date"]


@dataclass(frozen=True)
class CellValue:
    """One value stated in a text.

    Attributes
    ----------
    kind
        ``count`` is a whole number of something named ("161 children"); ``deviation`` a spread that stands alone.
    value
        The number; the middle of a range; the proleptic ordinal day of a date.
    unit
        Unit or counted noun as written, "%" for percentages, empty if none.
    low, high
        Bounds of a range or of a confidence interval.
    deviation
        Spread given with the value, by ± or in parentheses.
    stars
        Significance stars behind the value.
    comparator
        "<", ">", "≤", "≥" or "≈" where the text bounds the value instead of stating it.
    text, start, end
        The words it was read from, and where they stand in the reading copy.
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
    stars: int = 0
    comparator: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell: the text as given, the reading copy without markup, and the values found in it."""

    text: str
    plain: str
    values: tuple[CellValue, ...]

    @property
    def number(self) -> float | None:
        """First value that can be compared as a quantity, or None."""
        for value in self.values:
            if value.kind in {"number", "percentage", "count", "range"}:
                return value.value
        return None


_DIGITS = (
    r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:[\u00a0\u202f\u2009]\d{3})+(?![\d.])"
    r"|\d+\.\d+|(?<!\d,)\d+,\d{1,2}(?![\d,])|\d+|\.\d+)"
)
_NUMBER = rf"(?<![\w.])(?<![A-Za-z][-–])[+\-–]?\s?{_DIGITS}(?:[eE][+-]?\d+)?(?![\d])"
_PLAIN_NUMBER = rf"[+\-–]?\s?{_DIGITS}(?:[eE][+-]?\d+)?"
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_MONTH = rf"(?:{_MONTHS})[a-z]*\.?"
_COMPARATORS = {
    "<": "<", ">": ">", "≤": "≤", "≥": "≥", "<=": "≤", ">=": "≥", "~": "≈", "≈": "≈",
    "about": "≈", "around": "≈", "approximately": "≈", "roughly": "≈", "nearly": "≈",
    "less than": "<", "fewer than": "<", "under": "<", "below": "<", "at most": "≤", "up to": "≤",
    "more than": ">", "greater than": ">", "over": ">", "above": ">", "at least": "≥",
}  # fmt: skip
_COMPARATOR = "|".join(re.escape(word) for word in sorted(_COMPARATORS, key=len, reverse=True))
_SCALES = {"K": 1e3, "k": 1e3, "M": 1e6, "B": 1e9}
# Words that may follow a number without being what it counts.
_NOT_COUNTED_LIST = """
    and or to of in on at for from by with vs than is are was were the a an as per while when which that respectively
    out times points point percent but if then compared higher lower more less better worse absolute relative through
    over under above below within between during after before until into not no do does did has have had
"""
_NOT_COUNTED = frozenset(_NOT_COUNTED_LIST.split())
_UNIT_LIST = """
    kg g mg ug µg μg ng t lb lbs oz km m cm mm µm μm nm mi ft in l ml dl h hr hrs min s sec ms d wk yr yrs °c °f k hz
    khz mhz ghz v mv w kw mw j kj cal kcal pa kpa bar mol mmol nmol gb mb kb tb db usd eur gbp
"""
_UNITS = frozenset(_UNIT_LIST.split())
_PERCENT = r"(?:%|percentage\s+points?|percent\b|per\s+cent\b)"

_PATTERN = re.compile(
    rf"""
    (?P<p>\bp(?:[\s-]?values?)?\s*(?P<p_cmp><=|>=|[<>=≤≥]|of|was|is)\s*(?P<p_val>\d*\.?\d+(?:[eE][+-]?\d+)?))
  | (?P<iso>(?<!\d)(?P<iso_y>\d{{4}})-(?P<iso_m>\d{{2}})-(?P<iso_d>\d{{2}})(?!\d))
  | (?P<dmy>(?<!\d)(?P<dmy_d>\d{{1,2}})(?:st|nd|rd|th)?\s+(?P<dmy_m>{_MONTH})\s+(?P<dmy_y>\d{{4}})(?!\d))
  | (?P<mdy>\b(?P<mdy_m>{_MONTH})(?:\s+(?P<mdy_d>\d{{1,2}})(?:st|nd|rd|th)?,?)?\s+(?P<mdy_y>\d{{4}})(?!\d))
  | (?P<my>(?<![\d/])(?P<my_m>0?[1-9]|1[0-2])/(?P<my_y>[12]\d{{3}})(?![\d/]))
  | (?P<year>(?<=[(\[])(?P<year_y>1[5-9]\d\d|20\d\d)(?=[a-z]?[)\]]))
  | (?P<level>\b\d{{2}}(?:\.\d+)?\s?%\s?(?:CI|confidence|CrI)\b)
  | (?P<num>(?:(?P<cmp>(?<!\w)(?:{_COMPARATOR}))\s*)?[$€£]?(?P<val>{_NUMBER})
      (?P<scale>[KkMB](?![A-Za-z]))?
      (?:
          (?P<range_pct>\s?%)?\s?(?:[–—-]|to(?=\s))\s?(?P<to>(?<![\d.])\s?{_DIGITS})(?P<to_pct>\s?{_PERCENT})?
      )?
      (?P<stars>\s?\*{{1,4}}|\s?[†‡§])?
      (?P<pct>\s?{_PERCENT})?
      (?:\s?(?:±|\+/-|\+-)\s?(?P<dev>{_DIGITS})(?P<dev_pct>\s?%)?)?
      (?:\s?\(\s?(?:±|\+/-|SD:?|SE:?|s\.d\.|s\.e\.)\s?=?\s?(?P<pdev>{_DIGITS})\s?%?\s?\))?
      (?:\s?\(\s?(?P<bare>{_DIGITS})\s?\))?
      (?:\s?[\(\[]\s?(?:\d{{2}}(?:\.\d+)?\s?%\s?(?:CI|CrI|confidence\s+interval)\s?:?,?\s?)?
          (?P<lo>{_PLAIN_NUMBER})\s?%?\s?(?:,|;|to|[–—-])\s?(?P<hi>{_PLAIN_NUMBER})\s?%?\s?[\)\]])?
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SHORT = 200
_WORD_AFTER = re.compile(r"(?:\s|-(?=[A-Za-z]))?(°\s?[CF]\b|[^\W\d_]+(?:/[^\W\d_]+)?)")


def to_float(digits: str) -> float:
    r"""Number from its written form: thousands separators dropped, a comma before one or two digits is a decimal sign.

    Examples
    --------
    >>> to_float("535,544"), to_float("3,14"), to_float("- 0.87"), to_float(".5"), to_float("1\u202f234")
    (535544.0, 3.14, -0.87, 0.5, 1234.0)
    """
    digits = re.sub(r"\s", "", digits).replace("–", "-")
    if re.fullmatch(r"[+-]?\d+,\d{1,2}", digits):
        digits = digits.replace(",", ".")
    return float(digits.replace(",", ""))


def parse_values(plain: str) -> tuple[CellValue, ...]:
    """All values in a reading copy, in order; each is read once."""
    text = latin_digits(plain)
    found: list[CellValue] = []
    for match in _PATTERN.finditer(text):
        if match["num"]:
            found.extend(_quantities(match, text))
        elif value := _date(match) or _p_value(match):
            found.append(value)
    return tuple(found)


def parse_cell(text: str) -> Cell:
    """Read one cell.

    Examples
    --------
    >>> [(v.kind, v.value, v.unit) for v in parse_cell("535,544 children 161 children hospitalised").values]
    [('count', 535544.0, 'children'), ('count', 161.0, 'children')]
    >>> value = parse_cell("[BOLD] 0.215***(0.075)").values[0]
    >>> value.value, value.stars, value.deviation
    (0.215, 3, 0.075)
    """
    # The same short texts come again and again, in a table and in its selections; long ones would fill the memory.
    return _parse_short(text) if len(text) <= _SHORT else _parse(text)


def _parse(text: str) -> Cell:
    plain = plain_text(text)
    values = parse_values(plain)
    alone = re.fullmatch(r"\(\s?(?:±\s?)?([^()]*)\)", plain)
    if alone and len(values) == 1 and values[0].kind == "number" and values[0].value >= 0:
        # "(0.075)" on a line of its own is the spread of the estimate above it.
        only = values[0]
        values = (CellValue("deviation", only.value, only.text, only.start, only.end, only.unit, deviation=only.value),)
    return Cell(text, plain, values)


_parse_short = lru_cache(maxsize=1 << 16)(_parse)


def _date(match: re.Match[str]) -> CellValue | None:
    for name in ("iso", "dmy", "mdy", "my", "year"):
        if match[name] is None:
            continue
        groups = match.groupdict()
        year = int(groups[f"{name}_y"])
        month_text = groups.get(f"{name}_m") or "1"
        month = int(month_text) if month_text.isdigit() else _MONTHS.split("|").index(month_text[:3].lower()) + 1
        day = int(groups.get(f"{name}_d") or 1)
        try:
            ordinal = date(year, month, day).toordinal()
        except ValueError:
            return None
        return CellValue("date", float(ordinal), match[name], match.start(), match.end())
    return None


def _p_value(match: re.Match[str]) -> CellValue | None:
    if match["p"] is None:
        return None
    comparator = _COMPARATORS.get(match["p_cmp"], "")
    return CellValue(
        "p_value", float(match["p_val"]), match["p"], match.start(), match.end(), unit="p", comparator=comparator
    )


def _quantities(match: re.Match[str], text: str) -> list[CellValue]:
    scale = _SCALES.get(match["scale"], 1.0) if match["scale"] else 1.0
    number = to_float(match["val"]) * scale
    percent = bool(match["pct"] or match["range_pct"] or match["to_pct"])
    stars = (match["stars"] or "").count("*")
    comparator = _COMPARATORS.get((match["cmp"] or "").lower(), "")
    deviation = next((to_float(match[name]) for name in ("dev", "pdev", "bare") if match[name]), None)
    low = to_float(match["lo"]) if match["lo"] else None
    high = to_float(match["hi"]) if match["hi"] else None
    kind: Kind = "percentage" if percent else "number"
    if match["to"] and to_float(match["to"]) < number:
        # "87 - 3.2" is no range: two values that share what surrounds them.
        parts = ((match["val"], number, match.start("val")), (match["to"], to_float(match["to"]), match.start("to")))
        unit = "%" if percent else ""
        return [CellValue(kind, value, text_, at, at + len(text_), unit) for text_, value, at in parts]
    if match["to"]:
        low, high = number, to_float(match["to"])
        number, kind = (low + high) / 2, "range"
    unit, end = ("%", match.end()) if percent else _unit_after(text, match.end())
    if kind == "number" and unit and unit.lower() not in _UNITS and "°" not in unit and number == int(number):
        kind = "count"
    words = text[match.start() : end].strip()
    start = match.start()
    return [CellValue(kind, number, words, start, end, unit, low, high, deviation, stars, comparator)]


def _unit_after(text: str, position: int) -> tuple[str, int]:
    """Word directly behind a number if it can be a unit or a counted noun."""
    match = _WORD_AFTER.match(text, position)
    if match is None or match[1].lower() in _NOT_COUNTED or (len(match[1]) == 1 and match[1].lower() not in _UNITS):
        return "", position
    return match[1], match.end()
