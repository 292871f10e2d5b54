"""Pages as files: all that are linked from the explorer's first page, or one prediction as a card."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import duckdb

from evidence_assets.explorer.answer_view import view_answer
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.pages import STATIC, template_environment
from evidence_assets.explorer.site import Site
from evidence_assets.lake import lineage
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, short_id

_HREF = re.compile(r'(href|src)="(/[^"]*)"')
MAX_PAGES = 2_000


@dataclass(frozen=True)
class ExportResult:
    """How many pages were written, and how many that are linked were not."""

    pages: int
    skipped: int


def page_file(address: str) -> str:
    """The file that a page is written to: readable parts, and a hash where the address holds what a file name cannot.

    >>> file_of("/"), file_of("/questions?page=2&benchmark=quiz")[:10], file_of("/question/ab12?variant=x")
    ('index.html', 'questions-', 'question/ab12.html')
    """
    parts = urlsplit(address)
    query = sorted(
        pair for pair in parse_qsl(parts.query) if not (pair[0] == "variant" and parts.path.startswith("/question/"))
    )
    name = parts.path.strip("/") or "index"
    if query or not re.fullmatch(r"[A-Za-z0-9_/-]{1,120}", name):
        head = re.sub(r"[^A-Za-z0-9_/-]+", "_", name)[:40]
        name = f"{head}-{content_id(parts.path, query)[:16]}"
    return f"{name}.html"


def export_pages(
    root: Path, folder: Path, most: int = MAX_PAGES, told: Callable[[int], None] = lambda n: None
) -> ExportResult:
    """Write the pages of a lake into a new or empty folder."""
    if folder.exists() and any(folder.iterdir()):
        raise BadInput("is not empty: name a new folder", file=folder)
    site = Site(LakeReader(root), static=True)
    waiting, written, linked = deque(["/"]), dict[str, str](), {"index.html"}
    pages: dict[str, str] = {}
    while waiting:
        address = waiting.popleft()
        parts = urlsplit(address)
        reply = site.reply(parts.path, dict(parse_qsl(parts.query)))
        written[page_file(address)] = address
        pages[page_file(address)] = reply.html
        told(len(pages))
        for _, stated in _HREF.findall(reply.html):
            to = urlsplit(unescape(stated))._replace(fragment="").geturl()
            name = page_file(to)
            if not to.startswith("/static/") and name not in linked:
                linked.add(name)
                if len(linked) <= most:
                    waiting.append(to)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(STATIC, folder / "static")
    for name, html in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_HREF.sub(lambda found, name=name: _relative_link(found, name, pages), html), encoding="utf-8")  # type: ignore[misc]
    return ExportResult(len(pages), len(linked) - len(pages))


def _relative_link(found: re.Match[str], page: str, pages: dict[str, str]) -> str:
    """A link from a page to the file of another; one that was left out leads to the first page."""
    address = unescape(found[2])
    parts = urlsplit(address)
    if parts.path.startswith("/static/"):
        target = parts.path.lstrip("/")
    else:
        target = page_file(parts._replace(fragment="").geturl())
        target = target if target in pages else "index.html"
    relative = posixpath.relpath(target, posixpath.dirname(page) or ".")
    return f'{found[1]}="{escape(relative + (f"#{parts.fragment}" if parts.fragment else ""))}"'


def evidence_card(connection: duckdb.DuckDBPyConnection, prediction: str) -> str:
    """One prediction as an HTML page that needs nothing else and forbids itself scripts and requests."""
    view = view_answer(connection, prediction)
    node = lineage.trace(connection, view.prediction["prediction_id"])
    style = (STATIC / "explorer.css").read_text("utf-8")
    return (
        template_environment(linked=False)
        .get_template("card.html")
        .render(a=view, style=style, lineage=[_node(node, set())])
    )


def _node(node: lineage.Node, shown: set[int]) -> dict[str, Any]:
    """A row and what it was made from; what is shown above is only named."""
    above = id(node.next) in shown
    shown.add(id(node.next))
    return {
        "how": f"{node.relation.replace('_', ' ')} " if node.relation else "",
        "kind": node.kind,
        "id": short_id(node.id),
        "said": ", ".join(f"{name}: {value}" for name, value in node.content.items() if value is not None),
        "above": above and node.next,
        "below": [] if above else [_node(child, shown) for child in node.next],
    }
