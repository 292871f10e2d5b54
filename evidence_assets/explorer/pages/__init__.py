"""Pages of the explorer, one module per kind: each maps a query string to the values of a template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

PACKAGE = Path(__file__).parent.parent
STATIC = PACKAGE / "static"
PER_PAGE = 50
_PART = re.compile(r"\s*[^\s_/.@:|-]{0,12}[_/.@:|-]?")
"""A part of a text that a line break may follow: to the next separator, at most twelve characters of a word."""


Query = Mapping[str, str]
"""Fields of an address's query string."""


class NotFound(LookupError):
    """The lake has no row of this name; the site replies 404."""


@dataclass(frozen=True)
class Page:
    """A template with its values."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pager:
    """Page ``number``, from 1, of a list with ``total`` rows."""

    number: int
    total: int

    @classmethod
    def of(cls, requested: str, total: int) -> Pager:
        """The requested page, limited to existing pages."""
        number = int(requested) if requested.isdigit() and len(requested) < 9 else 1
        return cls(min(max(1, number), cls(1, total).pages), total)

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // PER_PAGE))

    @property
    def offset(self) -> int:
        return (self.number - 1) * PER_PAGE


def link(*parts: str, **query: str) -> str:
    """An address with escaped path parts and a query string."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    parameters = {name: value for name, value in query.items() if value}
    return path + (f"?{urlencode(parameters)}" if parameters else "")


def template_environment(**variables: Any) -> Environment:
    """Jinja environment that escapes all text; ``variables`` are globals of the templates."""
    environment = Environment(
        loader=FileSystemLoader(PACKAGE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"short": shorten, "share": format_share, "wrap": variables.pop("wrap", None)}
    environment.filters["breakable"] = break_words
    environment.globals |= {"link": link} | variables
    return environment


def shorten(text: object, max_length: int = 160) -> str:
    """A text on one line, truncated to ``max_length``."""
    line = " ".join(str(text).split())
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def break_words(text: object) -> Markup:
    """A text with possible line breaks in long words, so that they do not widen a column.

    >>> str(break_words("a very_long_name_of <b>"))
    'a<wbr> very_<wbr>long_<wbr>name_<wbr>of<wbr> &lt;b&gt;'
    """
    return Markup("<wbr>").join(filter(None, _PART.findall(str(text))))


def format_share(value: float | None) -> str:
    """A number with three decimals; empty for None."""
    return "" if value is None else f"{value:.3f}"
