"""Evidence drawn as what it is: a sentence marked in its chunk, cells marked in their table, a path as a small graph.

Belongs here: places and sizes. Texts stay texts; the templates escape them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evidence_assets.explorer.path_reading import WalkedEdge
from evidence_assets.reasoning.tasks import CAPTION

_CELL = re.compile(r"r(\d+)c(\d+)")
_SPAN = re.compile(r"(\d+):(\d+)")
WIDTH, ROW = 360, 64
MOST_ROWS, MOST_COLUMNS = 60, 40
"""A larger table is cut to these rows and columns, and says so."""
MOST_CELLS = 10
"""Cells of a column that are named where no table is drawn."""


def marked(text: str, locator: str) -> tuple[str, str, str]:
    """What stands before, at and after a place in a text; all of it where the place is the whole text.

    >>> marked("Cats purr. Bees buzz.", "11:21")
    ('Cats purr. ', 'Bees buzz.', '')
    """
    place = _SPAN.fullmatch(locator)
    start, end = (int(place[1]), int(place[2])) if place else (0, len(text))
    return text[:start], text[start:end], text[end:]


def text_of(row: Mapping[str, Any]) -> str:
    """What a row of evidence says on one line or in one paragraph; a column by its header and first cells.

    >>> text_of({"kind": "column", "text": "Depth\\n425 m\\n\\n251 m"})
    'Depth: 425 m; 251 m'
    """
    if row["kind"] != "column":
        return str(row["text"])
    header, *lines = row["text"].split("\n")
    cells = list(filter(None, lines))
    more = [f"and {len(cells) - MOST_CELLS} more"] if len(cells) > MOST_CELLS else []
    return ": ".join(filter(None, [header, "; ".join(cells[:MOST_CELLS] + more)]))


@dataclass(frozen=True)
class GridCell:
    """A cell with what became of it: ``used`` by a verified citation, ``kept`` as evidence, or ``dropped``."""

    text: str
    state: str
    place: str
    number: int | None = None
    """By which citations name it."""


@dataclass(frozen=True)
class Grid:
    """A table with its cells marked; ``kept`` and ``dropped`` are the columns, by their names, ``above`` its caption where
    that is evidence."""

    table_id: str
    caption: str
    rows: list[list[GridCell]]
    kept: list[str]
    dropped: list[str]
    cut: bool
    above: GridCell | None = None


def grid_of(
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
            for j in range(min(width, MOST_COLUMNS))
        ]
        for i in range(min(table["n_rows"] + 1, MOST_ROWS))
    ]
    columns = {int(match[2]) for locator in states if (match := _CELL.fullmatch(locator))}
    names = [texts.get((0, j), "") or f"column {j + 1}" for j in range(width)]
    return Grid(
        table["table_id"],
        table["caption"],
        rows,
        [n for j, n in enumerate(names) if j in columns],
        [n for j, n in enumerate(names) if j not in columns],
        width > MOST_COLUMNS or table["n_rows"] + 1 > MOST_ROWS,
        above,
    )


@dataclass(frozen=True)
class Node:
    """A node of a drawn path: where, its name, and how near it is to the question."""

    x: int
    y: int
    name: str
    score: str


@dataclass(frozen=True)
class Arrow:
    """An edge of a drawn path: from one height to another, its words, and whether it points down the walk."""

    y1: int
    y2: int
    words: str
    down: bool
    score: str


@dataclass(frozen=True)
class Path:
    """A path from top to bottom, so that it is read on a phone, too."""

    width: int
    height: int
    nodes: list[Node]
    arrows: list[Arrow]
    said: str
    """The same in words, for whoever does not see it."""


def path_picture(walk: Sequence[WalkedEdge], why: Mapping[str, Any]) -> Path:
    """The walk as a picture, with the relevance of its nodes and the attention of its edges."""
    relevance = {node["name"]: node.get("relevance") for node in why.get("nodes", []) if isinstance(node, dict)}
    attention = why.get("attention", {})
    attention = attention if isinstance(attention, dict) else {}
    names, groups = [walk[0].start], list[list[WalkedEdge]]()
    for edge in walk:
        if groups and edge.start == groups[-1][0].start and edge.end == groups[-1][0].end:
            groups[-1].append(edge)
        else:
            groups.append([edge])
            names.append(edge.end)
    nodes = [Node(16, 24 + i * ROW, name, _score(relevance.get(name))) for i, name in enumerate(names)]
    arrows = [
        Arrow(
            24 + i * ROW + 14,
            24 + (i + 1) * ROW - 14,
            " and ".join(dict.fromkeys(e.words for e in group)),
            group[0].along,
            _attended(attention.get(group[0].edge_id)),
        )
        for i, group in enumerate(groups)
    ]
    said = "; ".join(f"{e.head} {e.words} {e.tail}" for group in groups for e in group)
    longest = max([*(len(n.name) + 8 for n in nodes), *(len(a.words) + 18 for a in arrows)])
    return Path(max(WIDTH, min(900, 40 + longest * 8)), 24 + len(groups) * ROW + 24, nodes, arrows, said)


def _score(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float | int) else ""


def _attended(value: Any) -> str:
    return f"{value[0]:.2f} / {value[1]:.2f}" if isinstance(value, list) and len(value) == 2 else ""
