"""A variant that answers questions on a graph: triples by one method, and the short answers they lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import polars as pl
from pydantic import Field

from evidence_assets.benchmarks.declared import of_family
from evidence_assets.assets.counterfactuals import counterfactual_asset
from evidence_assets.assets.partitions import question_partitions
from evidence_assets.assets.reasoner import Published, failed_share
from evidence_assets.assets.scores import scores_asset
from evidence_assets.assets.selector import dependencies
from evidence_assets.assets.selector_methods import METHODS
from evidence_assets.assets.table_asset import Made, Step, dep, sound_check, table_asset
from evidence_assets.assets.variant import Variant
from evidence_assets.experiment import retrieval_scores
from evidence_assets.experiment.asked_again import ShortAnswersAgain
from evidence_assets.experiment.metrics import Estimate
from evidence_assets.experiment.selection import asked, evidence_rows
from evidence_assets.experiment.short_answering import short_answer_rows
from evidence_assets.experiment.solvers import short_answers
from evidence_assets.models.in_use import encoder
from evidence_assets.reasoning import short_answers as reasoning
from evidence_assets.systems.background.system import stored_background


class GraphAnswers(dg.Component, Variant):
    """Makes ``evidence``, ``predictions`` and ``scores`` of ``graph/<name>``.

    The profile's language model answers, or the extractive solver where it has none.
    """

    name: str
    method: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    recall: str = ""
    """Background knowledge that is put beside the graph's triples; see ``Background``."""
    counterfactual: bool = False
    """Also ask whether each answer stands without the triples it was read from, and with these alone."""
    group: str = "graph_questions"
    published: Published | None = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if self.method not in METHODS:
            raise ValueError(f"variant {self.name}: there is no method {self.method!r}; known: {', '.join(METHODS)}")
        method = METHODS[self.method]
        parameters = {**self.parameters, **({"recall": self.recall} if self.recall else {})}
        unknown = sorted(set(parameters) - set(method.parameters))
        if unknown:
            raise ValueError(
                f"variant {self.name}: {self.method} has no parameter {unknown[0]!r}; it has "
                f"{', '.join(method.parameters)}"
            )
        if not self.loaded or not of_family("graph"):
            return dg.Definitions()
        place, partitions = f"graph/{self.name}", question_partitions("graph")
        questions, evidence = "questions/graph", f"evidence/{place}"
        recalled = f"chains/graph/{self.recall}"
        background = [dep(recalled), dep(f"triples/graph/{self.recall}")] if self.recall else []

        def make_evidence(step: Step) -> Made:
            rows = evidence_rows(
                method.make(self.name, step, dict(parameters)),
                asked(step.read("questions", questions, step.partition)),
                step.previous(),
                step.previous_lineage(),
                step.progress("questions"),
            )
            return Made.of(rows)

        def make_predictions(step: Step) -> Made:
            failed = stored_background(step.read("chains", recalled, step.partition)).failed if self.recall else {}
            rows = short_answer_rows(
                short_answers(step),
                self.name,
                asked(step.read("questions", questions, step.partition)),
                step.read("evidence", evidence, step.partition),
                step.previous(),
                step.previous_lineage(),
                failed,
            )
            return Made.of(rows)

        def asked_again(step: Step) -> ShortAnswersAgain:
            return ShortAnswersAgain(
                short_answers(step),
                asked(step.read("questions", questions, step.partition)),
                step.read("evidence", evidence, step.partition),
                step.read("lineage_edges", f"predictions/{place}", step.partition),
            )

        def more(step: Step, rows: Sequence[dict[str, Any]], found: pl.DataFrame) -> Mapping[str, Estimate]:
            tokens = encoder(step.profile.token_encoder)
            return retrieval_scores.retrieval_metrics(rows, found, tokens, recalled=bool(self.recall))

        about = f"triples by {self.name}, answered in a few words"
        made = [
            table_asset(
                evidence, "evidence", make_evidence, description=f"Triples for questions on a graph by {self.name}.",
                code_version=f"{method.version}:{sorted(parameters.items())}",
                deps=[*dependencies("graph", method.reads), *background], group=self.group, tags=self.tags, partitions=partitions,
            ),
            table_asset(
                f"predictions/{place}", "predictions", make_predictions, description=f"One answer a question: {about}.",
                code_version=reasoning.VERSION, deps=[dep(questions), dep(evidence), *background[:1]], pool="llm",
                group=self.group, tags=self.tags, partitions=partitions,
            ),
            scores_asset(
                "graph", self.name, group=self.group, tags=self.tags, about=about, headline="accuracy",
                published=self.published, more=more, more_version=retrieval_scores.VERSION,
                counterfactual=self.counterfactual,
            ),
        ]  # fmt: skip
        if self.counterfactual:
            made.append(
                counterfactual_asset(
                    "graph", self.name, asked_again, deps=[dep(questions), dep(evidence), dep(f"predictions/{place}")],
                    about=about, group=self.group, tags=self.tags, pool="llm",
                )
            )  # fmt: skip
        extra = {1: failed_share}
        return dg.Definitions(assets=made, asset_checks=[sound_check(a, extra.get(i)) for i, a in enumerate(made)])
