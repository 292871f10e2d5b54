"""Rows of the lake that belong to one prediction or one question, read from its partition."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True)
class PartitionRows:
    """Rows in the files of one partition of questions."""

    connection: duckdb.DuckDBPyConnection
    files: PartitionFiles

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

    def parents(self, kind: str, ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """Chains and evidence that each of these rows of a kind used or was shown: their ids with the relation."""
        parent_ids: dict[str, dict[str, str]] = {identifier: {} for identifier in ids}
        if not ids:
            return parent_ids
        condition, parameters = id_condition("child_id", ids)
        rows = self.connection.execute(
            f"SELECT child_id, parent_id, relation FROM {scan_sql('lineage_edges', self.files.lineage(kind))} "
            f"WHERE {condition} AND child_kind = $kind AND parent_kind IN ('chain', 'evidence') "
            "AND relation IN ($used, $shown) ORDER BY relation = $used",
            parameters | {"kind": kind, "used": lineage.USED, "shown": lineage.WAS_SHOWN},
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
    return _QuestionRows.read(rows, [answer], question[0] if question else None).select(answer)


def read_question_answers(
    connection: duckdb.DuckDBPyConnection, question_id: str, partition: str
) -> tuple[Row | None, list[AnswerRows]]:
    """A question of a partition (a file path within each asset's folder) and all variants' answers."""
    rows = PartitionRows(connection, PartitionFiles(lake_root(connection), partition))
    questions = rows.of("question", "question_id = $id LIMIT 1", id=question_id)
    answers = rows.of("prediction", "question_id = $id ORDER BY asset, prediction_id", id=question_id)
    question = questions[0] if questions else None
    if not answers:
        return question, []
    question_rows = _QuestionRows.read(rows, answers, question)
    return question, [question_rows.select(answer) for answer in answers]


@dataclass(frozen=True)
class _QuestionRows:
    """Rows behind all answers to one question; ``parents`` are those of its predictions and chains, with relations."""

    question: Row | None
    chains: list[Row]
    evidence: list[Row]
    citations: list[Row]
    counterfactuals: dict[str, Row]
    parents: dict[str, dict[str, str]]

    @classmethod
    def read(cls, rows: PartitionRows, answers: Sequence[Row], question: Row | None) -> _QuestionRows:
        """Read the rows behind these answers, of which there is at least one."""
        ids = {"id": answers[0]["question_id"]}
        # Variants with and without a language model store the same chains where the rules answer.
        chains = _keep_first(rows.of("chain", "question_id = $id ORDER BY hypothesis, chain_id", **ids), "chain_id")
        evidence = rows.of("evidence", 'question_id = $id ORDER BY "option", rank, evidence_id', **ids)
        parents = rows.parents("prediction", [answer["prediction_id"] for answer in answers])
        linked_ids = {parent for of_answer in parents.values() for parent in of_answer}
        owners = sorted(linked_ids | {*parents})
        places = ("chain_id", "step", "evidence_id", "quoted")
        condition = f"chain_id IN (SELECT unnest($ids)) ORDER BY {', '.join(places)}"
        citations = _keep_first(rows.of("citation", condition, ids=owners), *places)
        parents |= rows.parents("chain", [row["chain_id"] for row in chains if row["chain_id"] in linked_ids])
        counterfactuals = {row["prediction_id"]: row for row in rows.of("counterfactual", "question_id = $id", **ids)}
        return cls(question, chains, evidence, citations, counterfactuals, parents)

    def select(self, answer: Row) -> AnswerRows:
        """The rows of one answer, with the evidence that its chains or, without chains, the answer itself read."""
        parents = self.parents[answer["prediction_id"]]
        chains = [row for row in self.chains if row["chain_id"] in parents]
        owners = {answer["prediction_id"], *parents}
        citations = [row for row in self.citations if row["chain_id"] in owners]
        is_negated = self.question is not None and self.question["negated"]
        supporting_ids = {row["chain_id"] for row in chains if is_negated or row["hypothesis"] == answer["answer"]}
        cited_ids, used_ids = _find_cited_ids(citations, supporting_ids)
        used_ids |= {row["evidence_id"] for row in self.evidence if parents.get(row["evidence_id"]) == lineage.USED}
        first_ids = cited_ids | used_ids
        read_ids = {parent for row in chains for parent in self.parents[row["chain_id"]]} | set(parents)
        evidence = [row for row in self.evidence if row["evidence_id"] in read_ids]
        evidence.sort(key=lambda row: row["evidence_id"] not in first_ids)
        counterfactual = self.counterfactuals.get(answer["prediction_id"])
        return AnswerRows(answer, self.question, chains, evidence, citations, counterfactual, frozenset(used_ids))


def _keep_first(rows: Sequence[Row], *names: str) -> list[Row]:
    """The rows without those that have the same values of these columns as one before."""
    return list({tuple(row[name] for name in names): row for row in reversed(rows)}.values())[::-1]


def _find_cited_ids(citations: Sequence[Row], supporting_ids: set[str]) -> tuple[set[str], set[str]]:
    """Ids of the evidence that the supporting chains cite, and that they cite verifiably.

    Without such a chain, all citations count as cited, and none as verified.
    """
    cited = [row for row in citations if not supporting_ids or row["chain_id"] in supporting_ids]
    verified = [row for row in cited if supporting_ids and row["verdict"] == "verified"]
    return {row["evidence_id"] for row in cited}, {row["evidence_id"] for row in verified}
