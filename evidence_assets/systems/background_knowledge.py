"""Knowledge-graph prompting with the model's background knowledge (Ho, Nguyen; after KAPING).

Belongs here: triples of the graph and of the model, ranked together, and the short answer they lead to. Triples of the
model are model knowledge: they carry ``"origin": "model"`` and the reply they stand in as their parent, never a source.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.methods import entity_linking
from evidence_assets.methods.entity_linking import EntityLinker
from evidence_assets.models.protocols import Encoder, FloatArray, Generator, Request
from evidence_assets.reasoning import background
from evidence_assets.reasoning.background import BackgroundTriple
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.graph_facts import GraphFacts
from evidence_assets.systems.selection import Asked, Parent, Pick

VERSION = "1"
T = TypeVar("T")


@dataclass(frozen=True)
class BackgroundSettings:
    """The four published cases are the combinations of ``graph`` and ``model``; K is not stated there, 10 is ours.

    ``hops`` is D (published: 1). ``max_triples`` caps the graph's triples of one question before encoding; nearer
    hops, then lower edge numbers stay.
    """

    graph: bool = True
    model: bool = True
    hops: int = 1
    top_k: int = 10
    max_triples: int = 2000


@dataclass(frozen=True)
class Prompted:
    """A question with its ranked triples; ``error`` says why it has none to rely on, if a prompt failed."""

    question: Asked
    picks: tuple[Pick, ...]
    facts: tuple[tuple[str, str, str], ...]
    topics: tuple[str, ...]
    notes: tuple[str, ...]
    error: str = ""


@dataclass(frozen=True)
class ShortAnswer:
    """``status`` is answered, insufficient (the model says that it cannot answer) or failed."""

    question_id: str
    status: str
    answer: str | None
    error: str = ""


class BackgroundKnowledge:
    """Retrieves triples for questions and answers from them.

    Parameters
    ----------
    linker
        Over the names of the graph's nodes; finds the topic entities.
    generator
        States background triples and answers. None is allowed where neither is asked for.
    """

    def __init__(
        self,
        name: str,
        facts: GraphFacts,
        linker: EntityLinker,
        encoder: Encoder,
        generator: Generator | None,
        settings: BackgroundSettings | None = None,
    ) -> None:
        self.name, self._facts, self._linker, self._encoder = name, facts, linker, encoder
        self._generator, self._settings = generator, settings or BackgroundSettings()
        if self._settings.model and generator is None:
            raise ValueError("background triples need a generator: give one, or leave them out with model=False")
        self.version = content_id(
            "background_knowledge", VERSION, background.VERSION, entity_linking.VERSION, asdict(self._settings),
            facts.version, encoder.model_id, encoder.revision,
            generator and [generator.model_id, generator.revision, generator.parameters],
            [linker.fuzzy_threshold, linker.embedding_threshold],
        )  # fmt: skip

    def retrieve(self, questions: Sequence[Asked]) -> list[Prompted]:
        """The top K triples of each question, of both origins, nearest to the question first.

        A question whose background prompts fail is marked with the reason; one that names nothing in the graph has no
        triples of the graph, and says so.
        """
        stated = self._background([q.text for q in questions]) if self._settings.model else [()] * len(questions)
        drafts: list[tuple[list[str], list[tuple[int | BackgroundTriple, str, str]], list[str]]] = []
        for question, own in zip(questions, stated, strict=True):
            topics, edges = self._graph_triples(question.text)
            notes = [] if edges or not self._settings.graph else ["the question names no node of the graph"]
            found: dict[str, tuple[int | BackgroundTriple, str, str]] = {}
            for edge in edges:
                found.setdefault(self._facts.sentence(edge), (edge, self._facts.sentence(edge), ""))
            if not isinstance(own, Failure):
                for triple, reply_id in own:
                    sentence = self._facts.verbalise(triple.head, triple.relation, triple.tail)
                    # What the graph states too is evidence from the graph.
                    found.setdefault(sentence, (triple, sentence, reply_id))
            drafts.append((topics, list(found.values()), notes))
        texts = list(
            dict.fromkeys([q.text for q in questions] + [text for _, found, _ in drafts for _, text, _ in found])
        )
        vectors = dict(zip(texts, self._encoder.sentences(texts), strict=True)) if texts else {}
        made = []
        for question, own, (topics, triples, notes) in zip(questions, stated, drafts, strict=True):
            if isinstance(own, Failure):
                made.append(Prompted(question, (), (), tuple(topics), tuple(notes), own.reason))
            else:
                made.append(self._ranked(question, topics, triples, notes, vectors))
        return made

    def answer(self, prompted: Sequence[Prompted]) -> list[ShortAnswer]:
        """Short answers from the retrieved triples; the fourth case, no knowledge, is both origins switched off."""
        if self._generator is None:
            raise ValueError("short answers need a generator")
        ready = [p for p in prompted if not p.error]
        requests = [background.answer_request(p.question.text, p.facts) for p in ready]
        replies = iter(_asked(self._generator, requests, background.parse_short_answer))
        made = []
        for p in prompted:
            if p.error:
                made.append(ShortAnswer(p.question.question_id, "failed", None, p.error))
                continue
            reply, _ = next(replies)
            if isinstance(reply, Failure):
                made.append(ShortAnswer(p.question.question_id, "failed", None, reply.reason))
            else:
                made.append(ShortAnswer(p.question.question_id, "answered" if reply else "insufficient", reply))
        return made

    def _graph_triples(self, text: str) -> tuple[list[str], list[int]]:
        """Topic entities of a question and the edges within ``hops`` of them, nearer ones first."""
        if not self._settings.graph:
            return [], []
        spans = self._linker.find_spans(text)
        ring = sorted({node for span in spans for node in span.link.nodes})
        seen, edges = set(ring), dict[int, None]()
        for _ in range(self._settings.hops):
            fresh = self._facts.edges_at(ring)
            edges.update(dict.fromkeys(fresh))
            if len(edges) >= self._settings.max_triples:
                break
            graph = self._facts.graph
            ends = {int(node) for edge in fresh for node in (graph.heads[edge], graph.tails[edge])}
            ring = sorted(ends - seen)
            seen |= ends
        return [text[span.start : span.end] for span in spans], list(edges)[: self._settings.max_triples]

    def _background(self, questions: Sequence[str]) -> list[tuple[tuple[BackgroundTriple, str], ...] | Failure]:
        """Background triples with the id of the reply they stand in, by the three prompts."""
        assert self._generator is not None
        entities = _asked(self._generator, [background.entities_request(q) for q in questions], background.parse_list)
        relations = _asked(self._generator, [background.relations_request(q) for q in questions], background.parse_list)
        made: list[tuple[tuple[BackgroundTriple, str], ...] | Failure] = []
        requests, places = [], []
        for place, (question, (things, _), (links, _)) in enumerate(zip(questions, entities, relations, strict=True)):
            failed = next((f for f in (things, links) if isinstance(f, Failure)), None)
            made.append(failed or ())
            if not isinstance(things, Failure) and not isinstance(links, Failure):
                requests.append(background.triples_request(question, things, links))
                places.append(place)
        replies = _asked(self._generator, requests, background.parse_background_triples)
        for place, (triples, reply_id) in zip(places, replies, strict=True):
            made[place] = triples if isinstance(triples, Failure) else tuple((t, reply_id) for t in triples)
        return made

    def _ranked(
        self,
        question: Asked,
        topics: Sequence[str],
        triples: Sequence[tuple[int | BackgroundTriple, str, str]],
        notes: Sequence[str],
        vectors: dict[str, FloatArray],
    ) -> Prompted:
        query = vectors[question.text]
        scores = [round(float(vectors[text] @ query), 6) for _, text, _ in triples]
        order = sorted(range(len(triples)), key=lambda i: -scores[i])[: self._settings.top_k]
        picks, facts = [], []
        for place in order:
            origin, sentence, reply_id = triples[place]
            if isinstance(origin, BackgroundTriple):
                words = (origin.head, origin.relation, origin.tail)
                why = json.dumps({"origin": "model", "triple": words}, ensure_ascii=False, sort_keys=True)
                parent = Parent("completion", reply_id, reply_id)
                picks.append(Pick("", "triple", (parent,), f"line {origin.line}", sentence, scores[place], why))
            else:
                words = self._facts.triple(origin)
                picks.append(self._facts.pick(origin, scores[place], origin="graph"))
            facts.append(words)
        return Prompted(question, tuple(picks), tuple(facts), tuple(topics), tuple(notes))


def _asked(
    generator: Generator, requests: Sequence[Request], parse: Callable[[str], T]
) -> list[tuple[T | Failure, str]]:
    """Replies parsed, each with an id that names model, request and reply."""
    made: list[tuple[T | Failure, str]] = []
    for request, reply in zip(requests, generator.generate(requests) if requests else [], strict=True):
        reply_id = content_id(
            "completion", generator.model_id, generator.revision, request.system, request.user, reply.text
        )
        try:
            made.append((parse(reply.text), reply_id))
        except UnusableReply as error:
            made.append((Failure(f"unusable reply: {error}"), reply_id))
    return made
