"""The embedded masked model: learns its training facts, reproducibly, and loads like any other model."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.models.sample_masked_lm import TrainingSettings, encode_positions, train_sample_masked_lm
from evidence_assets.text.prompt_text import MASK_SLOT
from evidence_assets_tests.models.tiny_world import tiny_model, tiny_world

QUICK = TrainingSettings(steps=25, batch_size=32, threads=1)


def test_it_recalls_training_facts_only() -> None:
    world, sample_model = tiny_world(), tiny_model()
    for facts, min_share, max_share in (
        (world.training_facts["eats"], 0.6, 1.0),
        (world.held_out_facts["eats"], 0.0, 0.3),
    ):
        first_words: dict[str, set[str]] = {}
        for head, tail in facts:
            first_words.setdefault(head, set()).add(tail.split()[0])
        texts = [f"{head} eats {' '.join([MASK_SLOT] * len(tail.split()))}." for head, tail in facts]
        rows = sample_model.slot_log_probs(texts, [0] * len(texts))
        guesses = [sample_model.vocabulary[int(row.argmax())] for row in rows]
        share = np.mean([guess in first_words[head] for guess, (head, _) in zip(guesses, facts, strict=True)])
        assert min_share <= share <= max_share


def test_equal_input_gives_equal_files(tmp_path: Path) -> None:
    world = tiny_world()
    before = torch.get_num_threads()
    reports = []
    for name in ("one", "two"):
        torch.rand(7)  # what else the process drew must not matter
        reports.append(train_sample_masked_lm(world.sentences, world.entities, tmp_path / name, QUICK))
    shuffled = random.Random(5).sample(world.sentences, len(world.sentences))
    reports.append(train_sample_masked_lm(shuffled, set(world.entities), tmp_path / "three", QUICK))
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "three")]
    assert weights[0] == weights[1] == weights[2]
    assert reports[0] == reports[1] == reports[2]
    train_sample_masked_lm(world.sentences, world.entities, tmp_path / "four", replace(QUICK, seed=1))
    assert (tmp_path / "four" / "model.safetensors").read_bytes() != weights[0]
    assert torch.get_num_threads() == before
    assert not list(tmp_path.glob("*/*.bin")) and not list(tmp_path.glob("*/*.pkl"))


@pytest.mark.parametrize("layers", [1, 2])
def test_states_of_some_positions_are_those_of_the_whole_network(layers: int) -> None:
    torch.manual_seed(layers)
    config = BertConfig(vocab_size=30, hidden_size=16, num_hidden_layers=layers, num_attention_heads=4)
    model = BertForMaskedLM(config).eval()
    ids, positions = torch.randint(30, (3, 5)), torch.tensor([0, 3, 4, 13])
    expected = model.base_model(input_ids=ids).last_hidden_state.flatten(0, 1)[positions]
    states = encode_positions(model, ids, positions)
    torch.testing.assert_close(states, expected)
    parameters = list(model.base_model.encoder.parameters())
    for gradient, expected_gradient in zip(
        torch.autograd.grad(states.square().sum(), parameters),
        torch.autograd.grad(expected.square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected_gradient)


def test_vocabulary_is_every_word_of_the_sentences(tmp_path: Path) -> None:
    report = train_sample_masked_lm(
        ["Élan Vital eats moss.", "Moss, well: Élan!"], ["Élan Vital"], tmp_path, replace(QUICK, held_out_share=0.0)
    )
    model = HFMaskedLM.load(tmp_path)
    assert set(model.vocabulary) == {"élan", "vital", "eats", "moss", "well"}
    assert model.find_unknown_words("ÉLAN eats stones") == ("stones",)
    assert report["sentences"] == 2 and report["held_out_accuracy"] is None
