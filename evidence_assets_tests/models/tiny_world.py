"""A made-up world of three relations, small enough to learn in seconds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.models.sample_masked_lm import TrainingSettings, train_sample_masked_lm

WORDINGS = {
    "eats": (
        "<HEAD> eats <TAIL>",
        "<HEAD> feeds on <TAIL>",
        "the diet of <HEAD> is <TAIL>",
        "<TAIL> is the food of <HEAD>",
    ),
    "lives_in": (
        "<HEAD> lives in <TAIL>",
        "<TAIL> is the home of <HEAD>",
        "you find <HEAD> in <TAIL>",
        "<TAIL> shelters <HEAD>",
    ),
    "made_of": (
        "<HEAD> is made of <TAIL>",
        "<HEAD> consists of <TAIL>",
        "<TAIL> is the material of <HEAD>",
        "craftsmen form <HEAD> out of <TAIL>",
    ),
}


@dataclass(frozen=True)
class World:
    """Facts that the sentences state, facts of the same kind that they do not, and all entities."""

    training_facts: dict[str, list[tuple[str, str]]]
    held_out_facts: dict[str, list[tuple[str, str]]]
    sentences: list[str]
    entities: list[str]


@cache
def tiny_world() -> World:
    source = random.Random(3)
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeo"]
    names: set[str] = set()

    def name() -> str:
        while (word := "".join(source.choices(syllables, k=3))) in names:
            pass
        names.add(word)
        return word if source.random() < 0.75 else f"{word} {source.choice(seconds)}"

    seconds = ["mirto", "salven"]
    training_facts, held_out_facts, sentences, entities = {}, {}, [], []
    for relation, wordings in WORDINGS.items():
        heads, tails = [name() for _ in range(20)], [name() for _ in range(20)]
        entities += heads + tails
        pairs = sorted({(source.choice(heads), source.choice(tails)) for _ in range(36)})
        source.shuffle(pairs)
        training_facts[relation], held_out_facts[relation] = pairs[:24], pairs[24:]
        for head, tail in training_facts[relation]:
            for wording in wordings:
                sentences.append(wording.replace("<HEAD>", head).replace("<TAIL>", tail).capitalize() + ".")
    return World(training_facts, held_out_facts, sentences, entities)


@cache
def tiny_model() -> HFMaskedLM:
    """The sample recipe on the tiny world; trained once a session."""
    world = tiny_world()
    settings = TrainingSettings(steps=900, batch_size=64, learning_rate=3e-3, held_out_share=0.0, threads=1)
    with TemporaryDirectory() as folder:
        train_sample_masked_lm(world.sentences, world.entities, Path(folder), settings)
        return HFMaskedLM.load(folder, model_id="tiny-sample")
