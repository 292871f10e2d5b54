"""View of one row of evidence with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.drawing import highlight_span
from evidence_assets.explorer.paths import WalkedEdge, explain_path, parse_reasons

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
        """The evidence in one paragraph; a column as its header and first cells."""
        if self.row["kind"] != "column":
            return str(self.row["text"])
        header, *lines = self.row["text"].split("\n")
        cells = list(filter(None, lines))
        rest = [f"and {len(cells) - MAX_CELLS} more"] if len(cells) > MAX_CELLS else []
        return ": ".join(filter(None, [header, "; ".join(cells[:MAX_CELLS] + rest)]))

    @property
    def title(self) -> str:
        row, source = self.row, self.source
        if source is None:
            return f"a {row['source_kind']}"
        match row["source_kind"]:
            case "chunk":
                return str(source["title"] or source["doc_id"])
            case "table":
                return str(source["caption"] or row["source_id"])
            case "node":
                return str(source["name"])
            case "triple":
                return f"{source['head']} {source['relation']} {source['tail']}"
        return str(source["relation"])

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
        match row["source_kind"]:
            case "chunk":
                start, end = source["char_start"], source["char_end"]
                first, _, last = str(row["locator"]).partition(":")
                if first.isdigit() and last.isdigit():
                    start, end = start + int(first), start + int(last)
                document = f", document {source['doc_id']}" if source["doc_id"] != source["source"] else ""
                return f"{source['source']}{document}, characters {start}–{end}"
            case "table":
                return f"table {row['source_id']}, {' '.join(dict.fromkeys((row['kind'], row['locator'])))}"
            case "node":
                return source["type"] or ""
            case "triple":
                return f"{source['source']}; licence {source['licence']}"
        return f"{', '.join(source['sources'])}; licence {', '.join(source['licences'])}"

    @property
    def highlight(self) -> tuple[str, str, str] | None:
        """Text of the chunk before, within and after the evidence."""
        if self.source is None or "doc_id" not in self.source:
            return None
        return highlight_span(self.source["text"], self.row["locator"])

    @property
    def reasons(self) -> Mapping[str, Any]:
        """The selector's reasons for its selection; for a path also the sources of its edges."""
        return explain_path(self.row["why"], self.walk) if self.walk else parse_reasons(self.row["why"])
