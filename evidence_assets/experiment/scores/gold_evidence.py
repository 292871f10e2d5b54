"""Recall and precision of selected and cited evidence against gold evidence.

Gold pieces with the same content form a group; one piece per group is enough. A gold path is found if all its edges
are in some rows. Facts recalled by a language model do not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from evidence_assets.experiment.answers.chains import compute_chain_id
from evidence_assets.experiment.evidence_rows import evidence_by_question, sourced_rows
from evidence_assets.experiment.scores.metrics import best_fact_score
from evidence_assets.experiment.stored_rows import GoldEvidenceRow, PredictionRow, QuestionRow
from evidence_assets.graphs.merge import edge_id, node_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.reasoning.paths import parse_path_locator
from evidence_assets.reasoning.tasks import TABLE_CELL_KINDS, EvidenceItem
from evidence_assets.text.words import is_filler, name_key, word_key, words_with_offsets

DEPTHS = (1, 2, 3, 5, 10, 20)
"""Ranks of the recall curve."""


@dataclass(frozen=True)
class _Gold:
    """Parsed piece of gold evidence; ``facts`` are the triples of a path as text."""

    group: str
    source: str
    cell: str
    text: str
    edges: frozenset[str]
    facts: frozenset[str]

    def is_in(self, item: EvidenceItem) -> bool:
        """Whether evidence is or contains this piece."""
        if self.cell and item.kind in TABLE_CELL_KINDS:
            return self.cell == item.locator
        return bool(self.text) and self.text in _normalise_spaces(item.text)

    def is_covered_by(self, evidence: Sequence[EvidenceItem]) -> bool:
        """Whether this evidence together contains it."""
        if self.facts and self.facts <= set(map(_fact_of, evidence)):
            return True
        if self.edges:
            return self.edges <= frozenset[str]().union(*map(_edges_of, evidence))
        return any(self.is_in(item) for item in evidence)

    def overlaps(self, item: EvidenceItem) -> bool:
        """Whether evidence contains it or, for a path, one of its edges."""
        contains = bool(self.edges & _edges_of(item)) if self.edges else self.is_in(item)
        return contains or _fact_of(item) in self.facts


@lru_cache(maxsize=1024)  # each text is compared with all gold pieces of its question
def _normalise_spaces(text: str) -> str:
    return " ".join(text.split())


def _edges_of(item: EvidenceItem) -> frozenset[str]:
    """The edges of a triple or a path."""
    if item.kind == "path":
        return frozenset(edge for edge, _ in parse_path_locator(item.locator))
    return frozenset([item.source_id] if item.source_kind == "edge" else [])


def _fact_of(item: EvidenceItem) -> str:
    """A triple as text."""
    return " ".join(item.triple or ())


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


def _share_found(gold: Sequence[_Gold], evidence: Sequence[EvidenceItem]) -> float:
    """Share of the gold groups that this evidence contains."""
    groups_found = {piece.group for piece in gold if piece.is_covered_by(evidence)}
    return len(groups_found) / len({piece.group for piece in gold})


def evidence_recall(questions: Iterable[QuestionRow], evidence: pl.DataFrame) -> list[float]:
    """Share of the gold evidence selected per question; questions without gold evidence are left out."""
    items = evidence_by_question(sourced_rows(evidence))
    return [_share_found(gold, items.get(q["question_id"], [])) for q in questions if (gold := _parse_gold(q))]


def recall_curve(questions: Iterable[QuestionRow], evidence: pl.DataFrame) -> dict[int, list[float]]:
    """Evidence recall by depth: using rows down to rank k of each option, up to the deepest rank."""
    items = evidence_by_question(sourced_rows(evidence))
    deepest = max((item.rank for group in items.values() for item in group), default=0)
    pairs = [(gold, items.get(q["question_id"], [])) for q in questions if (gold := _parse_gold(q))]
    return {
        k: [_share_found(gold, [item for item in group if item.rank <= k]) for gold, group in pairs]
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
    items = evidence_by_question(sourced_rows(evidence)).values()
    items_by_id = {item.evidence_id: item for group in items for item in group}
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
        cited_items = [items_by_id[each] for each, verified in verdicts.items() if verified and each in items_by_id]
        if verdicts:
            precision.append(sum(any(piece.overlaps(item) for piece in gold) for item in cited_items) / len(verdicts))
        recall.append(_share_found(gold, cited_items))
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
