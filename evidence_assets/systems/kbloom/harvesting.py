"""K-Bloom: harvests the triples of a relation from a masked model, a prompt and a few seed pairs.

The three published stages: prompt mining, tuple search and triple scoring. The BertNet baseline shares the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import PositiveInt

from evidence_assets.experiment.rows import batches
from evidence_assets.harvest import bertnet_prompts, prompt_mining, triple_scoring, tuple_search
from evidence_assets.harvest.prompt_mining import CertaintyForm, EntityPair, MinedPrompt, MiningModels, PromptSetting
from evidence_assets.harvest.triple_metrics import find_supporting_prompts, flag_contradictions
from evidence_assets.harvest.triple_scoring import FinalForm, FluencyForm, GroundDistance, ScoredSentence, WeightForm
from evidence_assets.harvest.tuple_search import FillQuery, ScoredPair
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import MaskedLM, WordVectors
from evidence_assets.retrieval.bm25 import text_weights
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.text.prompt_text import HEAD, MASK_SLOT, TAIL, as_sentence, entity_word_positions, fill_prompt

if TYPE_CHECKING:  # it imports torch
    from evidence_assets.models.sequence_models import TextLikelihood

LOG_PROBS_PER_BATCH = 1 << 24
"""Log-probabilities in memory when pairs are rated by each prompt (64 MB)."""
MAX_STORED_LOG_PROBS = 1 << 24
"""Log-probabilities of a search that are stored, because it asks again: of a large vocabulary, the first (64 MB)."""
WORDS_QUERY = (
    "SELECT DISTINCT unnest(regexp_extract_all(lower(text), '[\\pL\\pN]+')) AS word FROM chunks "
    "WHERE asset = 'corpus/{}/chunks' ORDER BY word"
)
"""The words of a corpus."""
EntityKinds = Mapping[str, frozenset[str]]
"""Kinds of each entity, by its name in lower case."""


@dataclass(frozen=True)
class MiningSettings:
    """Settings of stage 1. ``prompts`` is the published prompt setting, ``variant`` the method."""

    variant: tuple_search.ScoreForm = "kbloom"
    prompts: PromptSetting = "multi"
    max_prompts: int = 20
    prompt_choice: CertaintyForm = "probable"


@dataclass(frozen=True)
class SearchSettings(MiningSettings):
    """Settings of stages 1 and 2, which decide the candidates. ``n`` limits the pairs of each heap."""

    n: PositiveInt = 1000
    max_occurrences: int | None = 10
    batch_size: int = 64


@dataclass(frozen=True)
class KBloomSettings(SearchSettings):
    """Settings of all stages. ``n`` also limits the triples.

    For the published formulas, set ``prompt_choice``, ``fluency`` and ``final`` to ``printed`` and ``bm25`` to
    ``corpus``. The defaults of the first two differ because their printed forms prefer improbable text.
    """

    ground: GroundDistance = "cosine"
    bm25: WeightForm = "sentence"
    fluency: FluencyForm = "corrected"
    final: FinalForm = "printed"


Stages = TypeVar("Stages", bound=MiningSettings)


def narrow_settings(settings: MiningSettings, stages: type[Stages]) -> Stages:
    """The settings of fewer stages.

    >>> narrow_settings(KBloomSettings(prompts="top1", final="distance"), MiningSettings)
    MiningSettings(variant='kbloom', prompts='top1', max_prompts=20, prompt_choice='probable')
    """
    return stages(**{field.name: getattr(settings, field.name) for field in fields(stages)})


class KeptPrompt(NamedTuple):
    """A prompt that the search uses, with its normalised weight."""

    text: str
    weight: float


@dataclass(frozen=True)
class Candidate(ScoredPair):
    """A pair that the search found; ``agreement`` is the share of the prompts that find it on their own."""

    agreement: float


@dataclass(frozen=True)
class HarvestedTriple:
    """A harvested pair with its scores and rank.

    ``semantic`` is a distance (smaller is nearer) and ``fluency`` a score; both are None for the baseline, whose
    ``score`` is its search score. ``agreement`` is that of its candidate. ``flags`` can be ``seed``; ``second_tail``:
    the relation is functional and the head has several tails; ``unknown_kind``: the relation restricts the kinds of
    entities and the kind of the head or tail is unknown.
    """

    head: str
    tail: str
    score: float
    semantic: float | None
    fluency: float | None
    agreement: float
    rank: int = 0
    flags: tuple[str, ...] = ()


def search_candidates(
    relation: Relation, model: MaskedLM, prompts: Sequence[KeptPrompt], settings: SearchSettings
) -> tuple[list[Candidate], list[tuple[int, ...]]]:
    """The candidates of a relation (stage 2), best first, and for each the prompts that find it on their own."""
    texts = [prompt.text for prompt in prompts]
    queries = PromptQueries(model, texts, entity_word_positions(model.vocabulary, [relation.prompt, *texts]))
    pairs = tuple_search.search_tuples(
        queries.log_probs,
        queries.words,
        [prompt.weight for prompt in prompts],
        n=settings.n,
        max_occurrences=settings.max_occurrences,
        variant=settings.variant,
        batch_size=settings.batch_size,
    )
    finders = find_supporting_prompts(queries.pair_log_likelihoods(pairs), [pair.shape for pair in pairs])
    agreements = [len(numbers) / len(prompts) for numbers in finders]
    return [Candidate(**asdict(pair), agreement=share) for pair, share in zip(pairs, agreements, strict=True)], finders


def score_candidates(
    relation: Relation,
    candidates: Sequence[Candidate],
    model: MaskedLM,
    settings: KBloomSettings,
    kinds: EntityKinds | None = None,
    causal: TextLikelihood | None = None,
) -> list[HarvestedTriple]:
    """The triples of a relation (stage 3), best first.

    A pair with an entity of a kind that the relation does not allow becomes no triple.

    ``causal``: Rates the fluency of filled prompts; by default the masked model does.
    """
    allowed = [pair for pair in candidates if matches_kinds(relation, pair.head, pair.tail, kinds) is not False]
    if not allowed:
        return []
    ratings = _rate_pairs(relation, allowed, model, settings, causal)
    triples = [
        HarvestedTriple(pair.head, pair.tail, *rating, pair.agreement)
        for pair, rating in zip(allowed, ratings, strict=True)
    ]
    triples.sort(key=lambda triple: (-triple.score, triple.head, triple.tail))
    return list(_flag_triples(relation, triples[: settings.n], kinds))


def _rate_pairs(
    relation: Relation,
    pairs: Sequence[ScoredPair],
    model: MaskedLM,
    settings: KBloomSettings,
    causal: TextLikelihood | None,
) -> Iterable[tuple[float, float | None, float | None]]:
    """Score, semantic distance and fluency of each pair; the baseline has the score of its search alone."""
    if settings.variant == "bertnet":
        return ((pair.score, None, None) for pair in pairs)
    distances, fluencies = score_pairs(relation, pairs, model, settings, causal)
    scores = triple_scoring.final_scores(distances, fluencies, len(relation.pairs), settings.final)
    return zip(scores.tolist(), distances.tolist(), fluencies.tolist(), strict=True)


def _flag_triples(
    relation: Relation, triples: Sequence[HarvestedTriple], kinds: EntityKinds | None
) -> Iterator[HarvestedTriple]:
    """Triples, best first, with their ranks and flags."""
    seeds = {(head.casefold(), tail.casefold()) for head, tail in relation.pairs}
    clashes = flag_contradictions([(triple.head, triple.tail) for triple in triples])
    for rank, (triple, clash) in enumerate(zip(triples, clashes, strict=True), 1):
        conditions = {
            "seed": (triple.head.casefold(), triple.tail.casefold()) in seeds,
            "second_tail": relation.functional and clash,
            "unknown_kind": matches_kinds(relation, triple.head, triple.tail, kinds) is not True,
        }
        yield replace(triple, rank=rank, flags=tuple(flag for flag, is_set in conditions.items() if is_set))


def mine_relation_prompts(
    relation: Relation, models: MiningModels, settings: MiningSettings, kbloom_texts: Sequence[str] = ()
) -> list[MinedPrompt]:
    """Mine the prompts of one relation (stage 1), by K-Bloom's method or the baseline's.

    The baseline paraphrases the prompt with ``models.paraphrase`` if there is one. Otherwise it weights K-Bloom's
    prompts, ``kbloom_texts``.
    """
    prompt = relation.prompt
    setting = settings.prompts
    n = settings.max_prompts
    if settings.variant == "kbloom":
        choice = settings.prompt_choice
        return prompt_mining.mine_prompts(prompt, relation.pairs, models, setting=setting, n=n, choice=choice)
    candidates: list[str] = []
    if setting != "initial" and models.paraphrase is not None:
        candidates = bertnet_prompts.reword_prompt(prompt, relation.pairs, models.paraphrase)
    elif setting != "initial":
        candidates = bertnet_prompts.select_distinct(text for text in kbloom_texts if text != prompt)
    score = partial(_bertnet_pair_scores, models.masked)
    return bertnet_prompts.mine_bertnet_prompts(prompt, relation.pairs, candidates, score, setting=setting, n=n)


def _bertnet_pair_scores(model: MaskedLM, prompt_pairs: Sequence[tuple[str, EntityPair]]) -> list[float]:
    """BertNet's score of each pair in its prompt; the head's words are filled in before the tail's."""
    texts = []
    words = []
    slots = []
    for prompt, (head, tail) in prompt_pairs:
        head_words = head.split()
        tail_words = tail.split()
        masks = (" ".join([MASK_SLOT] * len(part)) for part in (head_words, tail_words))
        texts.append(as_sentence(fill_prompt(prompt, *masks)))
        words.append([*head_words, *tail_words])
        positions = list(range(len(words[-1])))
        n_before = len(tail_words) if prompt.index(TAIL) < prompt.index(HEAD) else 0
        slots.append(positions[n_before:] + positions[:n_before])
    log_probs = model.fill_log_probs(texts, words, slots)
    return [
        tuple_search.bertnet_score(values[: len(head.split())].tolist(), values[len(head.split()) :].tolist())
        for values, (_, (head, _)) in zip(log_probs, prompt_pairs, strict=True)
    ]


def check_seeds(relation: Relation, model: MaskedLM, corpus: str) -> None:
    """Raise BadInput if the tokenizer lacks words of the prompt or seeds.

    ``corpus``: The corpus that the model was trained on; empty for models of the hub.
    """
    remedy = "Use words of its vocabulary"
    if corpus:
        remedy = (
            f'It knows the words of the corpus {corpus!r}, which `evidence query "{WORDS_QUERY.format(corpus)}"` '
            "lists. Add texts with these words to the corpus, or set harvesting.corpus in the profile to your own"
        )
    entities = [name for pair in relation.pairs for name in pair]
    for field, texts in (("prompt", [fill_prompt(relation.prompt, " ", " ")]), ("pairs", entities)):
        unknown_words = dict.fromkeys(word for text in texts for word in model.find_unknown_words(text))
        if unknown_words:
            words = ", ".join(map(repr, unknown_words))
            message = f"relation {relation.id!r}: {model.model_id} does not know the words {words}. {remedy}"
            raise BadInput(message, field=field)


def check_kinds(relation: Relation, kinds: EntityKinds | None) -> None:
    """Raise BadInput if the relation restricts the kinds of entities but the kinds are unknown."""
    for field, allowed in (("head_kinds", relation.head_kinds), ("tail_kinds", relation.tail_kinds)):
        if allowed and kinds is None:
            raise BadInput(
                f"relation {relation.id!r} allows only {', '.join(allowed)}, but the kinds of entities are unknown. "
                "Set `kinds` of the variant to an asset of triples with types, or remove the field",
                field=field,
            )


def matches_kinds(relation: Relation, head: str, tail: str, kinds: EntityKinds | None) -> bool | None:
    """Whether head and tail are of the kinds that the relation allows; None if the kind of one is unknown."""
    result: bool | None = True
    for name, allowed in ((head, relation.head_kinds), (tail, relation.tail_kinds)):
        entity_kinds = (kinds or {}).get(name.casefold(), frozenset())
        if allowed and entity_kinds and entity_kinds.isdisjoint(allowed):
            return False
        if allowed and not entity_kinds:
            result = None
    return result


class PromptQueries:
    """Renders search queries as texts and runs them through a masked model.

    ``allowed``: Positions of the model's vocabulary that entities may use; ``words``: the words there.
    """

    def __init__(self, model: MaskedLM, prompts: Sequence[str], allowed: npt.NDArray[np.intp]) -> None:
        self._model = model
        self._allowed = allowed
        self.words = [model.vocabulary[position] for position in allowed]
        self._position = {word: position for position, word in enumerate(self.words)}
        self._stored: dict[FillQuery, npt.NDArray[np.float32]] = {}
        self._prompts = [as_sentence(prompt) for prompt in prompts]
        self._tail_first = [prompt.index(TAIL) < prompt.index(HEAD) for prompt in prompts]

    def log_probs(self, queries: Sequence[FillQuery]) -> npt.NDArray[np.float32]:
        """Log-probabilities of all words for each query; the model runs once for a query whose answer is stored."""
        new = [query for query in queries if query not in self._stored]
        answers: dict[FillQuery, npt.NDArray[np.float32]] = {}
        if new:
            texts, slots = self.render(new)
            answers = dict(zip(new, self._model.slot_log_probs(texts, slots, self._allowed), strict=True))
        rows = np.stack([self._stored[query] if query in self._stored else answers[query] for query in queries])
        if (len(self._stored) + len(answers)) * len(self.words) <= MAX_STORED_LOG_PROBS:
            self._stored |= answers
        return rows

    def pair_log_likelihoods(self, pairs: Sequence[ScoredPair]) -> npt.NDArray[np.float64]:
        """Log-likelihood of each pair under each prompt alone (pairs × prompts)."""
        requests: dict[FillQuery, list[tuple[int, int]]] = {}
        for row, pair in enumerate(pairs):
            words = tuple(self._position[word] for word in f"{pair.head} {pair.tail}".split(" "))
            for prompt, position in product(range(len(self._prompts)), range(len(words))):
                query = FillQuery(prompt, pair.shape, words[:position])
                requests.setdefault(query, []).append((row, words[position]))
        result = np.zeros((len(pairs), len(self._prompts)))
        for block in batches(list(requests), max(1, LOG_PROBS_PER_BATCH // max(1, len(self.words)))):
            for query, log_probs in zip(block, self.log_probs(block), strict=True):
                for row, word in requests[query]:
                    result[row, query.prompt] += log_probs[word]
        return result

    def render(self, queries: Sequence[FillQuery]) -> tuple[list[str], list[int]]:
        """The text of each query and the position of its slot to predict."""
        texts = []
        slots = []
        for query in queries:
            head_length, tail_length = query.shape
            words = [self.words[word] for word in query.filled]
            words += [MASK_SLOT] * (head_length + tail_length - len(words))
            head = " ".join(words[:head_length])
            tail = " ".join(words[head_length:])
            texts.append(fill_prompt(self._prompts[query.prompt], head, tail))
            in_head = len(query.filled) < head_length
            slots.append(tail_length if in_head and self._tail_first[query.prompt] else 0)
        return texts, slots


def score_pairs(
    relation: Relation,
    candidates: Sequence[ScoredPair],
    model: MaskedLM,
    settings: KBloomSettings,
    causal: TextLikelihood | None = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Semantic distance and fluency (stage 3) of each candidate, from the initial prompt filled with it.

    Log-probabilities of words are those of the causal model. Without one, the masked model hides the words on the right
    for the ``printed`` fluency, and only the word itself for the other forms.
    """
    n = len(candidates)
    pairs = [(pair.head, pair.tail) for pair in candidates]
    texts = prompt_mining.fill_pairs([relation.prompt], [*pairs, *relation.pairs])
    vectors = model.word_vectors(texts)
    weight_of = triple_scoring.fit_sentence_idf(item.words for item in vectors)
    sentences = _weigh_words(vectors, weight_of, settings.bm25)
    distances = triple_scoring.semantic_distances(sentences[:n], sentences[n:], ground=settings.ground)
    if causal is not None:
        log_probs = [np.asarray([mean]) for mean in causal.mean_log_probs(texts[:n])]
    else:
        log_probs = model.word_log_probs(texts[:n], "left" if settings.fluency == "printed" else "both")
    fluencies = [
        triple_scoring.fluency(values, np.asarray([weight_of(word) for word in item.words]), settings.fluency)
        for values, item in zip(log_probs, vectors[:n], strict=True)
    ]
    return distances, np.asarray(fluencies)


def _weigh_words(
    sentences: Sequence[WordVectors], weight_of: Callable[[str], float], form: WeightForm
) -> list[ScoredSentence]:
    """Sentences with the BM25 weights of their words."""
    words = [[word.casefold() for word in sentence.words] for sentence in sentences]
    mean_length = float(np.mean([len(sentence) for sentence in words]))
    weights = [text_weights(sentence, weight_of, mean_length) for sentence in words]
    if form == "corpus":
        weights = triple_scoring.sum_weights(words, weights)
    return [ScoredSentence(mass, sentence.vectors) for mass, sentence in zip(weights, sentences, strict=True)]
