"""K-Bloom: knowledge triples out of a masked language model, from a prompt and a few seed pairs.

Belongs here: the three published stages put together, and the baseline in the same code. Each stage is a method of its
own; this module turns their queries into texts for a model and their results into rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evidence_assets.harvest import bertnet_prompts, prompt_mining, triple_scoring, tuple_search
from evidence_assets.harvest.bertnet_prompts import Paraphrase
from evidence_assets.harvest.prompt_mining import Choice, Likeness, MinedPrompt, MiningModels, Setting
from evidence_assets.harvest.prompt_writing import Pair, Sentences, SlotLogProbs, infill_prompts, written_sentences
from evidence_assets.harvest.triple_metrics import contradictions, ranked_agreement
from evidence_assets.harvest.triple_scoring import FinalForm, FluencyForm, Ground, ScoredSentence
from evidence_assets.harvest.tuple_search import FoundPair, Query
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import MaskedLM
from evidence_assets.systems.kbloom.seeds import Relation, located
from evidence_assets.text.prompt_text import HEAD, SLOT, TAIL, as_sentence, entity_words, fill

Kinds = Mapping[str, frozenset[str]]
"""What is known of entities: the kinds of each, by its name in lower case."""


class SentenceEncoder(Protocol):
    """What K-Bloom asks of an encoder."""

    def sentences(self, texts: Sequence[str]) -> npt.NDArray[np.floating]: ...


class Proposer(Protocol):
    """What proposes substitutes for a word of a prompt."""

    @property
    def vocabulary(self) -> Sequence[str]: ...
    @property
    def slot_log_probs(self) -> SlotLogProbs: ...
    @property
    def likeness(self) -> Likeness: ...


@dataclass(frozen=True)
class PromptModels:
    """Models that prompts are written with besides the masked one, which stands in for each that is not named.

    ``write`` makes sentences out of keywords and ``propose`` substitutes, both for K-Bloom; ``paraphrase`` rewords
    sentences for the baseline.
    """

    write: Sentences | None = None
    propose: Proposer | None = None
    paraphrase: Paraphrase | None = None


@dataclass(frozen=True)
class KBloomSettings:
    """One variant of the system.

    ``prompts`` is the published prompt setting; ``n`` the pairs of each heap and the triples kept at the end. The
    published formulas are ``prompt_choice``, ``fluency`` and ``final`` set to ``printed``; the defaults differ in the
    first two, whose printed forms prefer improbable text.
    """

    variant: tuple_search.Variant = "kbloom"
    prompts: Setting = "multi"
    max_prompts: int = 20
    prompt_choice: Choice = "probable"
    n: int = 1000
    max_occurrences: int | None = 10
    ground: Ground = "cosine"
    fluency: FluencyForm = "corrected"
    final: FinalForm = "printed"
    writer_pairs: int = 2
    batch_size: int = 64


@dataclass(frozen=True)
class Candidate:
    """A pair that the search found. ``rank`` counts from 1 over all shapes by descending search score."""

    head: str
    tail: str
    shape: str
    """As ``2-1``: words of the head and of the tail."""
    log_likelihood: float
    rank: int


@dataclass(frozen=True)
class HarvestedTriple:
    """A kept pair, best first.

    ``semantic`` is a distance (smaller is nearer) and ``fluency`` a score; both are None for the baseline, whose
    ``score`` is its search score. ``agreement`` is the share of the kept prompts that would find the pair by
    themselves, ``found_by`` their positions in ``Harvest.prompts``. ``contradicted`` marks, in a functional relation,
    a head that was given several tails; ``kinds_known`` is False where the relation allows certain kinds of entities
    only and nothing says of what kind one of the pair's is.
    """

    head: str
    tail: str
    score: float
    semantic: float | None
    fluency: float | None
    rank: int
    agreement: float
    found_by: tuple[int, ...]
    is_seed: bool
    contradicted: bool
    kinds_known: bool = True


@dataclass(frozen=True)
class Harvest:
    """What one relation yielded, with what it takes to write the tables and their lineage."""

    variant: tuple_search.Variant
    prompts: tuple[MinedPrompt, ...]
    candidates: tuple[Candidate, ...]
    triples: tuple[HarvestedTriple, ...]


def harvest(
    relation: Relation,
    model: MaskedLM,
    encoder: SentenceEncoder,
    settings: KBloomSettings = KBloomSettings(),
    *,
    prompts: Sequence[MinedPrompt] | None = None,
    kinds: Kinds | None = None,
) -> Harvest:
    """Harvest one relation.

    Pairs with an entity that is known to be of other kinds than the relation allows are candidates and no triples.

    ``prompts``: Prompts mined before, for instance to compare variants or disjoint prompt sets; mined here by default.
    ``kinds``: Needed by a relation that names the kinds of its heads or tails.
    """
    check_seeds(relation, model)
    check_kinds(relation, kinds)
    mined = tuple(mine(relation, model, encoder, settings) if prompts is None else prompts)
    kept = [(number, prompt) for number, prompt in enumerate(mined) if prompt.kept]
    texts = [prompt.text for _, prompt in kept]
    vocabulary = model.vocabulary
    allowed = entity_words(vocabulary, [relation.prompt, *texts])
    words = [vocabulary[position] for position in allowed]
    asker = _Asker(model, texts, words, allowed)
    found = tuple_search.search_tuples(
        asker.log_probs,
        words,
        [prompt.weight for _, prompt in kept],
        n=settings.n,
        max_occurrences=settings.max_occurrences,
        variant=settings.variant,
        batch_size=settings.batch_size,
    )
    candidates = tuple(
        Candidate(pair.head, pair.tail, "{}-{}".format(*pair.shape), pair.log_likelihood, rank)
        for rank, pair in enumerate(found, start=1)
    )
    found = [pair for pair in found if fits(relation, pair.head, pair.tail, kinds) is not False]
    semantic: Sequence[float | None] = [None] * len(found)
    fluent: Sequence[float | None] = [None] * len(found)
    scores = np.asarray([pair.score for pair in found])
    if settings.variant == "kbloom" and found:
        distances, fluencies = _stage_three(relation, found, model, settings)
        near = triple_scoring.nearness(distances, len(relation.pairs), settings.ground)
        scores = triple_scoring.final_scores(near, fluencies, settings.final, distances)
        semantic, fluent = distances.tolist(), fluencies.tolist()
    order = sorted(range(len(found)), key=lambda i: (-scores[i], found[i].head, found[i].tail))
    found_by = ranked_agreement(asker.pair_log_likelihoods(found), [pair.shape for pair in found]) if found else []
    best = order[: settings.n]
    seeds = {_same(*pair) for pair in relation.pairs}
    clashes = (
        contradictions([(found[i].head, found[i].tail) for i in best]) if relation.functional else [False] * len(best)
    )
    triples = tuple(
        HarvestedTriple(
            found[i].head,
            found[i].tail,
            float(scores[i]),
            semantic[i],
            fluent[i],
            rank,
            len(found_by[i]) / len(kept),
            tuple(kept[prompt][0] for prompt in found_by[i]),
            _same(found[i].head, found[i].tail) in seeds,
            clash,
            fits(relation, found[i].head, found[i].tail, kinds) is True,
        )
        for rank, (i, clash) in enumerate(zip(best, clashes, strict=True), start=1)
    )
    return Harvest(settings.variant, mined, candidates, triples)


def mine(
    relation: Relation,
    model: MaskedLM,
    encoder: SentenceEncoder,
    settings: KBloomSettings,
    others: PromptModels = PromptModels(),
    written: Sequence[MinedPrompt] | None = None,
) -> list[MinedPrompt]:
    """Stage 1 for one relation: K-Bloom's, or the baseline's own.

    The baseline rewords the prompt where a model for it is named; it else weighs what K-Bloom would have to choose
    from, which ``written`` spares it to write again.
    """
    prompt, pairs = relation.prompt, relation.pairs
    if settings.variant == "bertnet":
        candidates: list[str] = []
        if settings.prompts != "initial" and others.paraphrase is not None:
            candidates = bertnet_prompts.reworded(prompt, pairs, others.paraphrase)
        elif settings.prompts != "initial":
            written = written or mine(relation, model, encoder, replace(settings, variant="kbloom"), others)
            candidates = bertnet_prompts.distinct(one.text for one in written if one.text != prompt)
        return bertnet_prompts.mine_bertnet_prompts(
            prompt,
            pairs,
            candidates,
            lambda asked: _pair_scores(model, asked),
            setting=settings.prompts,
            n=settings.max_prompts,
        )
    vocabulary, proposer = model.vocabulary, others.propose

    def write(orders: Sequence[Sequence[str]], pairs: Sequence[Pair]) -> list[str]:
        if others.write is not None:
            return written_sentences(orders, pairs, others.write)
        return infill_prompts(orders, pairs[: settings.writer_pairs], model.slot_log_probs, vocabulary)

    models = MiningModels(
        proposer.vocabulary if proposer else vocabulary,
        proposer.slot_log_probs if proposer else model.slot_log_probs,
        lambda texts: [item.vectors for item in model.word_vectors(texts)],
        lambda texts: [item.log_probs for item in model.word_log_probs(texts)],
        encoder.sentences,
        write,
        proposer.likeness if proposer else None,
    )
    return prompt_mining.mine_prompts(
        prompt, pairs, models, setting=settings.prompts, n=settings.max_prompts, choice=settings.prompt_choice
    )


def _pair_scores(model: MaskedLM, asked: Sequence[tuple[str, Pair]]) -> list[float]:
    """The baseline's score of each pair in its prompt; the head's words are filled in first, wherever they stand."""
    texts, words, slots, heads = [], [], [], []
    for prompt, (head, tail) in asked:
        first, second = head.split(), tail.split()
        texts.append(as_sentence(fill(prompt, " ".join([SLOT] * len(first)), " ".join([SLOT] * len(second)))))
        tail_first = prompt.index(TAIL) < prompt.index(HEAD)
        before, after = (len(second), 0) if tail_first else (0, len(first))
        words.append([*first, *second])
        slots.append([*range(before, before + len(first)), *range(after, after + len(second))])
        heads.append(len(first))
    found = model.fill_log_probs(texts, words, slots)
    return [
        tuple_search.bertnet_score(own[:size].tolist(), own[size:].tolist())
        for own, size in zip(found, heads, strict=True)
    ]


def check_seeds(relation: Relation, model: MaskedLM, folders: Sequence[Path] = ()) -> None:
    """Refuse a relation whose prompt or seeds the model's tokenizer cannot represent.

    Named are the file and the line, where the relation's seed file lies in one of the ``folders``.
    """
    fields = [("prompt", fill(relation.prompt, " ", " "))]
    fields += [("pairs", entity) for pair in relation.pairs for entity in pair]
    for field, text in fields:
        if not text.strip():
            raise BadInput(f"relation {relation.id!r} has a seed with an empty side", field=field)
        if unknown := model.unrepresentable(text):
            error = BadInput(
                f"relation {relation.id!r}: the tokenizer of {model.model_id} does not know "
                f"{', '.join(map(repr, unknown))} in {text.strip()!r}; use words that the model knows",
                field=field,
            )
            raise located(error, unknown[0], relation, folders)


def check_kinds(relation: Relation, kinds: Kinds | None) -> None:
    """Refuse a relation that allows certain kinds of entities where nothing says of what kind an entity is."""
    if kinds is not None:
        return
    for field, allowed in (("head_kinds", relation.head_kinds), ("tail_kinds", relation.tail_kinds)):
        if allowed:
            raise BadInput(
                f"relation {relation.id!r} allows only {', '.join(allowed)}, but this harvest does not know of what "
                f"kind "
                "an entity is; name a graph with typed nodes as `kinds` of the component, or leave the field out",
                field=field,
            )


def fits(relation: Relation, head: str, tail: str, kinds: Kinds | None) -> bool | None:
    """Whether head and tail are of the kinds that the relation allows; None where that is not known of one."""
    known: bool | None = True
    for name, allowed in ((head, relation.head_kinds), (tail, relation.tail_kinds)):
        own = (kinds or {}).get(name.casefold(), frozenset())
        if allowed and own and own.isdisjoint(allowed):
            return False
        if allowed and not own:
            known = None
    return known


class _Asker:
    """Puts search queries to a masked model as texts."""

    def __init__(
        self, model: MaskedLM, prompts: Sequence[str], words: Sequence[str], allowed: npt.NDArray[np.intp]
    ) -> None:
        self._model, self._words, self._allowed = model, words, allowed
        self._position = {word: position for position, word in enumerate(words)}
        self._prompts = [as_sentence(prompt) for prompt in prompts]
        self._tail_first = [prompt.index(TAIL) < prompt.index(HEAD) for prompt in prompts]

    def log_probs(self, queries: Sequence[Query]) -> npt.NDArray[np.float32]:
        texts, slots = self._texts(queries)
        return self._model.slot_log_probs(texts, slots, self._allowed)

    def pair_log_likelihoods(self, pairs: Sequence[FoundPair]) -> npt.NDArray[np.float64]:
        """Log-likelihood of each pair under each prompt alone (pairs × prompts)."""
        queries: list[Query] = []
        asked: list[tuple[int, int]] = []
        for row, pair in enumerate(pairs):
            words = tuple(self._position[word] for word in f"{pair.head} {pair.tail}".split(" "))
            for prompt in range(len(self._prompts)):
                for position, word in enumerate(words):
                    queries.append(Query(prompt, pair.shape, words[:position]))
                    asked.append((row, word))
        result = np.zeros((len(pairs), len(self._prompts)))
        for query, (row, _), value in zip(queries, asked, self._own(queries, [word for _, word in asked]), strict=True):
            result[row, query.prompt] += value
        return result

    def _own(self, queries: Sequence[Query], words: Sequence[int]) -> npt.NDArray[np.float64]:
        """Log-probability of one word for each query; equal queries are asked once."""
        unique = {query: number for number, query in enumerate(dict.fromkeys(queries))}
        wanted: dict[int, list[int]] = {}
        for index, query in enumerate(queries):
            wanted.setdefault(unique[query], []).append(index)
        values = np.empty(len(queries))
        distinct = list(unique)
        for start in range(0, len(distinct), 4096):
            rows = self.log_probs(distinct[start : start + 4096])
            for offset, row in enumerate(rows):
                for index in wanted[start + offset]:
                    values[index] = row[words[index]]
        return values

    def _texts(self, queries: Sequence[Query]) -> tuple[list[str], list[int]]:
        texts, slots = [], []
        for query in queries:
            head_length, tail_length = query.shape
            words = [self._words[word] for word in query.filled]
            words += [SLOT] * (head_length + tail_length - len(words))
            texts.append(
                fill(self._prompts[query.prompt], " ".join(words[:head_length]), " ".join(words[head_length:]))
            )
            in_head = len(query.filled) < head_length
            slots.append(tail_length if in_head and self._tail_first[query.prompt] else 0)
        return texts, slots


def _stage_three(
    relation: Relation,
    found: Sequence[FoundPair],
    model: MaskedLM,
    settings: KBloomSettings,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Semantic distance and fluency of each found pair, both read from the initial prompt filled with it."""
    pairs = [(pair.head, pair.tail) for pair in found]
    texts = [as_sentence(fill(relation.prompt, *pair)) for pair in (*pairs, *relation.pairs)]
    vectors = model.word_vectors(texts)
    log_probs = model.word_log_probs(texts[: len(pairs)], "left" if settings.fluency == "printed" else "both")
    weight_of = triple_scoring.sentence_idf([item.words for item in vectors])
    average = float(np.mean([len(item.words) for item in vectors]))
    sentences = [
        ScoredSentence(triple_scoring.bm25_weights(item.words, weight_of, average), item.vectors) for item in vectors
    ]
    distances = triple_scoring.semantic_distances(
        sentences[: len(pairs)], sentences[len(pairs) :], ground=settings.ground
    )
    fluencies = [
        triple_scoring.fluency(item.log_probs, np.asarray([weight_of(word) for word in item.words]), settings.fluency)
        for item in log_probs
    ]
    return distances, np.asarray(fluencies)


def _same(head: str, tail: str) -> tuple[str, str]:
    return head.casefold(), tail.casefold()
