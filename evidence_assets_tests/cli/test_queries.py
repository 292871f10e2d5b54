"""The tree that `evidence trace` prints."""

from __future__ import annotations

from rich.console import Console

from evidence_assets.cli.queries import _build_tree
from evidence_assets.lake.lineage import CITED, USED, WAS_SHOWN, Node


def test_a_cited_row_comes_first_and_leads_to_the_shared_source() -> None:
    document = [Node("document", "doc1")]
    children = [Node("evidence", f"{relation}-row", relation, next=document) for relation in (WAS_SHOWN, USED, CITED)]
    console = Console(record=True, width=80)
    console.print(_build_tree(Node("prediction", "p1", next=children), 2))
    lines = [line.strip(" └├│─") for line in console.export_text().splitlines()]
    assert [line.split()[0] for line in lines] == ["prediction", "cited", "document", "used", "…"]
