"""Step 3 of USCRaKE: the triples of a hypothesis that the judge scores best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evidence_assets.experiment.evidence.selection import SelectedEvidence, edge_evidence
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples, TripleCandidate, TripleCandidates
from evidence_assets.systems.uscrake.evidence_judges import Judge, JudgedText, best_first
from evidence_assets.systems.uscrake.hypotheses import Hypothesis

TRIPLES_PER_CALL = 1 << 15
"""Maximum triples that a judge scores in one call (at least those of one hypothesis), which limits its memory."""


@dataclass
class TripleCount:
    """Triples around concepts, those that the cap dropped, and hypotheses that lost some."""

    total: int = 0
    dropped: int = 0
    capped: int = 0


class GraphEvidence:
    """Selects the s best triples of each hypothesis; ``count`` adds up what the cap drops."""

    def __init__(self, triples: ConceptTriples, judge: Judge, s: int) -> None:
        self._triples, self._judge, self._s = triples, judge, s
        self.version, self.count = triples.version, TripleCount()

    def select(self, hypotheses: Sequence[Hypothesis]) -> list[list[SelectedEvidence]]:
        """The triples of each hypothesis, best first, with the scores of the judge."""
        return [rows for batch in self._batches(hypotheses) for rows in self._select_batch(batch)]

    def _batches(self, hypotheses: Sequence[Hypothesis]) -> Iterator[list[tuple[Hypothesis, TripleCandidates]]]:
        """Hypotheses with their candidates, in batches that limit the triples that a judge scores at once."""
        batch, size = list[tuple[Hypothesis, TripleCandidates]](), 0
        all_candidates = self._triples.candidates([(h.question.text, h.option) for h in hypotheses])
        for hypothesis, candidates in zip(hypotheses, all_candidates, strict=True):
            if batch and size + len(candidates.triples) > TRIPLES_PER_CALL:
                yield batch
                batch, size = [], 0
            batch.append((hypothesis, candidates))
            size += len(candidates.triples)
        if batch:
            yield batch

    def _select_batch(self, batch: Sequence[tuple[Hypothesis, TripleCandidates]]) -> Iterator[list[SelectedEvidence]]:
        groups = [self._by_sentence(candidates) for _, candidates in batch]
        requests = [
            (hypothesis.pieces, [*map(JudgedText, group)]) for (hypothesis, _), group in zip(batch, groups, strict=True)
        ]
        all_scores = self._judge.score(requests)
        for (hypothesis, candidates), group, scores in zip(batch, groups, all_scores, strict=True):
            self.count.total += candidates.total
            self.count.dropped += candidates.dropped
            self.count.capped += candidates.dropped > 0
            best = best_first(list(group.items()), scores)[: self._s]
            yield [
                self._row(hypothesis.label, triple, sentence, score, found=candidates.total, dropped=candidates.dropped)
                for (sentence, triple), score in best
            ]

    def _by_sentence(self, candidates: TripleCandidates) -> dict[str, TripleCandidate]:
        """The first triple of each sentence, in order."""
        triples: dict[str, TripleCandidate] = {}
        for triple in candidates.triples:
            triples.setdefault(self._triples.sentence(triple.edge), triple)
        return triples

    def _row(self, label: str, triple: TripleCandidate, sentence: str, score: float, **counts: int) -> SelectedEvidence:
        graph, link = self._triples.graph, triple.link
        reasons = {"concept": link.concept, "rule": link.rule, "link_score": round(link.score, 6)}
        reasons |= {"node": graph.names[triple.node], **counts}
        return edge_evidence(graph, triple.edge, score, label, sentence, **reasons)
