"""K-Bloom end to end on a model trained on the facts of a tiny world."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from evidence_assets.harvest.prompt_mining import MinedPrompt, MiningModels
from evidence_assets.harvest.triple_metrics import judge_relevance
from evidence_assets.harvest.triple_scoring import FluencyForm, WeightForm, final_scores, fit_sentence_idf
from evidence_assets.harvest.tuple_search import FillQuery, ScoredPair, search_tuples
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import MaskedLM
from evidence_assets.models.sequence_models import TextLikelihood
from evidence_assets.systems.kbloom import harvesting
from evidence_assets.systems.kbloom.harvesting import (
    Candidate,
    EntityKinds,
    HarvestedTriple,
    KBloomSettings,
    KeptPrompt,
    PromptQueries,
    check_kinds,
    check_seeds,
    matches_kinds,
    mine_relation_prompts,
    score_candidates,
    score_pairs,
    search_candidates,
)
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.text.prompt_text import as_sentence, fill_prompt
from evidence_assets_tests.models.test_sequence_models import make_gpt2
from evidence_assets_tests.models.tiny import WORDINGS, byte_pair, tiny_model, tiny_world, word_piece

WEIGHT_FORMS: tuple[WeightForm, ...] = ("sentence", "corpus")
SMALL_SETTINGS = KBloomSettings(n=40, max_prompts=4)


class LetterEncoder:
    """Encodes a sentence by its letter counts, so sentences with many common words are similar."""

    def encode_sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        return np.asarray(
            [[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float
        )


def make_relation(name: str = "eats", seeds: int = 5, **changes: object) -> Relation:
    prompt = WORDINGS[name][0]
    relation = Relation(name, "tiny", prompt, tuple(tiny_world().training_facts[name][:seeds]), prompt)
    return replace(relation, **changes)  # type: ignore[arg-type]


@cache
def mine_eats_prompts() -> tuple[MinedPrompt, ...]:
    return tuple(mine_relation_prompts(make_relation(), make_models(), SMALL_SETTINGS))


def make_models(**others: object) -> MiningModels:
    return MiningModels(tiny_model(), LetterEncoder(), **others)  # type: ignore[arg-type]


class Harvest(NamedTuple):
    """The candidates of a relation, the prompts that find each, and the triples."""

    candidates: list[Candidate]
    finders: list[tuple[int, ...]]
    triples: list[HarvestedTriple]


def harvest_relation(
    relation: Relation,
    model: MaskedLM,
    prompts: Sequence[MinedPrompt],
    settings: KBloomSettings,
    kinds: EntityKinds | None = None,
) -> Harvest:
    kept_prompts = [KeptPrompt(prompt.text, prompt.weight) for prompt in prompts if prompt.kept]
    candidates, finders = search_candidates(relation, model, kept_prompts, settings)
    return Harvest(candidates, finders, score_candidates(relation, candidates, model, settings, kinds))


def score_harvest(result: Harvest, name: str = "eats") -> tuple[float, float, float]:
    """Precision@10, recall of stated facts, recall of unstated facts; without seeds."""
    world = tiny_world()
    facts = [(triple.head, name, triple.tail) for triple in result.triples]
    seeds = [(head, name, tail) for head, tail in world.training_facts[name][:5]]
    stated_facts = [(head, name, tail) for head, tail in world.training_facts[name]]
    hits, truths = judge_relevance(facts, stated_facts, exclude=seeds)
    false_hits, n_unstated = judge_relevance(
        facts, [(head, name, tail) for head, tail in world.held_out_facts[name]], exclude=seeds
    )
    return sum(hits[:10]) / 10, sum(hits) / truths, sum(false_hits[:20]) / n_unstated


def test_the_harvest_recovers_the_stated_facts() -> None:
    result = harvest_relation(make_relation(), tiny_model(), mine_eats_prompts(), SMALL_SETTINGS)
    precision, recall, false_recall = score_harvest(result)
    assert precision >= 0.5 and recall >= 0.5
    assert false_recall <= 0.3


def test_a_harvest_is_deterministic_and_consistent() -> None:
    arguments = make_relation(functional=True), tiny_model(), mine_eats_prompts()
    first = harvest_relation(*arguments, SMALL_SETTINGS)
    assert first == harvest_relation(*arguments, replace(SMALL_SETTINGS, batch_size=7))
    assert sum(prompt.weight for prompt in mine_eats_prompts()) == pytest.approx(1)
    assert max(Counter(candidate.shape for candidate in first.candidates).values()) <= 40
    agreements = {(candidate.head, candidate.tail): candidate.agreement for candidate in first.candidates}
    assert len(first.triples) == 40 and [triple.rank for triple in first.triples] == list(range(1, 41))
    assert all(agreements[triple.head, triple.tail] == triple.agreement for triple in first.triples)
    scores = [triple.score for triple in first.triples]
    distances = np.asarray([triple.semantic for triple in first.triples], float)
    fluencies = np.asarray([triple.fluency for triple in first.triples], float)
    np.testing.assert_allclose(final_scores(distances, fluencies, 5), scores)
    n_kept = sum(prompt.kept for prompt in mine_eats_prompts())
    assert [len(numbers) / n_kept for numbers in first.finders] == [pair.agreement for pair in first.candidates]
    assert {(triple.head, triple.tail) for triple in first.triples if "seed" in triple.flags} <= set(
        make_relation().pairs
    )
    tails = Counter(triple.head for triple in first.triples)
    assert all(("second_tail" in triple.flags) == (tails[triple.head] > 1) for triple in first.triples)


def test_all_pairs_of_a_relation_are_seeds_also_beyond_the_published_five() -> None:
    relation = make_relation(seeds=9)
    result = harvest_relation(
        relation, tiny_model(), mine_relation_prompts(relation, make_models(), SMALL_SETTINGS), SMALL_SETTINGS
    )
    flagged = {(triple.head, triple.tail) for triple in result.triples if "seed" in triple.flags}
    assert flagged <= set(relation.pairs) and flagged & set(relation.pairs[5:])


@pytest.mark.parametrize("build", [word_piece, byte_pair])
def test_queries_become_texts_for_any_tokenizer(build: object) -> None:
    """The predicted slot is that of the next word, also in a prompt with the tail first."""
    model = build()  # type: ignore[operator]
    words = [word for word in model.vocabulary if len(word) > 2]
    allowed = np.asarray([model.vocabulary.index(word) for word in words])
    prompt_queries = PromptQueries(model, ["<HEAD> is near <TAIL>", "the <TAIL> holds a <HEAD>!"], allowed)
    queries = [FillQuery(prompt, (2, 2), filled) for prompt in (0, 1) for filled in ((), (0, 1), (0, 1, 0))]
    mask, a, b = "<MASK>", words[0], words[1]
    texts = [f"{mask} {mask} is near {mask} {mask}.", f"{a} {b} is near {mask} {mask}.", f"{a} {b} is near {a} {mask}."]
    texts += [f"the {mask} {mask} holds a {mask} {mask}!", f"the {mask} {mask} holds a {a} {b}!"]
    assert prompt_queries.render(queries) == ([*texts, f"the {a} {mask} holds a {a} {b}!"], [0, 0, 0, 2, 0, 0])
    pairs = search_tuples(prompt_queries.log_probs, words, (0.5, 0.5), n=5)
    log_likelihoods = prompt_queries.pair_log_likelihoods(pairs)
    np.testing.assert_allclose(log_likelihoods.mean(axis=1), [pair.log_likelihood for pair in pairs], atol=1e-4)


def test_each_query_of_a_search_and_its_agreement_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for no answers, the result is the same."""
    texts: list[tuple[str, int]] = []
    model = tiny_model()
    slot_log_probs = model.slot_log_probs

    def count(*arguments: Any) -> Any:
        texts.extend(zip(*arguments[:2], strict=True))
        return slot_log_probs(*arguments)

    monkeypatch.setattr(model, "slot_log_probs", count)
    prompts = [KeptPrompt(prompt.text, prompt.weight) for prompt in mine_eats_prompts() if prompt.kept]
    result = search_candidates(make_relation(), model, prompts, SMALL_SETTINGS)
    assert len(texts) == len(set(texts)) > 0
    monkeypatch.setattr(harvesting, "MAX_STORED_LOG_PROBS", 0)
    assert search_candidates(make_relation(), model, prompts, SMALL_SETTINGS) == result
    assert len(texts) > 2 * len(set(texts))


def test_the_error_names_a_seed_that_the_tokenizer_cannot_represent() -> None:
    (head, tail), *_ = make_relation().pairs
    relation = make_relation(pairs=(("Zzyx", tail), (head, "Quux"), ("Zzyx", head)))
    message = r"pairs: relation 'eats': tiny-sample does not know the words 'Zzyx', 'Quux'"
    with pytest.raises(BadInput, match=message + r"[^']*\. Use words of its vocabulary"):
        check_seeds(relation, tiny_model(), "")
    with pytest.raises(
        BadInput, match=message + r".* FROM chunks WHERE asset = 'corpus/notes/chunks'.*harvesting\.corpus"
    ):
        check_seeds(relation, tiny_model(), "notes")
    with pytest.raises(BadInput, match=r"prompt: .*'devours'"):
        check_seeds(make_relation(prompt="<HEAD> devours <TAIL>"), tiny_model(), "")


def test_known_entities_of_other_kinds_are_no_triples_and_unknown_ones_are_flagged() -> None:
    unrestricted = harvest_relation(make_relation(), tiny_model(), mine_eats_prompts(), SMALL_SETTINGS)
    heads = sorted({triple.head for triple in unrestricted.triples})
    kinds = {heads[0]: frozenset({"rock"}), heads[1]: frozenset({"animal", "pet"})}
    restricted_relation = make_relation(head_kinds=("animal",))
    restricted = harvest_relation(restricted_relation, tiny_model(), mine_eats_prompts(), SMALL_SETTINGS, kinds)
    assert restricted.candidates == unrestricted.candidates
    assert heads[0] not in {triple.head for triple in restricted.triples}
    assert {triple.head for triple in restricted.triples if "unknown_kind" not in triple.flags} == {heads[1]}
    assert not any("unknown_kind" in triple.flags for triple in unrestricted.triples)
    assert matches_kinds(restricted_relation, heads[1].upper(), "anything", kinds) is True
    with pytest.raises(BadInput, match="head_kinds: relation 'eats' allows only animal"):
        check_kinds(restricted_relation, None)


def test_the_baseline_weighs_prompts_of_its_own() -> None:
    baseline = replace(SMALL_SETTINGS, variant="bertnet", max_prompts=20)
    kbloom_prompts = mine_eats_prompts()
    kbloom_texts = [one.text for one in kbloom_prompts]
    prompts = mine_relation_prompts(make_relation(), make_models(), baseline, kbloom_texts)
    assert {one.text for one in prompts} <= {one.text for one in kbloom_prompts} and prompts[0].bert_score is None
    assert sum(one.weight for one in prompts) == pytest.approx(1)
    assert [one.weight for one in prompts if one.kept] != [one.weight for one in kbloom_prompts if one.kept]
    wordings = ["{0} feeds on {1}.", "the diet of {0} is {1}.", "{1} is the food of {0}", "nobody knows"]
    pairs = {as_sentence(fill_prompt(make_relation().prompt, *pair)): pair for pair in make_relation().pairs}
    paraphrasing = make_models(
        paraphrase=lambda texts: [[s.format(*pairs[t]) for s in wordings] if t in pairs else [] for t in texts]
    )
    paraphrased = mine_relation_prompts(make_relation(), paraphrasing, baseline)
    assert {one.text for one in paraphrased} == set(WORDINGS["eats"])
    (initial,) = mine_relation_prompts(make_relation(), paraphrasing, replace(baseline, prompts="initial"))
    assert initial.text == make_relation().prompt
    result = harvest_relation(make_relation(), tiny_model(), paraphrased, baseline)
    assert score_harvest(result)[0] >= 0.4


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> TextLikelihood:
    return TextLikelihood(make_gpt2(tmp_path_factory.mktemp("models") / "tiny-gpt2"), device="cpu")


@pytest.mark.parametrize("form", ["printed", "corrected"])
def test_fluency_has_either_sign_and_its_context_is_on_the_left(form: FluencyForm, gpt2: TextLikelihood) -> None:
    """By a causal model with both signs; without one, by the masked model, whose context is the left for 5.18 only."""
    relation, model = make_relation(), tiny_model()
    facts = tiny_world().training_facts["eats"][5:8]
    candidates = [ScoredPair(head, tail, (1, 1), 0.0, ()) for head, tail in facts]
    texts = [as_sentence(fill_prompt(relation.prompt, *pair)) for pair in (*facts, *relation.pairs)]
    idf = fit_sentence_idf([item.words for item in model.word_vectors(texts)])
    sums = [sum(idf(word) for word in item.words) for item in model.word_vectors(texts[:3])]
    means = {
        context: [float(log_probs.mean()) for log_probs in model.word_log_probs(texts[:3], context)]
        for context in ("left", "both")
    }
    means["causal"] = [gpt2.mean_log_probs([text])[0] for text in texts[:3]]
    sign = 1 if form == "printed" else -1
    expected = {
        context: [total / math.exp(sign * mean) for total, mean in zip(sums, values, strict=True)]
        for context, values in means.items()
    }
    settings = replace(SMALL_SETTINGS, fluency=form)
    _, masked = score_pairs(relation, candidates, model, settings)
    context, other_context = ("left", "both") if form == "printed" else ("both", "left")
    np.testing.assert_allclose(masked, expected[context], rtol=1e-4)
    assert not np.allclose(masked, expected[other_context], rtol=0.05)
    _, causal = score_pairs(relation, candidates, model, settings, gpt2)
    np.testing.assert_allclose(causal, expected["causal"], rtol=1e-4)


def test_weights_are_of_a_sentence_or_summed_over_all() -> None:
    relation, model = make_relation(), tiny_model()
    candidates = [ScoredPair(head, tail, (1, 1), 0.0, ()) for head, tail in tiny_world().training_facts["eats"][5:12]]
    sentence, corpus = (
        score_pairs(relation, candidates, model, replace(SMALL_SETTINGS, bm25=form))[0] for form in WEIGHT_FORMS
    )
    assert (sentence >= 0).all() and (corpus >= 0).all() and not np.allclose(sentence, corpus)
