"""USCRaKE: unsupervised selection of text and commonsense triples for each option.

A hypothesis is a question with one of its options. For each hypothesis:

1. Coarse retrieval (``passages``): the index returns the R chunks nearest to question ⊕ option.
2. Fine ranking (``chunk_ranking``, ``text_evidence``): a ground cost or another ranking selects the best k chunks of
   this pool.
3. Graph retrieval (``concept_triples``): the judge selects the best s of the one-hop triples around
   the concepts of question and option.
4. Joint ranking (``evidence_judges``): with a graph, the judge scores the text, too. Text and triples form one list, by
   a weighted mean of the judge's score and the text's own score.

Evidence consists of the best sentences of the kept chunks with their characters, or of whole chunks, as published. Ties
are ordered by id.

``FirstRows`` serves a grid of k and s with one ranking: the first k chunks and s triples of the widest variant.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import polars as pl
from pydantic import NonNegativeInt, PositiveInt

from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.experiment.evidence_rows import select_again
from evidence_assets.experiment.stored_rows import EvidenceRow, typed_rows
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.uscrake import VERSION
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples, GraphEvidence
from evidence_assets.systems.uscrake.evidence_judges import Judge, best_first, blend_scores
from evidence_assets.systems.uscrake.passages import (
    Hypothesis,
    LayerVectors,
    Passages,
    batch_questions,
    encode_hypotheses,
)
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.systems.uscrake.text_evidence import TextCandidate, TextEvidence


class UscrakeSelector:
    """Selector of USCRaKE; the module's docstring describes its steps.

    ``passages``, ``encoder``: The corpus and the encoder of its index; None without evidence from a corpus.
    ``token_encoder``: The encoder of the token store.
    ``triples``: Triples around concepts; None without evidence from a graph.
    """

    def __init__(
        self,
        settings: UscrakeSettings,
        passages: Passages | None,
        encoder: Encoder,
        token_encoder: Encoder,
        judge: Judge,
        triples: ConceptTriples | None = None,
    ) -> None:
        self._settings = settings
        self._judge = judge
        self._token_encoder = token_encoder
        ground = settings.ground
        self._view: Encoder = LayerVectors(token_encoder, ground) if ground and ground.layers else token_encoder
        self._graph = GraphEvidence(triples, judge, settings.s) if triples else None
        self._text: TextEvidence | None = None
        if passages:
            # Only the token store's own vectors are those that the judge compares.
            judged_by_text = self._view is not token_encoder
            self._text = TextEvidence(settings, passages, encoder, self._view, judged_by_text=judged_by_text)
        self.version = content_id(
            "uscrake",
            VERSION,
            asdict(settings),
            judge.version,
            [encoder.model_id, encoder.revision, token_encoder.model_id, token_encoder.revision],
            [passages.corpus.version, passages.store.meta.built_from] if passages else [],
            triples.version if triples else "",
        )

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """Evidence of each question, best first within each option."""
        for batch in batch_questions(questions, self._settings.R):
            yield from self._select(batch)

    def _select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        hypotheses = encode_hypotheses(questions, self._view, self._token_encoder)
        texts = self._text.candidates(hypotheses) if self._text else [[] for _ in hypotheses]
        rows_of_hypotheses = [[row for row, _ in candidates] for candidates in texts]
        if self._graph:
            judged_rows = self._judge_texts(hypotheses, texts)
            triples = self._graph.select(hypotheses)
            rows_of_hypotheses = [[*a, *b] for a, b in zip(judged_rows, triples, strict=True)]
        evidence: dict[str, list[SelectedEvidence]] = {question.question_id: [] for question in questions}
        for hypothesis, rows in zip(hypotheses, rows_of_hypotheses, strict=True):
            ranked_rows = best_first(rows, np.array([row.score for row in rows], dtype=np.float64))
            evidence[hypothesis.question.question_id] += [row for row, _ in ranked_rows]
        return [evidence[question.question_id] for question in questions]

    def _judge_texts(
        self, hypotheses: Sequence[Hypothesis], texts: Sequence[Sequence[TextCandidate]]
    ) -> list[list[SelectedEvidence]]:
        """Text evidence with scores that are comparable to those of triples."""
        requests = [(h.pieces, [judged for _, judged in group]) for h, group in zip(hypotheses, texts, strict=True)]
        judged_rows = []
        for candidates, judge_scores in zip(texts, self._judge.score(requests), strict=True):
            rows = [row for row, _ in candidates]
            own_scores = np.array([row.score for row in rows], dtype=np.float64)
            scores = blend_scores(own_scores, judge_scores, self._settings.judge).tolist()
            judged_rows.append([replace(row, score=score) for row, score in zip(rows, scores, strict=True)])
        return judged_rows


@dataclass(frozen=True)
class FirstRowsSettings:
    """``k`` and ``s`` of a variant that reads the evidence of ``ranking``, a variant of its family with no fewer.

    Both must have the same rows in the same order: no score and no cap may depend on k or s. So whole chunks are
    ranked, and the judge alone orders them with the triples, of which it scores all.
    """

    ranking: str
    k: PositiveInt
    s: NonNegativeInt


class FirstRows:
    """Selects the first k chunks and s triples of each option from stored evidence.

    ``rows``: Evidence of the variant that ranks.
    """

    def __init__(self, rows: pl.DataFrame, settings: FirstRowsSettings) -> None:
        self._settings = settings
        self.version = content_id("first rows", VERSION, asdict(settings), rows["input_hash"].unique().sort().to_list())
        self._rows = rows.sort("option", "rank").partition_by("question_id", as_dict=True)

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """Evidence of each question, best first within each option."""
        for question in questions:
            rows = self._rows.get((question.question_id,))
            yield [] if rows is None else list(self._first(typed_rows(rows, EvidenceRow)))

    def _first(self, rows: Sequence[EvidenceRow]) -> Iterator[SelectedEvidence]:
        n_triples: Counter[str] = Counter()
        for row in rows:
            if row["kind"] == "triple":
                n_triples[row["option"]] += 1
                is_kept = n_triples[row["option"]] <= self._settings.s
            else:
                is_kept = json.loads(row["why"] or "")["chunk_rank"] <= self._settings.k
            if is_kept:
                yield select_again(row)
