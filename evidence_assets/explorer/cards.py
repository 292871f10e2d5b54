"""Evidence cards: one prediction with its lineage as one HTML page, for whoever has to judge an answer."""

from __future__ import annotations

from typing import Any

import duckdb

from evidence_assets.explorer.answer_view import view_answer
from evidence_assets.explorer.pages import STATIC, templates
from evidence_assets.lake import lineage
from evidence_assets.lake.ids import shortened


def card(connection: duckdb.DuckDBPyConnection, prediction: str) -> str:
    """One prediction as an HTML page that needs nothing else and forbids itself scripts and requests."""
    view = view_answer(connection, prediction)
    node = lineage.trace(connection, view.prediction["prediction_id"])
    style = (STATIC / "explorer.css").read_text("utf-8")
    return templates(linked=False).get_template("card.html").render(a=view, style=style, lineage=[_node(node, set())])


def _node(node: lineage.Node, shown: set[int]) -> dict[str, Any]:
    """A row and what it was made from; what is shown above is only named."""
    above = id(node.next) in shown
    shown.add(id(node.next))
    return {
        "how": f"{node.relation.replace('_', ' ')} " if node.relation else "",
        "kind": node.kind,
        "id": shortened(node.id),
        "said": ", ".join(f"{name}: {value}" for name, value in node.content.items() if value is not None),
        "above": above and node.next,
        "below": [] if above else [_node(child, shown) for child in node.next],
    }
