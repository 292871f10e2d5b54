"""4StepFocus and the searches that it is compared with: how each is opened for a step."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from evidence_assets.benchmarks.knowledge_bases import KnowledgeBase, declared_base
from evidence_assets.experiment.answers import Answerer
from evidence_assets.experiment.inputs import graph_of
from evidence_assets.experiment.selection import asked
from evidence_assets.experiment.solvers import reader_of_profile
from evidence_assets.experiment.step import Step
from evidence_assets.experiment.system import Method, System
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.models.in_use import encoder, model_key, reranker
from evidence_assets.profiles import Kind
from evidence_assets.systems.four_step_focus import VERSION
from evidence_assets.systems.four_step_focus.grading import GRADE, Grader, PromptedGrader, RerankerGrader
from evidence_assets.systems.four_step_focus.node_search import NodeSearch
from evidence_assets.systems.four_step_focus.question_forms import FormParser, sample_forms
from evidence_assets.systems.four_step_focus.settings import FocusSettings
from evidence_assets.systems.four_step_focus.system import FourStepFocus, RanksNodes, schema_of
from evidence_assets.systems.four_step_focus.triplets import TRIPLETS, PromptedTriplets, TripletReader


def _open(name: str, step: Step, settings: FocusSettings) -> FourStepFocus:
    declared = declared_base(step.benchmark.graph)
    graph = graph_of(step)
    if step.shown is not None:
        settings = replace(settings, fallback=True)  # no triplets come back, but entries are to be shown as well
    return FourStepFocus(
        name,
        graph,
        NodeSearch(graph, settings.search),
        encoder(step.profile.encoder),
        _triplet_reader(step, declared, graph) if settings.triplets else None,
        _grader(step, settings) if settings.rerank else None,
        settings,
        frozenset(declared.symmetric),
        declared.answers,
    )


def _answerer(name: str, step: Step, settings: FocusSettings, evidence: pl.DataFrame) -> Answerer:
    questions = asked(step.read_here("questions", "questions/search"))
    return RanksNodes(_open(name, step, settings), *_reasoner(step, settings), questions, evidence)


def _reasoner(step: Step, settings: FocusSettings) -> tuple[str, str]:
    """What the columns ``reasoner`` and ``model_id`` say: who read the question and who ranked."""
    model, key = reader_of_profile(step), model_key(encoder(step.profile.encoder))
    if settings.triplets and model is None:
        return "form_parser", f"form_parser+{key}"
    if model is not None and (settings.triplets or settings.rerank):
        return "prompted", f"{model.model_id}+{key}"
    return "reranker" if settings.rerank else settings.search, key


def _triplet_reader(step: Step, declared: KnowledgeBase, graph: KnowledgeGraph) -> TripletReader:
    model = reader_of_profile(step)
    if model is not None and len(graph):
        return PromptedTriplets(model, schema_of(graph))
    return FormParser(sample_forms() if declared.forms else (), graph.type_names)


def _grader(step: Step, settings: FocusSettings) -> Grader:
    model = reader_of_profile(step)
    if model is not None:
        return PromptedGrader(model, scale=settings.grades)
    tokens = encoder(step.profile.token_encoder)
    return RerankerGrader(reranker(step.profile.reranker, step.profile.token_encoder), count_tokens=tokens.count_tokens)


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
            models=_models,
            asks=(TRIPLETS, GRADE),
        )
    },
)
