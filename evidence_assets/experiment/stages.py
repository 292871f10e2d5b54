"""The stages of a variant, as functions of its plan and a context; :func:`family_stages` lists them.

A stage reads only declared inputs (``StageContext.read_input``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import polars as pl

from evidence_assets.benchmarks.declared_benchmarks import FAMILIES, Family, benchmarks_of_family
from evidence_assets.experiment.answers.chains import (
    answer_citation_rows,
    citation_rows,
    ids_cited_by_chains,
    ids_used_by_answers,
)
from evidence_assets.experiment.answers.predictions import counterfactual_rows, prediction_rows
from evidence_assets.experiment.evidence.selection import NoEvidence
from evidence_assets.experiment.evidence.sources import missing_source_reason, record_encoder
from evidence_assets.experiment.evidence_rows import evidence_rows
from evidence_assets.experiment.methods import AnyMethod, SelectionMethod, StagesMethod, combine_models
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.scores import graph_stages, retrieval_scores, scoring
from evidence_assets.experiment.scores.charts import draw_reliability
from evidence_assets.experiment.scores.gold_evidence import recall_limit
from evidence_assets.experiment.scores.input_version import compute_input_version
from evidence_assets.experiment.scores.metrics import Estimate, mean
from evidence_assets.experiment.scores.scoreboard import HEADLINE_METRICS
from evidence_assets.experiment.stage import Partitions, RowCheck, Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.stored_rows import PredictionRow, QuestionRow, typed_rows
from evidence_assets.experiment.variant_plan import VariantPlan
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.models.registry import get_encoder
from evidence_assets.reasoning.confidence import read_fits
from evidence_assets.reasoning.questions import Question

ComputeStage = Callable[[VariantPlan, StageContext], StageOutput]
FAILED_SHARE_LIMIT = 0.05
INCOMPLETE_SHARE_LIMIT = 0.05
FALLBACK_SHARE_LIMIT = 0.05
LEAST_RECALL_LIMIT = 0.95
"""A lower ``evidence_recall_limit`` is reported: recall of gold evidence says little then."""


# Evidence -----------------------------------------------------------------------------------------------------------


def select_evidence(plan: VariantPlan, context: StageContext) -> StageOutput:
    missing_source = missing_source_reason(plan.method.sources, context.benchmark)
    selector = NoEvidence(missing_source) if missing_source else plan.method.open_selector(context)
    questions = build_questions(context.read_input("questions"))
    progress = None if context.ad_hoc_benchmark else context.progress("questions")  # one question has no progress
    return evidence_rows(plan.selector, selector, questions, context.previous_output, progress, record_encoder(context))


# Answers ------------------------------------------------------------------------------------------------------------


def explain_options(plan: VariantPlan, context: StageContext) -> StageOutput:
    questions = build_questions(context.read_input("questions"))
    return plan.answering.explain(context, questions, context.read_input("evidence"), context.previous_output)


def _read_chains(plan: VariantPlan, context: StageContext) -> pl.DataFrame:
    return context.read_input("chains") if plan.answering.has_options else pl.DataFrame()


def answer_questions(plan: VariantPlan, context: StageContext) -> StageOutput:
    questions = build_questions(context.read_input("questions"))
    evidence = context.read_input("evidence")
    chains = _read_chains(plan, context)
    answerer = plan.answering.open_answerer(context, evidence, chains)
    return prediction_rows(answerer, plan.selector, questions, context.previous_output, read_fits(context.lake))


def answer_counterfactuals(plan: VariantPlan, context: StageContext) -> StageOutput:
    """Explains and answers the questions again, from parts of the evidence."""
    questions = {q.question_id: q for q in build_questions(context.read_input("questions"))}
    evidence = context.read_input("evidence")
    chains = _read_chains(plan, context)
    predictions = context.read_input("predictions")
    answering = plan.answering
    if answering.writes_chains and answering.reads_chains:
        cited_ids = ids_cited_by_chains(predictions, chains, {q for q, each in questions.items() if each.negated})
    else:
        cited_ids = ids_used_by_answers(context.read_input("predictions", "lineage_edges"), evidence)

    version = answering.open_answerer(context, evidence, chains).version
    answer_again = partial(_answer_from, plan, context, questions, evidence)
    return counterfactual_rows(predictions, evidence, cited_ids, answer_again, version, context.previous_output)


def _answer_from(
    plan: VariantPlan,
    context: StageContext,
    questions: Mapping[str, Question],
    evidence: pl.DataFrame,
    facts: Mapping[str, frozenset[str]],
) -> dict[str, str]:
    """Explain and answer each question from only these facts."""
    answering = plan.answering
    is_part = [fact in facts.get(q, ()) for q, fact in evidence.select("question_id", "content_hash").iter_rows()]
    part = evidence.filter(pl.Series(is_part, dtype=pl.Boolean))
    selected = [questions[question_id] for question_id in facts]
    needs_chains = answering.has_options and answering.reads_chains
    explained = answering.explain(context, selected, part).rows if needs_chains else []
    chains = pl.DataFrame(prepare_rows("chains", explained))
    answers = answering.open_answerer(context, part, chains).answer(selected)
    return {
        question_id: answer.answer if answer.answer and answer.status != "insufficient" else answer.status
        for question_id, answer in zip(facts, answers, strict=True)
    }


def check_chains(plan: VariantPlan, context: StageContext) -> StageOutput:
    chains = context.read_input("chains")
    return citation_rows(chains, context.read_input("evidence"), whole_question=plan.answering.is_one_call)


def check_answers(plan: VariantPlan, context: StageContext) -> StageOutput:
    predictions = context.read_input("predictions")
    lineage = context.read_input("predictions", "lineage_edges")
    names: dict[str, str] = {}
    if plan.variant.family == "search":
        key = f"knowledge/{context.benchmark.graph}/nodes"
        nodes = context.lake.read("kg_nodes", key, columns=["node_id", "name"])
        names = dict(nodes.join(predictions.select(node_id="answer"), "node_id", "semi").iter_rows())
    return answer_citation_rows(predictions, lineage, context.read_input("evidence"), names)


# Scores -------------------------------------------------------------------------------------------------------------


def score_answers(plan: VariantPlan, context: StageContext) -> StageOutput:
    variant = plan.variant
    benchmark = context.benchmark_name
    tables = {table: context.read_input(table) for table in plan.scored_tables}
    questions = tables["questions"]
    predictions = tables["predictions"]
    evidence = tables["evidence"]
    question_rows = typed_rows(questions, QuestionRow)
    if questions.height and not predictions.height and not evidence.height:
        raise StaleInput(
            f"{plan.key('evidence')} and {plan.key('predictions')} have no rows for {benchmark}: materialize one first"
        )
    extra_metrics = _triple_metrics(plan, context, questions, evidence)
    extra_metrics |= _recall_limit(context, question_rows, evidence)
    if plan.uses_graph:
        extra_metrics |= graph_stages.graph_metrics(question_rows, tables["subgraphs"], evidence)
    encoder = get_encoder(context.profile.token_encoder) if variant.bertscore else None
    metrics = scoring.answer_metrics(tables, encoder) | extra_metrics
    reasoner, model_id = predictions.select("reasoner", "model_id").row(0) if predictions.height else ("", "")
    rows = scoring.metric_rows(benchmark, plan.selector, reasoner, model_id, metrics, variant.printed.figures)
    version = compute_input_version(questions, evidence, predictions)
    rows = [row | {"input_version": version} for row in rows]
    metadata = score_metadata(rows, HEADLINE_METRICS.get(variant.family, "accuracy"))
    metadata["questions without gold answer"] = questions["gold"].null_count()
    return StageOutput(rows, metadata=metadata, pictures=_draw_confidence(benchmark, question_rows, predictions))


def _draw_confidence(benchmark: str, questions: Sequence[QuestionRow], predictions: pl.DataFrame) -> dict[str, str]:
    """The reliability diagram of a variant's answers; empty if no confidence is a probability."""
    by_question = {row["question_id"]: row for row in typed_rows(predictions, PredictionRow)}
    confidence, correct = scoring.fitted_confidences(scoring.pair_answers(questions, by_question))
    if not correct:
        return {}
    return {"reliability": draw_reliability(f"Confidence on {benchmark}", confidence, correct)}


def _triple_metrics(
    plan: VariantPlan, context: StageContext, questions: pl.DataFrame, evidence: pl.DataFrame
) -> dict[str, Estimate]:
    """Scores of the evidence triples, for questions on a graph and variants with ``scores_triples``."""
    if not plan.variant.has_triple_metrics:
        return {}
    is_graph = plan.variant.family == "graph"
    tokens = get_encoder(context.profile.token_encoder) if is_graph else None
    with_recalled = is_graph and bool(plan.method.extra_inputs)
    ordered = typed_rows(questions.sort("question_id"), QuestionRow)
    return retrieval_scores.triple_metrics(ordered, evidence, tokens, recalled=with_recalled)


def _recall_limit(
    context: StageContext, questions: Sequence[QuestionRow], evidence: pl.DataFrame
) -> dict[str, Estimate]:
    """The highest possible recall of gold evidence, for evidence from the chunks of the benchmark's corpus."""
    corpus = context.benchmark.corpus
    if not corpus or not (evidence["source_kind"] == "chunk").any():
        return {}
    documents = {gold["source"] for question in questions for gold in question["gold_evidence"] or []}
    chunks = context.lake.scan("chunks", f"corpus/{corpus}/chunks").select("doc_id", "text")
    gold_chunks = chunks.filter(pl.col("doc_id").is_in(sorted(documents))).collect(engine="streaming")
    shares = recall_limit(questions, gold_chunks)
    return {"evidence_recall_limit": mean(shares)} if shares else {}


def score_passages(plan: VariantPlan, context: StageContext) -> StageOutput:
    questions = context.read_input("questions")
    evidence = context.read_input("evidence")
    # A lazy scan: the evidence references few chunks of a large corpus.
    chunks = context.lake.scan("chunks", f"corpus/{context.benchmark.corpus}/chunks")
    evidence_chunks = chunks.filter(pl.col("chunk_id").is_in(evidence["source_id"].unique().to_list()))
    documents = dict(evidence_chunks.select("chunk_id", "doc_id").collect(engine="streaming").iter_rows())
    ordered = typed_rows(questions.sort("question_id"), QuestionRow)
    metrics = retrieval_scores.passage_metrics(ordered, evidence, documents)
    metrics |= _recall_limit(context, [retrieval_scores.with_gold_sentences(q) for q in ordered], evidence)
    rows = scoring.metric_rows(context.benchmark_name, plan.selector, "", "", metrics)
    return StageOutput(rows, metadata={str(row["metric"]): row["value"] for row in rows if row["value"] is not None})


def score_metadata(rows: Sequence[Mapping[str, object]], headline: str) -> dict[str, object]:
    """Metadata of scores: all values, published figures, and the headline metric with its interval."""
    values = {str(row["metric"]): row["value"] for row in rows if row["value"] is not None}
    published = {f"published_{row['metric']}": row["published"] for row in rows if row["published"] is not None}
    intervals = {
        f"{headline}_95": f"{row['value'] or 0:.1%} [{row['low'] or 0:.1%}, {row['high'] or 0:.1%}], n = {row['n']}"
        for row in rows
        if row["metric"] == headline
    }
    return {**values, **published, **intervals}


# The pipelines ------------------------------------------------------------------------------------------------------


def check_failed_share(rows: pl.DataFrame) -> list[str]:
    """Report an error if more than ``FAILED_SHARE_LIMIT`` of the rows failed."""
    failed = rows.filter(pl.col("status") == "failed")
    if rows.height and failed.height / rows.height > FAILED_SHARE_LIMIT:
        reasons = failed["error"].value_counts(sort=True).head(3).to_dicts()
        return [f"{failed.height} of {rows.height} rows failed: {reasons}"]
    return []


def check_predictions(plan: VariantPlan, rows: pl.DataFrame) -> list[str]:
    """Report failed rows and, for a variant that is compared with a paper, requests that a simpler method stood in for.

    Otherwise the score of another method would be compared with the printed one.
    """
    problems = check_failed_share(rows)
    counts = plan.method.count_fallbacks(rows) if plan.variant.is_published else {}
    for part, (fell_back, requests) in counts.items():
        if requests and fell_back / requests > FALLBACK_SHARE_LIMIT:
            problems.append(
                f"{fell_back} of {requests} requests for {part} fell back to a simpler method, so the scores would not "
                f"be those of {plan.variant.name}: {_common_reasons(rows)}. Correct the model in the profile, then "
                "materialize again; usable replies are reused"
            )
    return problems


def _common_reasons(rows: pl.DataFrame) -> list[str]:
    """The two most frequent reasons of omissions."""
    omissions = rows.select(pl.col("omissions").explode(empty_as_null=True)).drop_nulls().unnest("omissions")
    return omissions["reason"].value_counts(sort=True).head(2)["reason"].to_list()


def check_incomplete_share(rows: pl.DataFrame) -> list[str]:
    """Report a problem if more than ``INCOMPLETE_SHARE_LIMIT`` of the predictions lack a part of their input."""
    incomplete = rows.filter(pl.col("omissions").list.len() > 0)
    if not rows.height or incomplete.height / rows.height <= INCOMPLETE_SHARE_LIMIT:
        return []
    omissions = incomplete.select(pl.col("omissions").explode(empty_as_null=True)).unnest("omissions")
    counts = dict(omissions["kind"].value_counts(sort=True).iter_rows())
    return [f"{incomplete.height} of {rows.height} predictions are incomplete: {counts}, such as {omissions.row(0)}"]


def check_recall_limit(rows: pl.DataFrame) -> list[str]:
    """Report a problem if chunks of the corpus hold too little of the gold evidence."""
    limits = rows.filter(pl.col("metric") == "evidence_recall_limit")
    return [
        f"{1 - value:.1%} of the gold evidence of {n} questions is in no single chunk of the corpus, so that "
        f"evidence_recall is at most {value:.3f}. Read recall of documents, or enlarge `chunking` in the profile"
        for value, n in limits.select("value", "n").iter_rows()
        if value < LEAST_RECALL_LIMIT
    ]


def build_stage(
    plan: VariantPlan,
    table: str,
    compute: ComputeStage,
    description: str,
    inputs: Sequence[StageInput],
    *,
    partitions: Partitions = "questions",
    check: RowCheck | None = None,
    warning_check: RowCheck | None = None,
) -> Stage:
    """The stage of a variant that writes a table."""
    variant = plan.variant
    return Stage(
        plan.key(table),
        table,
        partial(compute, plan),
        f"{description}: {FAMILIES[cast(Family, variant.family)]}, evidence selected by {plan.selector}.",
        inputs,
        plan.version(table),
        family=variant.family,
        pool=plan.pool(table),
        models=plan.answering.evidence_models if table == "evidence" else variant.active_models,
        prompt_settings=variant.prompt_settings,
        partitions=partitions,
        check=check,
        warning_check=warning_check,
    )


def family_stages(plan: VariantPlan) -> Iterator[Stage]:
    """The stages of a variant that selects evidence, in order.

    Options are explained in chains, then one is chosen; questions on a graph get short answers; searches of a knowledge
    base rank its nodes; for retrieval collections only evidence is scored.
    """
    if not plan.variant.evidence:
        yield from plan.method.shared_stages
        yield build_stage(plan, "evidence", select_evidence, "Evidence", plan.read("questions") + plan.sources)
    if plan.variant.family == "retrieval":
        corpora = sorted({b.corpus for b in benchmarks_of_family("retrieval")} - {""})
        inputs = plan.read("questions", "evidence", partitions="benchmark")
        inputs += [StageInput(f"corpus/{name}/chunks", "every") for name in corpora]
        yield _build_score_stage(plan, score_passages, "Gold documents found", inputs)
    else:
        yield from _answer_stages(plan)


def _answer_stages(plan: VariantPlan) -> Iterator[Stage]:
    """The stages after evidence, for families with answers."""
    read = plan.read
    extra_inputs = plan.answering.extra_inputs(plan.sources)
    answer_inputs = read("questions", "evidence") + extra_inputs
    if plan.answering.has_options:
        yield build_stage(plan, "chains", explain_options, "One reasoning chain per option", answer_inputs)
        answer_inputs = read("questions", "evidence", "chains") + extra_inputs
    yield build_stage(
        plan,
        "predictions",
        answer_questions,
        "One prediction per question",
        answer_inputs,
        check=partial(check_predictions, plan),
        warning_check=check_incomplete_share,
    )
    if plan.answering.has_options:
        yield build_stage(plan, "citations", check_chains, "Citations, each checked", read("chains", "evidence"))
    else:
        searched = benchmarks_of_family("search") if plan.variant.family == "search" else []
        nodes = [StageInput(f"knowledge/{graph}/nodes") for graph in sorted({b.graph for b in searched} - {""})]
        cited = read("predictions", "evidence") + nodes
        yield build_stage(plan, "citations", check_answers, "Citations, each checked", cited)
    scored = read(*plan.scored_tables, partitions="benchmark")
    yield _build_score_stage(plan, score_answers, "Scores with their intervals", scored)
    if plan.variant.counterfactual:
        inputs = answer_inputs + read("predictions")
        description = "Answers without the evidence they cite"
        yield build_stage(plan, "counterfactuals", answer_counterfactuals, description, inputs)


def _build_score_stage(
    plan: VariantPlan, compute: ComputeStage, description: str, inputs: Sequence[StageInput]
) -> Stage:
    warning_check = check_recall_limit if "corpus" in plan.method.sources else None
    return build_stage(
        plan, "scores", compute, description, inputs, partitions="benchmarks", warning_check=warning_check
    )


def build_stages(method: AnyMethod) -> list[Stage]:
    """The stages of a method with the settings of its variant, in order."""
    variant = method.variant
    if isinstance(method, StagesMethod):
        return [
            replace(stage, models=variant.active_models, prompt_settings=variant.prompt_settings)
            for stage in method.build_stages()
        ]
    if variant.counterfactual and not variant.explain:
        raise BadInput(f"variant {variant.key} has no chains and so no citations: remove `counterfactual` or `explain`")
    assert isinstance(method, SelectionMethod)
    return list(family_stages(VariantPlan(method)))


def build_all_stages(method: AnyMethod) -> list[Stage]:
    """The stages of a method with all its model combinations, in order, without duplicates."""
    stages_by_key: dict[str, Stage] = {}
    for combination in combine_models(method):
        for stage in build_stages(combination):
            stages_by_key.setdefault(stage.key, stage)
    return list(stages_by_key.values())
