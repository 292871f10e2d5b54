"""4StepFocus and the searches that it is compared with: how each is opened for a context."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from evidence_assets.benchmarks.knowledge_bases import KnowledgeBase, declared_base
from evidence_assets.experiment.answers.predictions import Answerer
from evidence_assets.experiment.evidence.selection import asked
from evidence_assets.experiment.evidence.sources import graph_of
from evidence_assets.experiment.solvers import reader_of_profile
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.system import Method, System
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.models.in_use import encoder, model_key, reranker
from evidence_assets.profiles import Kind
from evidence_assets.systems.four_step_focus import VERSION
from evidence_assets.systems.four_step_focus.grading import GRADE, Grader, PromptedGrader, RerankerGrader
from evidence_assets.systems.four_step_focus.node_search import NodeSearch
from evidence_assets.systems.four_step_focus.question_forms import FormParser, sample_forms
from evidence_assets.systems.four_step_focus.ranking import FourStepFocus, RanksNodes, schema_of
from evidence_assets.systems.four_step_focus.settings import FocusSettings
from evidence_assets.systems.four_step_focus.triplets import TRIPLETS, PromptedTriplets, TripletReader


def _open(context: StageContext, settings: FocusSettings) -> FourStepFocus:
    declared = declared_base(context.benchmark.graph)
    graph = graph_of(context)
    if context.shown is not None:
        settings = replace(settings, fallback=True)  # no triplets come back, but entries are to be shown as well
    return FourStepFocus(
        graph,
        NodeSearch(graph, settings.search),
        encoder(context.profile.encoder),
        _triplet_reader(context, declared, graph) if settings.triplets else None,
        _grader(context, settings) if settings.rerank else None,
        settings,
        frozenset(declared.symmetric),
        declared.answers,
    )


def _answerer(context: StageContext, settings: FocusSettings, evidence: pl.DataFrame) -> Answerer:
    questions = asked(context.input("questions"))
    return RanksNodes(_open(context, settings), *_reasoner(context, settings), questions, evidence)


def _reasoner(context: StageContext, settings: FocusSettings) -> tuple[str, str]:
    """What the columns ``reasoner`` and ``model_id`` say: who read the question and who ranked."""
    model, key = reader_of_profile(context), model_key(encoder(context.profile.encoder))
    if settings.triplets and model is None:
        return "form_parser", f"form_parser+{key}"
    if model is not None and (settings.triplets or settings.rerank):
        return "prompted", f"{model.model_id}+{key}"
    return "reranker" if settings.rerank else settings.search, key


def _triplet_reader(context: StageContext, declared: KnowledgeBase, graph: KnowledgeGraph) -> TripletReader:
    model = reader_of_profile(context)
    if model is not None and len(graph):
        return PromptedTriplets(model, schema_of(graph))
    return FormParser(sample_forms() if declared.forms else (), graph.type_names)


def _grader(context: StageContext, settings: FocusSettings) -> Grader:
    model = reader_of_profile(context)
    if model is not None:
        return PromptedGrader(model, scale=settings.grades)
    tokens = encoder(context.profile.token_encoder)
    return RerankerGrader(
        reranker(context.profile.reranker, context.profile.token_encoder), count_tokens=tokens.count_tokens
    )


def _models(settings: FocusSettings) -> tuple[Kind, ...]:
    reads: tuple[Kind, ...] = ("generator",) if settings.triplets or settings.rerank else ()
    return (*reads, "encoder", *(("reranker",) if settings.rerank else ()))


SYSTEM = System(
    "four_step_focus",
    VERSION,
    {
        "four_step_focus": Method(
            settings=FocusSettings,
            open=_open,
            reads=("knowledge_base",),
            answerer=_answerer,
            uses=_models,
            asks=(TRIPLETS, GRADE),
        )
    },
)
