"""The pages of the explorer by their addresses, as HTML: what the server sends and what an export writes.

Belongs here: which address shows which page, and how a page is rendered. Every text is data: templates escape all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import duckdb

from evidence_assets.benchmarks.records import option_labels
from evidence_assets.explorer.open_lake import OpenLake, Reader
from evidence_assets.explorer.pages import Missing, Page, link, templates
from evidence_assets.explorer.pages.comparison import comparison, run_comparison
from evidence_assets.explorer.pages.home import home
from evidence_assets.explorer.pages.question import question
from evidence_assets.explorer.pages.questions import questions, search
from evidence_assets.explorer.pages.relation import relation
from evidence_assets.explorer.pages.source import source
from evidence_assets.lake.lineage import UnknownId

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""Content-Security-Policy of every page."""
Made = Callable[[Reader, Mapping[str, str]], Page]
PAGES: dict[str, Made] = {
    "": home, "questions": questions, "search": search, "compare": comparison, "runs": run_comparison
}  # fmt: skip
"""Pages of the lake as a whole."""


@dataclass(frozen=True)
class Reply:
    """What an address gives: HTML, or where to go instead."""

    status: int
    html: str = ""
    location: str = ""


def in_words(row: Mapping[str, Any], answer: str | None) -> str:
    """An answer with the text of its option."""
    if answer is None:
        return "none"
    labels = option_labels(row["task"], row["options"])
    text = dict(zip(labels, row["options"], strict=True)).get(answer, answer)
    return answer if text == answer else f"{answer}. {text}"


class Site:
    """A lake's pages.

    ``static``: Whether the pages are written as files, which no server answers: forms are left out.
    """

    def __init__(self, opened: OpenLake, *, static: bool = False) -> None:
        self.opened = opened
        self._templates = templates()
        known = {
            "link": link,
            "in_words": in_words,
            "static": static,
            "dagster": opened.dagster,
            "len": len,
            "zip": zip,
        }
        self._templates.globals |= known

    def reply(self, path: str, asked: Mapping[str, str]) -> Reply:
        """What stands at an address; an unknown one, or one of nothing in the lake, is told so."""
        started = time.perf_counter()
        parts = [unquote(part) for part in path.strip("/").split("/")]
        with self.opened.reader().connection as connection:
            reader = Reader(self.opened, connection)
            try:
                if parts[0] == "answer" and len(parts) == 2:
                    return Reply(302, location=self._of_answer(reader, parts[1]))
                page = self._page(parts)(reader, asked)
                status = 200
            except (Missing, UnknownId) as missing:
                page, status = Page("message.html", "Not found", {"said": str(missing)}), 404
            except duckdb.Error as error:
                page, status = Page("message.html", "Could not be read", {"said": str(error)}), 500
            html = self._templates.get_template(page.template).render(
                **page.values, title=page.title, queries=list(dict.fromkeys(reader.queries)), path=path, asked=dict(asked),
                seconds=time.perf_counter() - started,
            )  # fmt: skip
        return Reply(status, html)

    def _page(self, parts: list[str]) -> Made:
        match parts:
            case [name] if name in PAGES:
                return PAGES[name]
            case ["question", identifier]:
                return lambda reader, asked: question(reader, asked, identifier)
            case ["relation", name]:
                return lambda reader, asked: relation(reader, asked, name)
            case ["source", kind, *rest] if rest:
                return lambda reader, asked: source(reader, asked, kind, "/".join(rest))
        raise Missing(f"there is no page /{'/'.join(parts)}")

    def _of_answer(self, reader: Reader, identifier: str) -> str:
        rows = reader.answers(
            "SELECT question_id, variant FROM answers WHERE starts_with(prediction_id, $id) LIMIT 2", id=identifier
        )
        if len(rows) != 1:
            raise Missing(
                f"{'no answer has' if not rows else 'several answers have'} an id that begins with {identifier!r}"
            )
        return link("question", rows[0]["question_id"], variant=rows[0]["variant"])
