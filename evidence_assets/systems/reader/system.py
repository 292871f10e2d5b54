"""The methods of the trained reader: its training, and its answers from the nearest chunks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from evidence_assets.experiment.evidence.selection import Selector
from evidence_assets.experiment.methods import SolvingMethod, StagesMethod
from evidence_assets.experiment.solvers import build_extractive_solver
from evidence_assets.experiment.stage import Stage, StageContext, StageInput
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.reader.network import EncodedInput, OptionInput
from evidence_assets.models.reader.training import TrainedReader, TrainingSettings
from evidence_assets.models.registry import get_encoder, get_trained_reader
from evidence_assets.models.vectors import softmax
from evidence_assets.reasoning.tasks import (
    Chain,
    ChainStep,
    Choice,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
    Failure,
    Omission,
    ReplyCost,
    Solver,
)
from evidence_assets.systems.reader import READER_ASSET, VERSION
from evidence_assets.systems.reader.training import (
    extractive_weights,
    open_chunk_selector,
    reader_folder,
    reader_stages,
    refuse_seen_questions,
)


@dataclass(frozen=True)
class ReaderSettings:
    """``facts``: Chunks for each question and option; a reader trained with fewer reads only the first."""

    facts: int = TrainingSettings.facts


class ReaderTraining(StagesMethod[TrainingSettings]):
    """Trains a reader for each benchmark with training questions."""

    name = "training"
    version = VERSION
    settings_class = TrainingSettings
    model_kinds = ("encoder",)

    def build_stages(self) -> list[Stage]:
        return reader_stages(self.variant, self.settings)


class ReaderMethod(SolvingMethod[ReaderSettings]):
    """The nearest chunks, read by the trained reader."""

    name = "reader"
    version = VERSION
    settings_class = ReaderSettings
    sources = ("corpus",)

    def open_selector(self, context: StageContext) -> Selector:
        return open_chunk_selector(context, self.settings.facts)

    def open_solver(self, context: StageContext) -> Solver:
        """The reader of the partition's benchmark; refused if it has seen one of the questions."""
        benchmark = context.benchmark
        reader = get_trained_reader(reader_folder(context.lake, benchmark.name), benchmark.name)
        training = context.lake.read("training_questions", READER_ASSET, benchmark.name)
        refuse_seen_questions(reader.model_id, training, context.read_input("questions"), benchmark)
        return ReaderSolver(reader, get_encoder(context.profile.encoder))

    @property
    def solver_inputs(self) -> Sequence[StageInput]:
        return [StageInput(READER_ASSET, "benchmark")]


# Answers questions with options by a trained reader; its explanation is the facts that the reader was given


MIN_SHARE = 0.5
"""Minimum probability of an answer that counts as supported by its facts."""
SUPPORT_DIGITS = 9


class ReaderSolver:
    """Adds a weight from question, option and nearest facts to the extractive solver's; the largest sum wins.

    A chain states the reader's weight of its option, and for each fact the weight without it. Its support is the
    logistic function of the weight. An answer is supported if its probability is at least :data:`MIN_SHARE`.
    """

    name = "reader"

    def __init__(self, reader: TrainedReader, encoder: Encoder) -> None:
        self._reader = reader
        self._extractive = build_extractive_solver(encoder)
        self.model_id = f"{reader.model_id}@{reader.weights_id}"
        self.version = f"{VERSION}-{reader.revision}-{self._extractive.version}"

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        """One chain per option: all facts that the reader was given, each with the weight without it."""
        facts = [task.evidence[: self._reader.settings.facts] for task in tasks]
        inputs: list[OptionInput] = []
        for task, items in zip(tasks, facts, strict=True):
            texts = tuple(item.text for item in items)
            subsets = [texts, *(texts[:i] + texts[i + 1 :] for i in range(len(texts)))]
            inputs += [OptionInput(task.question.text, task.option, subset) for subset in subsets]
        encoded = self._reader.encode(inputs)
        weights = iter(self._reader.score(inputs).tolist())
        tokens = iter(encoded)
        chains: list[Chain | Failure] = []
        for task, items in zip(tasks, facts, strict=True):
            n_inputs = 1 + len(items)
            with_all_facts, *_ = islice(tokens, n_inputs)
            chains.append(self._build_chain(task, items, list(islice(weights, n_inputs)), with_all_facts))
        return chains

    def _build_chain(
        self, task: ExplainOption, items: Sequence[EvidenceItem], weights: Sequence[float], tokens: EncodedInput
    ) -> Chain:
        """The chain of an option; ``weights`` are that with all facts, then that without each."""
        weight, *without = weights
        omissions = (Omission("cut", "facts or question", "the reader's token limit"),) if tokens.is_cut else ()
        return Chain(
            task.hypothesis,
            self._steps(task, items, weight, without),
            round(1 / (1 + math.exp(-weight)), SUPPORT_DIGITS),
            reply=ReplyCost(self.model_id, len(tokens.ids), 0, "stop"),
            omissions=omissions,
        )

    def _steps(
        self, task: ExplainOption, items: Sequence[EvidenceItem], weight: float, without: Sequence[float]
    ) -> tuple[ChainStep, ...]:
        facts = f"with {len(items)} facts" if items else "without any fact"
        first = ChainStep(f"The reader {self._reader.model_id} weighs “{task.option}” at {weight:+.2f}, {facts}.")
        fact_steps = (
            ChainStep(f"Given: {item.text} (without it {other:+.2f})", (item.evidence_id,), (item.text,))
            for item, other in zip(items, without, strict=True)
        )
        return first, *fact_steps

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """The option with the largest sum of the extractive and the reader's weight."""
        weights = extractive_weights(self._extractive, tasks)
        return [self._choice(task, each) for task, each in zip(tasks, weights, strict=True)]

    def _choice(self, task: ChooseAnswer, extractive: Mapping[str, float]) -> Choice:
        support = {chain.hypothesis: chain.support or 0.0 for chain in task.chains}
        limit = 10.0**-SUPPORT_DIGITS
        labels = task.question.labels
        clipped = [min(max(support.get(label, 0.0), limit), 1 - limit) for label in labels]
        weights = {
            label: self._reader.scale * extractive[label] + math.log(p / (1 - p))
            for label, p in zip(labels, clipped, strict=True)
        }
        answer = max(labels, key=lambda label: weights[label])
        probability = softmax(list(weights.values()))[labels.index(answer)]
        is_supported = probability >= MIN_SHARE and bool(task.evidence.get(answer))
        status = "answered" if is_supported else "insufficient"
        reply = ReplyCost(self.model_id, 0, 0, "stop")
        return Choice(answer, (answer,) if is_supported else (), status, weights=weights, reply=reply)
