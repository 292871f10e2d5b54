"""Export of the explorer's pages as HTML files, and of one prediction as an evidence card."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import duckdb

from evidence_assets.explorer.answer_view import AnswerView
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.layers import draw_answer
from evidence_assets.explorer.pages import STATIC, template_environment
from evidence_assets.explorer.site import Site
from evidence_assets.lake import lineage
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, short_id

_HREF = re.compile(r'(href|src)="(/[^"]*)"')
MAX_PAGES = 2_000


@dataclass(frozen=True)
class ExportResult:
    """Numbers of written pages and of linked pages that were skipped."""

    pages: int
    skipped: int


def page_file(address: str) -> str:
    """File name of a page: its path, with a hash if it has a query or unsafe characters.

    >>> page_file("/"), page_file("/questions?page=2&benchmark=quiz")[:10], page_file("/question/ab12?variant=x")
    ('index.html', 'questions-', 'question/ab12.html')
    """
    parts = urlsplit(address)
    query = sorted(p for p in parse_qsl(parts.query) if not (p[0] == "variant" and parts.path.startswith("/question/")))
    name = parts.path.strip("/") or "index"
    if query or not re.fullmatch(r"[A-Za-z0-9_/-]{1,120}", name):
        head = re.sub(r"[^A-Za-z0-9_/-]+", "_", name)[:40]
        name = f"{head}-{content_id(parts.path, query)[:16]}"
    return f"{name}.html"


def export_pages(
    root: Path, folder: Path, max_pages: int = MAX_PAGES, progress: Callable[[int], None] = lambda n: None
) -> ExportResult:
    """Write the pages of a lake to a new or empty folder."""
    if folder.exists() and any(folder.iterdir()):
        raise BadInput("is not empty: choose a new folder", file=folder)
    site = Site(LakeReader(root), static=True)
    waiting, linked = deque(["/"]), {"index.html"}
    pages: dict[str, str] = {}
    while waiting:
        address = waiting.popleft()
        parts = urlsplit(address)
        _, html = site.reply(parts.path, dict(parse_qsl(parts.query)))
        pages[page_file(address)] = html
        progress(len(pages))
        for _, href in _HREF.findall(html):
            address_of_link = urlsplit(unescape(href))._replace(fragment="").geturl()
            name = page_file(address_of_link)
            if not address_of_link.startswith("/static/") and name not in linked:
                linked.add(name)
                if len(linked) <= max_pages:
                    waiting.append(address_of_link)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(STATIC, folder / "static")
    for name, html in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_HREF.sub(partial(_relative_link, page=name, pages=pages), html), encoding="utf-8")
    return ExportResult(len(pages), len(linked) - len(pages))


def _relative_link(match: re.Match[str], page: str, pages: dict[str, str]) -> str:
    """A relative link to the file of another page, or to the first page if that page was skipped."""
    address = unescape(match[2])
    parts = urlsplit(address)
    if parts.path.startswith("/static/"):
        target = parts.path.lstrip("/")
    else:
        target = page_file(parts._replace(fragment="").geturl())
        target = target if target in pages else "index.html"
    relative = posixpath.relpath(target, posixpath.dirname(page) or ".")
    return f'{match[1]}="{escape(relative + (f"#{parts.fragment}" if parts.fragment else ""))}"'


def evidence_card(connection: duckdb.DuckDBPyConnection, view: AnswerView) -> str:
    """One prediction as a self-contained HTML page whose policy forbids scripts and requests."""
    node = lineage.trace(connection, view.prediction["prediction_id"])
    style = (STATIC / "explorer.css").read_text("utf-8")
    return (
        template_environment(linked=False, draw_answer=draw_answer)
        .get_template("card.html")
        .render(a=view, style=style, lineage=[_node(node, set())])
    )


def _node(node: lineage.Node, listed_ids: set[int]) -> dict[str, Any]:
    """A row with its parents; parents that are listed above are not repeated."""
    is_listed = id(node.next) in listed_ids
    listed_ids.add(id(node.next))
    return {
        "relation": f"{node.relation.replace('_', ' ')} " if node.relation else "",
        "kind": node.kind,
        "id": short_id(node.id),
        "content": ", ".join(f"{name}: {value}" for name, value in node.content.items() if value is not None),
        "above": is_listed and node.next,
        "below": [] if is_listed else [_node(child, listed_ids) for child in node.next],
    }
