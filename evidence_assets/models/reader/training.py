"""A reader that is trained in the lake: it scores each option of a question together with the facts found for it.

The score is added to the log odds that the option has without the reader, so training starts from those answers.

Only the upper layers of an encoder and a linear head are trained, by cross-entropy over the options of a question. The
reader is a moving average of their weights over the steps, stored in half precision. Training stops when a held-out
share of the questions is no longer answered better.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file, save_file
from torch.optim.swa_utils import AveragedModel

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.models.inference import kernel_name, train_epoch
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.reader.network import (
    EncodedInput,
    EncoderName,
    HalfArray,
    OptionInput,
    ReaderNetwork,
    similar_length_batches,
)

VERSION = "4"
"""Raise it when equal questions and settings give another reader or other scores."""
WEIGHTS_FILE = "model.safetensors"
CARD_FILE = "reader.json"
MIN_HELD_OUT = 5
"""Fewer held-out questions cannot say when to stop."""
_SCALES = 0.25, 4
_QUESTIONS_PER_BATCH = 32
_RIDGE = 0.01
_DECAY = 0.997
"""Of the moving average: the weights of about the last 1 / (1 - decay) steps count."""


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training.

    ``layers``: Upper layers of the encoder that are trained.
    ``facts``: Nearest facts that the reader gets with each option.
    ``epochs``: At most, after epoch 0 without training; training stops after the first epoch that answers the
    ``held_out`` share worse than an earlier one.
    ``batch``: Questions per step.
    ``rate``: Of the optimizer. More layers need a lower one: three learn at 1e-4, but not at 2e-4.
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


def is_held_out(question_id: str, share: float) -> bool:
    """Whether a question is in the held-out fold; decided by its id alone."""
    return int(content_id("held out", question_id)[:8], 16) / 16**8 < share


@dataclass(frozen=True)
class Example:
    """A question with the weights and lower states of its options, and the position of the right one."""

    question_id: str
    weights: FloatArray
    states: Sequence[HalfArray]
    gold: int


def prepare_examples(network: ReaderNetwork, questions: Sequence[TrainingQuestion]) -> list[Example]:
    """Compute the lower states of all options."""
    inputs = [option for question in questions for option in question.options]
    states = iter(network.lower_states(network.encode(inputs)))
    return [
        Example(each.question_id, weights_of(each.options), list(islice(states, len(each.options))), each.gold)
        for each in questions
    ]


def score_examples(network: ReaderNetwork, examples: Sequence[Example]) -> list[torch.Tensor]:
    """Scores of the options of each example, with gradients."""
    states = [state for example in examples for state in example.states]
    scores = network.train_scores(states, np.concatenate([example.weights for example in examples]))
    return list(torch.split(scores, [len(example.states) for example in examples]))


def predict(network: ReaderNetwork, examples: Sequence[Example]) -> list[FloatArray]:
    """Scores of the options of each example, without gradients."""
    with torch.inference_mode():
        return [
            scores.float().cpu().numpy()
            for start in range(0, len(examples), _QUESTIONS_PER_BATCH)
            for scores in score_examples(network, examples[start : start + _QUESTIONS_PER_BATCH])
        ]


def weights_of(inputs: Sequence[OptionInput]) -> FloatArray:
    """Log odds of the options without the reader."""
    return np.array([each.weight for each in inputs], np.float32)


def start_from_weights(network: ReaderNetwork, examples: Sequence[Example]) -> float:
    """Let the head multiply the options' weights by a fitted scale and ignore the layers; returns its mean loss.

    A head that starts at random hardly uses the weights, because a step changes a parameter by about the rate.
    """
    weights = [example.weights for example in examples]
    gold = [example.gold for example in examples]
    scale = fit_scale(weights, gold)
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.zero_()
        network.head.weight[0, -1] = scale
    return mean_loss([scale * each for each in weights], gold)


def fit_reader(
    network: ReaderNetwork, examples: Sequence[Example], settings: TrainingSettings, inform: Callable[[str], None]
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Train the upper layers and the head; returns their averaged weights in half precision and the report.

    The average depends less on the order of the questions than the last step does, and answers better. The epoch with
    the best held-out accuracy is kept, and its scores are multiplied by the factor that makes the held-out answers
    most likely.
    """
    training, held_out = _split_examples(examples, settings)
    loss = start_from_weights(network, training)
    run = _Training(network, training, settings)
    epochs: list[dict[str, float]] = []
    weights: dict[str, torch.Tensor] = {}
    best = 0.0
    for number in range(settings.epochs + 1):
        if number:  # epoch 0 is the answers without the reader
            loss = run.train_epoch()
        accuracy, averaged_weights = run.evaluate_average(held_out)
        epochs.append({"loss": round(loss, 4), "held_out_accuracy": accuracy})
        inform(f"reader: epoch {number} of at most {settings.epochs}: {epochs[-1]}")
        if accuracy < best:
            break
        best = accuracy
        weights = averaged_weights
    scale = _scale_head(network, weights, held_out)
    counts = {"questions": len(examples), "held_out": len(held_out)}
    return weights, {**counts, "epochs": epochs, "held_out_accuracy": best, "scale": round(scale, 4)}


def _scale_head(network: ReaderNetwork, weights: dict[str, torch.Tensor], held_out: Sequence[Example]) -> float:
    """Multiply the weights of the head by the factor that makes the held-out answers most likely; returns it."""
    network.trained.load_state_dict(weights)
    scale = fit_scale(predict(network, held_out), [each.gold for each in held_out])
    for name in ("head.weight", "head.bias"):
        weights[name] = (weights[name].float() * scale).half()
    return scale


def _split_examples(examples: Sequence[Example], settings: TrainingSettings) -> tuple[list[Example], list[Example]]:
    """The examples for training, and those held out; raises BadInput if there are too few."""
    held_out = [each for each in examples if is_held_out(each.question_id, settings.held_out)]
    training = [each for each in examples if not is_held_out(each.question_id, settings.held_out)]
    if len(held_out) < MIN_HELD_OUT or len(training) < settings.batch:
        raise BadInput(
            f"{len(examples)} questions are too few to train a reader: {len(training)} for training (at least "
            f"{settings.batch}) and {len(held_out)} held out (at least {MIN_HELD_OUT}). Add graded questions"
        )
    return training, held_out


def measure_accuracy(network: ReaderNetwork, examples: Sequence[Example]) -> float:
    """Share of the questions of which the best option is right."""
    scored = zip(predict(network, examples), examples, strict=True)
    return round(float(np.mean([scores.argmax() == example.gold for scores, example in scored])), 4)


class _Training:
    """The training of a network, with a moving average of its weights."""

    def __init__(self, network: ReaderNetwork, examples: Sequence[Example], settings: TrainingSettings) -> None:
        self._network = network
        self._examples = examples
        self._batch = settings.batch
        self._lengths = [max(map(len, each.states)) for each in examples]
        self._generator = torch.Generator().manual_seed(settings.seed)
        self._average = AveragedModel(network.trained, avg_fn=_average)
        self._optimizer = torch.optim.AdamW(network.trained.parameters(), lr=settings.rate)
        self._optimizer.register_step_post_hook(lambda *_: self._average.update_parameters(network.trained))

    def train_epoch(self) -> float:
        """Read all questions once, in a random order; returns the mean loss."""
        order = torch.randperm(len(self._examples), generator=self._generator).tolist()
        batches = similar_length_batches(order, self._lengths, self._batch)
        self._network.upper.train()
        loss = train_epoch(([self._examples[i] for i in each] for each in batches), self._compute_loss, self._optimizer)
        self._network.upper.eval()
        return loss

    def _compute_loss(self, examples: list[Example]) -> torch.Tensor:
        scored = zip(examples, score_examples(self._network, examples), strict=True)
        return torch.stack([torch.logsumexp(scores, 0) - scores[example.gold] for example, scores in scored]).mean()

    def evaluate_average(self, held_out: Sequence[Example]) -> tuple[float, dict[str, torch.Tensor]]:
        """Held-out accuracy of the averaged weights, and these weights in half precision."""
        trained = self._network.trained
        last_step = deepcopy(trained.state_dict())
        trained.load_state_dict(self._average.module.state_dict())
        accuracy = measure_accuracy(self._network, held_out)
        weights = {name: value.detach().half().cpu().clone() for name, value in trained.state_dict().items()}
        trained.load_state_dict(last_step)
        return accuracy, weights


def _average(average: torch.Tensor, weights: torch.Tensor, step: torch.Tensor | int) -> torch.Tensor:
    """The moving average with the weights of the next step: a plain mean until it has enough steps."""
    return average.lerp(weights, max(1 - _DECAY, 1 / (int(step) + 1)))


def train_reader(
    base: EncoderName,
    questions: Sequence[TrainingQuestion],
    folder: Path,
    settings: TrainingSettings = TrainingSettings(),
    inform: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Train a reader into ``folder`` and return the report.

    Equal inputs give equal weights on one machine with one number of threads.
    """
    torch.manual_seed(settings.seed)
    network = ReaderNetwork(base, layers=settings.layers, max_tokens=settings.max_tokens)
    weights, report = fit_reader(network, prepare_examples(network, questions), settings, inform)
    save_file(weights, folder / WEIGHTS_FILE)
    report["bytes"] = (folder / WEIGHTS_FILE).stat().st_size
    card = {"version": VERSION, "encoder": asdict(base), "settings": asdict(settings), **report}
    (folder / CARD_FILE).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return report


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a reader: its encoder, settings, questions, and loss and held-out accuracy of each epoch."""
    card: dict[str, Any] = json.loads((folder / CARD_FILE).read_text(encoding="utf-8"))
    return card


def mean_loss(scores: Sequence[npt.NDArray[Any]], gold: Sequence[int]) -> float:
    """Mean cross-entropy of the right options."""
    return float(np.mean([np.logaddexp.reduce(z) - z[g] for z, g in zip(scores, gold, strict=True)]))


def fit_scale(scores: Sequence[FloatArray], gold: Sequence[int]) -> float:
    """The factor of the scores that makes the right options most likely, slightly drawn towards 1."""
    from scipy.optimize import minimize_scalar  # imported by every command otherwise, 0.2 s

    def loss(scale: float) -> float:
        return mean_loss([scale * each for each in scores], gold) + _RIDGE * (scale - 1) ** 2

    return float(minimize_scalar(loss, bounds=_SCALES, method="bounded").x)


class TrainedReader:
    """A trained reader, loaded from its folder. Its revision identifies weights, encoder and kernels."""

    def __init__(self, folder: Path, name: str, *, device: str = "auto") -> None:
        self.model_id = name
        self.card = read_card(folder)
        self.settings = TrainingSettings(**self.card["settings"])
        base = EncoderName(**self.card["encoder"])
        size = self.settings
        self._network = ReaderNetwork(base, layers=size.layers, max_tokens=size.max_tokens, device=device)
        self._network.trained.load_state_dict(load_file(folder / WEIGHTS_FILE))
        self.weights_id = file_id(folder / WEIGHTS_FILE)[:12]
        self.revision = f"{self.weights_id}-{kernel_name(self._network.device.type)}"

    def encode(self, inputs: Sequence[OptionInput]) -> list[EncodedInput]:
        """Token ids of the inputs, and whether a text was cut."""
        return self._network.encode(inputs)

    @property
    def scale(self) -> float:
        """Factor of the weights that the options have without the reader."""
        return float(self._network.head.weight.detach()[0, -1])

    def score(self, inputs: Sequence[OptionInput]) -> FloatArray:
        """Log odds of each option, up to a constant of its question."""
        return self._network.scores(self.encode(inputs), weights_of(inputs))
