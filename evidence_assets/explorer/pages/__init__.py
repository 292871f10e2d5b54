"""One module a kind of page: from a request's values to what its template shows. Reads only through ``open_lake``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

PACKAGE = Path(__file__).parent.parent
STATIC = PACKAGE / "static"
PER_PAGE = 50


class NotFound(LookupError):
    """There is nothing of this name in the lake."""


@dataclass(frozen=True)
class Page:
    """What a template is filled with."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pager:
    """Which of many rows are shown: page ``number`` of ``pages``, counted from 1."""

    number: int
    total: int

    @classmethod
    def of(cls, stated: str, total: int) -> Pager:
        """The page that a request states, kept within what there is."""
        pages = max(1, -(-total // PER_PAGE))
        return cls(min(max(1, int(stated)), pages) if stated.isdigit() and len(stated) < 9 else 1, total)

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // PER_PAGE))

    @property
    def offset(self) -> int:
        return (self.number - 1) * PER_PAGE


def link(*parts: str, **query: str) -> str:
    """An address made of parts, each escaped, and of what is asked."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {name: value for name, value in query.items() if value}
    return path + (f"?{urlencode(given)}" if given else "")


def template_environment(**known: Any) -> Environment:
    """The pages' templates, which escape every text; ``known`` are their variables, and how a text is wrapped."""
    made = Environment(
        loader=FileSystemLoader(PACKAGE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"short": shorten, "share": format_share, "wrap": known.pop("wrap", None)}
    made.globals |= {"link": link, "linked": True, "static": False, "zip": zip} | known
    return made


def shorten(text: object, most: int = 160) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def format_share(value: float | None) -> str:
    """A number between 0 and 1, or nothing."""
    return "" if value is None else f"{value:.3f}"
