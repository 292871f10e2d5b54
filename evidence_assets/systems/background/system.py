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

from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.selection import MODEL_KNOWLEDGE, Asked, Parent, Pick, pick_fact
from evidence_assets.experiment.step import Made
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph, plain_sentence
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, USED, edge
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.reasoning.asking import LanguageModel, Progress
from evidence_assets.reasoning.tasks import Failure, Reply
from evidence_assets.systems.background import VERSION
from evidence_assets.systems.background.recall import (
    RECALL_ENTITIES,
    RECALL_RELATIONS,
    RECALL_TRIPLES,
    BackgroundTriple,
    TriplesTask,
)
from evidence_assets.systems.background.settings import BackgroundSettings

ORIGIN = "background"
"""Origin of a recalled triple in the table ``triples``."""


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
            "background", sorted((q, [s.triple_id for s in own]) for q, own in self.stated.items()),
            sorted(self.failed.items()),
        )  # fmt: skip


class PromptedBackground:
    """Recalls triples by a language model: entities, relations, then triples from both."""

    def __init__(self, model: LanguageModel) -> None:
        self._model, self.model_id = model, model.model_id
        self.version = content_id(
            "prompted_background", VERSION, [t.version_in(model.words) for t in (RECALL_ENTITIES, RECALL_RELATIONS, RECALL_TRIPLES)],
            model.version,
        )  # fmt: skip

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
    source: PromptedBackground,
    name: str,
    questions: Sequence[Asked],
    previous: pl.DataFrame,
    lineage: pl.DataFrame,
) -> Made:
    """Rows of ``chains``: what the model recalled for each question, or why it did not.

    The first two steps are the entities and relations, each further one a triple as ``head | relation | tail``.
    """
    about = {content_id("chain", q.question_id, "", name, "prompted", source.model_id): q for q in questions}
    wanted = {chain_id: content_id(q.question_id, q.text, source.version) for chain_id, q in about.items()}
    writer = RowWriter("chains", previous, lineage, wanted, kind="chain", row_id="chain_id", by="chain_id")
    todo = writer.todo
    for chain_id, result in zip(todo, source.recall([about[c].text for c in todo]) if todo else [], strict=True):
        question = about[chain_id]
        texts: list[str] = []
        if isinstance(result, Recalled):
            texts = [f"things: {'; '.join(result.entities)}", f"relations: {'; '.join(result.relations)}"]
            texts += [f"{t.head} | {t.relation} | {t.tail}" for t in result.triples]
        writer.add(
            {
                "chain_id": chain_id,
                "question_id": question.question_id,
                "benchmark": question.benchmark,
                "hypothesis": "",
                "selector": name,
                "reasoner": "prompted",
                "model_id": source.model_id,
                "steps": [{"text": text, "cited": [], "quoted": []} for text in texts],
                "support": None,
                "prompt_hash": result.prompt_hash if isinstance(result, Recalled) else "",
                "status": "answered" if isinstance(result, Recalled) else "failed",
                "error": None if isinstance(result, Recalled) else result.reason,
                **Reply.columns(result.reply),
                "content_hash": content_id("chain", texts),
            }
        )
        writer.link(chain_id, USED, "question", question.question_id, question.question_id)
        if result.reply:
            writer.link(chain_id, GENERATED, "model", result.reply.model, result.reply.model)
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
                    "semantic": None,
                    "fluency": None,
                    "score": None,
                    "rank": None,
                    "agreement": None,
                    "flags": [],
                    "model_id": row["model_id"],
                    "relation_id": None,
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


@dataclass(frozen=True)
class Retrieved:
    """A question with its ranked triples; ``error`` says why it has none to rely on, if recalling them failed."""

    question: Asked
    picks: tuple[Pick, ...]
    topics: tuple[str, ...]
    notes: tuple[str, ...]
    error: str = ""


class BackgroundKnowledge:
    """Retrieves triples for questions.

    ``graph``: Its linker finds the topic entities.
    ``recalled``: What a model recalled for the questions. None is allowed where it is not asked for.
    """

    def __init__(
        self,
        name: str,
        graph: KnowledgeGraph,
        encoder: Encoder,
        settings: BackgroundSettings | None = None,
        recalled: StoredBackground | None = None,
    ) -> None:
        self.name, self._graph, self._encoder = name, graph, encoder
        self._recalled, self._settings = recalled, settings or BackgroundSettings()
        if self._settings.recall and recalled is None:
            raise ValueError("there are no recalled triples: give them, or leave `recall` out")
        self.version = content_id(
            "background_knowledge", VERSION, asdict(self._settings), graph.version,
            encoder.model_id, encoder.revision, recalled.version if recalled and self._settings.recall else None,
        )  # fmt: skip

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        """The top K triples of each question; none where recalling failed."""
        return [list(found.picks) for found in self.retrieve(questions)]

    def retrieve(self, questions: Sequence[Asked]) -> list[Retrieved]:
        """The top K triples of each question, of both origins, nearest to the question first.

        A question for which recalling failed is marked with the reason; one that names nothing in the graph has no
        triples of the graph, and says so.
        """
        drafts: list[tuple[list[str], list[tuple[int | Stated, str]], list[str]]] = []
        for question in questions:
            topics, edges = self._graph_triples(question)
            notes = [] if edges or not self._settings.graph else ["the question names no node of the graph"]
            found: dict[str, tuple[int | Stated, str]] = {}
            for edge_number in edges:
                sentence = self._graph.sentence(edge_number)
                found.setdefault(sentence, (edge_number, sentence))
            for triple in self._stated(question):
                sentence = plain_sentence(triple.head, triple.relation, triple.tail)
                # What the graph states too is evidence from the graph.
                found.setdefault(sentence, (triple, sentence))
            drafts.append((topics, list(found.values()), notes))
        texts = list(dict.fromkeys([q.text for q in questions] + [text for _, found, _ in drafts for _, text in found]))
        vectors = dict(zip(texts, self._encoder.sentences(texts), strict=True)) if texts else {}
        made = []
        for question, (topics, triples, notes) in zip(questions, drafts, strict=True):
            error = self._error(question)
            picks = () if error else self._ranked(question, triples, vectors)
            made.append(Retrieved(question, picks, tuple(topics), tuple(notes), error))
        return made

    def _stated(self, question: Asked) -> Sequence[Stated]:
        if self._recalled is None or not self._settings.recall:
            return ()
        return self._recalled.stated.get(question.question_id, ())

    def _error(self, question: Asked) -> str:
        if self._recalled is None or not self._settings.recall:
            return ""
        return self._recalled.failed.get(question.question_id, "")

    def _graph_triples(self, question: Asked) -> tuple[list[str], list[int]]:
        """Topic entities of a question and the edges within ``D`` steps of them, nearer ones first."""
        if not self._settings.graph:
            return [], []
        linker, text = self._graph.linker, question.text
        if self._settings.links:
            links = {entity: linker.link(entity) for entity in question.topic_entities}
        else:
            links = {text[span.start : span.end]: span.link for span in linker.find_spans(text)}
        ring = sorted({node for link in links.values() for node in link.nodes})
        graph, seen, edges = self._graph.arrays, set(ring), dict[int, None]()
        for _ in range(self._settings.D):
            fresh = graph.edges_at(np.array(ring, dtype=np.int64)).tolist()
            edges.update(dict.fromkeys(fresh))
            if len(edges) >= self._settings.max_triples:
                break
            ends = {int(node) for edge in fresh for node in (graph.heads[edge], graph.tails[edge])}
            ring = sorted(ends - seen)
            seen |= ends
        return list(links), list(edges)[: self._settings.max_triples]

    def _ranked(
        self,
        question: Asked,
        triples: Sequence[tuple[int | Stated, str]],
        vectors: dict[str, FloatArray],
    ) -> tuple[Pick, ...]:
        query = vectors[question.text]
        scores = [round(float(vectors[text] @ query), 6) for _, text in triples]
        order = sorted(range(len(triples)), key=lambda i: -scores[i])[: self._settings.top_k]
        picks = []
        for place in order:
            origin, sentence = triples[place]
            if isinstance(origin, Stated):
                words = (origin.head, origin.relation, origin.tail)
                why = json.dumps({"origin": MODEL_KNOWLEDGE, "triple": words}, ensure_ascii=False, sort_keys=True)
                parent = Parent("triple", origin.triple_id, origin.triple_id)
                picks.append(Pick("", "triple", (parent,), "", sentence, scores[place], why))
            else:
                picks.append(pick_fact(self._graph, origin, scores[place], origin="graph"))
        return tuple(picks)
