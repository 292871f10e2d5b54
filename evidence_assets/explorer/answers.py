"""Everything that belongs to one prediction, or one question, read from the lake: what pages and a terminal show alike.

Rows of a question lie in its partition, so that a few small files are opened however large the lake is; where an id is too
short to say which, the whole lake is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from evidence_assets.lake import lineage
from evidence_assets.lake.catalogue import need, root_of, rows_in
from evidence_assets.lake.places import Places, row_of_a_question, rows_of, rows_with_ids
from evidence_assets.lake.schemas import KINDS

Row = dict[str, Any]
_GIVEN = (lineage.USED, lineage.SHOWN)


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
    used: frozenset[str] = frozenset()

    @property
    def numbers(self) -> dict[str, int]:
        return {row["evidence_id"]: number for number, row in enumerate(self.evidence, 1)}

    @property
    def variant(self) -> str:
        """Task family and variant, as in the asset's key."""
        return str(self.prediction["asset"]).removeprefix("predictions/")


class PartitionRows:
    """Rows of one partition of questions, or of the whole lake where the partition is not known."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, near: Places | None) -> None:
        self.connection, self.near = connection, near

    def of(self, kind: str, condition: str, **parameters: Any) -> list[Row]:
        """Rows of a kind that fulfil a condition, with the asset that each belongs to."""
        table = KINDS[kind].name
        if self.near is None:
            need(self.connection, table)
            return rows_of(self.connection, f'SELECT * FROM "{table}" WHERE {condition}', **parameters)
        columns = ", ".join(f'"{name}"' for name in KINDS[kind].names)
        owner = "replace(regexp_extract(filename, 'asset=([^/]*)', 1), '.', '/') AS asset"
        return rows_of(
            self.connection,
            f"SELECT {columns}, {owner} FROM {rows_in(table, self.near.rows(kind))} WHERE {condition}",
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
            need(self.connection, "lineage_edges")
        source = "lineage_edges" if self.near is None else rows_in("lineage_edges", self.near.lineage(kind))
        rows = rows_with_ids(
            self.connection,
            f"SELECT child_id, parent_id FROM {source} WHERE child_id IN ($ids) AND child_kind = $child "
            "AND parent_kind = $parent AND list_contains($relations, relation) ORDER BY child_id, rank, parent_id",
            ids,
            child=kind,
            parent=parent_kind,
            relations=list(relations),
        )
        found: dict[str, list[str]] = {}
        for child, parent in rows:
            found.setdefault(child, []).append(parent)
        return found


def located(connection: duckdb.DuckDBPyConnection, prediction: str) -> tuple[str, Places | None]:
    """The full id of a prediction and the partition that it lies in.

    Raises UnknownId where no row has this id, or one that is no prediction.
    """
    place = row_of_a_question(connection, prediction)
    kind, identifier = place[:2] if place else lineage.find(connection, prediction)
    if kind != "prediction":
        raise lineage.UnknownId(f"{prediction!r} is the id of a {kind}: give the id of a prediction")
    place = place or row_of_a_question(connection, identifier)
    return identifier, place[2] if place else None


def answer_rows(connection: duckdb.DuckDBPyConnection, prediction: str) -> AnswerRows:
    """What belongs to a prediction, named by its id or the beginning of it."""
    identifier, near = located(connection, prediction)
    rows = PartitionRows(connection, near)
    [answer] = rows.of("prediction", "prediction_id = $id LIMIT 1", id=identifier)
    question = rows.of("question", "question_id = $id LIMIT 1", id=answer["question_id"])
    return _behind(rows, [answer], question[0] if question else None)[0]


def question_answers(
    connection: duckdb.DuckDBPyConnection, question_id: str, partition: str
) -> tuple[Row | None, list[AnswerRows]]:
    """A question of a partition (the file below each asset's folder) and the answers of all variants to it."""
    root = root_of(connection)
    assert root is not None, "a connection of lake.connect"
    rows = PartitionRows(connection, Places(root, partition))
    found = rows.of("question", "question_id = $id LIMIT 1", id=question_id)
    answers = rows.of("prediction", "question_id = $id ORDER BY asset, prediction_id", id=question_id)
    question = found[0] if found else None
    return question, _behind(rows, answers, question)


def _behind(rows: PartitionRows, answers: Sequence[Row], question: Row | None) -> list[AnswerRows]:
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
    given = rows.parents("prediction", [a["prediction_id"] for a in answers], "evidence", _GIVEN)
    shown = rows.parents("chain", [c for ids in own_chains.values() for c in ids], "evidence", _GIVEN)
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
        own = [chains[c] for c in sorted(own_chains.get(identifier, []), key=_order(chains)) if c in chains]
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


def _order(chains: dict[str, Row]) -> Any:
    place = {chain_id: number for number, chain_id in enumerate(chains)}
    return lambda chain_id: place.get(chain_id, len(place))


@dataclass(frozen=True)
class Place:
    """Where a row of evidence stands, in words: what the source is called, where in it, and the row to look at."""

    title: str
    where: str
    kind: str
    id: str


def places_of(connection: duckdb.DuckDBPyConnection, evidence: Iterable[Row]) -> dict[str, Place]:
    """The place of each row of evidence by its id: the document with characters, the table with its cell, and so on."""
    rows = list(evidence)
    found: dict[str, Place] = {}
    for kind in sorted({row["source_kind"] for row in rows}):
        own = [row for row in rows if row["source_kind"] == kind]
        sources = _sources(connection, kind, sorted({row["source_id"] for row in own}))
        for row in own:
            source = sources.get(row["source_id"])
            title, where = _said(kind, row, source) if source else (row["source_id"], "no longer in the lake")
            found[row["evidence_id"]] = Place(title, where, kind, row["source_id"])
    return found


_SHOWN = {
    "chunks": ("title", "doc_id", "source", "char_start", "char_end"),
    "tables": ("caption", "benchmark", "n_rows"),
    "triples": ("head", "relation", "tail", "origin", "source", "licence"),
    "kg_edges": ("relation", "sources", "licences"),
    "kg_nodes": ("name", "type"),
}


def _sources(connection: duckdb.DuckDBPyConnection, kind: str, ids: Sequence[str]) -> dict[str, Row]:
    schema = KINDS.get(kind)
    if schema is None or schema.name not in _SHOWN:
        return {}
    need(connection, schema.name)
    columns = ", ".join(f'"{name}"' for name in (schema.row_id, *_SHOWN[schema.name]))
    rows = rows_with_ids(connection, f'SELECT {columns} FROM "{schema.name}" WHERE "{schema.row_id}" IN ($ids)', ids)
    return {str(row[0]): dict(zip(_SHOWN[schema.name], row[1:], strict=True)) for row in rows}


def _said(kind: str, row: Row, source: Row) -> tuple[str, str]:
    if kind == "chunk":
        start, end = source["char_start"], source["char_end"]
        first, _, last = str(row["locator"]).partition(":")
        if first.isdigit() and last.isdigit():
            start, end = start + int(first), start + int(last)
        return source["title"] or source[
            "doc_id"
        ], f"{source['source']}, document {source['doc_id']}, characters {start}–{end}"
    if kind == "table":
        return source["caption"] or row["source_id"], f"table {row['source_id']}, {row['kind']} {row['locator']}"
    if kind == "node":
        return source["name"], source["type"] or ""
    if kind == "triple":
        return f"{source['head']} {source['relation']} {source['tail']}", f"{source['source']} ({source['licence']})"
    return source["relation"], f"{', '.join(source['sources'])} ({', '.join(source['licences'])})"


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
