"""Whether what was picked, and what was cited, is what a benchmark itself names as the ground of its answers.

Of pieces of gold evidence that say the same (one group), one is enough. A gold path is there if all of its edges are, in
whatever rows, by their ids or in words. What a language model recalled is no evidence and finds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from evidence_assets.lake.ids import content_id
from evidence_assets.methods.surface_forms import name_key
from evidence_assets.reasoning.paths import walked_edges
from evidence_assets.systems.knowledge import edge_id, node_id
from evidence_assets.systems.short_answering import is_sourced, triple_of

DEPTHS = (1, 2, 3, 5, 10, 20)
"""Ranks down to which the curve of recall is counted."""
Row = Mapping[str, Any]


def _same(gold: Mapping[str, str], row: Row) -> bool:
    """Whether an evidence row is, or holds, a piece of gold evidence."""
    if gold["kind"] in ("cell", "row", "column") and row["kind"] in ("cell", "row", "column"):
        return bool(gold["locator"] == row["locator"])
    return bool(gold["text"].strip()) and " ".join(gold["text"].split()) in " ".join(row["text"].split())


def gold_edges(gold: Mapping[str, str]) -> set[str] | None:
    """Ids that the edges of a gold path have in every graph that names their ends so; None for what is no path."""
    if gold["kind"] not in ("path", "triple"):
        return None
    try:
        triples = [(head, relation, tail) for head, relation, tail in json.loads(gold["locator"])]
    except (ValueError, TypeError):
        return None
    return {edge_id(node_id(name_key(h)), relation, node_id(name_key(t))) for h, relation, t in triples}


def _edges_of(row: Row) -> set[str]:
    """The graph's edges that an evidence row speaks of."""
    if row["kind"] == "path":
        return {edge for edge, _ in walked_edges(row["locator"])}
    return {row["source_id"]} if row["source_kind"] == "edge" else set()


def _facts(gold: Mapping[str, str]) -> set[str]:
    """The facts of a gold path in words, each written as head relation tail."""
    return set(gold["text"].split("; ")) if gold["kind"] == "path" else set()


def _share_found(gold: Sequence[Mapping[str, str]], rows: Sequence[Row]) -> float:
    """Share of the groups of gold evidence that these rows hold."""
    edges = {edge for row in rows for edge in _edges_of(row)}
    triples = {" ".join(triple) for row in rows if (triple := triple_of(row))}
    groups: dict[str, bool] = {}
    for i, piece in enumerate(gold):
        name, wanted, facts = piece["group"] or str(i), gold_edges(piece), _facts(piece)
        found = wanted <= edges if wanted else any(_same(piece, row) for row in rows)
        found = found or bool(facts and facts <= triples)
        groups[name] = groups.get(name, False) or found
    return sum(groups.values()) / len(groups)


def _is_gold(gold: Sequence[Mapping[str, str]], row: Row) -> bool:
    """Whether a row holds a piece of gold evidence, or an edge of a gold path."""
    triple = triple_of(row)
    for piece in gold:
        wanted = gold_edges(piece)
        if wanted & _edges_of(row) if wanted else _same(piece, row):
            return True
        if triple and " ".join(triple) in _facts(piece):
            return True
    return False


def _by_question(evidence: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in filter(is_sourced, evidence.iter_rows(named=True)):
        rows.setdefault(row["question_id"], []).append(row)
    return rows


def evidence_recall(questions: Iterable[Row], evidence: pl.DataFrame) -> list[float]:
    """Share of each question's gold evidence that was picked for any of its options; unmarked questions left out."""
    rows = _by_question(evidence)
    return [_share_found(q["gold_evidence"], rows.get(q["question_id"], [])) for q in questions if q["gold_evidence"]]


def recall_curve(questions: Sequence[Row], evidence: pl.DataFrame) -> dict[int, list[float]]:
    """The same by depth: with only the rows down to rank k for each option, as deep as rows were picked."""
    deepest = int(evidence["rank"].cast(pl.Int64).to_numpy().max()) if evidence.height else 0
    return {k: evidence_recall(questions, evidence.filter(pl.col("rank") <= k)) for k in DEPTHS if k <= deepest}


def chain_id_of(question_id: str, hypothesis: str, selector: str, reasoner: str, model_id: str) -> str:
    """Id of the chain that argues for one option."""
    return content_id("chain", question_id, hypothesis, selector, reasoner, model_id)


def citation_scores(
    questions: Iterable[Row], predictions: Mapping[str, Row], evidence: pl.DataFrame, citations: pl.DataFrame
) -> tuple[list[float], list[float]]:
    """Precision and recall of what the chain for the given answer cites, question by question.

    Precision is the share of the rows it cites that are gold evidence, recall the share of the gold evidence that it
    cites. A citation that does not verify cites nothing that there is: it counts against precision. Questions without
    gold evidence or without an answer are left out of both, those whose chain cites nothing of precision only.
    """
    known = {row["evidence_id"]: row for row in filter(is_sourced, evidence.iter_rows(named=True))}
    cited: dict[str, dict[str, bool]] = {}
    for row in citations.iter_rows(named=True):
        verdicts = cited.setdefault(row["chain_id"], {})
        verified = row["verdict"] == "verified"
        verdicts[row["evidence_id"]] = verdicts.get(row["evidence_id"], True) and verified
    precision, recall = [], []
    for question in questions:
        said, gold = predictions.get(question["question_id"]), question["gold_evidence"]
        if not gold or said is None or said["answer"] is None or said["status"] == "failed":
            continue
        names = (said[name] for name in ("selector", "reasoner", "model_id"))
        verdicts = cited.get(chain_id_of(question["question_id"], said["answer"], *names), {})
        rows = [known[each] for each, verified in verdicts.items() if verified and each in known]
        if verdicts:
            precision.append(sum(_is_gold(gold, row) for row in rows) / len(verdicts))
        recall.append(_share_found(gold, rows))
    return precision, recall
