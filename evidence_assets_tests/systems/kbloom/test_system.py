"""K-Bloom end to end on a model that was told the facts of a tiny world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from evidence_assets.harvest.prompt_mining import MinedPrompt, MiningModels
from evidence_assets.harvest.triple_metrics import judge_relevance
from evidence_assets.harvest.triple_scoring import final_scores, nearness
from evidence_assets.harvest.tuple_search import FillQuery, search_tuples
from evidence_assets.lake.errors import BadInput
from evidence_assets.systems.kbloom.harvesting import (
    Harvest,
    KBloomSettings,
    PromptQueries,
    check_kinds,
    check_seeds,
    harvest_relation,
    matches_kinds,
    mine_relation_prompts,
)
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.text.prompt_text import as_sentence, fill_prompt
from evidence_assets_tests.models.tiny_masked import byte_pair, word_piece
from evidence_assets_tests.models.tiny_world import WORDINGS, tiny_model, tiny_world

SMALL = KBloomSettings(n=40, max_prompts=4)


class LetterEncoder:
    """Sentence vectors from letter counts: nearby for sentences that share most words."""

    def encode_sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        return np.asarray(
            [[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float
        )


def relation(name: str = "eats", seeds: int = 5, **changes: object) -> Relation:
    prompt = WORDINGS[name][0]
    whole = Relation(name, "tiny", prompt, tuple(tiny_world().told[name][:seeds]), prompt)
    return replace(whole, **changes)  # type: ignore[arg-type]


@cache
def eats_prompts() -> tuple[MinedPrompt, ...]:
    return tuple(mine_relation_prompts(relation(), models(), SMALL))


def models(**named: object) -> MiningModels:
    return MiningModels(tiny_model(), LetterEncoder(), **named)  # type: ignore[arg-type]


def score(result: Harvest, name: str = "eats") -> tuple[float, float, float]:
    """Precision@10, recall of told facts, recall of facts that were never told; seeds left out."""
    world = tiny_world()
    ranked = [(triple.head, name, triple.tail) for triple in result.triples]
    seeds = [(head, name, tail) for head, tail in world.told[name][:5]]
    told = [(head, name, tail) for head, tail in world.told[name]]
    hits, truths = judge_relevance(ranked, told, exclude=seeds)
    untold, never = judge_relevance(ranked, [(head, name, tail) for head, tail in world.untold[name]], exclude=seeds)
    return sum(hits[:10]) / 10, sum(hits) / truths, sum(untold[:20]) / never


def test_it_finds_what_the_model_was_told() -> None:
    result = harvest_relation(relation(), tiny_model(), eats_prompts(), SMALL)
    precision, found, never = score(result)
    assert precision >= 0.5 and found >= 0.5
    assert never <= 0.3


def test_a_harvest_is_deterministic_and_its_parts_hang_together() -> None:
    given = relation(functional=True), tiny_model(), eats_prompts()
    first = harvest_relation(*given, SMALL)
    assert first == harvest_relation(*given, replace(SMALL, batch_size=7))
    assert sum(prompt.weight for prompt in first.prompts) == pytest.approx(1)
    assert max(Counter(candidate.shape for candidate in first.candidates).values()) <= 40
    candidates = {(candidate.head, candidate.tail) for candidate in first.candidates}
    assert len(first.triples) == 40 and [triple.rank for triple in first.triples] == list(range(1, 41))
    assert all((triple.head, triple.tail) in candidates for triple in first.triples)
    scores = [triple.score for triple in first.triples]
    near = nearness(np.asarray([triple.semantic for triple in first.triples], float), 5)
    fluent = np.asarray([triple.fluency for triple in first.triples], float)
    np.testing.assert_allclose(final_scores(near, fluent), scores)
    kept = {number for number, prompt in enumerate(first.prompts) if prompt.kept}
    assert all(set(triple.found_by) <= kept for triple in first.triples)
    assert {(triple.head, triple.tail) for triple in first.triples if "seed" in triple.flags} <= set(relation().pairs)
    tails = Counter(triple.head for triple in first.triples)
    assert all(("second_tail" in triple.flags) == (tails[triple.head] > 1) for triple in first.triples)


@pytest.mark.parametrize("build", [word_piece, byte_pair])
def test_queries_become_texts_for_any_tokenizer(build: object) -> None:
    """The slot asked is the word's own, also in a prompt that names the tail first."""
    model = build()  # type: ignore[operator]
    words = [word for word in model.vocabulary if len(word) > 2]
    allowed = np.asarray([model.vocabulary.index(word) for word in words])
    asker = PromptQueries(model, ["<HEAD> is near <TAIL>", "the <TAIL> holds a <HEAD>!"], words, allowed)
    queries = [FillQuery(prompt, (2, 2), filled) for prompt in (0, 1) for filled in ((), (0, 1), (0, 1, 0))]
    mask, a, b = "<MASK>", words[0], words[1]
    texts = [f"{mask} {mask} is near {mask} {mask}.", f"{a} {b} is near {mask} {mask}.", f"{a} {b} is near {a} {mask}."]
    texts += [f"the {mask} {mask} holds a {mask} {mask}!", f"the {mask} {mask} holds a {a} {b}!"]
    assert asker.texts(queries) == ([*texts, f"the {a} {mask} holds a {a} {b}!"], [0, 0, 0, 2, 0, 0])
    found = search_tuples(asker.log_probs, words, (0.5, 0.5), n=5)
    alone = asker.pair_log_likelihoods(found)
    np.testing.assert_allclose(alone.mean(axis=1), [pair.log_likelihood for pair in found], atol=1e-4)


def test_a_seed_that_the_tokenizer_cannot_represent_is_named() -> None:
    with pytest.raises(BadInput, match=r"pairs: relation 'eats': the tokenizer of tiny-sample does not know 'Zzyx'"):
        check_seeds(relation(pairs=(("Zzyx", "moss"),)), tiny_model())
    with pytest.raises(BadInput, match=r"prompt: .*'devours'"):
        check_seeds(relation(prompt="<HEAD> devours <TAIL>"), tiny_model())


def test_known_entities_of_other_kinds_are_no_triples_and_unknown_ones_are_flagged() -> None:
    free = harvest_relation(relation(), tiny_model(), eats_prompts(), SMALL)
    heads = sorted({triple.head for triple in free.triples})
    kinds = {heads[0]: frozenset({"rock"}), heads[1]: frozenset({"animal", "pet"})}
    picky = relation(head_kinds=("animal",))
    held = harvest_relation(picky, tiny_model(), eats_prompts(), SMALL, kinds)
    assert held.candidates == free.candidates
    assert heads[0] not in {triple.head for triple in held.triples}
    assert {triple.head for triple in held.triples if "unknown_kind" not in triple.flags} == {heads[1]}
    assert not any("unknown_kind" in triple.flags for triple in free.triples)
    assert matches_kinds(picky, heads[1].upper(), "anything", kinds) is True
    with pytest.raises(BadInput, match="head_kinds: relation 'eats' allows only animal"):
        check_kinds(picky, None)


def test_the_baseline_weighs_prompts_of_its_own() -> None:
    baseline = replace(SMALL, variant="bertnet", max_prompts=20)
    written = eats_prompts()
    own = mine_relation_prompts(relation(), models(), baseline, written)
    assert {one.text for one in own} <= {one.text for one in written} and own[0].bert_score is None
    assert sum(one.weight for one in own) == pytest.approx(1)
    assert [one.weight for one in own if one.kept] != [one.weight for one in written if one.kept]
    said = ["{0} feeds on {1}.", "the diet of {0} is {1}.", "{1} is the food of {0}", "nobody knows"]
    pairs = {as_sentence(fill_prompt(relation().prompt, *pair)): pair for pair in relation().pairs}
    others = models(paraphrase=lambda texts: [[s.format(*pairs[t]) for s in said] if t in pairs else [] for t in texts])
    reworded = mine_relation_prompts(relation(), others, baseline)
    assert {one.text for one in reworded} == set(WORDINGS["eats"])
    (initial,) = mine_relation_prompts(relation(), others, replace(baseline, prompts="initial"))
    assert initial.text == relation().prompt
    result = harvest_relation(relation(), tiny_model(), reworded, baseline)
    assert score(result)[0] >= 0.4


def test_models_that_are_named_write_and_propose_the_prompts() -> None:
    asked: list[str] = []

    class Proposes:
        vocabulary = ("feeds", "sings", "the")

        def slot_log_probs(self, texts: Sequence[str], slots: Sequence[int]) -> npt.NDArray[np.float64]:
            return np.zeros((len(texts), 3))

        def log_similarities(self, word: str) -> npt.NDArray[np.float64]:
            asked.append(word)
            return np.array([0.0, -9.0, -9.0])

    def write(texts: Sequence[str]) -> list[list[str]]:
        return [[f"it is known that {text} here"] for text in texts]

    settings = replace(SMALL, prompt_choice="printed")
    mined = mine_relation_prompts(relation(), models(write=write, propose=Proposes()), settings)
    texts = {one.text for one in mined}
    assert asked == ["eats"] and "<HEAD> feeds <TAIL>" in texts
    assert "it is known that <HEAD> eats <TAIL> here" in texts, "a keyword order as the writer said it"
