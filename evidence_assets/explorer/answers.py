"""Rows of the lake that belong to one prediction, or to one question; they lie in its partition, a few small files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from evidence_assets.lake import lineage
from evidence_assets.lake.catalogue import create_views, lake_root, scan_sql
from evidence_assets.lake.row_locations import PartitionFiles, find_question_row, id_condition, query_rows
from evidence_assets.lake.schemas import KINDS

Row = dict[str, Any]
_EVIDENCE_RELATIONS = (lineage.USED, lineage.WAS_SHOWN)


@dataclass(frozen=True)
class AnswerRows:
    """Rows behind one prediction; ``question`` is None where it is no longer in the lake.

    ``numbers`` count the evidence from 1, in the order in which it is shown. ``used`` are the ids of evidence that the
    answer rests on: what verified citations of its own chain name, or what a short answer was read from; the rest was
    merely shown.
    """

    prediction: Row
    question: Row | None
    chains: list[Row]
    evidence: list[Row]
    citations: list[Row]
    counterfactual: Row | None
    used_ids: frozenset[str] = frozenset()

    @property
    def numbers(self) -> dict[str, int]:
        return {row["evidence_id"]: number for number, row in enumerate(self.evidence, 1)}

    @property
    def variant(self) -> str:
        """Task family and variant, as in the asset's key."""
        return str(self.prediction["asset"]).removeprefix("predictions/")


class PartitionRows:
    """Rows of one partition of questions, or of the whole lake where the partition is not known."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, near: PartitionFiles | None) -> None:
        self.connection, self.near = connection, near

    def of(self, kind: str, condition: str, **parameters: Any) -> list[Row]:
        """Rows of a kind that fulfil a condition, with the asset that each belongs to."""
        table = KINDS[kind].name
        if self.near is None:
            create_views(self.connection, table)
            return query_rows(self.connection, f'SELECT * FROM "{table}" WHERE {condition}', **parameters)
        columns = ", ".join(f'"{name}"' for name in KINDS[kind].names)
        owner = "replace(regexp_extract(filename, 'asset=([^/]*)', 1), '.', '/') AS asset"
        return query_rows(
            self.connection,
            f"SELECT {columns}, {owner} FROM {scan_sql(table, self.near.rows(kind))} WHERE {condition}",
            **parameters,
        )

    def parents(
        self, kind: str, children: Iterable[str], parent_kind: str, relations: Sequence[str] = (lineage.USED,)
    ) -> dict[str, list[str]]:
        """Ids of the rows of one kind that these rows used, or are so related to, by child, best first."""
        ids = sorted(set(children))
        if not ids:
            return {}
        if self.near is None:
            create_views(self.connection, "lineage_edges")
        source = "lineage_edges" if self.near is None else scan_sql("lineage_edges", self.near.lineage(kind))
        condition, parameters = id_condition("child_id", ids)
        rows = self.connection.execute(
            f"SELECT child_id, parent_id FROM {source} WHERE {condition} AND child_kind = $child "
            "AND parent_kind = $parent AND list_contains($relations, relation) ORDER BY child_id, rank, parent_id",
            parameters | {"child": kind, "parent": parent_kind, "relations": list(relations)},
        ).fetchall()
        found: dict[str, list[str]] = {}
        for child, parent in rows:
            found.setdefault(child, []).append(parent)
        return found


def locate_prediction(connection: duckdb.DuckDBPyConnection, prediction: str) -> tuple[str, PartitionFiles | None]:
    """The full id of a prediction and the partition that it lies in.

    Raises UnknownId where no row has this id, or one that is no prediction.
    """
    place = find_question_row(connection, prediction)
    kind, identifier = place[:2] if place else lineage.find_row(connection, prediction)
    if kind != "prediction":
        raise lineage.UnknownId(f"{prediction!r} is the id of a {kind}: give the id of a prediction")
    place = place or find_question_row(connection, identifier)
    return identifier, place[2] if place else None


def read_answer(connection: duckdb.DuckDBPyConnection, prediction: str) -> AnswerRows:
    """What belongs to a prediction, named by its id or the beginning of it."""
    identifier, near = locate_prediction(connection, prediction)
    rows = PartitionRows(connection, near)
    [answer] = rows.of("prediction", "prediction_id = $id LIMIT 1", id=identifier)
    question = rows.of("question", "question_id = $id LIMIT 1", id=answer["question_id"])
    return _attach_rows(rows, [answer], question[0] if question else None)[0]


def read_question_answers(
    connection: duckdb.DuckDBPyConnection, question_id: str, partition: str
) -> tuple[Row | None, list[AnswerRows]]:
    """A question of a partition (the file below each asset's folder) and the answers of all variants to it."""
    root = lake_root(connection)
    assert root is not None, "a connection of lake.connect"
    rows = PartitionRows(connection, PartitionFiles(root, partition))
    found = rows.of("question", "question_id = $id LIMIT 1", id=question_id)
    answers = rows.of("prediction", "question_id = $id ORDER BY asset, prediction_id", id=question_id)
    question = found[0] if found else None
    return question, _attach_rows(rows, answers, question)


def _attach_rows(rows: PartitionRows, answers: Sequence[Row], question: Row | None) -> list[AnswerRows]:
    """Chains, evidence, citations and counterfactuals of answers to one question, each table read once."""
    if not answers:
        return []
    of = {"id": answers[0]["question_id"]}
    chains = {row["chain_id"]: row for row in rows.of("chain", "question_id = $id ORDER BY hypothesis, chain_id", **of)}
    evidence = {
        row["evidence_id"]: row
        for row in rows.of("evidence", 'question_id = $id ORDER BY "option", rank, evidence_id', **of)
    }
    own_chains = rows.parents("prediction", [a["prediction_id"] for a in answers], "chain")
    direct = rows.parents("prediction", [a["prediction_id"] for a in answers], "evidence")
    given = rows.parents("prediction", [a["prediction_id"] for a in answers], "evidence", _EVIDENCE_RELATIONS)
    shown = rows.parents("chain", [c for ids in own_chains.values() for c in ids], "evidence", _EVIDENCE_RELATIONS)
    ids = sorted({c for each in own_chains.values() for c in each})
    cited = (
        rows.of("citation", "chain_id IN (SELECT unnest($ids)) ORDER BY chain_id, step, evidence_id, quoted", ids=ids)
        if ids
        else []
    )
    counterfactuals = {row["prediction_id"]: row for row in rows.of("counterfactual", "question_id = $id", **of)}
    made = []
    for answer in answers:
        identifier = answer["prediction_id"]
        own = [chains[c] for c in sorted(own_chains.get(identifier, []), key=_sort_key(chains)) if c in chains]
        own_ids = {chain["chain_id"] for chain in own}
        picked = {e for c in own_ids for e in shown.get(c, [])} or set(given.get(identifier, []))
        checked = [c for c in cited if c["chain_id"] in own_ids]
        negated = bool(question and question["negated"])
        resting = {c["chain_id"] for c in own if negated or c["hypothesis"] == answer["answer"]}
        used = {c["evidence_id"] for c in checked if c["chain_id"] in resting and c["verdict"] == "verified"}
        picked_rows = [row for evidence_id, row in evidence.items() if evidence_id in picked]
        made.append(
            AnswerRows(
                answer,
                question,
                own,
                picked_rows,
                checked,
                counterfactuals.get(identifier),
                frozenset(used if own else direct.get(identifier, [])),
            )
        )
    return made


def _sort_key(chains: dict[str, Row]) -> Any:
    place = {chain_id: number for number, chain_id in enumerate(chains)}
    return lambda chain_id: place.get(chain_id, len(place))
