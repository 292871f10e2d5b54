"""USCRaKE: evidence for each option of a question from text and from a commonsense graph, without supervision.

1. Coarse: the index gives the pool of chunks nearest to question ⊕ option. The pools of a question's options are
   joined, so that a chunk's tokens are read once for all of them; no option's own pool is cut by that.
2. Fine: the chunks of the pool are ranked under a named cost and the best k kept (``chunk_ranking``).
3. The graph's triples around linked concepts are gathered and capped (``concept_triples``).
4. Text stands in the order of its own ranking. Where there is a graph, text and triples of an option are judged
   together against question ⊕ option, the best s triples stay beside the text, and all are ranked in one list, in
   which the judge has the share that the settings give it.

Evidence are the best sentences of the kept chunks, cited by their characters, or whole chunks, as published. Each row's
reasons say whether it entails, contradicts or only mentions the option. Equal scores fall back on the order of ids.
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
"""Questions held in memory together, and places in their pools; one question may have more."""


@dataclass(frozen=True)
class UscrakeSettings:
    """Parameters of a variant.

    ``cost``: A registered ground cost (``transport.costs``), of which ``jsd`` is the published one, or a ranking
        (``chunk_ranking.RANKINGS``).
    ``R``, ``k``, ``s``: Chunks of the coarse pool, chunks kept, triples kept, each for a question and option.
    ``coarse``: ``dense`` is the index alone, ``hybrid`` joins its pool with that of BM25.
    ``parts``: Evidence from ``chunks``, from the ``graph``, or ``both``.
    ``grain``: Whether sentences or whole chunks are evidence; an option gets at most 2k sentences.
    ``titles``: Whether the words of its title are ranked as words of each chunk; the published ranking knows no titles.
    ``links``: How much ``fusion`` raises a chunk whose title a better one names (``chunk_ranking.TitleLinks``); 0 for
        not at all.
    ``transported``: Chunks of the pool that ``fusion`` transports exactly, late interaction leading the way; the others
        are left out.
    ``judge``: What the judge of text and triples has to say in their joint order: 1 for the judge alone, as published,
        0 for text in its own order. Text that stands alone is never judged.
    ``triples_judged``: Triples that the judge reads for each that is kept; the others are dropped by the words they
        share.
    ``tokens``: Whether a word that the encoder cuts into ``pieces`` counts as these, or ``words`` as the means of
        theirs.
    ``weights``: Masses of tokens: BM25 within the own ``text``; summed over the ``corpus``, the other reading of
        equation 7.9; or ``idf`` alone, as some costs need.
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
                raise ValueError(f"{name} is {getattr(self, name)}: keep at least one")
        if self.s < 0 or self.links < 0:
            raise ValueError("s and links must not be negative")
        if not 0 <= self.judge <= 1:
            raise ValueError(f"judge is {self.judge}: give its share, from 0 to 1")
        if ground and ground.layers and self.tokens != "pieces":
            raise ValueError(f"{self.cost} is made of the layers of pieces: say tokens: pieces")
        if ground and ground.weighting and self.weights != ground.weighting:
            raise ValueError(f"{self.cost} weights its tokens in one way alone: say weights: {ground.weighting}")

    @property
    def ground(self) -> GroundCost | None:
        """The ground cost, unless texts are ranked in another way."""
        return None if self.cost in ranking.RANKINGS else get_ground_cost(self.cost)

    def view(self, encoder: Encoder) -> Encoder:
        """The encoder of the tokens that are ranked: itself, unless they are not those that a token store keeps."""
        if self.ground and self.ground.layers:
            return LayerVectors(encoder, self.ground)
        return WordMeans(encoder) if self.tokens == "words" else encoder


@dataclass(frozen=True)
class _Option:
    """One hypothesis of one question, with its tokens as they are ranked, and as the encoder gives them."""

    question: Question
    label: str
    text: str
    query: Query
    plain: Query


class UscrakeSelector:
    """The selector: see the module's description.

    ``passages``, ``encoder``: The corpus, and the encoder of its index; no corpus where the benchmark names none.
    ``token_encoder``: The encoder of the token store.
    ``graph``: Where triples come from; None where the benchmark names no graph.
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
        said = {True: "used", False: "none: the benchmark names none, or the variant leaves it out"}
        return {"text_evidence": said[self._passages is not None], "graph_evidence": said[self._graph is not None]}

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """Evidence of each question, best first within each option."""
        places = self._settings.R * max((len(question.hypotheses) for question in questions), default=1)
        together = max(1, min(QUESTIONS_PER_BATCH, POOL_ENTRIES_PER_BATCH // places))
        for start in range(0, len(questions), together):
            yield from self._select(questions[start : start + together])

    def _select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        options = self._options(questions)
        texts: list[list[EvidenceCandidate]] = [[] for _ in options]
        if self._passages is not None:
            texts = self._texts(self._passages, options)
        triples = self._triple_items(options)
        found = [[*t, *g] for t, g in zip(texts, triples, strict=True)]
        scores = [np.array([item.pick.score for item in items], dtype=np.float64) for items in found]
        if self._graph is not None:
            judged = self._judge.score([(o.plain, items) for o, items in zip(options, found, strict=True)])
            share = self._settings.judge
            scores = [
                blend_scores(own, theirs, len(t), share) for own, theirs, t in zip(scores, judged, texts, strict=True)
            ]
        made: dict[str, list[SelectedEvidence]] = {question.question_id: [] for question in questions}
        for option, items, final in zip(options, found, scores, strict=True):
            made[option.question.question_id] += self._ranked(option, [item.pick for item in items], final)
        return [made[question.question_id] for question in questions]

    def _options(self, questions: Sequence[Question]) -> list[_Option]:
        """Every hypothesis with the tokens of question ⊕ option, each distinct text encoded once."""
        found = [(q, label, option, q.query(option)) for q in questions for label, option in q.hypotheses]
        texts = list(dict.fromkeys(text for *_, text in found))
        plain = dict(zip(texts, self._tokens.encode_tokens(texts) if texts else [], strict=True))
        seen = plain
        if self._viewed:
            seen = dict(zip(texts, self._view.encode_tokens(texts) if texts else [], strict=True))
        return [
            _Option(q, label, option, Query(text, seen[text]), Query(text, plain[text]))
            for q, label, option, text in found
        ]

    @property
    def _viewed(self) -> bool:
        """Whether other tokens are ranked than a token store keeps."""
        return self._view is not self._tokens

    # Text -----------------------------------------------------------------------------------------------------

    def _texts(self, passages: Passages, options: Sequence[_Option]) -> list[list[EvidenceCandidate]]:
        """Text evidence of every option, question by question."""
        settings, made, pools = self._settings, list[list[EvidenceCandidate]](), self._pools(passages, options)
        seen = passages.with_encoder(
            self._view, words=settings.tokens == "words", weighting=settings.weights, titles=settings.titles
        )
        seen.texts(
            sorted_unique(np.concatenate([*pools, np.zeros(0, np.int64)]))
        )  # what is missing is encoded together
        for _, group in groupby(zip(options, pools, strict=True), lambda pair: pair[0].question.question_id):
            of_question, own = zip(*group, strict=True)
            made += self._text_items(seen, of_question, own)
        release_memory()  # else what a large pool took stays with the process, the more the larger the pool
        return made

    def _pools(self, passages: Passages, options: Sequence[_Option]) -> list[IntArray]:
        """The coarse pool of each option: positions of chunks, ascending."""
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

    def _text_items(
        self, seen: EncodedPassages, options: Sequence[_Option], pools: Sequence[IntArray]
    ) -> list[list[EvidenceCandidate]]:
        """Text evidence of one question's options; a query without a single token has none."""
        settings = self._settings
        union = sorted_unique(np.concatenate(pools))
        able = [i for i, option in enumerate(options) if len(option.query)]
        made: list[list[EvidenceCandidate]] = [[] for _ in options]
        if not len(union) or not able:
            return made
        texts, queries = seen.texts(union), [options[i].query for i in able]
        if settings.cost == "fusion":
            all_scores = self._fused(seen, union, queries, texts)
        else:
            all_scores = ranking.score_texts(queries, texts, seen, settings.cost, settings.k)
        for i, scores in zip(able, all_scores, strict=True):
            kept = ranking.top_positions(scores, settings.k)
            made[i] = self._items(seen, options[i], union[kept], scores[kept])
        return made

    def _fused(
        self, seen: EncodedPassages, union: IntArray, queries: Sequence[Query], texts: TextCollection
    ) -> list[Array]:
        """Scores of ``fusion``, raised along the links between the texts that it ranks."""
        deep, weight = self._settings.transported, self._settings.links
        nearest = nearest_cosines([query.tokens.vectors for query in queries], texts)
        made = [ranking.fusion_scores(q, texts, seen, deep, n) for q, n in zip(queries, nearest, strict=True)]
        if not weight:
            return made
        ranked = np.flatnonzero(np.isfinite(made).any(axis=0))
        links = TitleLinks.of(seen.corpus.titles(union[ranked]), seen.corpus.texts(union[ranked]), ranked)
        return [links.raised(scores, n, weight) for scores, n in zip(made, nearest, strict=True)]

    def _items(
        self, seen: EncodedPassages, option: _Option, chunks: IntArray, scores: Array
    ) -> list[EvidenceCandidate]:
        """The kept chunks, nearest first, as evidence: whole, or their best sentences."""
        cost, (pool, tokens) = self._settings.cost, seen.chunks(chunks)
        ids, texts, own_pools = (
            seen.corpus.ids(chunks),
            seen.corpus.texts(chunks),
            [pool.select([n]) for n in range(len(chunks))],
        )
        # The judge reads the encoder's own tokens, so what is ranked by other tokens is judged by its text.
        judged_by_text = self._viewed or self._graph is None
        reasons: list[dict[str, Any]] = []
        for n, score in enumerate(scores.tolist()):
            aligned = ranking.align_words(option.query, texts[n], own_pools[n], tokens[n], seen, cost)
            reasons.append({"cost": cost, "chunk_rank": n + 1, "chunk_score": round(score, 9), "aligned": aligned})
        items = []
        if self._settings.grain == "chunk":
            for n, score in enumerate(scores.tolist()):
                pick = SelectedEvidence(option.label, "chunk", (Parent("chunk", ids[n], ids[n]),), "", texts[n], score)
                items.append(_candidate(pick, reasons[n], None if judged_by_text else own_pools[n].vectors))
            return items
        sentences: list[Sentence] = []
        for n, spans in enumerate(seen.corpus.sentences(chunks)):
            rows = np.arange(pool.offsets[n], pool.offsets[n + 1])
            sentences += ranking.sentences_with_tokens(n, rows, tokens[n].spans[:, 0], spans)
        own = ranking.score_sentences(option.query, sentences, scores, pool, seen, cost)
        for place in ranking.top_positions(own, 2 * self._settings.k):
            sentence, score = sentences[place], float(own[place])
            parents = (Parent("chunk", ids[sentence.chunk], ids[sentence.chunk]),)
            text = texts[sentence.chunk][sentence.start : sentence.end]
            pick = SelectedEvidence(option.label, "sentence", parents, f"{sentence.start}:{sentence.end}", text, score)
            why = {**reasons[sentence.chunk], "sentence_score": round(score, 9)}
            items.append(_candidate(pick, why, None if judged_by_text else pool.vectors[sentence.rows]))
        return items

    # Graph ----------------------------------------------------------------------------------------------------

    def _triple_items(self, options: Sequence[_Option]) -> list[list[EvidenceCandidate]]:
        """Capped candidates of each option, triples that say the same but once."""
        if self._graph is None:
            return [[] for _ in options]
        found = self._graph.candidates([(o.question.text, o.text) for o in options])
        return [self._triples_of(self._graph, o.label, c) for o, c in zip(options, found, strict=True)]

    def _triples_of(self, graph: ConceptTriples, label: str, candidates: TripleCandidates) -> list[EvidenceCandidate]:
        found: dict[str, Any] = {"found": candidates.found, "dropped": candidates.dropped}
        items: dict[str, EvidenceCandidate] = {}
        for c in candidates.triples:
            link = {"concept": c.link.concept, "rule": c.link.rule, "link_score": round(c.link.score, 6)}
            why = {**link, "node": graph.graph.names[c.node], **found}
            pick = edge_evidence(graph.graph, c.edge, 0.0, label, graph.sentence(c.edge), **why)
            items.setdefault(pick.text, EvidenceCandidate(pick))
        return list(items.values())

    # Together -------------------------------------------------------------------------------------------------

    def _ranked(self, option: _Option, picks: Sequence[SelectedEvidence], scores: Array) -> list[SelectedEvidence]:
        """Text and the best triples in one list, by these scores, ties in the order in which they were found."""
        order = np.argsort(-scores.round(9), kind="stable").tolist()
        triples = [i for i in order if picks[i].kind == "triple"][: self._settings.s]
        kept = [i for i in order if picks[i].kind != "triple" or i in triples]
        return [replace(picks[i], score=float(scores[i]), why=_with_stance(option, picks[i])) for i in kept]


def blend_scores(own: Array, judged: Array, texts: int, share: float) -> Array:
    """The judge's scores, in which the first ``texts`` also keep their own order.

    Own scores are brought to the mean and the spread that the judge gives the same texts; the judge's ``share`` is the
    weight of its score in the mean of both. Triples have no score but the judge's.
    """
    mine, theirs = own[:texts], judged[:texts]
    spread = float(mine.std()) if texts else 0.0
    if not spread > 0:
        return judged
    placed = theirs.mean() + theirs.std() * (mine - mine.mean()) / spread
    return np.concatenate([share * theirs + (1 - share) * placed, judged[texts:]])


def _with_stance(option: _Option, pick: SelectedEvidence) -> str:
    """Why a row was picked, with what it says of the option."""
    says = classify_stance(option.question.text, option.text, pick.kind, pick.text)
    return json.dumps({**json.loads(pick.why or "{}"), "says": says}, ensure_ascii=False, sort_keys=True)


def _candidate(pick: SelectedEvidence, why: Mapping[str, Any], vectors: npt.NDArray[Any] | None) -> EvidenceCandidate:
    return EvidenceCandidate(replace(pick, why=json.dumps(why, ensure_ascii=False, sort_keys=True)), vectors)
