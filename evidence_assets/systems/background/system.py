"""Knowledge-graph prompting with the model's background knowledge (Ho, Nguyen; after KAPING).

Triples of graph and model are ranked together. Those of the model are model knowledge: they are stored with the origin
``background`` and their evidence says ``"origin": "model"``; they never count as a source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from evidence_assets.experiment.chains import add_chain
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.selection import MODEL_KNOWLEDGE, Asked, Parent, Pick, pick_fact
from evidence_assets.experiment.step import Before, Made
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph, plain_sentence
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, edge
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.reasoning.asking import LanguageModel, Progress
from evidence_assets.reasoning.tasks import Chain, Failure, Reply, Step
from evidence_assets.systems.background import VERSION
from evidence_assets.systems.background.recall import (
    RECALL_ENTITIES,
    RECALL_RELATIONS,
    RECALL_TRIPLES,
    BackgroundTriple,
    TriplesTask,
)

ORIGIN = "background"
"""Origin of a recalled triple in the table ``triples``."""


@dataclass(frozen=True)
class BackgroundSettings:
    """The four published cases: the ``graph``'s triples, those that the variant ``recall`` recalled, both, or none.

    Triples of the graph lie within ``D`` steps of the topic entities (published: 1); ``max_triples`` caps them before
    they are encoded, nearer steps, then lower edge numbers stay. The ``top_k`` nearest to the question are kept; K is not
    stated there, 10 is ours. ``links``: the linker whose entities are the topics, in a user's file
    (``experiment.inputs.LINKS``); ours where none is named.
    """

    graph: bool = True
    recall: str = ""
    D: int = 1
    top_k: int = 10
    max_triples: int = 2000
    links: str = ""


@dataclass(frozen=True)
class Recalled:
    """What a model recalled for a question, by the three prompts."""

    entities: tuple[str, ...]
    relations: tuple[str, ...]
    triples: tuple[BackgroundTriple, ...]
    prompt_hash: str
    reply: Reply | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Stated:
    """A recalled triple with the row that it stands in."""

    head: str
    relation: str
    tail: str
    triple_id: str


@dataclass(frozen=True)
class StoredBackground:
    """Recalled triples by question, read from the lake; and why some questions have none."""

    stated: Mapping[str, Sequence[Stated]]
    failed: Mapping[str, str]

    @property
    def version(self) -> str:
        return content_id(
            "background",
            sorted((q, [s.triple_id for s in own]) for q, own in self.stated.items()),
            sorted(self.failed.items()),
        )


class PromptedBackground:
    """Recalls triples by a language model: entities, relations, then triples from both."""

    name = "prompted"

    def __init__(self, model: LanguageModel) -> None:
        self._model, self.model_id = model, model.model_id
        self.version = content_id(
            "prompted_background",
            VERSION,
            [t.version_in(model.words) for t in (RECALL_ENTITIES, RECALL_RELATIONS, RECALL_TRIPLES)],
            model.version,
        )

    def recall(self, questions: Sequence[str]) -> list[Recalled | Failure]:
        """One record or failure a question; what one question fails at leaves the others alone."""
        entities = RECALL_ENTITIES.ask_with_cost(self._model, questions)
        relations = RECALL_RELATIONS.ask_with_cost(self._model, questions)
        results: dict[int, Recalled | Failure] = {}
        tasks: dict[int, TriplesTask] = {}
        costs: dict[int, Reply | None] = {}
        for place, question in enumerate(questions):
            (things, first), (links, second) = entities[place], relations[place]
            costs[place] = Reply.all_of([first, second])
            if isinstance(things, Failure):
                results[place] = things
            elif isinstance(links, Failure):
                results[place] = links
            else:
                tasks[place] = TriplesTask(question, things, links)
        triples = RECALL_TRIPLES.ask_with_cost(self._model, list(tasks.values()))
        for (place, task), (found, third) in zip(tasks.items(), triples, strict=True):
            costs[place] = Reply.all_of([costs[place], third])
            results[place] = (
                found
                if isinstance(found, Failure)
                else Recalled(task.entities, task.relations, found, third.prompt_hash if third else "")
            )
        return [replace(results[place], reply=costs[place]) for place in range(len(questions))]


def recall_rows(
    source: PromptedBackground, name: str, questions: Sequence[Asked], before: Before | None = None
) -> Made:
    """Rows of ``chains``: what the model recalled for each question, or why it did not.

    The first two steps are the entities and relations, each further one a triple as ``head | relation | tail``.
    """
    about = {content_id("chain", q.question_id, "", name, source.name, source.model_id): q for q in questions}
    wanted = {chain_id: content_id(q.question_id, q.text, source.version) for chain_id, q in about.items()}
    writer = RowWriter("chains", before, wanted, "chain_id")
    todo = writer.todo
    for chain_id, result in zip(todo, source.recall([about[c].text for c in todo]) if todo else [], strict=True):
        chain: Chain | Failure
        texts: list[str] = []
        if isinstance(result, Failure):
            chain = result
        else:
            texts = [f"things: {'; '.join(result.entities)}", f"relations: {'; '.join(result.relations)}"]
            texts += [f"{t.head} | {t.relation} | {t.tail}" for t in result.triples]
            chain = Chain("", tuple(map(Step, texts)), None, result.prompt_hash, result.reply)
        add_chain(writer, chain_id, about[chain_id], name, source, chain, (), content=[texts])
    return writer.finish()


def background_triple_id(model_id: str, head: str, relation: str, tail: str) -> str:
    """Id of a recalled triple: never that of the same fact in a source."""
    return content_id("background triple", model_id, head, relation, tail)


def triple_rows(recalled: pl.DataFrame) -> Made:
    """Rows of ``triples`` with the origin ``background``, from what ``recall_rows`` made."""
    rows, lineage = list[dict[str, Any]](), list[dict[str, Any]]()
    for row in recalled.sort("chain_id").to_dicts():
        for line, step in enumerate(row["steps"][2:], 1):
            head, relation, tail = step["text"].split(" | ")
            triple_id = background_triple_id(row["model_id"], head, relation, tail)
            rows.append(
                {
                    "triple_id": triple_id,
                    "head": head,
                    "relation": relation,
                    "tail": tail,
                    "origin": ORIGIN,
                    "flags": [],
                    "model_id": row["model_id"],
                    "source": f"question {row['question_id']}, prompt {row['prompt_hash']}, triple {line}",
                    "licence": "",
                }
            )
            lineage.append(edge("triple", triple_id, DERIVED, "chain", row["chain_id"], row["content_hash"], line))
    return Made(rows, lineage, {"triples": len(rows)})


def stored_background(recalled: pl.DataFrame) -> StoredBackground:
    """What ``recall_rows`` made, as the retrieval reads it."""
    stated: dict[str, list[Stated]] = {}
    failed = {}
    for row in recalled.sort("chain_id").to_dicts():
        if row["status"] == "failed":
            failed[row["question_id"]] = f"no background knowledge: {row['error']}"
            continue
        for step in row["steps"][2:]:
            head, relation, tail = step["text"].split(" | ")
            triple_id = background_triple_id(row["model_id"], head, relation, tail)
            stated.setdefault(row["question_id"], []).append(Stated(head, relation, tail, triple_id))
    return StoredBackground(stated, failed)


class BackgroundKnowledge:
    """Picks triples for questions: the top K of both origins, nearest to the question first; none where recalling failed.

    ``graph``: Its linker finds the topic entities.
    ``recalled``: What a model recalled for the questions. None is allowed where it is not asked for.
    """

    def __init__(
        self,
        name: str,
        graph: KnowledgeGraph,
        encoder: Encoder,
        settings: BackgroundSettings,
        recalled: StoredBackground | None = None,
    ) -> None:
        if settings.recall and recalled is None:
            raise ValueError("there are no recalled triples: give them, or leave `recall` out")
        known = recalled if settings.recall else None
        self.name, self._graph, self._encoder, self._settings = name, graph, encoder, settings
        self._recalled = known or StoredBackground({}, {})
        self.version = content_id(
            "background_knowledge",
            VERSION,
            asdict(settings),
            graph.version,
            encoder.model_id,
            encoder.revision,
            known.version if known else None,
        )

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        drafts = [self._triples(question) for question in questions]
        texts = list(dict.fromkeys([*(q.text for q in questions), *(text for found in drafts for text in found)]))
        vectors = dict(zip(texts, self._encoder.sentences(texts), strict=True)) if texts else {}
        return [
            [] if question.question_id in self._recalled.failed else self._ranked(question, triples, vectors)
            for question, triples in zip(questions, drafts, strict=True)
        ]

    def _triples(self, question: Asked) -> dict[str, int | Stated]:
        """Edges and recalled triples by what they say; what the graph states too is evidence from the graph."""
        found: dict[str, int | Stated] = {}
        for edge_number in self._graph_triples(question):
            found.setdefault(self._graph.sentence(edge_number), edge_number)
        for triple in self._recalled.stated.get(question.question_id, ()):
            found.setdefault(plain_sentence(triple.head, triple.relation, triple.tail), triple)
        return found

    def _graph_triples(self, question: Asked) -> list[int]:
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
        self, question: Asked, triples: Mapping[str, int | Stated], vectors: Mapping[str, FloatArray]
    ) -> list[Pick]:
        query = vectors[question.text]
        scores = {text: round(float(vectors[text] @ query), 6) for text in triples}
        picks = []
        for sentence in sorted(triples, key=lambda text: -scores[text])[: self._settings.top_k]:
            origin = triples[sentence]
            if isinstance(origin, Stated):
                words = (origin.head, origin.relation, origin.tail)
                why = json.dumps({"origin": MODEL_KNOWLEDGE, "triple": words}, ensure_ascii=False, sort_keys=True)
                parent = Parent("triple", origin.triple_id, origin.triple_id)
                picks.append(Pick("", "triple", (parent,), "", sentence, scores[sentence], why))
            else:
                picks.append(pick_fact(self._graph, origin, scores[sentence], origin="graph"))
        return picks
