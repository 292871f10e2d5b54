"""The masked-model backend against the model's own full forward pass."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.lake.store import Lake
from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.models.registry import MASKED_LM_ASSET, SAMPLE_MASKED_LM, get_masked_lm, masked_lm_key, model_key
from evidence_assets.models.sample_masked_lm import TrainingSettings, encode_positions, train_sample_masked_lm
from evidence_assets.profiles import ModelSettings
from evidence_assets.text.prompt_text import MASK_SLOT
from evidence_assets_tests.models.tiny import byte_pair, tiny_model, tiny_world, word_piece

Build = Callable[[], HFMaskedLM]
each_tokenizer = pytest.mark.parametrize("build", [word_piece, byte_pair])


def direct_log_probs(model: HFMaskedLM, ids: list[int], position: int) -> torch.Tensor:
    """Reference: the model's own logits for one unbatched text."""
    with torch.inference_mode():
        logits = model._model(input_ids=torch.tensor([ids])).logits[0, position]
    return torch.log_softmax(logits.float(), dim=-1)


SMALL = {
    **dict.fromkeys(["hidden_size", "dim", "embedding_size"], 16),
    **dict.fromkeys(["intermediate_size", "hidden_dim"], 32),
    **dict.fromkeys(["num_hidden_layers", "n_layers", "num_attention_heads", "n_heads"], 2),
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "initializer_range": 0.5,
}


def tiny(kind: str) -> HFMaskedLM:
    """A random masked model of this architecture, with the tests' own tokenizer."""
    tokenizer = word_piece()._tokenizer
    config = AutoConfig.for_model(kind)
    for name, value in {**SMALL, "vocab_size": len(tokenizer)}.items():
        if hasattr(config, name):
            setattr(config, name, value)
    torch.manual_seed(0)
    return HFMaskedLM(AutoModelForMaskedLM.from_config(config), tokenizer, model_id=kind)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "electra", "modernbert", "deberta-v2", "albert"])
def test_every_architecture_matches_its_own_forward_pass(kind: str) -> None:
    model, text = tiny(kind), f"a {MASK_SLOT} near {MASK_SLOT}"
    ids = model._tokenizer(text.replace(MASK_SLOT, "[MASK]"))["input_ids"]
    positions = [i for i, piece in enumerate(ids) if piece == model._tokenizer.mask_token_id]
    rows = model.slot_log_probs([text, text], [0, 1])
    for row, position in zip(rows, positions, strict=True):
        expected = direct_log_probs(model, ids, position)[torch.tensor(model._pieces)]
        np.testing.assert_allclose(row, expected.numpy(), rtol=1e-5, atol=1e-5)
    word_indices = np.asarray([2, 0])
    np.testing.assert_array_equal(model.slot_log_probs([text], [1], word_indices)[0], rows[1][word_indices])


@each_tokenizer
def test_word_vectors_average_the_pieces_of_a_word(build: Build) -> None:
    model = build()
    text = "the harbours, near!"
    [result] = model.word_vectors([text])
    assert result.words == ("the", "harbours", "near")
    input_text = f" {text}" if build is byte_pair else text
    encoding = model._tokenizer(input_text, return_offsets_mapping=True)
    with torch.inference_mode():
        hidden = model._model.base_model(input_ids=torch.tensor([encoding["input_ids"]])).last_hidden_state[0]
    start = input_text.index("harbours")
    pieces = [i for i, (a, b) in enumerate(encoding["offset_mapping"]) if a < start + 8 and b > start and b > a]
    assert len(pieces) > 1
    np.testing.assert_allclose(result.vectors[1], hidden[pieces].mean(dim=0).numpy(), atol=1e-5)


@pytest.mark.parametrize("context", ["both", "left"])
def test_word_log_probs_mask_the_word_and_hidden_context(context: str) -> None:
    model = word_piece()
    [result] = model.word_log_probs(["the harbour is near"], "left" if context == "left" else "both")
    assert len(result) == 4
    ids = model._tokenizer("the harbour is near")["input_ids"]  # [CLS] the har ##bour is near [SEP]
    mask = model._tokenizer.mask_token_id
    first = [*ids[:2], mask, mask, *([mask, mask] if context == "left" else ids[4:6]), ids[6]]
    second = [*ids[:3], mask, *([mask, mask] if context == "left" else ids[4:6]), ids[6]]
    expected = direct_log_probs(model, first, 2)[ids[2]] + direct_log_probs(model, second, 3)[ids[3]]
    assert result[1] == pytest.approx(float(expected), abs=1e-5)


@each_tokenizer
def test_a_saved_masked_lm_loads_with_equal_results(build: Build, tmp_path: Path) -> None:
    model = build()
    folder = tmp_path / "some-model"
    model._model.save_pretrained(folder)
    model._tokenizer.save_pretrained(folder)
    saved_model = HFMaskedLM.load(folder)
    assert saved_model.vocabulary == model.vocabulary
    assert saved_model.model_id == "some-model"
    assert len(saved_model.revision.partition("-")[0]) == 32
    text = f"a {MASK_SLOT} near the sea"
    np.testing.assert_array_equal(saved_model.slot_log_probs([text], [0]), model.slot_log_probs([text], [0]))


def test_a_trained_model_has_its_key_without_being_loaded(tmp_path: Path) -> None:
    lake, settings = Lake.create(tmp_path), ModelSettings(name=SAMPLE_MASKED_LM)
    model, folder = word_piece(), lake.index_folder(MASKED_LM_ASSET)
    model._model.save_pretrained(folder)
    model._tokenizer.save_pretrained(folder)
    assert masked_lm_key(lake, settings) == model_key(get_masked_lm(lake, settings))


def test_pickled_weights_are_not_loaded(tmp_path: Path) -> None:
    model = word_piece()
    model._model.save_pretrained(tmp_path)
    model._tokenizer.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model._model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match="safetensors"):
        HFMaskedLM.load(tmp_path)


def test_a_model_without_mask_token_is_refused() -> None:
    model = word_piece()
    bare = PreTrainedTokenizerFast(tokenizer_object=model._tokenizer.backend_tokenizer, unk_token="[UNK]")
    with pytest.raises(ModelUnavailable, match="some-gpt has no mask token"):
        HFMaskedLM(model._model, bare, model_id="some-gpt")


def test_unusable_texts_are_reported() -> None:
    model = word_piece()
    with pytest.raises(ValueError, match="slot 1 is not in a text with 1 masked"):
        model.slot_log_probs([f"the {MASK_SLOT}"], [1])
    with pytest.raises(ValueError, match="contains the model's mask token"):
        model.slot_log_probs([f"the {MASK_SLOT} and [MASK]"], [0])
    with pytest.raises(ValueError, match="reads 24 tokens"):
        model.word_vectors(["the sea " * 20])


@pytest.mark.parametrize("model", [word_piece(), byte_pair()], ids=lambda model: model.model_id)
def test_words_are_filled_one_after_another(model: HFMaskedLM) -> None:
    text, position = (
        f"the {MASK_SLOT} {MASK_SLOT} is near {MASK_SLOT}",
        {word: i for i, word in enumerate(model.vocabulary)},
    )
    steps = [
        (f"the {MASK_SLOT} {MASK_SLOT} is near {MASK_SLOT}", 2, "sea"),
        (f"the {MASK_SLOT} {MASK_SLOT} is near sea", 0, "river"),
        (f"the river {MASK_SLOT} is near sea", 0, "the"),
    ]
    expected = [model.slot_log_probs([t], [slot])[0, position[word]] for t, slot, word in steps]
    [log_probs] = model.fill_log_probs([text], [["sea", "river", "the"]], [[2, 0, 1]])
    np.testing.assert_allclose(log_probs, expected, atol=1e-5)


# The embedded masked model: learns its training facts, reproducibly, and loads like any other model


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


def test_equal_input_gives_equal_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world, before = tiny_world(), torch.get_num_threads()
    shuffled = random.Random(5).sample(world.sentences, len(world.sentences))
    reports = [train_sample_masked_lm(world.sentences, world.entities, tmp_path / "one", QUICK)]
    torch.rand(7)  # what else the process drew must not matter
    reports.append(train_sample_masked_lm(shuffled, set(world.entities), tmp_path / "two", QUICK))
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1] and reports[0] == reports[1]
    assert torch.get_num_threads() == before
    assert not capsys.readouterr().err, "no progress bars"
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
