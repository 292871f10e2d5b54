"""Evidence drawn as what it is: a sentence marked in its chunk, cells in their table, a path as a small graph."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from evidence_assets.explorer.paths import WalkedEdge
from evidence_assets.reasoning.tasks import CAPTION

_CELL = re.compile(r"r(\d+)c(\d+)")
_SPAN = re.compile(r"(\d+):(\d+)")
MAX_ROWS, MAX_COLUMNS = 60, 40
"""A larger table is cut to these rows and columns, and says so."""


def highlight_span(text: str, locator: str) -> tuple[str, str, str]:
    """What stands before, at and after a place in a text; all of it where the place is the whole text.

    >>> marked("Cats purr. Bees buzz.", "11:21")
    ('Cats purr. ', 'Bees buzz.', '')
    """
    place = _SPAN.fullmatch(locator)
    start, end = (int(place[1]), int(place[2])) if place else (0, len(text))
    return text[:start], text[start:end], text[end:]


@dataclass(frozen=True)
class GridCell:
    """A cell with what became of it: ``used`` by a verified citation, ``kept`` as evidence, or ``dropped``."""

    text: str
    state: str
    locator: str
    number: int | None = None
    """By which citations name it."""


@dataclass(frozen=True)
class Grid:
    """A table with its cells marked; ``kept`` and ``dropped`` are the columns, by their names, ``above`` its caption
    where that is evidence."""

    table_id: str
    caption: str
    rows: list[list[GridCell]]
    evidence_columns: list[str]
    other_columns: list[str]
    is_truncated: bool
    caption_cell: GridCell | None = None


def build_grid(
    table: Mapping[str, Any],
    evidence: Sequence[Mapping[str, Any]],
    used: Collection[str],
    numbers: Mapping[str, int] | None = None,
    quoted: Collection[tuple[str, str]] = (),
) -> Grid:
    """The table that cells and columns of evidence stand in; ``numbers`` are those of the evidence by its ids.

    Of a used column the cells that verified citations quote are used; ``quoted`` are these, by evidence and text.
    """
    cited, states = dict[str, int | None](), dict[str, str]()
    above: GridCell | None = None
    for e in evidence:
        number = (numbers or {}).get(e["evidence_id"])
        state = "used" if e["evidence_id"] in used else "kept"
        if e["locator"] == CAPTION:
            above, cells = GridCell(table["caption"], state, CAPTION, number), []
        elif e["locator"].startswith("r"):
            cells = [e["locator"]]
            states[e["locator"]] = state
        else:
            lines = {f"r{i}{e['locator']}": said for i, said in enumerate(e["text"].split("\n")) if said}
            states |= {p: "used" if (e["evidence_id"], said) in quoted else "kept" for p, said in lines.items()}
            cells = list(lines)
        cited |= dict.fromkeys(cells[:1], number)
    width = max([len(table["header"]), *(cell["column"] + 1 for cell in table["cells"])])
    texts = {(0, j): text for j, text in enumerate(table["header"])}
    texts |= {(cell["row"] + 1, cell["column"]): cell["text"] for cell in table["cells"]}
    rows = [
        [
            GridCell(texts.get((i, j), ""), states.get(f"r{i}c{j}", "dropped"), f"r{i}c{j}", cited.get(f"r{i}c{j}"))
            for j in range(min(width, MAX_COLUMNS))
        ]
        for i in range(min(table["n_rows"] + 1, MAX_ROWS))
    ]
    columns = {int(match[2]) for locator in states if (match := _CELL.fullmatch(locator))}
    names = [texts.get((0, j), "") or f"column {j + 1}" for j in range(width)]
    return Grid(
        table["table_id"],
        table["caption"],
        rows,
        [n for j, n in enumerate(names) if j in columns],
        [n for j, n in enumerate(names) if j not in columns],
        width > MAX_COLUMNS or table["n_rows"] + 1 > MAX_ROWS,
        above,
    )


def draw_path(walk: Sequence[WalkedEdge], why: Mapping[str, Any]) -> dict[str, Any]:
    """A walk from top to bottom: its nodes with their relevance, its arrows with their attention, and both in words."""
    relevance = {node["name"]: node.get("relevance") for node in why.get("nodes", []) if isinstance(node, dict)}
    attention = why.get("attention", {})
    attention = attention if isinstance(attention, dict) else {}
    hops = [list(edges) for _, edges in groupby(walk, key=lambda edge: (edge.start, edge.end))]
    names = [walk[0].start, *(edges[0].end for edges in hops)]
    nodes = [{"name": name, "score": _format_score(relevance.get(name))} for name in names]
    arrows = [
        {
            "words": " and ".join(dict.fromkeys(edge.words for edge in edges)),
            "down": edges[0].along,
            "score": _format_attention(attention.get(edges[0].edge_id)),
        }
        for edges in hops
    ]
    longest = max([*(len(name) + 8 for name in names), *(len(str(arrow["words"])) + 18 for arrow in arrows)])
    return {
        "width": max(360, min(900, 40 + longest * 8)),
        "nodes": nodes,
        "arrows": arrows,
        "said": "; ".join(f"{edge.head} {edge.words} {edge.tail}" for edge in walk),
    }


def _format_score(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float | int) else ""


def _format_attention(value: Any) -> str:
    return f"{value[0]:.2f} / {value[1]:.2f}" if isinstance(value, list) and len(value) == 2 else ""
