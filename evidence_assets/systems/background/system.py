"""Knowledge-graph prompting with the model's background knowledge (Ho, Nguyen; after KAPING).

Triples of graph and model are ranked together. Those of the model are model knowledge: they are stored with the origin
``background`` and their evidence says ``"origin": "model"``; they never count as a source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from evidence_assets.experiment.evidence.selection import (
    MODEL_KNOWLEDGE,
    Parent,
    Question,
    SelectedEvidence,
    Selector,
    build_questions,
    edge_evidence,
)
from evidence_assets.experiment.evidence.sources import EXTERNAL_LINKS, ExternallyLinkedSelector, open_graph
from evidence_assets.experiment.solvers import find_pool, open_profile_model, prompts_version
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.system import CustomStages, Method, NoSettings, System
from evidence_assets.experiment.variants import Variant
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph, plain_sentence
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.registry import get_encoder
from evidence_assets.profiles import ModelKind
from evidence_assets.systems.background import VERSION
from evidence_assets.systems.background.recall import (
    RECALL_NAMES,
    RECALL_TRIPLES,
    PromptedBackground,
    RecalledTriple,
    StoredBackground,
    build_recall_rows,
    build_triple_rows,
    read_background,
)


@dataclass(frozen=True)
class BackgroundSettings:
    """The four published cases: the ``graph``'s triples, those that the variant ``recall`` recalled, both, or none.

    Triples of the graph lie within ``D`` steps of the topic entities (published: 1); ``max_triples`` caps them before
    they are encoded, nearer steps, then lower edge numbers stay. The ``top_k`` nearest to the question are kept; K is
    not stated there, 10 is ours. ``links``: the linker whose entities are the topics, in a user's file
    (``experiment.evidence.sources.LINKS``); ours where none is named.
    """

    graph: bool = True
    recall: str = ""
    D: int = 1
    top_k: int = 10
    max_triples: int = 2000
    links: str = ""


class BackgroundKnowledge:
    """Picks the top K triples of both origins, nearest to the question first; none where recalling failed."""

    def __init__(
        self,
        graph: KnowledgeGraph,
        encoder: Encoder,
        settings: BackgroundSettings,
        recalled: StoredBackground | None = None,
    ) -> None:
        self._graph, self._encoder, self._settings = graph, encoder, settings
        self._recalled = recalled if recalled and settings.recall else StoredBackground({}, {})
        models = encoder.model_id, encoder.revision, self._recalled.version
        self.version = content_id("background_knowledge", VERSION, asdict(settings), graph.version, *models)

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        drafts = [self._triples(question) for question in questions]
        texts = list(dict.fromkeys([*(q.text for q in questions), *(text for found in drafts for text in found)]))
        vectors = dict(zip(texts, self._encoder.encode_sentences(texts), strict=True)) if texts else {}
        return [
            [] if question.question_id in self._recalled.failed else self._ranked(question, triples, vectors)
            for question, triples in zip(questions, drafts, strict=True)
        ]

    def _triples(self, question: Question) -> dict[str, int | RecalledTriple]:
        """Edges and recalled triples by what they say; what the graph states too is evidence from the graph."""
        found: dict[str, int | RecalledTriple] = {}
        for edge_number in self._graph_triples(question):
            found.setdefault(self._graph.sentence(edge_number), edge_number)
        for triple in self._recalled.stated.get(question.question_id, ()):
            found.setdefault(plain_sentence(triple.head, triple.relation, triple.tail), triple)
        return found

    def _graph_triples(self, question: Question) -> list[int]:
        """The edges within ``D`` steps of a question's topic entities, nearer ones first."""
        if not self._settings.graph:
            return []
        linker = self._graph.linker
        if self._settings.links:
            links = [linker.link(entity) for entity in question.topic_entities]
        else:
            links = [span.link for span in linker.find_spans(question.text)]
        ring = sorted({node for link in links for node in link.nodes})
        graph, seen, edges = self._graph.arrays, set(ring), dict[int, None]()
        for _ in range(self._settings.D):
            fresh = graph.edges_at(np.array(ring, dtype=np.int64)).tolist()
            edges.update(dict.fromkeys(fresh))
            if len(edges) >= self._settings.max_triples:
                break
            ends = {int(node) for edge in fresh for node in (graph.heads[edge], graph.tails[edge])}
            ring = sorted(ends - seen)
            seen |= ends
        return list(edges)[: self._settings.max_triples]

    def _ranked(
        self, question: Question, triples: Mapping[str, int | RecalledTriple], vectors: Mapping[str, FloatArray]
    ) -> list[SelectedEvidence]:
        query = vectors[question.text]
        scores = {text: round(float(vectors[text] @ query), 6) for text in triples}
        picks = []
        for sentence in sorted(triples, key=lambda text: -scores[text])[: self._settings.top_k]:
            origin = triples[sentence]
            if isinstance(origin, RecalledTriple):
                words = (origin.head, origin.relation, origin.tail)
                why = json.dumps({"origin": MODEL_KNOWLEDGE, "triple": words}, ensure_ascii=False, sort_keys=True)
                parent = Parent("triple", origin.triple_id, origin.triple_id)
                picks.append(SelectedEvidence("", "triple", (parent,), "", sentence, scores[sentence], why))
            else:
                picks.append(edge_evidence(self._graph, origin, scores[sentence], origin="graph"))
        return picks


# Opened for a stage -------------------------------------------------------------------------------------------------


def _recalled(context: StageContext) -> StoredBackground:
    """What was recalled for the partition's questions, each of which it must have a row of, if only a failed one."""
    rows = context.read_input("chains")
    questions = context.read_input("questions")["question_id"].to_list()
    missing = len(set(questions) - set(rows["question_id"].to_list()))
    if missing:
        raise StaleInput(
            f"what the model recalls is missing for {missing} of {len(questions)} questions of {context.partition}: "
            "materialize it first"
        )
    return read_background(rows)


def _open(context: StageContext, settings: BackgroundSettings) -> Selector:
    recalled = _recalled(context) if settings.recall else None
    graph = open_graph(context.lake, context.benchmark.graph, context.encoder)
    selector = BackgroundKnowledge(graph, get_encoder(context.profile.encoder), settings, recalled)
    return ExternallyLinkedSelector(selector, context, settings.links) if settings.links else selector


def _failed(context: StageContext, settings: BackgroundSettings) -> Mapping[str, str]:
    """Questions for which recalling failed."""
    return read_background(context.read_input("chains")).failed if settings.recall else {}


def _reads(variant: Variant, settings: BackgroundSettings) -> Sequence[StageInput]:
    links = [StageInput(f"raw/{EXTERNAL_LINKS}")] if settings.links else []
    if not settings.recall:
        return links
    return links + [
        StageInput(variant.with_models(f"{table}/graph/{settings.recall}", ["generator"]))
        for table in ("chains", "triples")
    ]


def _models(settings: BackgroundSettings) -> tuple[ModelKind, ...]:
    return ("generator", "encoder") if settings.recall else ("encoder",)


def _recall_stages(variant: Variant, settings: NoSettings) -> list[Stage]:
    """``chains/graph/<name>``, what the model recalled, and ``triples/graph/<name>`` with the origin ``background``."""
    chains = f"chains/{variant.key}"
    recalls = prompts_version(variant.profile.generator, RECALL_NAMES, RECALL_TRIPLES, prompts=variant.words)

    def make_chains(context: StageContext) -> StageOutput:
        model = open_profile_model(context)
        if model is None:
            raise BadInput(
                f"background knowledge takes a language model: name one under `generator` in the profile "
                f"{context.profile.name}, or leave this variant out"
            )
        source = PromptedBackground(model)
        return build_recall_rows(
            source, variant.name, build_questions(context.read_input("questions")), context.previous_output
        )

    def make_triples(context: StageContext) -> StageOutput:
        return build_triple_rows(context.read_input("chains"))

    about = "Entities, relations and facts that a language model recalls."
    reads, pool = [StageInput("questions/graph")], find_pool(variant.profile.generator)
    as_triples = "Recalled facts as triples: model knowledge, stated in no source."
    place = f"triples/{variant.key}"
    return [
        Stage(chains, "chains", make_chains, about, reads, f"{VERSION}:{recalls}", family="graph", pool=pool),
        Stage(place, "triples", make_triples, as_triples, [StageInput(chains)], VERSION, family="graph"),
    ]


SYSTEM = System(
    "background",
    VERSION,
    {
        "background": Method(
            settings=BackgroundSettings,
            open_selector=_open,
            sources=("graph",),
            has_own_encoder=True,
            extra_inputs=_reads,
            preparation_errors=_failed,
            model_kinds=_models,
        ),
        "recall": CustomStages(settings=NoSettings, stages=_recall_stages, model_kinds=("generator",)),
    },
)
