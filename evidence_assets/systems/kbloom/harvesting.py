"""K-Bloom: knowledge triples out of a masked language model, from a prompt and a few seed pairs.

The three published stages put together, and the baseline in the same code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evidence_assets.harvest import bertnet_prompts, prompt_mining, triple_scoring, tuple_search
from evidence_assets.harvest.prompt_mining import CertaintyForm, EntityPair, MinedPrompt, MiningModels, PromptSetting
from evidence_assets.harvest.triple_metrics import find_supporting_prompts, flag_contradictions
from evidence_assets.harvest.triple_scoring import FinalForm, FluencyForm, GroundDistance, ScoredSentence
from evidence_assets.harvest.tuple_search import FillQuery, ScoredPair
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import MaskedLM
from evidence_assets.retrieval.bm25 import text_weights
from evidence_assets.systems.kbloom.seeds import Relation, locate_error
from evidence_assets.text.prompt_text import HEAD, MASK_SLOT, TAIL, as_sentence, entity_word_positions, fill_prompt

QUERIES_PER_BATCH = 4096
EntityKinds = Mapping[str, frozenset[str]]
"""What is known of entities: the kinds of each, by its name in lower case."""


@dataclass(frozen=True)
class KBloomSettings:
    """One variant of the system.

    ``prompts`` is the published prompt setting; ``n`` the pairs of each heap and the triples kept at the end. The
    published formulas are ``prompt_choice``, ``fluency`` and ``final`` set to ``printed``; the defaults differ in the
    first two, whose printed forms prefer improbable text.
    """

    variant: tuple_search.ScoreForm = "kbloom"
    prompts: PromptSetting = "multi"
    max_prompts: int = 20
    prompt_choice: CertaintyForm = "probable"
    n: int = 1000
    max_occurrences: int | None = 10
    ground: GroundDistance = "cosine"
    fluency: FluencyForm = "corrected"
    final: FinalForm = "printed"
    batch_size: int = 64


@dataclass(frozen=True)
class HarvestedTriple:
    """A kept pair, best first.

    ``semantic`` is a distance (smaller is nearer) and ``fluency`` a score; both are None for the baseline, whose
    ``score`` is its search score. ``agreement`` is the share of the kept prompts that would find the pair by
    themselves, ``found_by`` their positions in ``Harvest.prompts``. ``flags``: ``seed``; ``second_tail``, in a
    functional relation a head that was given several tails; ``unknown_kind``, where the relation allows certain kinds
    of entities only and nothing says of what kind one of the pair's is.
    """

    head: str
    tail: str
    score: float
    semantic: float | None
    fluency: float | None
    rank: int
    agreement: float
    found_by: tuple[int, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Harvest:
    """What one relation yielded; ``candidates`` are what the search found, by descending score."""

    variant: tuple_search.ScoreForm
    prompts: tuple[MinedPrompt, ...]
    candidates: tuple[ScoredPair, ...]
    triples: tuple[HarvestedTriple, ...]


def harvest_relation(
    relation: Relation,
    model: MaskedLM,
    prompts: Sequence[MinedPrompt],
    settings: KBloomSettings = KBloomSettings(),
    kinds: EntityKinds | None = None,
) -> Harvest:
    """Harvest one relation with prompts that were mined before.

    Pairs with an entity that is known to be of other kinds than the relation allows are candidates and no triples.
    """
    kept = [(number, prompt) for number, prompt in enumerate(prompts) if prompt.kept]
    texts = [prompt.text for _, prompt in kept]
    vocabulary = model.vocabulary
    allowed = entity_word_positions(vocabulary, [relation.prompt, *texts])
    words = [vocabulary[position] for position in allowed]
    asker = PromptQueries(model, texts, words, allowed)
    candidates = tuple_search.search_tuples(
        asker.log_probs,
        words,
        [prompt.weight for _, prompt in kept],
        n=settings.n,
        max_occurrences=settings.max_occurrences,
        variant=settings.variant,
        batch_size=settings.batch_size,
    )
    found = [pair for pair in candidates if matches_kinds(relation, pair.head, pair.tail, kinds) is not False]
    semantic: Sequence[float | None] = [None] * len(found)
    fluent: Sequence[float | None] = [None] * len(found)
    scores = np.asarray([pair.score for pair in found])
    if settings.variant == "kbloom" and found:
        distances, fluencies = _score_pairs(relation, found, model, settings)
        near = triple_scoring.nearness(distances, len(relation.pairs), settings.ground)
        scores = triple_scoring.final_scores(near, fluencies, settings.final, distances)
        semantic, fluent = distances.tolist(), fluencies.tolist()
    order = sorted(range(len(found)), key=lambda i: (-scores[i], found[i].head, found[i].tail))
    found_by = (
        find_supporting_prompts(asker.pair_log_likelihoods(found), [pair.shape for pair in found]) if found else []
    )
    best = order[: settings.n]
    seeds = {(head.casefold(), tail.casefold()) for head, tail in relation.pairs}
    clashes = flag_contradictions([(found[i].head, found[i].tail) for i in best])
    triples = []
    for rank, (i, clash) in enumerate(zip(best, clashes, strict=True), start=1):
        head, tail = found[i].head, found[i].tail
        holds = {
            "seed": (head.casefold(), tail.casefold()) in seeds,
            "second_tail": relation.functional and clash,
            "unknown_kind": matches_kinds(relation, head, tail, kinds) is not True,
        }
        flags = tuple(flag for flag, true in holds.items() if true)
        finders = tuple(kept[prompt][0] for prompt in found_by[i])
        score, agreement = float(scores[i]), len(finders) / len(kept)
        triple = HarvestedTriple(head, tail, score, semantic[i], fluent[i], rank, agreement, finders, flags)
        triples.append(triple)
    return Harvest(settings.variant, tuple(prompts), tuple(candidates), tuple(triples))


def mine_relation_prompts(
    relation: Relation, models: MiningModels, settings: KBloomSettings, written: Sequence[MinedPrompt] | None = None
) -> list[MinedPrompt]:
    """Stage 1 for one relation: K-Bloom's, or the baseline's own.

    The baseline rewords the prompt where a model for it is named; it else weighs what K-Bloom would have to choose
    from, which ``written`` spares it to write again.
    """
    prompt, pairs, setting, n = relation.prompt, relation.pairs, settings.prompts, settings.max_prompts
    if settings.variant == "kbloom":
        return prompt_mining.mine_prompts(prompt, pairs, models, setting=setting, n=n, choice=settings.prompt_choice)
    candidates: list[str] = []
    if setting != "initial" and models.paraphrase is not None:
        candidates = bertnet_prompts.reword_prompt(prompt, pairs, models.paraphrase)
    elif setting != "initial":
        written = written or mine_relation_prompts(relation, models, replace(settings, variant="kbloom"))
        candidates = bertnet_prompts.select_distinct(one.text for one in written if one.text != prompt)

    def score(asked: Sequence[tuple[str, EntityPair]]) -> list[float]:
        return _bertnet_pair_scores(models.masked, asked)

    return bertnet_prompts.mine_bertnet_prompts(prompt, pairs, candidates, score, setting=setting, n=n)


def _bertnet_pair_scores(model: MaskedLM, asked: Sequence[tuple[str, EntityPair]]) -> list[float]:
    """The baseline's score of each pair in its prompt; the head's words are filled in first, wherever they stand."""
    texts, words, slots, heads = [], [], [], []
    for prompt, (head, tail) in asked:
        first, second = head.split(), tail.split()
        texts.append(
            as_sentence(fill_prompt(prompt, " ".join([MASK_SLOT] * len(first)), " ".join([MASK_SLOT] * len(second))))
        )
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
    """Refuse a relation whose prompt or seeds the model's tokenizer cannot represent; ``folders`` hold its file."""
    fields = [("prompt", fill_prompt(relation.prompt, " ", " "))]
    fields += [("pairs", entity) for pair in relation.pairs for entity in pair]
    for field, text in fields:
        if unknown := model.find_unknown_words(text):
            error = BadInput(
                f"relation {relation.id!r}: the tokenizer of {model.model_id} does not know "
                f"{', '.join(map(repr, unknown))} in {text.strip()!r}; use words that the model knows",
                field=field,
            )
            raise locate_error(error, unknown[0], relation, folders)


def check_kinds(relation: Relation, kinds: EntityKinds | None) -> None:
    """Refuse a relation that allows certain kinds of entities where nothing says of what kind an entity is."""
    if kinds is not None:
        return
    for field, allowed in (("head_kinds", relation.head_kinds), ("tail_kinds", relation.tail_kinds)):
        if allowed:
            raise BadInput(
                f"relation {relation.id!r} allows only {', '.join(allowed)}, but nothing says of what kind an entity "
                "is: name triples with types as `kinds` of the variant, or leave the field out",
                field=field,
            )


def matches_kinds(relation: Relation, head: str, tail: str, kinds: EntityKinds | None) -> bool | None:
    """Whether head and tail are of the kinds that the relation allows; None where that is not known of one."""
    known: bool | None = True
    for name, allowed in ((head, relation.head_kinds), (tail, relation.tail_kinds)):
        own = (kinds or {}).get(name.casefold(), frozenset())
        if allowed and own and own.isdisjoint(allowed):
            return False
        if allowed and not own:
            known = None
    return known


class PromptQueries:
    """Puts search queries to a masked model as texts."""

    def __init__(
        self, model: MaskedLM, prompts: Sequence[str], words: Sequence[str], allowed: npt.NDArray[np.intp]
    ) -> None:
        self._model, self._words, self._allowed = model, words, allowed
        self._position = {word: position for position, word in enumerate(words)}
        self._prompts = [as_sentence(prompt) for prompt in prompts]
        self._tail_first = [prompt.index(TAIL) < prompt.index(HEAD) for prompt in prompts]

    def log_probs(self, queries: Sequence[FillQuery]) -> npt.NDArray[np.float32]:
        texts, slots = self.texts(queries)
        return self._model.slot_log_probs(texts, slots, self._allowed)

    def pair_log_likelihoods(self, pairs: Sequence[ScoredPair]) -> npt.NDArray[np.float64]:
        """Log-likelihood of each pair under each prompt alone (pairs × prompts); equal queries are asked once."""
        wanted: dict[FillQuery, list[tuple[int, int]]] = {}
        for row, pair in enumerate(pairs):
            words = tuple(self._position[word] for word in f"{pair.head} {pair.tail}".split(" "))
            for prompt in range(len(self._prompts)):
                for position, word in enumerate(words):
                    wanted.setdefault(FillQuery(prompt, pair.shape, words[:position]), []).append((row, word))
        result = np.zeros((len(pairs), len(self._prompts)))
        queries = list(wanted)
        for start in range(0, len(queries), QUERIES_PER_BATCH):
            block = queries[start : start + QUERIES_PER_BATCH]
            for query, log_probs in zip(block, self.log_probs(block), strict=True):
                for row, word in wanted[query]:
                    result[row, query.prompt] += log_probs[word]
        return result

    def texts(self, queries: Sequence[FillQuery]) -> tuple[list[str], list[int]]:
        """The texts of queries, and which slot of each is asked."""
        texts, slots = [], []
        for query in queries:
            head_length, tail_length = query.shape
            words = [self._words[word] for word in query.filled]
            words += [MASK_SLOT] * (head_length + tail_length - len(words))
            head, tail = " ".join(words[:head_length]), " ".join(words[head_length:])
            texts.append(fill_prompt(self._prompts[query.prompt], head, tail))
            in_head = len(query.filled) < head_length
            slots.append(tail_length if in_head and self._tail_first[query.prompt] else 0)
        return texts, slots


def _score_pairs(
    relation: Relation, found: Sequence[ScoredPair], model: MaskedLM, settings: KBloomSettings
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Semantic distance and fluency of each found pair, both read from the initial prompt filled with it."""
    pairs = [(pair.head, pair.tail) for pair in found]
    texts = [as_sentence(fill_prompt(relation.prompt, *pair)) for pair in (*pairs, *relation.pairs)]
    vectors = model.word_vectors(texts)
    log_probs = model.word_log_probs(texts[: len(pairs)], "left" if settings.fluency == "printed" else "both")
    weight_of = triple_scoring.fit_sentence_idf([item.words for item in vectors])
    average = float(np.mean([len(item.words) for item in vectors]))
    sentences = [
        ScoredSentence(text_weights([word.casefold() for word in item.words], weight_of, average), item.vectors)
        for item in vectors
    ]
    distances = triple_scoring.semantic_distances(
        sentences[: len(pairs)], sentences[len(pairs) :], ground=settings.ground
    )
    fluencies = [
        triple_scoring.fluency(item.log_probs, np.asarray([weight_of(word) for word in item.words]), settings.fluency)
        for item in log_probs
    ]
    return distances, np.asarray(fluencies)
