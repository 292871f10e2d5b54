"""USCRaKE: unsupervised selection of text and commonsense triples for each option.

1. Coarse retrieval: the index returns the pool of the R chunks nearest to question ⊕ option. The options of a question
   share the union of their pools, so that each chunk's tokens are read once.
2. Fine ranking: the chunks of the pool are ranked by a ground cost, and the best k are kept (``chunk_ranking``).
3. Graph retrieval: one-hop triples around linked concepts, capped per option (``concept_triples``).
4. Joint ranking: with a graph, a judge scores text and triples against question ⊕ option. The best s triples and the
   text form one list, by a weighted mean of the judge's score and the text's own score.

Evidence consists of the best sentences of the kept chunks with their characters, or of whole chunks, as published. The
reasons of each row state whether it entails, contradicts or only mentions the option. Ties are ordered by id.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evidence_assets.experiment.evidence.selection import Parent, Question, SelectedEvidence, edge_evidence
from evidence_assets.lake.array_files import release_memory, sorted_unique
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import Array
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.retrieval.maxsim import nearest_cosines
from evidence_assets.systems.uscrake import VERSION
from evidence_assets.systems.uscrake import chunk_ranking as ranking
from evidence_assets.systems.uscrake.chunk_ranking import Query, Sentence, TitleLinks
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples, TripleCandidates
from evidence_assets.systems.uscrake.evidence_judges import EvidenceCandidate, Judge, classify_stance
from evidence_assets.systems.uscrake.passages import EncodedPassages, Passages
from evidence_assets.systems.uscrake.token_views import LayerVectors, WordMeans
from evidence_assets.transport import GroundCost, TextCollection, get_ground_cost

QUESTIONS_PER_BATCH, POOL_ENTRIES_PER_BATCH = 256, 1 << 16
"""Maximum questions, and chunks in their pools, that are processed as one batch; at least one question."""


@dataclass(frozen=True)
class UscrakeSettings:
    """Parameters of a variant.

    ``cost``: A ground cost (``transport.costs``; ``jsd`` is published), or a ranking (``chunk_ranking.RANKINGS``).
    ``R``, ``k``, ``s``: Chunks of the coarse pool, kept chunks and kept triples, per question and option.
    ``coarse``: Pool of the ``dense`` index, or ``hybrid``: its union with the pool of BM25.
    ``parts``: Evidence from ``chunks``, from the ``graph``, or ``both``.
    ``grain``: Granularity of text evidence: sentences (at most 2k per option) or whole chunks.
    ``titles``: Prepend the tokens of the title to each chunk; the published ranking has no titles.
    ``links``: Weight of ``fusion``'s boost for chunks whose title a better chunk mentions
        (``chunk_ranking.TitleLinks``); 0 disables it.
    ``transported``: Chunks with the best late interaction that ``fusion`` scores by exact transport; it drops the rest.
    ``judge``: Weight of the judge's score in the joint ranking of text and triples: 1 is the judge alone, as published;
        0 keeps the text's own score. Without a graph there is no judge.
    ``triples_judged``: Candidate triples per kept triple; a cheap word-overlap score selects them.
    ``tokens``: Tokens are the encoder's ``pieces``, or ``words`` as the means of their pieces.
    ``weights``: Token masses: BM25 within the ``text``; BM25 summed over the ``corpus`` (the other reading of
        equation 7.9); or ``idf``, as some costs require.
    """

    cost: str = "fusion"
    R: int = 40
    k: int = 5
    s: int = 5
    coarse: Literal["dense", "hybrid"] = "dense"
    parts: Literal["both", "chunks", "graph"] = "both"
    grain: Literal["sentence", "chunk"] = "sentence"
    titles: bool = True
    links: float = 2.0
    transported: int = 100
    judge: float = 0.0
    triples_judged: int = 10
    tokens: Literal["pieces", "words"] = "pieces"
    weights: Literal["text", "corpus", "idf"] = "text"

    def __post_init__(self) -> None:
        ground = self.ground
        for name in ("R", "k", "transported", "triples_judged"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if self.s < 0 or self.links < 0:
            raise ValueError("s and links must not be negative")
        if not 0 <= self.judge <= 1:
            raise ValueError(f"judge is {self.judge}: it must be between 0 and 1")
        if ground and ground.layers and self.tokens != "pieces":
            raise ValueError(f"{self.cost} uses the layers of pieces: set tokens: pieces")
        if ground and ground.weighting and self.weights != ground.weighting:
            raise ValueError(f"{self.cost} supports only one weighting: set weights: {ground.weighting}")

    @property
    def ground(self) -> GroundCost | None:
        """The ground cost; None if ``cost`` is a ranking."""
        return None if self.cost in ranking.RANKINGS else get_ground_cost(self.cost)

    def view(self, encoder: Encoder) -> Encoder:
        """The encoder of the ranked tokens: pieces of the last layer, words, or several layers."""
        if self.ground and self.ground.layers:
            return LayerVectors(encoder, self.ground)
        return WordMeans(encoder) if self.tokens == "words" else encoder


@dataclass(frozen=True)
class _Option:
    """One option of a question; ``query`` has the ranked tokens, ``plain`` the encoder's pieces."""

    question: Question
    label: str
    text: str
    query: Query
    plain: Query


class UscrakeSelector:
    """Selector of USCRaKE; the module's docstring describes its steps.

    ``passages``, ``encoder``: The corpus and the encoder of its index; None without a corpus.
    ``token_encoder``: The encoder of the token store.
    ``graph``: Source of triples; None without a graph.
    """

    def __init__(
        self,
        settings: UscrakeSettings,
        passages: Passages | None,
        encoder: Encoder,
        token_encoder: Encoder,
        judge: Judge,
        graph: ConceptTriples | None = None,
    ) -> None:
        self._settings = settings
        self._passages = passages if settings.parts != "graph" else None
        self._encoder, self._tokens, self._judge = encoder, token_encoder, judge
        self._view = settings.view(token_encoder)
        self._graph = graph if settings.parts != "chunks" and settings.s else None
        self.version = content_id(
            "uscrake",
            VERSION,
            asdict(settings),
            judge.version,
            [encoder.model_id, encoder.revision, token_encoder.model_id, token_encoder.revision],
            [self._passages.corpus.version, self._passages.store.meta.built_from] if self._passages else [],
            self._graph.version if self._graph else "",
        )

    @property
    def notes(self) -> dict[str, str]:
        """Optional metadata of the asset."""
        labels = {True: "used", False: "none: not in the benchmark, or excluded by the variant"}
        return {"text_evidence": labels[self._passages is not None], "graph_evidence": labels[self._graph is not None]}

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """Evidence of each question, best first within each option."""
        pool_size = self._settings.R * max((len(question.hypotheses) for question in questions), default=1)
        batch_size = max(1, min(QUESTIONS_PER_BATCH, POOL_ENTRIES_PER_BATCH // pool_size))
        for start in range(0, len(questions), batch_size):
            yield from self._select(questions[start : start + batch_size])

    def _select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        options = self._options(questions)
        texts: list[list[EvidenceCandidate]] = [[] for _ in options]
        if self._passages is not None:
            texts = self._texts(self._passages, options)
        triples = self._triples(options)
        candidates = [[*a, *b] for a, b in zip(texts, triples, strict=True)]
        scores = [np.array([i.evidence.score for i in group], dtype=np.float64) for group in candidates]
        if self._graph is not None:
            judge_scores = self._judge.score([(o.plain, group) for o, group in zip(options, candidates, strict=True)])
            share = self._settings.judge
            scores = [
                blend_scores(own_scores, judged, len(text_candidates), share)
                for own_scores, judged, text_candidates in zip(scores, judge_scores, texts, strict=True)
            ]
        rows_of_question: dict[str, list[SelectedEvidence]] = {question.question_id: [] for question in questions}
        for option, option_candidates, final_scores in zip(options, candidates, scores, strict=True):
            rows_of_question[option.question.question_id] += self._rank(
                option, [item.evidence for item in option_candidates], final_scores
            )
        return [rows_of_question[question.question_id] for question in questions]

    def _options(self, questions: Sequence[Question]) -> list[_Option]:
        """Every option with the tokens of question ⊕ option; each distinct text is encoded once."""
        hypotheses = [(q, label, option, q.query(option)) for q in questions for label, option in q.hypotheses]
        texts = list(dict.fromkeys(text for *_, text in hypotheses))
        pieces = dict(zip(texts, self._tokens.encode_tokens(texts) if texts else [], strict=True))
        ranked_tokens = pieces
        if self._has_other_tokens:
            ranked_tokens = dict(zip(texts, self._view.encode_tokens(texts) if texts else [], strict=True))
        return [
            _Option(q, label, option, Query(text, ranked_tokens[text]), Query(text, pieces[text]))
            for q, label, option, text in hypotheses
        ]

    @property
    def _has_other_tokens(self) -> bool:
        """Whether the ranked tokens differ from those of the token store."""
        return self._view is not self._tokens

    # Text -----------------------------------------------------------------------------------------------------

    def _texts(self, passages: Passages, options: Sequence[_Option]) -> list[list[EvidenceCandidate]]:
        """Text evidence of each option, question by question."""
        settings, candidates, pools = self._settings, list[list[EvidenceCandidate]](), self._pools(passages, options)
        encoded = passages.with_encoder(
            self._view, words=settings.tokens == "words", weighting=settings.weights, titles=settings.titles
        )
        # One call encodes all texts that are not cached.
        encoded.texts(sorted_unique(np.concatenate([*pools, np.zeros(0, np.int64)])))
        for _, group in groupby(zip(options, pools, strict=True), lambda pair: pair[0].question.question_id):
            options_of_question, pools_of_question = zip(*group, strict=True)
            candidates += self._question_texts(encoded, options_of_question, pools_of_question)
        release_memory()  # large pools otherwise stay allocated
        return candidates

    def _pools(self, passages: Passages, options: Sequence[_Option]) -> list[IntArray]:
        """Coarse pool of each option: ascending chunk positions."""
        if not len(passages.corpus) or not options:
            return [np.zeros(0, np.int64) for _ in options]
        size = self._settings.R
        _, dense = passages.corpus.index.search(self._encoder.encode_sentences([o.query.text for o in options]), size)
        pools = [sorted_unique(row[row >= 0]) for row in dense]
        if self._settings.coarse == "hybrid":
            for i, option in enumerate(options):
                positions, _ = passages.store.pieces.top_k(option.plain.tokens.tokens, size)
                pools[i] = np.union1d(pools[i], positions)
        return pools

    def _question_texts(
        self, passages: EncodedPassages, options: Sequence[_Option], pools: Sequence[IntArray]
    ) -> list[list[EvidenceCandidate]]:
        """Text evidence of one question's options; a query without tokens has none."""
        settings = self._settings
        union = sorted_unique(np.concatenate(pools))
        with_tokens = [i for i, option in enumerate(options) if len(option.query)]
        candidates: list[list[EvidenceCandidate]] = [[] for _ in options]
        if not len(union) or not with_tokens:
            return candidates
        texts, queries = passages.texts(union), [options[i].query for i in with_tokens]
        if settings.cost == "fusion":
            all_scores = self._fusion_scores(passages, union, queries, texts)
        else:
            all_scores = ranking.score_texts(queries, texts, passages, settings.cost, settings.k)
        for i, scores in zip(with_tokens, all_scores, strict=True):
            best = ranking.top_positions(scores, settings.k)
            candidates[i] = self._text_candidates(passages, options[i], union[best], scores[best])
        return candidates

    def _fusion_scores(
        self, passages: EncodedPassages, union: IntArray, queries: Sequence[Query], texts: TextCollection
    ) -> list[Array]:
        """Scores of ``fusion``, boosted along title links."""
        max_transported, weight = self._settings.transported, self._settings.links
        nearest = nearest_cosines([query.tokens.vectors for query in queries], texts)
        fusion = [
            ranking.fusion_scores(q, texts, passages, max_transported, n) for q, n in zip(queries, nearest, strict=True)
        ]
        if not weight:
            return fusion
        scored = np.flatnonzero(np.isfinite(fusion).any(axis=0))
        links = TitleLinks.find(passages.corpus.titles(union[scored]), passages.corpus.texts(union[scored]), scored)
        return [links.boost(scores, n, weight) for scores, n in zip(fusion, nearest, strict=True)]

    def _text_candidates(
        self, passages: EncodedPassages, option: _Option, chunks: IntArray, scores: Array
    ) -> list[EvidenceCandidate]:
        """Evidence of the kept chunks, best first: whole chunks, or their best sentences."""
        cost, (pool, tokens) = self._settings.cost, passages.chunks(chunks)
        ids, texts, chunk_pools = (
            passages.corpus.ids(chunks),
            passages.corpus.texts(chunks),
            [pool.select([n]) for n in range(len(chunks))],
        )
        # The judge needs the encoder's pieces; other tokens are encoded again from the text.
        judged_by_text = self._has_other_tokens or self._graph is None
        reasons: list[dict[str, Any]] = []
        for n, score in enumerate(scores.tolist()):
            aligned = ranking.align_words(option.query, texts[n], chunk_pools[n], tokens[n], passages, cost)
            reasons.append({"cost": cost, "chunk_rank": n + 1, "chunk_score": round(score, 9), "aligned": aligned})
        candidates = []
        if self._settings.grain == "chunk":
            for n, score in enumerate(scores.tolist()):
                item = SelectedEvidence(option.label, "chunk", (Parent("chunk", ids[n], ids[n]),), "", texts[n], score)
                candidates.append(_candidate(item, reasons[n], None if judged_by_text else chunk_pools[n].vectors))
            return candidates
        sentences: list[Sentence] = []
        for n, spans in enumerate(passages.corpus.sentences(chunks)):
            rows = np.arange(pool.offsets[n], pool.offsets[n + 1])
            sentences += ranking.sentences_with_tokens(n, rows, tokens[n].spans[:, 0], spans)
        sentence_scores = ranking.score_sentences(option.query, sentences, scores, pool, passages, cost)
        for index in ranking.top_positions(sentence_scores, 2 * self._settings.k):
            sentence, score = sentences[index], float(sentence_scores[index])
            parents = (Parent("chunk", ids[sentence.chunk], ids[sentence.chunk]),)
            text = texts[sentence.chunk][sentence.start : sentence.end]
            item = SelectedEvidence(option.label, "sentence", parents, f"{sentence.start}:{sentence.end}", text, score)
            sentence_reasons = {**reasons[sentence.chunk], "sentence_score": round(score, 9)}
            candidates.append(
                _candidate(item, sentence_reasons, None if judged_by_text else pool.vectors[sentence.rows])
            )
        return candidates

    # Graph ----------------------------------------------------------------------------------------------------

    def _triples(self, options: Sequence[_Option]) -> list[list[EvidenceCandidate]]:
        """Capped triples of each option, without duplicate texts."""
        if self._graph is None:
            return [[] for _ in options]
        candidates = self._graph.candidates([(o.question.text, o.text) for o in options])
        return [self._option_triples(self._graph, o.label, c) for o, c in zip(options, candidates, strict=True)]

    def _option_triples(self, graph: ConceptTriples, label: str, pool: TripleCandidates) -> list[EvidenceCandidate]:
        counts: dict[str, Any] = {"found": pool.total, "dropped": pool.dropped}
        by_text: dict[str, EvidenceCandidate] = {}
        for c in pool.triples:
            link = {"concept": c.link.concept, "rule": c.link.rule, "link_score": round(c.link.score, 6)}
            reasons = {**link, "node": graph.graph.names[c.node], **counts}
            evidence = edge_evidence(graph.graph, c.edge, 0.0, label, graph.sentence(c.edge), **reasons)
            by_text.setdefault(evidence.text, EvidenceCandidate(evidence))
        return list(by_text.values())

    # Joint ranking --------------------------------------------------------------------------------------------

    def _rank(self, option: _Option, rows: Sequence[SelectedEvidence], scores: Array) -> list[SelectedEvidence]:
        """Rank text and the best triples in one list; ties keep their order."""
        order = np.argsort(-scores.round(9), kind="stable").tolist()
        triples = [i for i in order if rows[i].kind == "triple"][: self._settings.s]
        kept_rows = [i for i in order if rows[i].kind != "triple" or i in triples]
        return [replace(rows[i], score=float(scores[i]), why=_with_stance(option, rows[i])) for i in kept_rows]


def blend_scores(own_scores: Array, judge_scores: Array, texts: int, share: float) -> Array:
    """Weighted mean of the judge's scores and the own scores of the first ``texts`` entries.

    The own scores are scaled to the mean and standard deviation of the judge's scores of the same texts. ``share`` is
    the weight of the judge. Triples have the judge's score only.
    """
    own_texts, judged_texts = own_scores[:texts], judge_scores[:texts]
    deviation = float(own_texts.std()) if texts else 0.0
    if not deviation > 0:
        return judge_scores
    scaled = judged_texts.mean() + judged_texts.std() * (own_texts - own_texts.mean()) / deviation
    return np.concatenate([share * judged_texts + (1 - share) * scaled, judge_scores[texts:]])


def _with_stance(option: _Option, evidence: SelectedEvidence) -> str:
    """The reasons of an evidence row, with its stance on the option."""
    stance = classify_stance(option.question.text, option.text, evidence.kind, evidence.text)
    return json.dumps({**json.loads(evidence.why or "{}"), "says": stance}, ensure_ascii=False, sort_keys=True)


def _candidate(
    evidence: SelectedEvidence, reasons: Mapping[str, Any], vectors: npt.NDArray[Any] | None
) -> EvidenceCandidate:
    return EvidenceCandidate(replace(evidence, why=json.dumps(reasons, ensure_ascii=False, sort_keys=True)), vectors)
