"""The method of 4StepFocus and its baselines: opens the ranker and answers with ranked nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from evidence_assets.benchmarks.knowledge_bases import KnowledgeBase, find_knowledge_base
from evidence_assets.experiment.answers.predictions import Answer, Answerer, UsedRow, as_used_rows, evidence_by_question
from evidence_assets.experiment.evidence.selection import Question, selection_details
from evidence_assets.experiment.evidence.sources import open_benchmark_graph
from evidence_assets.experiment.methods import AnsweringMethod
from evidence_assets.experiment.solvers import open_profile_model
from evidence_assets.experiment.stage import StageContext
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.models.registry import get_encoder, get_reranker, model_key
from evidence_assets.profiles import ModelKind
from evidence_assets.systems.four_step_focus import VERSION
from evidence_assets.systems.four_step_focus.grading import GRADE, Grader, PromptedGrader, RerankerGrader
from evidence_assets.systems.four_step_focus.question_forms import FormParser, load_sample_forms
from evidence_assets.systems.four_step_focus.ranking import FocusSettings, FourStepFocus, TripletReader
from evidence_assets.systems.four_step_focus.triplets import TRIPLETS, PromptedTriplets, Schema


class NodeAnswerer:
    """Answers with nodes, best first; nodes that satisfy the triplets are supported.

    The used rows of an answer include its node, so that traces of the answer can show the node's name.
    """

    def __init__(self, system: FourStepFocus, reasoner: str, model_id: str, evidence: pl.DataFrame) -> None:
        self._system, self._evidence = system, evidence_by_question(evidence)
        self.name, self.model_id, self.version = reasoner, model_id, content_id(system.version, model_id)
        self.notes = {"questions_with_unusable_triplets": 0}

    def input_hash(self, question: Question) -> str:
        rows = self._evidence.get(question.question_id, [])
        return content_id([(row["evidence_id"], row["content_hash"]) for row in rows])

    def answer(self, questions: Sequence[Question]) -> Iterator[Answer]:
        for question, ranking in zip(questions, self._system.rank(questions), strict=True):
            ranked_ids = tuple(node.node_id for node in ranking.nodes)
            self.notes["questions_with_unusable_triplets"] += bool(ranking.notes)
            best = (UsedRow("node", ranked_ids[0], ranked_ids[0], 0),) if ranked_ids else ()
            evidence_rows = self._evidence.get(question.question_id, [])
            best_rows = [r for r in evidence_rows if ranked_ids and selection_details(r)["answer"] == ranked_ids[0]]
            yield Answer(
                ranked_ids[0] if ranked_ids else None,
                ranking.status,
                tuple(ranking.supported),
                ranked_ids,
                error=ranking.error or None,
                used_rows=(*best, *as_used_rows(best_rows)),
                given_rows=tuple(as_used_rows(evidence_rows)),
                reply=ranking.reply,
                omissions=ranking.omissions,
            )


def _open_selector(context: StageContext, settings: FocusSettings) -> FourStepFocus:
    declared = find_knowledge_base(context.benchmark.graph)
    graph = open_benchmark_graph(context)
    return FourStepFocus(
        graph,
        get_encoder(context.profile.encoder),
        _open_triplet_reader(context, declared, graph, settings) if settings.triplets else None,
        _open_grader(context, settings) if settings.rerank else None,
        settings,
        frozenset(declared.symmetric),
        declared.answers,
    )


def _reasoner_and_model(context: StageContext, settings: FocusSettings) -> tuple[str, str]:
    """The columns ``reasoner`` and ``model_id``: the model that reads the question and the one that ranks."""
    model, key = open_profile_model(context), model_key(get_encoder(context.profile.encoder))
    if settings.triplets and model is None:
        return "form_parser", f"form_parser+{key}"
    if model is not None and (settings.triplets or settings.rerank):
        return "prompted", f"{model.model_id}+{key}"
    return "reranker" if settings.rerank else settings.search, key


def _open_triplet_reader(
    context: StageContext, declared: KnowledgeBase, graph: KnowledgeGraph, settings: FocusSettings
) -> TripletReader:
    model = open_profile_model(context)
    if model is not None and graph.relations:
        return PromptedTriplets(model, Schema(graph.type_names, graph.relations, settings.denials))
    return FormParser(load_sample_forms() if declared.forms else (), graph.type_names)


def _open_grader(context: StageContext, settings: FocusSettings) -> Grader:
    model = open_profile_model(context)
    if model is not None:
        return PromptedGrader(model)
    tokens = get_encoder(context.profile.token_encoder)
    return RerankerGrader(
        get_reranker(context.profile.reranker, context.profile.token_encoder), count_tokens=tokens.count_tokens
    )


class FourStepFocusMethod(AnsweringMethod[FocusSettings]):
    """4StepFocus: triplets of the question, candidates that satisfy them, and a ranking."""

    name = "four_step_focus"
    version = VERSION
    settings_class = FocusSettings
    sources = ("knowledge_base",)
    prompted_tasks = (TRIPLETS, GRADE)

    @property
    def model_kinds(self) -> Sequence[ModelKind]:
        settings = self.settings
        kinds: tuple[ModelKind, ...] = ("generator",) if settings.triplets or settings.rerank else ()
        return (*kinds, "encoder", *(("reranker",) if settings.rerank else ()))

    def open_selector(self, context: StageContext) -> FourStepFocus:
        return _open_selector(context, self.settings)

    def open_answerer(self, context: StageContext, evidence: pl.DataFrame) -> Answerer:
        system = _open_selector(context, self.settings)
        return NodeAnswerer(system, *_reasoner_and_model(context, self.settings), evidence)
