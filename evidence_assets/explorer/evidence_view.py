"""View of one row of evidence with its source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.drawing import highlight_span
from evidence_assets.explorer.paths import WalkedEdge, explain_path

SOURCE_COLUMNS = {
    "chunk": "coalesce(nullif(title, ''), doc_id) AS title, "
    "source || if(doc_id = source, '', ', document ' || doc_id) AS place, char_start, char_end, text",
    "table": "coalesce(nullif(caption, ''), table_id) AS title, 'table ' || table_id AS place, table_id, caption, "
    "header, n_rows, cells",
    "triple": "concat_ws(' ', head, relation, tail) AS title, source || '; licence ' || licence AS place",
    "edge": "relation AS title, concat(array_to_string(sources, ', '), '; licence ', array_to_string(licences, ', ')) "
    "AS place",
    "node": "name AS title, coalesce(type, '') AS place",
}
"""SQL of the columns that are read of each kind of source."""
_CELL = re.compile(r"r(\d+)c(\d+)")
MAX_CELLS = 10
"""Maximum cells of a column that are listed in text."""


@dataclass(frozen=True)
class EvidenceView:
    """A row of evidence with its source row and, if it is a path, its edges."""

    row: Row
    number: int
    is_used: bool
    source: Row | None
    walk: Sequence[WalkedEdge]

    @property
    def text(self) -> str:
        """The evidence in one paragraph; a column as its header and first cells, a cell with its row and header."""
        match self.row["kind"]:
            case "column":
                header, *lines = self.row["text"].split("\n")
                cells = list(filter(None, lines))
                rest = [f"and {len(cells) - MAX_CELLS} more"] if len(cells) > MAX_CELLS else []
                return ": ".join(filter(None, [header, "; ".join(cells[:MAX_CELLS] + rest)]))
            case "cell" if self.source is not None and (match := _CELL.fullmatch(self.row["locator"])):
                texts = {(cell["row"] + 1, cell["column"]): cell["text"] for cell in self.source["cells"]}
                texts |= {(0, column): text for column, text in enumerate(self.source["header"])}
                row, column = int(match[1]), int(match[2])
                labels = [texts.get((row, 0)) if column else "", texts.get((0, column)) if row else ""]
                return ": ".join(filter(None, [", ".join(filter(None, labels)), str(self.row["text"])]))
        return str(self.row["text"])

    @property
    def title(self) -> str:
        return str(self.source["title"]) if self.source else f"a {self.row['source_kind']}"

    @property
    def content_key(self) -> tuple[Any, ...]:
        """What the evidence says and where, without the option it is for."""
        return tuple(self.row[name] for name in ("kind", "source_kind", "source_id", "locator", "text"))

    @property
    def location(self) -> str:
        """Location in the source: characters of a document, a cell of a table, or a line of a file."""
        row, source = self.row, self.source
        if source is None:
            return "no longer in the lake"
        if "char_start" in source:
            start, end = source["char_start"], source["char_end"]
            first, _, last = str(row["locator"]).partition(":")
            if first.isdigit() and last.isdigit():
                start, end = start + int(first), start + int(last)
            return f"{source['place']}, characters {start}–{end}"
        if "cells" in source:
            return f"{source['place']}, {' '.join(dict.fromkeys((row['kind'], row['locator'])))}"
        return str(source["place"])

    @property
    def highlight(self) -> tuple[str, str, str] | None:
        """Text of the chunk before, within and after the evidence."""
        if self.source is None or "char_start" not in self.source:
            return None
        return highlight_span(self.source["text"], self.row["locator"])

    @property
    def reasons(self) -> Mapping[str, Any]:
        """The selector's reasons for its selection; for a path also the sources of its edges."""
        reasons: dict[str, Any] = json.loads(self.row["why"] or "{}")
        return explain_path(reasons, self.walk) if self.walk else reasons
