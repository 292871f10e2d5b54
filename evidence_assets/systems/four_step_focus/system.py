"""4StepFocus (Boer, Koch, Kramer): nodes of a semi-structured knowledge base that answer a question.

Belongs here: the four steps in their order (triplets, substitution, vector search, reranking) and the evidence for what
they find. Vector search, multi-vector search and vector search with reranking, which the paper compares with, are the
same class without triplets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evidence_assets.experiment.selection import Asked, Parent, Pick, Progress
from evidence_assets.graphs import entity_linking, substitution
from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.graphs.facts import Verbalise, plain_sentence
from evidence_assets.graphs.knowledge_base import KnowledgeBase
from evidence_assets.graphs.substitution import Constant, Form, Narrowed, Pattern, Variable
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.four_step_focus.grading import Grader, NodeCard
from evidence_assets.systems.four_step_focus.node_search import NodeSearch, nearest
from evidence_assets.systems.four_step_focus.triplets import ANY_TYPE, Schema, Term, TripletQuery, TripletReader

VERSION = "3"


@dataclass(frozen=True)
class FocusSettings:
    """Published: 20 nodes reranked, edge types ignored, Algorithm 2 as printed. The other settings are ours.

    ``exclude_mentioned`` takes a node that the question itself names (by a constant that only it matches) from the
    candidates: "a medicine for what aspirin helps with" does not ask for aspirin.
    ``fallback`` ranks a question that could not be read as triplets by vector search alone, and says so; without it such
    a question has failed.
    ``evidence_nodes`` answers get evidence rows, with at most ``edges_per_triplet`` edges for each triplet;
    ``card_relations`` of a node's relations are shown to the grader.
    """

    k_max: int = 20
    form: Form = "corrected"
    use_edge_types: bool = True
    use_direction: bool = True
    exclude_mentioned: bool = True
    fallback: bool = False
    evidence_nodes: int = 5
    edges_per_triplet: int = 3
    card_relations: int = 20


PRINTED = FocusSettings(form="printed", use_edge_types=False, exclude_mentioned=False)


@dataclass(frozen=True)
class RankedNode:
    """A node as an answer. ``filtered`` says that it satisfies the triplets; ``grade`` is None without a grader."""

    node_id: str
    filtered: bool
    similarity: float
    grade: float | None


@dataclass(frozen=True)
class NodeRanking:
    """The answer to one question: ``status`` answered, insufficient (no node at all) or failed, with its reason.

    ``notes`` say what of the triplets could not be used.
    """

    question_id: str
    status: str
    nodes: tuple[RankedNode, ...] = ()
    picks: tuple[Pick, ...] = ()
    query: TripletQuery | None = None
    candidates: int | None = None
    notes: tuple[str, ...] = ()
    error: str = ""

    @property
    def supported(self) -> tuple[str, ...]:
        """Answers that the triplets support."""
        return tuple(node.node_id for node in self.nodes if node.filtered)


def schema_of(base: KnowledgeBase) -> Schema:
    """The types of a knowledge base, and which node types its edges join, most frequent first."""
    joined = np.stack([base.node_types[base.heads], base.edge_types, base.node_types[base.tails]], axis=1)
    rows, counts = np.unique(joined, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:100]
    patterns = tuple(
        (base.node_type_names[h], base.edge_type_names[e], base.node_type_names[t]) for h, e, t in rows[order].tolist()
    )
    return Schema(base.node_type_names, base.edge_type_names, patterns)


class FourStepFocus:
    """Ranks the nodes of a knowledge base for questions.

    Parameters
    ----------
    linker
        Over the names and aliases of the nodes, its nodes being positions in the base.
    reader
        Step 1; None leaves out steps 1 and 2 (the baselines).
    grader
        Step 4; None keeps the order of the vector search.
    symmetric
        Edge types that hold in both directions however they are stored.
    """

    def __init__(
        self,
        name: str,
        base: KnowledgeBase,
        search: NodeSearch,
        linker: EntityLinker,
        encoder: Encoder,
        reader: TripletReader | None = None,
        grader: Grader | None = None,
        settings: FocusSettings | None = None,
        symmetric: frozenset[str] = frozenset(),
        verbalise: Verbalise = plain_sentence,
    ) -> None:
        self.name, self._base, self._search, self._linker, self._encoder = name, base, search, linker, encoder
        self._reader, self._grader, self._settings = reader, grader, settings or FocusSettings()
        self._symmetric, self._verbalise = symmetric, verbalise
        self._node_type = {name: code for code, name in enumerate(base.node_type_names)}
        self._position = {node_id: node for node, node_id in enumerate(base.node_ids)}
        self._edge_type = {name: code for code, name in enumerate(base.edge_type_names)}
        types = np.isin(base.node_types, list(base.answer_types)) if base.answer_types else np.ones(len(base), bool)
        self._answers: NDArray[np.int64] = np.flatnonzero(types)
        self.version = content_id(
            "four_step_focus", VERSION, substitution.VERSION, entity_linking.VERSION, asdict(self._settings),
            base.content_hash, search.method, encoder.model_id, encoder.revision, reader and reader.version,
            grader and grader.version, sorted(symmetric), [linker.fuzzy_threshold, linker.embedding_threshold],
        )  # fmt: skip

    @property
    def base(self) -> KnowledgeBase:
        """The knowledge base that is searched."""
        return self._base

    def on(self, base: KnowledgeBase) -> FourStepFocus:
        """The same system on a base with the same nodes and other edges; its version stays that of this one."""
        if base.node_ids != self._base.node_ids:
            raise ValueError("the other base has other nodes: build a system of its own for it")
        other = copy(self)
        other._base = base
        return other

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        """Evidence of each question's best answers; none where the question failed."""
        return [list(ranking.picks) for ranking in self.rank(questions)]

    def rank(self, questions: Sequence[Asked]) -> list[NodeRanking]:
        """One ranking a question, in order."""
        if not questions:
            return []
        texts = [q.text for q in questions]
        queries = self._reader.read(texts) if self._reader else [None] * len(questions)
        vectors = self._encoder.sentences(texts)
        drafts = [
            self._unread(q, query, vector) if isinstance(query, Failure) else self._found(q, query, vector)
            for q, query, vector in zip(questions, queries, vectors, strict=True)
        ]
        graded = self._graded(questions, drafts)
        return [self._with_evidence(draft, v) for draft, v in zip(graded, vectors, strict=True)]

    def _unread(self, question: Asked, failure: Failure, vector: FloatArray) -> NodeRanking:
        """What becomes of a question without usable triplets."""
        if not self._settings.fallback:
            return NodeRanking(question.question_id, "failed", error=failure.reason)
        note = f"the question was not read as triplets, so all nodes were searched: {failure.reason}"
        return replace(self._found(question, None, vector), notes=(note,))

    def _found(self, question: Asked, query: TripletQuery | None, vector: FloatArray) -> NodeRanking:
        """Steps 2 and 3."""
        similarity = self._search.similarities(vector)
        notes: list[str] = []
        filtered: list[int] = []
        n_candidates = None
        if query is not None:
            narrowed, notes = self._substituted(query)
            if narrowed.narrowed:
                candidates = np.intersect1d(narrowed.candidates, self._answers)
                n_candidates = len(candidates)
                filtered = nearest(similarity, candidates, self._settings.k_max)
            else:
                notes.append("no usable triplet touches the target: all nodes were searched")
        room = self._settings.k_max - len(filtered)
        additional = nearest(similarity, np.setdiff1d(self._answers, filtered), room)
        nodes = tuple(
            RankedNode(self._base.node_ids[node], node in filtered, float(similarity[node]), None)
            for node in (*filtered, *additional)
        )
        return NodeRanking(
            question.question_id,
            "answered" if nodes else "insufficient",
            nodes,
            query=query,
            candidates=n_candidates,
            notes=tuple(notes),
        )

    def patterns(self, query: TripletQuery) -> tuple[list[Pattern], Variable]:
        """The triplets over positions and codes; a constant's name stands for all nodes that it links to."""
        texts = [t.text for triplet in query.triplets for t in (triplet.head, triplet.tail) if not t.is_variable]
        links = dict(zip(texts, self._linker.link_many(texts), strict=True))

        def placed(term: Term) -> Variable | Constant:
            if not term.is_variable:
                return Constant(term.text, links[term.text].nodes)
            return Variable(term.text, None if term.node_type == ANY_TYPE else self._node_type[str(term.node_type)])

        patterns = [
            # An edge type without any edge keeps a code that no edge has.
            Pattern(
                placed(t.head), self._edge_type.get(t.edge_type, -1), placed(t.tail), t.edge_type in self._symmetric
            )
            for t in query.triplets
        ]
        target = placed(query.target)
        assert isinstance(target, Variable)
        return patterns, target

    def _substituted(self, query: TripletQuery) -> tuple[Narrowed, list[str]]:
        patterns, target = self.patterns(query)
        settings = self._settings
        narrowed = substitution.substitute(
            self._base.typed_graph,
            patterns,
            target,
            form=settings.form,
            use_edge_types=settings.use_edge_types,
            use_direction=settings.use_direction,
        )
        notes = [f"triplet {number + 1} was left out: {reason}" for number, reason in narrowed.skipped]
        notes += [f"the variable {name} is joined to no constant" for name in query.adrift]
        if settings.exclude_mentioned:
            ends = {end for p in patterns for end in (p.head, p.tail) if isinstance(end, Constant)}
            mentioned = [end.nodes[0] for end in ends if len(end.nodes) == 1]
            narrowed = replace(narrowed, candidates=np.setdiff1d(narrowed.candidates, mentioned))
        if narrowed.narrowed and not len(narrowed.candidates):
            notes.append("no node satisfies all triplets")
        return narrowed, notes

    def _graded(self, questions: Sequence[Asked], drafts: Sequence[NodeRanking]) -> list[NodeRanking]:
        """Step 4: nodes that satisfy the triplets stay above the others, each group by its grades."""
        if self._grader is None:
            return list(drafts)
        pairs = [
            (question.text, self._card(self._position[node.node_id]))
            for question, draft in zip(questions, drafts, strict=True)
            for node in draft.nodes
        ]
        grades = iter(self._grader.grade(pairs))
        made = []
        for draft in drafts:
            own = [next(grades) for _ in draft.nodes]
            failures = [grade.reason for grade in own if isinstance(grade, Failure)]
            if failures:
                made.append(NodeRanking(draft.question_id, "failed", query=draft.query, error=failures[0]))
                continue
            nodes = [
                RankedNode(n.node_id, n.filtered, n.similarity, grade)
                for n, grade in zip(draft.nodes, own, strict=True)
                if not isinstance(grade, Failure)
            ]
            nodes.sort(key=lambda n: (not n.filtered, -(n.grade or 0.0), -n.similarity, self._position[n.node_id]))
            made.append(replace(draft, nodes=tuple(nodes)))
        return made

    def _card(self, node: int) -> NodeCard:
        base = self._base
        return NodeCard(
            base.names[node],
            base.node_type_names[int(base.node_types[node])],
            base.documents[node],
            tuple(base.relations_of(node, self._settings.card_relations)),
        )

    def _with_evidence(self, draft: NodeRanking, vector: FloatArray) -> NodeRanking:
        """Edges that satisfy the triplets, and the nearest passage of the document, for the best answers."""
        settings, base = self._settings, self._base
        if not draft.nodes or not settings.evidence_nodes:
            return draft
        patterns, target = self.patterns(draft.query) if draft.query else ([], None)
        picks: dict[tuple[str, str, str], Pick] = {}
        for rank, node in enumerate(draft.nodes[: settings.evidence_nodes], 1):
            place = self._position[node.node_id]
            about = {"answer": node.node_id, "rank": rank}
            if node.filtered and target is not None:
                for number, *edge in substitution.witness_edges(
                    base.typed_graph,
                    patterns,
                    target,
                    place,
                    use_edge_types=settings.use_edge_types,
                    use_direction=settings.use_direction,
                    limit=settings.edges_per_triplet,
                ):
                    edge_id = base.edge_id(*edge)
                    asked = draft.query.triplets[number] if draft.query else None
                    why = json.dumps(
                        {
                            **about,
                            "triplet": [asked.head.text, asked.edge_type, asked.tail.text] if asked else [],
                            "triple": base.triple(*edge),
                        },
                        sort_keys=True,
                        ensure_ascii=False,
                    )
                    pick = Pick("", "triple", (Parent("edge", edge_id, edge_id),), "",
                                self._verbalise(*base.triple(*edge)), node.similarity, why)  # fmt: skip
                    picks.setdefault(("edge", edge_id, ""), pick)
            passage = self._search.best_passage(vector, place)
            if passage is not None:
                number, score = passage
                kept = self._search.passages
                start, end, passage_id = int(kept.starts[number]), int(kept.ends[number]), kept.ids[number]
                parents = (Parent("node", node.node_id, node.node_id), Parent("passage", passage_id, passage_id))
                why = json.dumps({**about, "notes": draft.notes}, sort_keys=True, ensure_ascii=False)
                picks[("node", node.node_id, f"{start}:{end}")] = Pick(
                    "", "chunk", parents, f"{start}:{end}", base.documents[place][start:end], score, why
                )
        return replace(draft, picks=tuple(picks.values()))
