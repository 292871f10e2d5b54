"""Recall and precision of selected and cited evidence against gold evidence.

Gold pieces with the same content form a group; one piece per group is enough. A gold path is found if all its edges
are in some rows. Facts recalled by a language model do not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from evidence_assets.experiment.answers.chains import compute_chain_id
from evidence_assets.experiment.answers.short_answers import triple_of
from evidence_assets.experiment.evidence.selection import sourced_rows
from evidence_assets.experiment.scores.metrics import best_fact_score
from evidence_assets.experiment.stored_rows import (
    EvidenceRow,
    GoldEvidenceRow,
    PredictionRow,
    QuestionRow,
    rows_by_question,
    typed_rows,
)
from evidence_assets.graphs.merge import edge_id, node_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.reasoning.paths import parse_path_locator
from evidence_assets.reasoning.tasks import TABLE_CELL_KINDS
from evidence_assets.text.words import is_filler, name_key, word_key, words_with_offsets

DEPTHS = (1, 2, 3, 5, 10, 20)
"""Ranks of the recall curve."""


@dataclass(frozen=True)
class _EvidenceRow:
    """Parsed evidence row: its table cell, text, edges and triple."""

    cell: str
    text: str
    edges: frozenset[str]
    triple: str
    rank: int


@dataclass(frozen=True)
class _Gold:
    """Parsed piece of gold evidence; ``facts`` are the triples of a path as text."""

    group: str
    source: str
    cell: str
    text: str
    edges: frozenset[str]
    facts: frozenset[str]

    def is_in(self, row: _EvidenceRow) -> bool:
        """Whether a row is or contains this piece."""
        if self.cell and row.cell:
            return self.cell == row.cell
        return bool(self.text) and self.text in row.text

    def is_covered_by(self, rows: Sequence[_EvidenceRow]) -> bool:
        """Whether these rows together contain it."""
        if self.facts and self.facts <= {row.triple for row in rows}:
            return True
        if self.edges:
            return self.edges <= {edge for row in rows for edge in row.edges}
        return any(self.is_in(row) for row in rows)

    def overlaps(self, row: _EvidenceRow) -> bool:
        """Whether a row contains it or, for a path, one of its edges."""
        return bool(self.edges & row.edges if self.edges else self.is_in(row)) or row.triple in self.facts


def _normalise_spaces(text: str) -> str:
    return " ".join(text.split())


def _parse_row(row: EvidenceRow) -> _EvidenceRow:
    edges = [row["source_id"]] if row["source_kind"] == "edge" else []
    if row["kind"] == "path":
        edges = [edge for edge, _ in parse_path_locator(row["locator"])]
    cell = row["locator"] if row["kind"] in TABLE_CELL_KINDS else ""
    return _EvidenceRow(
        cell, _normalise_spaces(row["text"]), frozenset(edges), " ".join(triple_of(row) or ()), row["rank"]
    )


def gold_edges(gold: GoldEvidenceRow) -> set[str] | None:
    """Edge ids of a gold path or triple, derived from its names; None for other kinds."""
    if gold["kind"] not in ("path", "triple"):
        return None
    try:
        triples = [(head, relation, tail) for head, relation, tail in json.loads(gold["locator"])]
    except (ValueError, TypeError):
        return None
    return {edge_id(node_id(name_key(h)), relation, node_id(name_key(t))) for h, relation, t in triples}


def _parse_gold(question: QuestionRow) -> list[_Gold]:
    return [
        _Gold(
            piece["group"] or str(number),
            piece["source"],
            piece["locator"] if piece["kind"] in TABLE_CELL_KINDS else "",
            _normalise_spaces(piece["text"]),
            frozenset(gold_edges(piece) or ()),
            frozenset(filter(None, piece["text"].split("; "))) if piece["kind"] == "path" else frozenset(),
        )
        for number, piece in enumerate(question["gold_evidence"] or [])
    ]


def _share_found(gold: Sequence[_Gold], rows: Sequence[_EvidenceRow]) -> float:
    """Share of the gold groups that these rows contain."""
    groups_found = {piece.group for piece in gold if piece.is_covered_by(rows)}
    return len(groups_found) / len({piece.group for piece in gold})


def _by_question(evidence: pl.DataFrame) -> dict[str, list[_EvidenceRow]]:
    rows = rows_by_question(sourced_rows(evidence), EvidenceRow)
    return {question_id: list(map(_parse_row, group)) for question_id, group in rows.items()}


def evidence_recall(questions: Iterable[QuestionRow], evidence: pl.DataFrame) -> list[float]:
    """Share of the gold evidence selected per question; questions without gold evidence are left out."""
    rows = _by_question(evidence)
    return [_share_found(gold, rows.get(q["question_id"], [])) for q in questions if (gold := _parse_gold(q))]


def recall_curve(questions: Iterable[QuestionRow], evidence: pl.DataFrame) -> dict[int, list[float]]:
    """Evidence recall by depth: using rows down to rank k of each option, up to the deepest rank."""
    rows = _by_question(evidence)
    deepest = max((row.rank for question_rows in rows.values() for row in question_rows), default=0)
    pairs = [(gold, rows.get(q["question_id"], [])) for q in questions if (gold := _parse_gold(q))]
    return {
        k: [_share_found(gold, [row for row in question_rows if row.rank <= k]) for gold, question_rows in pairs]
        for k in DEPTHS
        if k <= deepest
    }


def recall_limit(questions: Iterable[QuestionRow], chunks: pl.DataFrame) -> list[float]:
    """Share of the gold texts of each question that some chunk of their document contains: the most that chunks recall.

    ``chunks``: ``doc_id`` and ``text`` of the chunks. Cells and paths are left out, and questions without gold texts.
    """
    texts_by_document = chunks.group_by("doc_id").agg("text").iter_rows()
    chunk_texts = {doc_id: list(map(_normalise_spaces, texts)) for doc_id, texts in texts_by_document}
    shares = []
    for question in questions:
        pieces = [piece for piece in _parse_gold(question) if piece.text and not piece.cell and not piece.edges]
        held_groups = {p.group for p in pieces if any(p.text in text for text in chunk_texts.get(p.source, ()))}
        if pieces:
            shares.append(len(held_groups) / len({piece.group for piece in pieces}))
    return shares


def citation_scores(
    questions: Iterable[QuestionRow],
    predictions: Mapping[str, PredictionRow],
    evidence: pl.DataFrame,
    citations: pl.DataFrame,
) -> tuple[list[float], list[float]]:
    """Citation precision and recall of the answer's chain, per question.

    Precision is the share of cited rows that are gold evidence; recall, the share of gold evidence that is cited.
    Citations that do not verify count against precision. Questions without gold evidence or answer are left out of
    both; chains without citations, of precision only.
    """
    rows_by_id = {row["evidence_id"]: _parse_row(row) for row in typed_rows(sourced_rows(evidence), EvidenceRow)}
    is_verified = citations.group_by("chain_id", "evidence_id").agg((pl.col("verdict") == "verified").all())
    cited = {chain_id: dict(verdicts) for chain_id, verdicts in is_verified.rows_by_key("chain_id").items()}
    precision = []
    recall = []
    for question in questions:
        prediction = predictions.get(question["question_id"])
        gold = _parse_gold(question)
        if not gold or prediction is None or prediction["answer"] is None or prediction["status"] == "failed":
            continue
        key = prediction["selector"], prediction["reasoner"], prediction["model_id"]
        chain_id = compute_chain_id(question["question_id"], prediction["answer"], *key)
        verdicts = cited.get(chain_id) or cited.get(prediction["prediction_id"], {})
        rows = [rows_by_id[each] for each, verified in verdicts.items() if verified and each in rows_by_id]
        if verdicts:
            precision.append(sum(any(piece.overlaps(row) for piece in gold) for row in rows) / len(verdicts))
        recall.append(_share_found(gold, rows))
    return precision, recall


Texts = Mapping[str, Sequence[str]]
"""Evidence texts by question id."""


def evidence_texts(evidence: pl.DataFrame) -> dict[str, list[str]]:
    """Distinct evidence texts from sources, by question id."""
    texts = sourced_rows(evidence).group_by("question_id", maintain_order=True)
    return dict(texts.agg(pl.col("text").unique(maintain_order=True)).iter_rows())


def word_coverage(questions: Sequence[QuestionRow], texts: Texts, *, fillers: bool = False) -> list[float]:
    """Share of each question's content words that its evidence contains: ``|Q ∩ E| / |Q|``.

    With ``fillers``, all words count, also those without content such as "the".
    """
    cache: dict[str, set[str]] = {}

    def content(text: str) -> set[str]:
        if text not in cache:
            words = [word for word, _, _ in words_with_offsets(text) if fillers or not is_filler([word])]
            cache[text] = {word_key(word) for word in words}
        return cache[text]

    shares = []
    for question in questions:
        words = content(question["text"])
        covered_words = words & set().union(*map(content, texts.get(question["question_id"], ())))
        shares.append(len(covered_words) / len(words) if words else 0.0)
    return shares


def token_similarity(questions: Sequence[QuestionRow], texts: Texts, encoder: Encoder) -> list[float]:
    """BERTScore as in Attention2Query: mean similarity of question tokens to their nearest evidence token.

    ``1/|q| · Σ_t max_i max_j cos(q_t, e_ij)``; 0 without evidence.
    """
    distinct_texts = dict.fromkeys(text for q in questions for text in (q["text"], *texts.get(q["question_id"], ())))
    tokens = encoder.encode_tokens(list(distinct_texts)) if distinct_texts else []
    vectors = dict(zip(distinct_texts, (t.vectors for t in tokens), strict=True))
    return [
        best_fact_score(vectors[q["text"]], [vectors[t] for t in texts.get(q["question_id"], ())]) for q in questions
    ]
