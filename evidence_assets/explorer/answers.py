"""Rows of the lake that belong to one prediction or one question, read from its partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from evidence_assets.lake import lineage
from evidence_assets.lake.catalogue import lake_root, scan_sql
from evidence_assets.lake.row_locations import PartitionFiles, id_condition, query_rows
from evidence_assets.lake.schemas import KINDS

Row = dict[str, Any]


@dataclass(frozen=True)
class AnswerRows:
    """Rows of one prediction; ``question`` is None if the lake no longer has it.

    ``evidence``: Its evidence; rows that support the answer come first.
    ``used_ids``: Ids of evidence that the answer's chain cites and verifies, or that a short answer was extracted from.
        The reasoner received all other evidence without using it.
    """

    prediction: Row
    question: Row | None
    chains: list[Row]
    evidence: list[Row]
    citations: list[Row]
    counterfactual: Row | None
    used_ids: frozenset[str] = frozenset()

    @property
    def variant(self) -> str:
        """Task family and variant, as in the asset's key."""
        return str(self.prediction["asset"]).removeprefix("predictions/")


class PartitionRows:
    """Rows in the files of one partition of questions."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, files: PartitionFiles) -> None:
        self.connection = connection
        self.files = files

    def of(self, kind: str, condition: str, **parameters: Any) -> list[Row]:
        """Rows of a kind that match a condition, with their assets."""
        table = KINDS[kind].name
        columns = ", ".join(f'"{name}"' for name in KINDS[kind].names)
        owner = "replace(regexp_extract(filename, 'asset=([^/]*)', 1), '.', '/') AS asset"
        return query_rows(
            self.connection,
            f"SELECT {columns}, {owner} FROM {scan_sql(table, self.files.rows(kind))} WHERE {condition}",
            **parameters,
        )

    def parents(self, kind: str, children: Iterable[str], parent_kind: str) -> dict[str, dict[str, str]]:
        """Parent rows of one kind that each child used or was shown, by child id: their ids with the relation."""
        ids = sorted(set(children))
        parent_ids: dict[str, dict[str, str]] = {identifier: {} for identifier in ids}
        if not ids:
            return parent_ids
        condition, parameters = id_condition("child_id", ids)
        rows = self.connection.execute(
            f"SELECT child_id, parent_id, relation FROM {scan_sql('lineage_edges', self.files.lineage(kind))} "
            f"WHERE {condition} AND child_kind = $child AND parent_kind = $parent AND relation IN ($used, $shown) "
            "ORDER BY relation = $used",
            parameters | {"child": kind, "parent": parent_kind, "used": lineage.USED, "shown": lineage.WAS_SHOWN},
        ).fetchall()
        for child, parent, relation in rows:  # of a row that was shown and used, the latter is last
            parent_ids[child][parent] = relation
        return parent_ids


def read_answer(connection: duckdb.DuckDBPyConnection, prediction: str) -> AnswerRows:
    """Rows of a prediction, by its id or a unique prefix.

    Raises UnknownId if no row has this id, or if the row is not a prediction.
    """
    kind, identifier, files = lineage.locate_row(connection, prediction)
    if kind != "prediction" or files is None:
        raise lineage.UnknownId(f"{prediction!r} is the id of a {kind}: give the id of a prediction")
    rows = PartitionRows(connection, files)
    [answer] = rows.of("prediction", "prediction_id = $id LIMIT 1", id=identifier)
    question = rows.of("question", "question_id = $id LIMIT 1", id=answer["question_id"])
    return _attach_rows(rows, [answer], question[0] if question else None)[0]


def read_question_answers(
    connection: duckdb.DuckDBPyConnection, question_id: str, partition: str
) -> tuple[Row | None, list[AnswerRows]]:
    """A question of a partition (a file path within each asset's folder) and all variants' answers."""
    rows = PartitionRows(connection, PartitionFiles(lake_root(connection), partition))
    questions = rows.of("question", "question_id = $id LIMIT 1", id=question_id)
    answers = rows.of("prediction", "question_id = $id ORDER BY asset, prediction_id", id=question_id)
    question = questions[0] if questions else None
    return question, _attach_rows(rows, answers, question)


def _attach_rows(rows: PartitionRows, answers: Sequence[Row], question: Row | None) -> list[AnswerRows]:
    """Attach chains, evidence, citations and counterfactuals to answers to one question."""
    if not answers:
        return []
    values = {"id": answers[0]["question_id"]}
    prediction_ids = [answer["prediction_id"] for answer in answers]
    chains = rows.of("chain", "question_id = $id ORDER BY hypothesis, chain_id", **values)
    evidence = rows.of("evidence", 'question_id = $id ORDER BY "option", rank, evidence_id', **values)
    chains_of_answer = rows.parents("prediction", prediction_ids, "chain")
    evidence_of_answer = rows.parents("prediction", prediction_ids, "evidence")
    chain_ids = sorted({chain_id for ids in chains_of_answer.values() for chain_id in ids})
    evidence_of_chain = rows.parents("chain", chain_ids, "evidence")
    all_citations = rows.of(
        "citation", "chain_id IN (SELECT unnest($ids)) ORDER BY chain_id, step, evidence_id, quoted", ids=chain_ids
    )
    counterfactuals = {row["prediction_id"]: row for row in rows.of("counterfactual", "question_id = $id", **values)}
    negated = bool(question and question["negated"])
    results = []
    for answer in answers:
        key = answer["prediction_id"]
        answer_chains = [chain for chain in chains if chain["chain_id"] in chains_of_answer[key]]
        evidence_ids = {e for chain in answer_chains for e in evidence_of_chain[chain["chain_id"]]}
        evidence_ids = evidence_ids or set(evidence_of_answer[key])
        citations = [c for c in all_citations if c["chain_id"] in chains_of_answer[key]]
        supporting_ids = {c["chain_id"] for c in answer_chains if negated or c["hypothesis"] == answer["answer"]}
        cited_ids, used_ids = _find_cited_ids(citations, supporting_ids)
        if not answer_chains:
            used_ids = {e for e, relation in evidence_of_answer[key].items() if relation == lineage.USED}
        evidence_rows = _order_evidence(evidence, evidence_ids, used_ids | cited_ids)
        results.append(
            AnswerRows(
                answer, question, answer_chains, evidence_rows, citations, counterfactuals.get(key), frozenset(used_ids)
            )
        )
    return results


def _order_evidence(evidence: Sequence[Row], ids: set[str], first_ids: set[str]) -> list[Row]:
    """The rows of evidence with these ids, those of ``first_ids`` first."""
    rows = [row for row in evidence if row["evidence_id"] in ids]
    return sorted(rows, key=lambda row: row["evidence_id"] not in first_ids)


def _find_cited_ids(citations: Sequence[Row], supporting_ids: set[str]) -> tuple[set[str], set[str]]:
    """Ids of the evidence that the supporting chains cite, and that they cite verifiably."""
    if not supporting_ids:
        return {c["evidence_id"] for c in citations}, set()
    cited = [c for c in citations if c["chain_id"] in supporting_ids]
    return {c["evidence_id"] for c in cited}, {c["evidence_id"] for c in cited if c["verdict"] == "verified"}
