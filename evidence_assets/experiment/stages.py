"""The stages of a variant: functions of its plan and their context; ``PIPELINES`` says which a family has.

A stage reads what it declares and nothing else (``StageContext.input``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import polars as pl

from evidence_assets.benchmarks.declared_benchmarks import FAMILIES, Family
from evidence_assets.experiment.answers.chains import answer_citation_rows, chain_rows, citation_rows
from evidence_assets.experiment.answers.one_call import OneCallAnswerer
from evidence_assets.experiment.answers.options import OptionAnswerer
from evidence_assets.experiment.answers.predictions import (
    Answerer,
    CounterfactualAnswerer,
    counterfactual_rows,
    prediction_rows,
)
from evidence_assets.experiment.answers.short_answers import ShortAnswerer
from evidence_assets.experiment.evidence.selection import (
    NoEvidence,
    build_questions,
    evidence_rows,
    find_evidence_errors,
)
from evidence_assets.experiment.evidence.sources import missing_source_reason, record_encoder
from evidence_assets.experiment.scores import graph_stages, retrieval_scores, scoring
from evidence_assets.experiment.scores.metrics import Estimate
from evidence_assets.experiment.solvers import (
    build_choosing_solver,
    build_short_answer_solver,
    build_solver,
    has_model,
    open_language_model,
)
from evidence_assets.experiment.stage import InputPartitions, Stage, StageContext, StageOutput
from evidence_assets.experiment.system import CustomStages, System, is_answered_by_model, model_combinations
from evidence_assets.experiment.variant_plan import Plan
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.models.registry import get_encoder

FAILED_SHARE_LIMIT = 0.05


# Evidence -----------------------------------------------------------------------------------------------------------


def select_evidence(plan: Plan, context: StageContext) -> StageOutput:
    lack = missing_source_reason(plan.method.sources, context.benchmark)
    selector = NoEvidence(lack) if lack else plan.method.open_selector(context, plan.settings)
    questions, progress = build_questions(context.read_input("questions")), context.progress("questions")
    return evidence_rows(plan.selector, selector, questions, context.previous_output, progress, record_encoder(context))


# Answers ------------------------------------------------------------------------------------------------------------


def _is_prompted(plan: Plan, context: StageContext) -> bool:
    """Whether a language model answers questions with options."""
    return is_answered_by_model(plan.variant) and has_model(context)


def _build_one_call(plan: Plan, context: StageContext, chains: pl.DataFrame | None = None) -> OneCallAnswerer | None:
    """Who answers and explains in one call, where the paper asks so and a language model is asked."""
    if plan.style.answer is None or not _is_prompted(plan, context):
        return None
    model = open_language_model(context, context.profile.generator)
    return OneCallAnswerer(
        model,
        plan.style.answer,
        build_questions(context.read_input("questions")),
        context.read_input("evidence"),
        chains,
    )


def explain_options(plan: Plan, context: StageContext) -> StageOutput:
    if once := _build_one_call(plan, context):
        return once.chains(plan.selector, context.previous_output)
    if not plan.variant.explain or (_is_prompted(plan, context) and plan.style.explain is None):
        return StageOutput([])
    solver = build_solver(plan.variant.family, context, plan.style)
    questions, evidence = build_questions(context.read_input("questions")), context.read_input("evidence")
    return chain_rows(solver, plan.selector, questions, evidence, context.previous_output)


def build_answerer(plan: Plan, context: StageContext) -> Answerer:
    """Who answers this partition's questions, and answers them again from a part of their evidence."""
    variant, method = plan.variant, plan.method
    questions, evidence = build_questions(context.read_input("questions")), context.read_input("evidence")
    if plan.explains_options:
        chains = context.read_input("chains")
        if once := _build_one_call(plan, context, chains):
            return once
        # Only a solver that explains can be asked for explanations again; without any, the evidence alone is weighed.
        solver = build_choosing_solver(variant.family, context, plan.style, explained=variant.explain)
        return OptionAnswerer(solver, questions, evidence, chains, plan.temperature)
    if method.open_answerer:
        return method.open_answerer(context, plan.settings, evidence)
    failed = method.preparation_errors(context, plan.settings) if method.preparation_errors else {}
    again = context.table == "counterfactuals"
    used = context.read_input("predictions", "lineage_edges") if again else None
    return ShortAnswerer(build_short_answer_solver(context), questions, evidence, failed=failed, used=used)


def answer_questions(plan: Plan, context: StageContext) -> StageOutput:
    questions = build_questions(context.read_input("questions"))
    return prediction_rows(build_answerer(plan, context), plan.selector, questions, context.previous_output)


def answer_again(plan: Plan, context: StageContext) -> StageOutput:
    answerer = build_answerer(plan, context)
    if not isinstance(answerer, CounterfactualAnswerer):
        raise BadInput(
            f"variant {plan.variant.key} cannot answer from a part of its evidence: leave `counterfactual` out"
        )
    return counterfactual_rows(answerer, context.read_input("predictions"), context.previous_output)


def check_chains(plan: Plan, context: StageContext) -> StageOutput:
    whole = _is_prompted(plan, context) and plan.style.answer is not None
    return citation_rows(context.read_input("chains"), context.read_input("evidence"), whole=whole)


def check_answers(plan: Plan, context: StageContext) -> StageOutput:
    predictions, used = context.read_input("predictions"), context.read_input("predictions", "lineage_edges")
    names: dict[str, str] = {}
    if plan.variant.family == "search":
        key = f"knowledge/{context.benchmark.graph}/nodes"
        nodes = context.lake.read("kg_nodes", key, columns=["node_id", "name"])
        names = dict(nodes.join(predictions.select(node_id="answer"), "node_id", "semi").iter_rows())
    return answer_citation_rows(predictions, used, context.read_input("evidence"), names)


# Scores -------------------------------------------------------------------------------------------------------------


def score_answers(plan: Plan, context: StageContext) -> StageOutput:
    variant, benchmark = plan.variant, context.benchmark_name
    tables = {table: context.read_input(table) for table in plan.scored_tables}
    questions, predictions, evidence = tables["questions"], tables["predictions"], tables["evidence"]
    if questions.height and not predictions.height:
        raise StaleInput(f"{plan.key('predictions')} has no rows for {benchmark}: materialize it first")
    more = _triple_metrics(plan, context, questions, evidence)
    if plan.uses_graph:
        more |= graph_stages.graph_stages(questions.to_dicts(), tables["subgraphs"], evidence)
    rows = scoring.score_rows(
        benchmark,
        plan.selector,
        predictions["reasoner"][0] if predictions.height else "",
        predictions["model_id"][0] if predictions.height else "",
        tables,
        variant.published,
        more,
        get_encoder(context.profile.token_encoder) if variant.bertscore else None,
    )
    return StageOutput(rows, metadata=score_metadata(rows, "hit@1" if variant.family == "search" else "accuracy"))


def _triple_metrics(
    plan: Plan, context: StageContext, questions: pl.DataFrame, evidence: pl.DataFrame
) -> dict[str, Estimate]:
    """Scores of the triples themselves, for questions on a graph and where the variant asks for them."""
    of_graph = plan.variant.family == "graph"
    if not of_graph and not plan.variant.retrieval:
        return {}
    tokens = get_encoder(context.profile.token_encoder) if of_graph else None
    recalled = of_graph and bool(plan.method.extra_inputs(plan.variant, plan.settings))
    ordered = questions.sort("question_id").to_dicts()
    return retrieval_scores.retrieval_metrics(ordered, evidence, tokens, recalled=recalled)


def score_passages(plan: Plan, context: StageContext) -> StageOutput:
    questions, evidence = context.read_input("questions"), context.read_input("evidence")
    # Filtered while it is read: of a large corpus the evidence names few chunks.
    chunks = pl.scan_parquet(context.lake.files("chunks", f"corpus/{context.benchmark.corpus}/chunks"))
    named = chunks.filter(pl.col("chunk_id").is_in(evidence["source_id"].unique().to_list()))
    documents = dict(named.select("chunk_id", "doc_id").collect(engine="streaming").iter_rows())
    metrics = retrieval_scores.passage_metrics(questions.sort("question_id").to_dicts(), evidence, documents)
    rows = scoring.metric_rows(context.benchmark_name, plan.selector, "", "", metrics)
    return StageOutput(rows, metadata={row["metric"]: row["value"] for row in rows if row["value"] is not None})


def score_metadata(rows: Sequence[Mapping[str, Any]], headline: str) -> dict[str, Any]:
    """Metadata of scores: every value, those printed for it, and the headline with its interval."""
    values = {row["metric"]: row["value"] for row in rows if row["value"] is not None}
    printed = {f"published_{row['metric']}": row["published"] for row in rows if row["published"] is not None}
    best = next(row for row in rows if row["metric"] == headline)
    interval = f"{best['value'] or 0:.1%} [{best['low'] or 0:.1%}, {best['high'] or 0:.1%}], n = {best['n']}"
    return {**values, **printed, f"{headline}_95": interval}


# The pipelines ------------------------------------------------------------------------------------------------------


def check_failed_share(rows: pl.DataFrame) -> list[str]:
    """What is wrong where more questions failed than may."""
    failed = rows.filter(pl.col("status") == "failed")
    if rows.height and failed.height / rows.height > FAILED_SHARE_LIMIT:
        reasons = failed["error"].value_counts(sort=True).head(3).to_dicts()
        return [f"{failed.height} of {rows.height} rows failed: {reasons}"]
    return []


@dataclass(frozen=True)
class StageKind:
    """A stage that the variants of a family have: its table, its function, and by name what it reads (``Plan.reads``).

    ``of_benchmark``: Whether one partition is a whole benchmark, read over all of its shards.
    """

    table: str
    compute: Callable[[Plan, StageContext], StageOutput]
    description: str
    inputs: tuple[str, ...]
    of_benchmark: bool = False

    def of(self, plan: Plan) -> Stage:
        """The stage of one variant."""
        variant, is_evidence = plan.variant, self.table == "evidence"
        over: InputPartitions = "benchmark" if self.of_benchmark else "same"
        return Stage(
            plan.key(self.table),
            self.table,
            partial(self.compute, plan),
            f"{self.description}: {FAMILIES[cast(Family, variant.family)]}, evidence picked by {plan.selector}.",
            [read for name in self.inputs for read in plan.inputs_of(name, over)],
            plan.version(self.table),
            family=variant.family,
            partitions="benchmarks" if self.of_benchmark else "questions",
            pool=plan.pool(self.table),
            check=check_failed_share if self.table == "predictions" else None,
            lake_check=find_evidence_errors if is_evidence else None,
            models=plan.evidence_models if is_evidence else variant.using,
            words=variant.words,
        )


EVIDENCE = StageKind("evidence", select_evidence, "Evidence", ("questions", "sources"))
CHAINS = StageKind("chains", explain_options, "One reasoning chain per option", ("questions", "evidence"))
PREDICTIONS = StageKind("predictions", answer_questions, "One prediction per question", ("answered_from",))
CHAIN_CITATIONS = StageKind("citations", check_chains, "Citations, each checked", ("chains", "evidence"))
ANSWER_CITATIONS = replace(CHAIN_CITATIONS, compute=check_answers, inputs=("predictions", "evidence", "names"))
SCORES = StageKind("scores", score_answers, "Scores with their intervals", ("scored_from",), of_benchmark=True)
PASSAGE_SCORES = StageKind(
    "scores", score_passages, "Gold documents found", ("questions", "evidence", "chunks"), of_benchmark=True
)
COUNTERFACTUALS = StageKind(
    "counterfactuals", answer_again, "Answers without the evidence they cite", ("answered_from", "predictions")
)
WITH_OPTIONS = EVIDENCE, CHAINS, PREDICTIONS, CHAIN_CITATIONS, SCORES, COUNTERFACTUALS
WITHOUT_OPTIONS = EVIDENCE, PREDICTIONS, ANSWER_CITATIONS, SCORES, COUNTERFACTUALS
PIPELINES: Mapping[str, Sequence[StageKind]] = {
    "mcqa": WITH_OPTIONS,
    "table": WITH_OPTIONS,
    "graph": WITHOUT_OPTIONS,
    "search": WITHOUT_OPTIONS,
    "retrieval": (EVIDENCE, PASSAGE_SCORES),
}
"""The stages of each task family in order: options are explained one by one and then chosen; questions on a graph are
answered in a few words; nodes of a knowledge base are ranked; of a retrieval collection only evidence is scored."""


def build_stages(system: System, variant: Variant) -> list[Stage]:
    """The stages of a variant with the models that it uses, in order."""
    method = system.method_of(variant)
    settings = method.settings_of(variant)
    if isinstance(method, CustomStages):
        own = method.stages(variant, settings)
        return [replace(stage, models=variant.using, words=variant.words) for stage in own]
    if variant.counterfactual and not variant.explain:
        raise BadInput(
            f"variant {variant.key} explains nothing and so cites nothing: take out `counterfactual` or `explain`"
        )
    left_out = {"evidence": bool(variant.evidence), "counterfactuals": not variant.counterfactual}
    plan = Plan(system, variant, method, settings)
    return [kind.of(plan) for kind in PIPELINES[variant.family] if not left_out.get(kind.table)]


def build_all_stages(system: System, variant: Variant) -> list[Stage]:
    """The stages of a variant with all models that it is crossed with, in order; shared ones once."""
    every: dict[str, Stage] = {}
    for crossed in model_combinations(system, variant):
        every |= {stage.key: stage for stage in build_stages(system, crossed) if stage.key not in every}
    return list(every.values())
