"""Answers of the explorer's box, by the variants that ``evidence ask`` uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from evidence_assets.cli.ask import SystemChoice, answer_in_lake
from evidence_assets.explorer.ask_box import Answered
from evidence_assets.lake.store import Lake

if TYPE_CHECKING:
    from evidence_assets.experiment.asked_sources import AskedSource
    from evidence_assets.experiment.stage import LogFunction, Stage, StageContext, StageOutput

DEFAULT_CHOICE = SystemChoice("", "", asks_why=False)
STEPS = {
    "subgraphs": "Reading the graph around the question",
    "evidence": "Selecting evidence",
    "chains": "Reading the evidence",
    "predictions": "Choosing the answer",
    "citations": "Checking what is cited",
    "counterfactuals": "Answering again without the evidence",
}
"""What a stage does, by its table."""


def answer_in_browser(
    lake: Lake, text: str, options: Sequence[str], sources: Sequence[AskedSource], inform: LogFunction
) -> Answered:
    """Answer a question with the default variants, from the source that answers best; rows are written to the lake."""
    inform("Loading the models")
    from evidence_assets.experiment import asked_sources

    predictions = []
    for source in sources:
        if len(sources) > 1:
            inform(f"Asking {source.name}")
        predictions.append(
            answer_in_lake(lake, text, options, source, DEFAULT_CHOICE, inform, partial(_announce, inform))
        )
    best = predictions[asked_sources.choose_answer([(row["status"], row["confidence"]) for row in predictions])]
    return Answered(best["question_id"], best["prediction_id"])


def _announce(inform: LogFunction, stages: Iterable[Stage]) -> Iterator[Stage]:
    """The stages, each of which says first what it does."""

    def announce(stage: Stage) -> Callable[[StageContext], StageOutput]:
        def compute(context: StageContext) -> StageOutput:
            inform(STEPS.get(stage.table, stage.table))
            return stage.compute(context)

        return compute

    for stage in stages:
        yield replace(stage, compute=announce(stage))
