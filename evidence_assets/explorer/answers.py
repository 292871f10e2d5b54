"""Everything that belongs to one prediction, read from the lake: what an evidence card and a terminal show alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

from evidence_assets.lake import lineage

Row = dict[str, Any]


@dataclass(frozen=True)
class AnswerRows:
    """Rows behind one prediction; ``question`` is None where it is no longer in the lake.

    ``numbers`` count the evidence from 1, in the order in which it is shown.
    """

    prediction: Row
    question: Row | None
    chains: list[Row]
    evidence: list[Row]
    citations: list[Row]
    counterfactual: Row | None

    @property
    def numbers(self) -> dict[str, int]:
        """Number of each row of evidence by its id."""
        return {row["evidence_id"]: number for number, row in enumerate(self.evidence, 1)}


def rows_of(connection: duckdb.DuckDBPyConnection, sql: str, **parameters: Any) -> list[Row]:
    """Rows of a query as dictionaries."""
    cursor = connection.execute(sql, parameters)
    names = [description[0] for description in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def answer_rows(connection: duckdb.DuckDBPyConnection, prediction: str) -> AnswerRows:
    """What belongs to a prediction, named by its id or the beginning of it.

    Raises
    ------
    UnknownId
        Where no row has this id, or one that is no prediction.
    """
    kind, identifier = lineage.find(connection, prediction)
    if kind != "prediction":
        raise lineage.UnknownId(f"{prediction!r} is the id of a {kind}: give the id of a prediction")
    answer = rows_of(connection, "SELECT * FROM predictions WHERE prediction_id = $id LIMIT 1", id=identifier)[0]
    found = rows_of(connection, "SELECT * FROM questions WHERE question_id = $id LIMIT 1", id=answer["question_id"])
    chains = _parents(connection, "chains", "chain_id", [identifier], "chain", answer["question_id"])
    ids = [chain["chain_id"] for chain in chains]
    evidence = _parents(connection, "evidence", "evidence_id", ids or [identifier], "evidence", answer["question_id"])
    citations = rows_of(
        connection,
        "SELECT * FROM citations WHERE chain_id IN (SELECT unnest($ids)) ORDER BY chain_id, step, evidence_id, quoted",
        ids=ids,
    )
    asked_again = rows_of(connection, "SELECT * FROM counterfactuals WHERE prediction_id = $id LIMIT 1", id=identifier)
    return AnswerRows(
        answer, found[0] if found else None, chains, evidence, citations, asked_again[0] if asked_again else None
    )


def _parents(
    connection: duckdb.DuckDBPyConnection, table: str, row_id: str, children: list[str], kind: str, question: str
) -> list[Row]:
    """Rows of ``table`` that any of the children used, each once, options and ranks in order."""
    order = "hypothesis" if table == "chains" else '"option", rank'
    return rows_of(
        connection,
        f"""
        SELECT DISTINCT ON ({row_id}) * FROM {table} WHERE question_id = $question AND {row_id} IN (
            SELECT parent_id FROM lineage_edges WHERE child_id IN (SELECT unnest($ids)) AND parent_kind = $kind
        ) ORDER BY {order}, {row_id}
        """,
        ids=children, kind=kind, question=question,
    )  # fmt: skip


def stands(counterfactual: Row | None) -> str:
    """What became of the answer without the evidence that it rests on, and with that alone; empty where not asked.

    >>> stands({"necessary": True, "sufficient": True, "without_cited": "insufficient", "only_cited": "B"})
    'without the evidence that it rests on: insufficient; with that alone: B (needed, and enough)'
    """
    if counterfactual is None:
        return ""
    if counterfactual["necessary"] is None:
        return "it cites nothing that could be taken away"
    needed = "needed" if counterfactual["necessary"] else "not needed"
    enough = "enough" if counterfactual["sufficient"] else "not enough"
    link = "and" if counterfactual["necessary"] == counterfactual["sufficient"] else "but"
    return (
        f"without the evidence that it rests on: {counterfactual['without_cited']}; "
        f"with that alone: {counterfactual['only_cited']} ({needed}, {link} {enough})"
    )
