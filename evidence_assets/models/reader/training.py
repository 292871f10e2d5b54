"""A reader that is trained in the lake: it scores each option of a question together with the facts found for it.

Only the upper layers of an encoder and a linear head are trained, by cross-entropy over the options of a question, and
stored in half precision. Training stops when a held-out share of the questions is no longer answered better.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.models.inference import kernel_name, resolve_device
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.reader.network import (
    FEATURES,
    EncodedInput,
    LowerStates,
    OptionInput,
    ReaderNetwork,
    similar_length_batches,
)
from evidence_assets.models.vectors import encode_ends

VERSION = "1"
"""Raise it when equal questions and settings give another reader or other scores."""
WEIGHTS_FILE, CARD_FILE, STATES_FILE = "model.safetensors", "reader.json", "states.tmp"
MIN_HELD_OUT = 5
"""Fewer held-out questions cannot say when to stop."""
_TEMPERATURES = np.exp(np.linspace(np.log(0.25), np.log(4), 61))
_QUESTIONS_PER_BATCH = 32


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training.

    ``layers``: Upper layers of the encoder that are trained.
    ``facts``: Nearest facts that the reader gets with each option.
    ``epochs``: At most; training stops after the first epoch that is not better on the ``held_out`` share.
    ``batch``: Questions per step.
    """

    layers: int = 2
    facts: int = 3
    epochs: int = 4
    batch: int = 16
    rate: float = 2e-4
    held_out: float = 0.1
    max_tokens: int = 192
    seed: int = 0


@dataclass(frozen=True)
class TrainingQuestion:
    """A graded question: its options with their facts, and the position of the right one."""

    question_id: str
    options: tuple[OptionInput, ...]
    gold: int


@dataclass(frozen=True)
class EncoderName:
    """The encoder that a reader is trained from."""

    name: str
    revision: str | None = None


def is_held_out(question_id: str, share: float) -> bool:
    """Whether a question is in the held-out fold; decided by its id alone."""
    return int(content_id("held out", question_id)[:8], 16) / 16**8 < share


def option_features(encoder: Encoder, inputs: Sequence[OptionInput]) -> FloatArray:
    """The features :data:`FEATURES` of each option; those of facts are 0 without facts."""
    vectors = encode_ends(
        encoder, [t for each in inputs for t in (each.query, each.question, each.option, *each.facts)]
    )
    rows = np.zeros((len(inputs), len(FEATURES)), np.float32)
    for row, each in enumerate(inputs):
        facts = [vectors[fact] for fact in each.facts]
        nearest = max((float(vectors[each.query] @ fact) for fact in facts), default=0.0)
        association = float(vectors[each.question] @ vectors[each.option])
        rows[row] = nearest, association, max((float(vectors[each.question] @ fact) for fact in facts), default=0.0)
    return rows


@dataclass(frozen=True)
class TrainingData:
    """Questions as inputs of the network; ``rows`` are the positions of each question's options in the others."""

    questions: Sequence[TrainingQuestion]
    rows: Sequence[range]
    features: FloatArray
    states: LowerStates

    def select(self, numbers: Iterable[int]) -> TrainingData:
        """The questions at these positions."""
        chosen = list(numbers)
        questions, rows = [self.questions[n] for n in chosen], [self.rows[n] for n in chosen]
        return TrainingData(questions, rows, self.features, self.states)

    @cached_property
    def lengths(self) -> list[int]:
        """Number of tokens of each question's longest option."""
        return [max(map(self.states.length, rows)) for rows in self.rows]

    @property
    def gold(self) -> list[int]:
        """Position of the right option of each question."""
        return [question.gold for question in self.questions]

    def logits(self, network: ReaderNetwork, numbers: Sequence[int]) -> list[torch.Tensor]:
        """Scores of the options of each of these questions, with gradients."""
        rows = [row for number in numbers for row in self.rows[number]]
        scores = network.train_scores(self.states, rows, self.features)
        return list(torch.split(scores, [len(self.rows[number]) for number in numbers]))

    def predict(self, network: ReaderNetwork) -> list[FloatArray]:
        """Scores of the options of each question, without gradients."""
        with torch.inference_mode():
            return [
                scores.float().cpu().numpy()
                for start in range(0, len(self.rows), _QUESTIONS_PER_BATCH)
                for scores in self.logits(network, range(len(self.rows))[start : start + _QUESTIONS_PER_BATCH])
            ]


def prepare_data(
    network: ReaderNetwork, encoder: Encoder, questions: Sequence[TrainingQuestion], file: Path
) -> TrainingData:
    """Compute features and lower states of all options; the states are in ``file``."""
    inputs = [option for question in questions for option in question.options]
    ends = np.cumsum([len(question.options) for question in questions]).tolist()
    rows = [range(end - len(q.options), end) for q, end in zip(questions, ends, strict=True)]
    features = option_features(encoder, inputs)
    return TrainingData(questions, rows, features, network.lower_states(network.encode(inputs), file))


def fit_reader(
    network: ReaderNetwork, data: TrainingData, settings: TrainingSettings, inform: Callable[[str], None]
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Train the upper layers and the head; returns their weights in half precision and the report.

    The epoch with the best held-out accuracy is kept, and its scores are divided by the temperature that makes the
    held-out answers most likely.
    """
    folds = [is_held_out(question.question_id, settings.held_out) for question in data.questions]
    held_out = data.select(n for n, is_out in enumerate(folds) if is_out)
    training = data.select(n for n, is_out in enumerate(folds) if not is_out)
    if len(held_out.rows) < MIN_HELD_OUT or len(training.rows) < settings.batch:
        raise BadInput(
            f"{len(folds)} questions are too few to train a reader: {len(training.rows)} for training (at least "
            f"{settings.batch}) and {len(held_out.rows)} held out (at least {MIN_HELD_OUT}). Add graded questions"
        )
    optimizer = torch.optim.AdamW(network.trained.parameters(), lr=settings.rate)
    generator = torch.Generator().manual_seed(settings.seed)
    epochs: list[dict[str, float]] = []
    weights: dict[str, torch.Tensor] = {}
    for number in range(1, settings.epochs + 1):
        order = torch.randperm(len(training.rows), generator=generator).tolist()
        loss = _train_epoch(
            network, training, similar_length_batches(order, training.lengths, settings.batch), optimizer
        )
        right = [int(s.argmax()) == g for s, g in zip(held_out.predict(network), held_out.gold, strict=True)]
        epochs.append({"loss": round(loss, 4), "held_out_accuracy": round(float(np.mean(right)), 4)})
        inform(f"reader: epoch {number} of at most {settings.epochs}: {epochs[-1]}")
        if epochs[-1]["held_out_accuracy"] < max(epoch["held_out_accuracy"] for epoch in epochs):
            break
        weights = {name: value.detach().half().cpu().clone() for name, value in network.trained.state_dict().items()}
    network.trained.load_state_dict(weights)
    temperature = fit_temperature(held_out.predict(network), held_out.gold)
    for name in ("head.weight", "head.bias"):
        weights[name] = (weights[name].float() / temperature).half()
    report = {
        "questions": len(folds),
        "held_out": len(held_out.rows),
        "epochs": epochs,
        "held_out_accuracy": max(epoch["held_out_accuracy"] for epoch in epochs),
        "temperature": round(temperature, 4),
    }
    return weights, report


def _train_epoch(
    network: ReaderNetwork, data: TrainingData, batches: Iterable[list[int]], optimizer: torch.optim.Optimizer
) -> float:
    """One pass over the questions; returns the mean loss."""
    network.upper.train()
    total = 0.0
    for batch in batches:
        logits = zip(batch, data.logits(network, batch), strict=True)
        losses = [torch.logsumexp(scores, 0) - scores[data.questions[n].gold] for n, scores in logits]
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        total += float(loss.detach()) * len(batch)
    network.upper.eval()
    return total / len(data.rows)


def train_reader(
    encoder: Encoder,
    base: EncoderName,
    questions: Sequence[TrainingQuestion],
    folder: Path,
    settings: TrainingSettings = TrainingSettings(),
    inform: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Train a reader into ``folder`` and return the report.

    Equal inputs give equal weights on one machine with one number of threads.
    """
    network = build_network(base, settings)
    data = prepare_data(network, encoder, questions, folder / STATES_FILE)
    inform(f"reader: {int(data.states.starts[-1]):,} tokens of {len(questions):,} questions")
    weights, report = fit_reader(network, data, settings, inform)
    (folder / STATES_FILE).unlink()
    return save_reader(folder, weights, base, settings, report)


def build_network(base: EncoderName, settings: TrainingSettings, device: str = "auto") -> ReaderNetwork:
    """The network before training, with seeded random numbers."""
    torch.manual_seed(settings.seed)
    return ReaderNetwork(
        base.name,
        revision=base.revision,
        layers=settings.layers,
        max_tokens=settings.max_tokens,
        device=resolve_device(device),
    )


def save_reader(
    folder: Path,
    weights: dict[str, torch.Tensor],
    base: EncoderName,
    settings: TrainingSettings,
    report: dict[str, Any],
) -> dict[str, Any]:
    """Write weights and card; returns the report with the size of the weights."""
    save_file(weights, folder / WEIGHTS_FILE)
    report = {**report, "bytes": (folder / WEIGHTS_FILE).stat().st_size}
    card = {"version": VERSION, "encoder": asdict(base), "settings": asdict(settings), **report}
    (folder / CARD_FILE).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return report


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a reader: its encoder, settings, questions, and loss and held-out accuracy of each epoch."""
    card: dict[str, Any] = json.loads((folder / CARD_FILE).read_text(encoding="utf-8"))
    return card


def fit_temperature(scores: Sequence[FloatArray], gold: Sequence[int]) -> float:
    """The temperature that makes the right options most likely."""

    def loss(temperature: float) -> float:
        scaled = [logits / temperature for logits in scores]
        return float(np.mean([np.logaddexp.reduce(z) - z[g] for z, g in zip(scaled, gold, strict=True)]))

    return float(min(_TEMPERATURES, key=loss))


class TrainedReader:
    """A trained reader, loaded from its folder. Its revision identifies weights, encoder and kernels."""

    def __init__(self, folder: Path, name: str, *, device: str = "auto") -> None:
        self.model_id = name
        self.card = read_card(folder)
        self.settings = TrainingSettings(**self.card["settings"])
        self._network = build_network(EncoderName(**self.card["encoder"]), self.settings, device)
        self._network.trained.load_state_dict(load_file(folder / WEIGHTS_FILE))
        self.weights_id = file_id(folder / WEIGHTS_FILE)[:12]
        self.revision = f"{self.weights_id}-{kernel_name(self._network.device.type)}"

    def encode(self, inputs: Sequence[OptionInput]) -> list[EncodedInput]:
        """Token ids of the inputs, and whether a text was cut."""
        return self._network.encode(inputs)

    def score(self, inputs: Sequence[OptionInput], features: FloatArray) -> FloatArray:
        """Log odds of each option, up to a constant of its question."""
        return self._network.scores(self.encode(inputs), features)
