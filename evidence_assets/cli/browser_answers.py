"""Answers of the explorer's box, by the variants that ``evidence ask`` uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evidence_assets.benchmarks.declared_benchmarks import FAMILY_OF_TASK
from evidence_assets.benchmarks.records import Table
from evidence_assets.cli.ask import select_clearest, select_variants
from evidence_assets.explorer.ask_box import Answered
from evidence_assets.lake.store import Lake

if TYPE_CHECKING:
    from evidence_assets.experiment.ad_hoc_questions import QuestionSource
    from evidence_assets.experiment.stage import LogFunction, Stage, StageContext, StageOutput

STEPS = {
    "subgraphs": "Reading the graph around the question",
    "evidence": "Selecting evidence",
    "chains": "Reading the evidence",
    "predictions": "Choosing the answer",
    "citations": "Checking what is cited",
    "counterfactuals": "Answering again without the evidence",
}
"""What a stage does, by its table."""


def answer_in_lake(
    lake: Lake, text: str, options: Sequence[str], source: QuestionSource, table: Table | None, inform: LogFunction
) -> Answered:
    """Answer a question with the default variants; its rows are written to the lake."""
    inform("Loading the models")
    from evidence_assets import systems
    from evidence_assets.experiment import ad_hoc_questions
    from evidence_assets.experiment.stages import build_stages

    question = ad_hoc_questions.build_question(text, options, source, table)
    if source.corpus:
        ad_hoc_questions.check_corpus(lake, source.corpus)
    ad_hoc_questions.store_question(lake, question, table)
    selected = select_variants(FAMILY_OF_TASK[question.task], source, "", "")
    prediction = select_clearest(
        ad_hoc_questions.answer_question(
            lake,
            question.question_id,
            question.task,
            source,
            _announce(build_stages(systems.open_method(variant)), inform),
            inform,
        )
        for variant in selected
    )
    return Answered(question.question_id, prediction["prediction_id"])


def _announce(stages: Iterable[Stage], inform: LogFunction) -> Iterator[Stage]:
    """The stages, each of which says first what it does."""

    def announce(stage: Stage) -> Callable[[StageContext], StageOutput]:
        def compute(context: StageContext) -> StageOutput:
            inform(STEPS.get(stage.table, stage.table))
            return stage.compute(context)

        return compute

    for stage in stages:
        yield replace(stage, compute=announce(stage))
