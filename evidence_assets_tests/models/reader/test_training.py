"""The trained reader: its network equals the encoder, it learns from facts, and a score depends on one input alone."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.reader.network import EncoderName, OptionInput, ReaderNetwork
from evidence_assets.models.reader.training import (
    CARD_FILE,
    WEIGHTS_FILE,
    TrainedReader,
    TrainingQuestion,
    TrainingSettings,
    fit_scale,
    train_reader,
)
from evidence_assets_tests.models.tiny import make_causal, make_encoder

THINGS = ("aspirin", "ibuprofen", "insulin", "glucose", "pain", "fever")
SETTINGS = TrainingSettings(layers=1, epochs=3, batch=8, rate=1e-2, held_out=0.2)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> EncoderName:
    return EncoderName(str(make_encoder(tmp_path_factory.mktemp("tiny"))))


def make_questions(n: int) -> list[TrainingQuestion]:
    """Questions whose right option has a fact that says "answer", while the other's says "the"."""
    questions = []
    for i in range(n):
        right, wrong = THINGS[i % 6], THINGS[(i * 5 + 1) % 6]
        options = [(right, ("answer answer answer",)), (wrong, ("the the the",))]
        gold = i % 2
        ordered = options if gold == 0 else options[::-1]
        inputs = tuple(OptionInput(f"question {i}", option, facts) for option, facts in ordered)
        questions.append(TrainingQuestion(f"q{i}", inputs, gold))
    return questions


@pytest.fixture(scope="module")
def trained(base: EncoderName, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    train_reader(base, make_questions(60), folder, SETTINGS)
    return folder


def test_lower_and_upper_layers_together_are_the_encoder(base: EncoderName) -> None:
    network = ReaderNetwork(base, layers=1, device="cpu")
    (encoded,) = network.encode([OptionInput("fever and pain", "aspirin", ("aspirin may treat pain",))])
    ids, segments = torch.tensor([encoded.ids]), torch.tensor([encoded.segments])
    assert set(encoded.segments) == {0, 1} and not encoded.is_cut
    whole = AutoModel.from_pretrained(base.name, dtype=torch.float32).eval()
    with torch.inference_mode():
        expected = whole(input_ids=ids, token_type_ids=segments).last_hidden_state.mean(1)
        hidden = network.lower(input_ids=ids, token_type_ids=segments).last_hidden_state
        assert torch.allclose(network.pool(hidden, torch.ones_like(ids)), expected, atol=1e-6)
        padded = torch.cat([hidden, torch.full_like(hidden[:, :3], 9.0)], 1)
        mask = torch.cat([torch.ones_like(ids), torch.zeros(1, 3, dtype=torch.long)], 1)
        assert torch.allclose(network.pool(padded, mask), expected, atol=1e-5), "padding has no influence"


def test_it_learns_what_the_facts_say(trained: Path) -> None:
    card = json.loads((trained / CARD_FILE).read_text())
    assert card["epochs"][-1]["loss"] < card["epochs"][0]["loss"] and card["held_out_accuracy"] == 1.0
    reader = TrainedReader(trained, "reader-x", device="cpu")
    assert all(int(reader.score(q.options).argmax()) == q.gold for q in make_questions(80)[60:])
    assert (trained / WEIGHTS_FILE).stat().st_size == card["bytes"] < 40_000, "only the trained part is stored"


def test_equal_inputs_give_equal_bytes(base: EncoderName, trained: Path, tmp_path: Path) -> None:
    train_reader(base, make_questions(60), tmp_path, SETTINGS)
    assert (tmp_path / WEIGHTS_FILE).read_bytes() == (trained / WEIGHTS_FILE).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [WEIGHTS_FILE, CARD_FILE]


def test_a_score_depends_on_its_input_alone(trained: Path) -> None:
    reader = TrainedReader(trained, "reader-x", device="cpu")
    inputs = [option for question in make_questions(12) for option in question.options]
    inputs.append(OptionInput("what is a fever", "pain"))
    scores = reader.score(inputs)
    single_scores = [float(reader.score([each])[0]) for each in inputs]
    assert scores.tolist() == single_scores
    assert reader.score([]).shape == (0,)


def test_a_score_is_added_to_the_scaled_weight_of_its_option(trained: Path) -> None:
    reader = TrainedReader(trained, "reader-x", device="cpu")
    plain = OptionInput("fever", "pain", ("the the the",))
    alone, with_weight = reader.score([plain, replace(plain, weight=2.0)])
    assert reader.scale > 0 and with_weight - alone == pytest.approx(2 * reader.scale, abs=1e-5)


def test_training_starts_from_the_answers_without_the_reader(base: EncoderName, tmp_path: Path) -> None:
    weighed = []
    for question in make_questions(60):
        weights = [1.0 if position == question.gold else 0.0 for position in range(2)]
        options = tuple(replace(o, facts=(), weight=w) for o, w in zip(question.options, weights, strict=True))
        weighed.append(replace(question, options=options))
    report = train_reader(base, weighed, tmp_path, replace(SETTINGS, epochs=1, rate=1e-6))
    assert report["epochs"][0]["held_out_accuracy"] == 1.0
    assert TrainedReader(tmp_path, "reader-x", device="cpu").scale > 0.5


def test_a_long_question_loses_its_beginning_and_facts_their_end(base: EncoderName) -> None:
    network = ReaderNetwork(base, layers=1, max_tokens=30)
    (encoded,) = network.encode([OptionInput("fever " * 40, "aspirin", ("pain " * 40,))])
    (end,) = network.encode([OptionInput("fever", "aspirin")])
    assert len(encoded.ids) == 30 and encoded.is_cut
    query = [i for i, segment in zip(encoded.ids, encoded.segments, strict=True) if segment == 0]
    assert query[-2:] == end.ids[2:4], "the option is never cut"
    (short,) = network.encode([OptionInput("fever", "aspirin", ("pain " * 40,))])
    assert len(short.ids) == 30 and short.is_cut, "a short question leaves its room to the facts"


@pytest.mark.parametrize(
    ("n", "change", "message"),
    [(10, {}, "are too few to train a reader"), (60, {"layers": 3}, "has 2 layers. Train 1 to 2 of them, not 3")],
)
def test_invalid_trainings_are_explained(
    n: int, change: dict[str, int], message: str, base: EncoderName, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        train_reader(base, make_questions(n), tmp_path, replace(SETTINGS, **change))


def test_another_kind_of_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="needs a BERT, RoBERTa or MPNet"):
        ReaderNetwork(EncoderName(str(make_causal(tmp_path))))


def test_the_scale_maximises_the_likelihood() -> None:
    scores = [np.array([4.0, 0.0], np.float32)] * 4
    assert fit_scale(scores, [0, 0, 0, 1]) == pytest.approx(np.log(3) / 4, rel=0.05)
    assert fit_scale(scores, [0, 0, 0, 0]) > 1
