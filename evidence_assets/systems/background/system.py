"""Knowledge-graph prompting with the model's background knowledge (Ho, Nguyen; after KAPING).

Triples of the graph and of the model are ranked together. Triples of the model are not evidence from a source: they are
stored with the origin ``background``, and evidence rows mark them with ``"origin": "model"``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from evidence_assets import profiles
from evidence_assets.experiment.answers.chains import count_omissions
from evidence_assets.experiment.answers.short_answers import PreparationProblems
from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence, Selector, edge_evidence
from evidence_assets.experiment.evidence.sources import EXTERNAL_LINKS, ExternallyLinkedSelector, open_graph
from evidence_assets.experiment.methods import Fallbacks, NoSettings, PreparedMethod, StagesMethod
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.solvers import find_pool, open_profile_model, prompts_version
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.variants import available_models
from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph, plain_sentence
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, key_for_model
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder
from evidence_assets.profiles import ModelKind
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import MODEL_KNOWLEDGE
from evidence_assets.systems.background import VERSION
from evidence_assets.systems.background.recall import (
    RECALL_NAMES,
    RECALL_TRIPLES,
    RECALLED,
    PromptedBackground,
    RecalledTriple,
    StoredBackground,
    build_recall_rows,
    build_triple_rows,
    read_background,
)


@dataclass(frozen=True)
class BackgroundSettings:
    """Settings of the four published cases: triples of ``graph``, of the variant ``recall``, both, none.

    ``recalled_by`` names the language model whose recall every other model answers from; default: the one that answers.
    If another packaged profile has it, but not the active one, it is the profile's first.
    Triples of the graph are within ``D`` hops of the topic entities (published: 1). ``max_triples`` caps them before
    encoding: fewer hops first, then those whose relation is nearest to the question. The ``top_k`` nearest triples are
    selected (the paper does not give K; 10 is ours), encoded as ``(s, r, o)``. ``links`` names the linker
    of the topic entities, from a user's file (``experiment.evidence.sources.EXTERNAL_LINKS``); default: the built-in
    linker.
    """

    graph: bool = True
    recall: str = ""
    recalled_by: str = ""
    D: int = 1
    top_k: int = 10
    max_triples: int = 2000
    links: str = ""


class BackgroundKnowledge:
    """Selects the top K triples of both origins, nearest to the question first."""

    def __init__(
        self,
        graph: KnowledgeGraph,
        encoder: Encoder,
        settings: BackgroundSettings,
        recalled: StoredBackground | None = None,
    ) -> None:
        self._graph = graph
        self._encoder = encoder
        self._settings = settings
        self._recalled = recalled if recalled and settings.recall else StoredBackground()
        models = (encoder.model_id, encoder.revision, self._recalled.version)
        self.version = content_id("background_knowledge", VERSION, asdict(settings), graph.version, *models)

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        return [self._rank(question, self._collect_triples(question)) for question in questions]

    def _triple_text(self, triple: int | RecalledTriple) -> str:
        """The text that is encoded, of an edge or a recalled triple."""
        words = triple.words if isinstance(triple, RecalledTriple) else self._graph.triple(triple)
        return f"({', '.join(words)})"

    def _collect_triples(self, question: Question) -> dict[str, int | RecalledTriple]:
        """Edges and recalled triples by their sentence; a fact of both is evidence from the graph."""
        triples: dict[str, int | RecalledTriple] = {}
        for edge_number in self._graph_triples(question):
            triples.setdefault(self._graph.sentence(edge_number), edge_number)
        for triple in self._recalled.triples.get(question.question_id, ()):
            triples.setdefault(plain_sentence(*triple.words), triple)
        return triples

    def _graph_triples(self, question: Question) -> list[int]:
        """At most ``max_triples`` edges within ``D`` hops of a question's topic entities, fewer hops first."""
        if not self._settings.graph:
            return []
        linker = self._graph.linker
        if self._settings.links:
            links = [linker.link(entity) for entity in question.topic_entities]
        else:
            links = [span.link for span in linker.find_spans(question.text)]
        topics = sorted({node for link in links for node in link.nodes})
        graph = self._graph.arrays
        edges: list[int] = []
        near = graph.neighbourhood(topics, max(self._settings.D - 1, 0))
        for hop in range(self._settings.D):
            new_edges = np.setdiff1d(graph.edges_at(near.nodes[near.hop == hop]), edges)
            edges += self._limit_edges(question, new_edges, self._settings.max_triples - len(edges)).tolist()
            if len(edges) == self._settings.max_triples:
                break
        return edges

    def _limit_edges(self, question: Question, edges: IntArray, limit: int) -> IntArray:
        """The edges whose relation is nearest to the question: a hub has fewer relations than triples to encode."""
        if len(edges) <= limit:
            return edges
        codes, relation_of = np.unique(self._graph.arrays.relations[edges], return_inverse=True)
        relations = [plain_sentence("", self._graph.relations[code], "").strip() for code in codes.tolist()]
        query, *vectors = self._encoder.encode_sentences([question.text, *relations])
        scores = np.round(np.stack(vectors) @ query, 6)
        return edges[np.lexsort((edges, -scores[relation_of]))[:limit]]

    def _rank(self, question: Question, triples: Mapping[str, int | RecalledTriple]) -> list[SelectedEvidence]:
        texts = [question.text, *map(self._triple_text, triples.values())]
        query, *vectors = self._encoder.encode_sentences(texts)
        scores = {sentence: round(float(vector @ query), 6) for sentence, vector in zip(triples, vectors, strict=True)}
        evidence = []
        for sentence in sorted(triples, key=lambda text: -scores[text])[: self._settings.top_k]:
            edge_or_triple = triples[sentence]
            if isinstance(edge_or_triple, RecalledTriple):
                about = {"origin": MODEL_KNOWLEDGE, "triple": edge_or_triple.words}
                details = json.dumps(about, ensure_ascii=False, sort_keys=True)
                parent = Parent("triple", edge_or_triple.triple_id, edge_or_triple.triple_id)
                evidence.append(SelectedEvidence("", "triple", (parent,), "", sentence, scores[sentence], details))
            else:
                evidence.append(edge_evidence(self._graph, edge_or_triple, scores[sentence], origin="graph"))
        return evidence


# Methods ------------------------------------------------------------------------------------------------------------


class Background(PreparedMethod[BackgroundSettings]):
    """Triples of the graph, of the model, or both."""

    name = "background"
    version = VERSION
    settings_class = BackgroundSettings
    sources = ("graph",)
    reads_default_vectors = True

    @property
    def model_kinds(self) -> Sequence[ModelKind]:
        settings = self.settings
        return ("generator", "encoder") if settings.recall and not settings.recalled_by else ("encoder",)

    @property
    def extra_inputs(self) -> Sequence[StageInput]:
        settings = self.settings
        keys = [f"raw/{EXTERNAL_LINKS}"] if settings.links else []
        if settings.recall:
            model = self.variant.active_models.get("generator", "")
            if settings.recalled_by:
                names = profiles.load().model_names("generator")
                name = (available_models(profiles.load(), "generator", [settings.recalled_by]) or names)[0]
                model = name if name != names[0] else ""
            keys += [key_for_model(f"{table}/graph/{settings.recall}", model) for table in ("chains", "triples")]
        return [StageInput(key) for key in keys]

    @property
    def tasks_per_question(self) -> Mapping[str, int]:
        """Those of the recall, which other variants share."""
        return {RECALL_NAMES.name: 2, RECALL_TRIPLES.name: 1} if self.settings.recall else {}

    def open_selector(self, context: StageContext) -> Selector:
        settings = self.settings
        recalled = read_background(context.read_input("chains")) if settings.recall else None
        graph = open_graph(context.lake, context.benchmark.graph, context.encoder)
        selector = BackgroundKnowledge(graph, get_encoder(context.profile.encoder), settings, recalled)
        return ExternallyLinkedSelector(selector, context, settings.links) if settings.links else selector

    def count_fallbacks(self, predictions: pl.DataFrame) -> Mapping[str, Fallbacks]:
        """Questions without background knowledge, which the graph's triples answer."""
        if not self.settings.recall:
            return {}
        return {RECALLED: Fallbacks(count_omissions(predictions, "missing", RECALLED), predictions.height)}

    def find_problems(self, context: StageContext) -> PreparationProblems:
        """What recalls lack; a failed recall fails its question if nothing else would be shown."""
        if not self.settings.recall:
            return PreparationProblems()
        recalled = read_background(context.read_input("chains"))
        return PreparationProblems({} if self.settings.graph else recalled.errors, recalled.omissions)


class Recall(StagesMethod[NoSettings]):
    """Facts that a language model recalls: their chains, and triples of the origin ``background``."""

    name = "recall"
    version = VERSION
    prompted_tasks = (RECALL_NAMES, RECALL_TRIPLES)
    settings_class = NoSettings
    model_kinds = ("generator",)

    def build_stages(self) -> list[Stage]:
        generator = self.variant.profile.generator
        prompts = self.variant.prompt_settings
        prompt_version = prompts_version(generator, RECALL_NAMES, RECALL_TRIPLES, prompts=prompts)
        chains = Stage(
            f"chains/{self.variant.key}",
            "chains",
            self._recall,
            "Entities, relations and facts that a language model recalls.",
            [StageInput("questions/graph")],
            f"{VERSION}:{prompt_version}",
            family="graph",
            pool=find_pool(generator),
        )
        triples = Stage(
            f"triples/{self.variant.key}",
            "triples",
            lambda context: build_triple_rows(context.read_input("chains")),
            "Recalled facts as triples: knowledge of the model, without a source.",
            [StageInput(chains.key)],
            VERSION,
            family="graph",
        )
        return [chains, triples]

    def _recall(self, context: StageContext) -> StageOutput:
        model = open_profile_model(context)
        if model is None:
            raise BadInput(
                f"background knowledge needs a language model. Set `generator` in the profile "
                f"{context.profile.name}, or remove this variant"
            )
        questions = build_questions(context.read_input("questions"))
        return build_recall_rows(PromptedBackground(model), self.variant.name, questions, context.previous_output)
