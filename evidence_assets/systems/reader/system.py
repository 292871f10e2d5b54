"""The methods of the trained reader: its training, and its answers from the nearest chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evidence_assets.experiment.evidence.selection import Selector
from evidence_assets.experiment.stage import StageContext, StageInput
from evidence_assets.experiment.system import CustomStages, Method, System
from evidence_assets.experiment.variants import Variant
from evidence_assets.models.reader.training import TrainingSettings
from evidence_assets.models.registry import get_encoder, get_trained_reader
from evidence_assets.reasoning.tasks import Solver
from evidence_assets.systems.reader import READER_ASSET, VERSION
from evidence_assets.systems.reader.solver import ReaderSolver
from evidence_assets.systems.reader.training import (
    open_chunk_selector,
    reader_folder,
    reader_stages,
    refuse_seen_questions,
)


@dataclass(frozen=True)
class ReaderSettings:
    """``facts``: Chunks for each question and option; a reader trained with fewer reads only the first."""

    facts: int = TrainingSettings.facts


def _open_selector(context: StageContext, settings: ReaderSettings) -> Selector:
    return open_chunk_selector(context, settings.facts)


def _open_solver(context: StageContext, settings: ReaderSettings) -> Solver:
    """The reader of the partition's benchmark; refused if it has seen one of the questions."""
    benchmark = context.benchmark
    reader = get_trained_reader(reader_folder(context.lake, benchmark.name), benchmark.name)
    training = context.lake.read("training_questions", READER_ASSET, benchmark.name)
    refuse_seen_questions(reader.model_id, training, context.read_input("questions"), benchmark)
    return ReaderSolver(reader, get_encoder(context.profile.encoder))


def _reader_input(variant: Variant, settings: ReaderSettings) -> Sequence[StageInput]:
    return [StageInput(READER_ASSET, "benchmark")]


SYSTEM = System(
    "reader",
    VERSION,
    {
        "training": CustomStages(settings=TrainingSettings, stages=reader_stages, model_kinds=("encoder",)),
        "reader": Method(
            settings=ReaderSettings,
            open_selector=_open_selector,
            open_solver=_open_solver,
            solver_inputs=_reader_input,
            sources=("corpus",),
            neighbours=lambda settings: settings.facts,
        ),
    },
)
