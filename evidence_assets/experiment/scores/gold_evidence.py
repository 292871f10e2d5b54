"""Whether what was picked and cited is the gold evidence of a benchmark, and how well it fits its question.

Of pieces that say the same (one group), one is enough. A gold path is found if all of its edges are, in whatever rows.
What a language model recalled is no evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evidence_assets.experiment.answers.chains import compute_chain_id
from evidence_assets.experiment.answers.short_answers import triple_of
from evidence_assets.experiment.evidence.selection import is_sourced
from evidence_assets.experiment.scores.metrics import best_fact_score, coverage
from evidence_assets.graphs.merge import edge_id, node_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.reasoning.paths import parse_path_locator
from evidence_assets.reasoning.tasks import TABLE_CELL_KINDS
from evidence_assets.text.words import is_filler, name_key, word_key, words_with_offsets

DEPTHS = (1, 2, 3, 5, 10, 20)
"""Ranks down to which the curve of recall is counted."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class _EvidenceRow:
    """What an evidence row holds, read once: its place in a table, its words, the edges and the triple it speaks of."""

    place: str
    text: str
    edges: frozenset[str]
    triple: str
    rank: int


@dataclass(frozen=True)
class _Gold:
    """The same of a piece of gold evidence; ``facts`` are the triples of a path in words."""

    group: str
    place: str
    text: str
    edges: frozenset[str]
    facts: frozenset[str]

    def is_in(self, row: _EvidenceRow) -> bool:
        """Whether a row is, or holds, this piece."""
        if self.place and row.place:
            return self.place == row.place
        return bool(self.text) and self.text in row.text

    def found_in(self, rows: Sequence[_EvidenceRow]) -> bool:
        """Whether these rows hold it together."""
        if self.facts and self.facts <= {row.triple for row in rows}:
            return True
        if self.edges:
            return self.edges <= {edge for row in rows for edge in row.edges}
        return any(self.is_in(row) for row in rows)

    def touched_by(self, row: _EvidenceRow) -> bool:
        """Whether a row holds it, or one step of it where it is a path."""
        return bool(self.edges & row.edges if self.edges else self.is_in(row)) or row.triple in self.facts


def _plain(text: str) -> str:
    return " ".join(text.split())


def _parse_row(row: Row) -> _EvidenceRow:
    edges = [row["source_id"]] if row["source_kind"] == "edge" else []
    if row["kind"] == "path":
        edges = [edge for edge, _ in parse_path_locator(row["locator"])]
    place = row["locator"] if row["kind"] in TABLE_CELL_KINDS else ""
    return _EvidenceRow(place, _plain(row["text"]), frozenset(edges), " ".join(triple_of(row) or ()), row["rank"])


def gold_edges(gold: Mapping[str, str]) -> set[str] | None:
    """Ids that the edges of a gold path have in every graph that names their ends so; None for what is no path."""
    if gold["kind"] not in ("path", "triple"):
        return None
    try:
        triples = [(head, relation, tail) for head, relation, tail in json.loads(gold["locator"])]
    except (ValueError, TypeError):
        return None
    return {edge_id(node_id(name_key(h)), relation, node_id(name_key(t))) for h, relation, t in triples}


def _parse_gold(question: Row) -> list[_Gold]:
    return [
        _Gold(
            piece["group"] or str(number),
            piece["locator"] if piece["kind"] in TABLE_CELL_KINDS else "",
            _plain(piece["text"]),
            frozenset(gold_edges(piece) or ()),
            frozenset(filter(None, piece["text"].split("; "))) if piece["kind"] == "path" else frozenset(),
        )
        for number, piece in enumerate(question["gold_evidence"] or [])
    ]


def _share_found(gold: Sequence[_Gold], rows: Sequence[_EvidenceRow]) -> float:
    """Share of the groups of gold evidence that these rows hold."""
    found = {piece.group for piece in gold if piece.found_in(rows)}
    return len(found) / len({piece.group for piece in gold})


def _by_question(evidence: pl.DataFrame) -> dict[str, list[_EvidenceRow]]:
    rows: dict[str, list[_EvidenceRow]] = {}
    for row in filter(is_sourced, evidence.iter_rows(named=True)):
        rows.setdefault(row["question_id"], []).append(_parse_row(row))
    return rows


def evidence_recall(questions: Iterable[Row], evidence: pl.DataFrame) -> list[float]:
    """Share of each question's gold evidence that was picked for any of its options; unmarked questions left out."""
    rows = _by_question(evidence)
    return [_share_found(gold, rows.get(q["question_id"], [])) for q in questions if (gold := _parse_gold(q))]


def recall_curve(questions: Iterable[Row], evidence: pl.DataFrame) -> dict[int, list[float]]:
    """The same by depth: with only the rows down to rank k for each option, as deep as rows were picked."""
    rows = _by_question(evidence)
    deepest = max((row.rank for own in rows.values() for row in own), default=0)
    asked = [(gold, rows.get(q["question_id"], [])) for q in questions if (gold := _parse_gold(q))]
    return {
        k: [_share_found(gold, [row for row in own if row.rank <= k]) for gold, own in asked]
        for k in DEPTHS
        if k <= deepest
    }


def citation_scores(
    questions: Iterable[Row], predictions: Mapping[str, Row], evidence: pl.DataFrame, citations: pl.DataFrame
) -> tuple[list[float], list[float]]:
    """Precision and recall of what the chain for the given answer cites, question by question.

    Precision is the share of the rows it cites that are gold evidence, recall the share of the gold evidence that it
    cites. A citation that does not verify cites nothing that there is: it counts against precision. Questions without
    gold evidence or without an answer are left out of both, those whose chain cites nothing of precision only.
    """
    known = {row["evidence_id"]: _parse_row(row) for row in filter(is_sourced, evidence.iter_rows(named=True))}
    cited: dict[str, dict[str, bool]] = {}
    for row in citations.iter_rows(named=True):
        verdicts = cited.setdefault(row["chain_id"], {})
        verified = row["verdict"] == "verified"
        verdicts[row["evidence_id"]] = verdicts.get(row["evidence_id"], True) and verified
    precision, recall = [], []
    for question in questions:
        said, gold = predictions.get(question["question_id"]), _parse_gold(question)
        if not gold or said is None or said["answer"] is None or said["status"] == "failed":
            continue
        names = (said[name] for name in ("selector", "reasoner", "model_id"))
        own = compute_chain_id(question["question_id"], said["answer"], *names)
        verdicts = cited.get(own) or cited.get(said["prediction_id"], {})
        rows = [known[each] for each, verified in verdicts.items() if verified and each in known]
        if verdicts:
            precision.append(sum(any(piece.touched_by(row) for piece in gold) for row in rows) / len(verdicts))
        recall.append(_share_found(gold, rows))
    return precision, recall


Texts = Mapping[str, Sequence[str]]
"""Texts of the evidence of each question, by its id."""


def evidence_texts(evidence: pl.DataFrame) -> dict[str, list[str]]:
    """The different texts that sources give for each question."""
    found: dict[str, dict[str, None]] = {}
    for row in filter(is_sourced, evidence.iter_rows(named=True)):
        found.setdefault(row["question_id"], {})[row["text"]] = None
    return {question: list(texts) for question, texts in found.items()}


def word_coverage(questions: Sequence[Mapping[str, Any]], texts: Texts) -> list[float]:
    """Share of each question's words with content that stand in its evidence: ``|Q ∩ E| / |Q|``."""
    known: dict[str, set[str]] = {}

    def content(text: str) -> set[str]:
        if text not in known:
            known[text] = {word_key(word) for word, _, _ in words_with_offsets(text) if not is_filler([word])}
        return known[text]

    shares = []
    for question in questions:
        own = [content(text) for text in texts.get(question["question_id"], ())]
        shares.append(coverage(content(question["text"]), set().union(*own)))
    return shares


def token_similarity(questions: Sequence[Mapping[str, Any]], texts: Texts, encoder: Encoder) -> list[float]:
    """BERTScore in Attention2Query's reading: each token of a question with its nearest one in any of its evidence.

    ``1/|q| · Σ_t max_i max_j cos(q_t, e_ij)``; a question without evidence has 0.
    """
    each = dict.fromkeys(text for q in questions for text in (q["text"], *texts.get(q["question_id"], ())))
    vectors = dict(zip(each, (t.vectors for t in encoder.encode_tokens(list(each))), strict=True)) if each else {}
    return [
        best_fact_score(vectors[q["text"]], [vectors[text] for text in texts.get(q["question_id"], ())])
        for q in questions
    ]
