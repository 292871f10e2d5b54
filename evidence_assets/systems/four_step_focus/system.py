"""The method of 4StepFocus and its baselines: opens the ranker and answers with ranked nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from evidence_assets.benchmarks.knowledge_bases import find_knowledge_base
from evidence_assets.experiment.answers.chains import count_omissions
from evidence_assets.experiment.answers.predictions import Answer, Answerer, UsedRow, as_used_rows
from evidence_assets.experiment.evidence.sources import SourceKind, open_benchmark_graph
from evidence_assets.experiment.evidence_rows import evidence_by_question
from evidence_assets.experiment.methods import AnsweringMethod, Fallbacks
from evidence_assets.experiment.solvers import open_profile_model
from evidence_assets.experiment.stage import StageContext, StageInput
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.models.registry import get_encoder, get_reranker
from evidence_assets.profiles import ModelKind
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.four_step_focus import VERSION
from evidence_assets.systems.four_step_focus.grading import GRADE, Grader, PromptedGrader, RerankerGrader
from evidence_assets.systems.four_step_focus.published_vectors import FOLDER, MODEL, PublishedVectors
from evidence_assets.systems.four_step_focus.question_forms import FormParser, load_sample_forms
from evidence_assets.systems.four_step_focus.ranking import GRADE_PREFIX, FocusSettings, FourStepFocus, TripletReader
from evidence_assets.systems.four_step_focus.triplets import TRIPLETS, PromptedTriplets, Schema


class NodeAnswerer:
    """Answers with nodes, best first; nodes that satisfy the triplets are supported.

    The used rows of an answer include its node, so that traces of the answer can show the node's name.
    """

    def __init__(self, system: FourStepFocus, reasoner: str, model_id: str, evidence: pl.DataFrame) -> None:
        self._system = system
        self._evidence = evidence_by_question(evidence)
        self.name = reasoner
        self.model_id = model_id
        self.version = content_id(system.version, model_id)
        self.notes = {"questions_with_unusable_triplets": 0}

    def input_hash(self, question: Question) -> str:
        items = self._evidence.get(question.question_id, [])
        return content_id([(item.evidence_id, item.content_hash) for item in items])

    def answer(self, questions: Sequence[Question]) -> Iterator[Answer]:
        for question, ranking in zip(questions, self._system.rank(questions), strict=True):
            self.notes["questions_with_unusable_triplets"] += bool(ranking.notes)
            ranked_ids = tuple(node.node_id for node in ranking.nodes)
            best = ranked_ids[0] if ranked_ids else None
            evidence = self._evidence.get(question.question_id, [])
            of_best = [item for item in evidence if best and item.details["answer"] == best]
            best_node = (UsedRow("node", best, best, 0),) if best else ()
            yield Answer(
                best,
                ranking.status,
                tuple(ranking.supported),
                ranked_ids,
                error=ranking.error or None,
                used_rows=(*best_node, *as_used_rows(of_best)),
                given_rows=tuple(as_used_rows(evidence)),
                reply=ranking.reply,
                omissions=ranking.omissions,
            )


def build_triplet_reader(
    model: LanguageModel | None, graph: KnowledgeGraph, settings: FocusSettings, has_forms: bool
) -> TripletReader:
    """The language model, or without one a parser of the sample's forms, if the base's questions have them."""
    if model is not None and graph.relations:
        return PromptedTriplets(model, Schema(graph.type_names, graph.relations, settings.denials))
    return FormParser(load_sample_forms() if has_forms else (), graph.type_names)


def _open_grader(context: StageContext, model: LanguageModel | None) -> Grader:
    if model is not None:
        return PromptedGrader(model)
    token_encoder = context.profile.token_encoder
    reranker = get_reranker(context.profile.reranker, token_encoder)
    return RerankerGrader(reranker, get_encoder(token_encoder).count_tokens)


class FourStepFocusMethod(AnsweringMethod[FocusSettings]):
    """4StepFocus: triplets of the question, candidates that satisfy them, and a ranking."""

    name = "four_step_focus"
    version = VERSION
    settings_class = FocusSettings
    sources: Sequence[SourceKind] = ("knowledge_base",)
    prompted_tasks = (TRIPLETS, GRADE)

    @property
    def model_kinds(self) -> Sequence[ModelKind]:
        if self.settings.rerank:
            return ("generator", "encoder", "reranker")
        return ("generator", "encoder") if self.settings.triplets else ("encoder",)

    @property
    def tasks_per_question(self) -> Mapping[str, int]:
        return {TRIPLETS.name: bool(self.settings.triplets), GRADE.name: self.settings.rerank * self.settings.k_max}

    def count_fallbacks(self, predictions: pl.DataFrame) -> Mapping[str, Fallbacks]:
        """Questions without triplets, which vector search answers, and nodes without a grade, which it ranks."""
        unread = Fallbacks(count_omissions(predictions, "missing", "triplets"), predictions.height)
        n_ranked = int(predictions["ranked_answers"].list.len().sum())
        ungraded = Fallbacks(count_omissions(predictions, "rejected", GRADE_PREFIX), n_ranked)
        counts = {"triplets": unread} if self.settings.triplets else {}
        return counts | ({"grades": ungraded} if self.settings.rerank else {})

    def open_selector(self, context: StageContext) -> FourStepFocus:
        settings = self.settings
        declared = find_knowledge_base(context.benchmark.graph)
        graph = open_benchmark_graph(context)
        model = open_profile_model(context)
        return FourStepFocus(
            graph,
            get_encoder(context.profile.encoder),
            build_triplet_reader(model, graph, settings, bool(declared.forms)) if settings.triplets else None,
            _open_grader(context, model) if settings.rerank else None,
            settings,
            frozenset(declared.symmetric),
            declared.answers,
            self.open_published(context, graph),
        )

    def open_published(self, context: StageContext, graph: KnowledgeGraph) -> PublishedVectors | None:
        """Published vectors of questions and nodes, if the method has some."""
        return None

    def open_answerer(self, context: StageContext, evidence: pl.DataFrame) -> Answerer:
        settings = self.settings
        model = open_profile_model(context)
        system = self.open_selector(context)
        model_id = system.vector_model
        reasoner: str = "reranker" if settings.rerank else settings.search
        if model is None and settings.triplets:
            reasoner = "form_parser"
            model_id = f"form_parser+{model_id}"
        elif model is not None and (settings.triplets or settings.rerank):
            reasoner = "prompted"
            model_id = f"{model.model_id}+{model_id}"
        return NodeAnswerer(system, reasoner, model_id, evidence)


class PublishedVectorsMethod(FourStepFocusMethod):
    """4StepFocus with published vectors; none of them is a constant's, so ``nearest_nodes`` must be 0."""

    name = "published_vectors"
    sources = ("nodes_and_edges",)
    extra_inputs = (StageInput(f"raw/{FOLDER}"),)

    def open_published(self, context: StageContext, graph: KnowledgeGraph) -> PublishedVectors:
        """The vectors of the benchmark's questions and of the nodes of its base."""
        source_ids = dict(context.read_input("questions").select("question_id", "source_id").iter_rows())
        folder = context.lake.raw_path(f"{FOLDER}/{context.benchmark.base_name}/{MODEL}")
        return PublishedVectors(folder, graph, source_ids)
