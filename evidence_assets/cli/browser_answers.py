"""Answers of the explorer's box, by the variants and the language model that ``evidence ask`` uses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evidence_assets import profiles
from evidence_assets.cli.ask import SystemChoice, answer_sources, find_model
from evidence_assets.explorer.ask_box import Answered
from evidence_assets.lake.store import Lake
from evidence_assets.profiles.model_source import MODEL_VARIABLE

if TYPE_CHECKING:
    from evidence_assets.experiment.asked_sources import AskedSource
    from evidence_assets.experiment.stage import LogFunction

STEPS = {
    "subgraphs": "Reading the graph around the question",
    "evidence": "Selecting evidence",
    "chains": "Reading the evidence",
    "predictions": "Choosing the answer",
    "citations": "Checking what is cited",
    "counterfactuals": "Answering again without the evidence",
}
"""What a stage does, by its table."""


@dataclass(frozen=True)
class BrowserAnswers:
    """Answers questions with the default variants and the profile's language model ``choice.model``.

    ``model``: What the explorer calls the language model; empty if rules answer without one.
    """

    choice: SystemChoice
    model: str

    def __call__(
        self, lake: Lake, text: str, options: Sequence[str], sources: Sequence[AskedSource], inform: LogFunction
    ) -> Answered:
        """Answer from the source that answers best; rows are written to the lake."""

        def announce(source: AskedSource, table: str) -> None:
            inform(f"{STEPS[table]} ({source.name})")

        inform("Loading the models")
        best, *others = answer_sources(lake, text, options, sources, self.choice, inform, announce)
        prediction = best.view.prediction
        return Answered(prediction["question_id"], prediction["prediction_id"], [other.summary for other in others])


def open_browser_answers(model: str) -> BrowserAnswers:
    """Answers by the named language model; without a name by the profile's first one, or by rules if it has none.

    A model that is named here or by EVIDENCE_MODEL is loaded at once; raises ModelUnavailable if that fails. A
    profile's own is loaded by the first question, so that pages can be read without it.
    """
    name = find_model(model) if model else ""
    settings = profiles.load().with_models({"generator": name} if name else {}).generator
    choice = SystemChoice("", name, asks_why=False)
    if settings.backend == "extractive":
        return BrowserAnswers(choice, "")
    model_id = settings.name
    if model or os.environ.get(MODEL_VARIABLE):
        from evidence_assets.experiment.solvers import load_cached_generator

        model_id = load_cached_generator(settings).model_id
    return BrowserAnswers(choice, f"{model_id} at {settings.base_url}" if settings.backend == "openai" else model_id)
