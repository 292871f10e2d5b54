"""4StepFocus (Boer, Koch, Kramer): nodes of a semi-structured knowledge base that answer a question.

Belongs here: the four steps in their order (triplets, substitution, vector search, reranking) and the evidence for what
they find. Vector search, multi-vector search and vector search with reranking, which the paper compares with, are the
same class without triplets.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evidence_assets.experiment.evidence.selection import Parent, Question, SelectedEvidence, edge_evidence
from evidence_assets.graphs import substitution
from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.substitution import Constant, SubstitutionResult, TriplePattern, Variable
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.reasoning.tasks import Failure, ReplyCost
from evidence_assets.systems.four_step_focus import VERSION
from evidence_assets.systems.four_step_focus.grading import MAX_DOCUMENT_CHARACTERS, Grader, NodeCard, Scale
from evidence_assets.systems.four_step_focus.triplets import ANY_TYPE, Schema, Term, TripletQuery, TripletReader


@dataclass(frozen=True)
class FocusSettings:
    """How the nodes of a knowledge base are ranked.

    Published are 20 nodes reranked, one vector a node, edge types ignored, no node taken out; the other settings are
    ours. Triplets are read by the profile's language model; a profile without one reads them by the forms in which
    the base's questions are written, and the column ``reasoner`` then says ``form_parser``.

    ``triplets``: How triplets narrow the nodes (see ``graphs.substitution``); none where empty, which is the baselines.
    ``edge_types``, ``direction``: Whether an edge must be of its triplet's type, and run from the triplet's head to its
        tail.
    ``exclude_mentioned``: Takes a node that the question itself names (by a constant that only it matches) from the
        candidates: "a medicine for what aspirin helps with" does not ask for aspirin.
    ``fallback``: Ranks a question that could not be read as triplets by vector search alone, and says so; without it
        such a question has failed.
    ``search``: One vector a node, or its best passage.
    ``rerank``: Whether the profile's language model, or its reranker where it has none, grades the best ``k_max``
        nodes.
    ``grades``: What a language model grades by: ``tenths`` from 0.0 to 1.0, or any ``number`` between, as published.
    ``evidence_nodes``, ``edges_per_triplet``: Answers that get evidence rows, and most edges of each triplet among
        them.
    ``card_relations``: Relations of a node that are shown to the grader.
    """

    triplets: Literal["", "corrected", "printed"] = ""
    edge_types: bool = True
    direction: bool = True
    exclude_mentioned: bool = True
    fallback: bool = False
    search: Literal["vector", "multi_vector"] = "multi_vector"
    rerank: bool = False
    grades: Scale = "tenths"
    k_max: int = 20
    evidence_nodes: int = 5
    edges_per_triplet: int = 3
    card_relations: int = 20


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
    picks: tuple[SelectedEvidence, ...] = ()
    query: TripletQuery | None = None
    notes: tuple[str, ...] = ()
    error: str = ""
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)
    """What a language model replied, as triplets and as grades."""

    @property
    def supported(self) -> tuple[str, ...]:
        """Answers that the triplets support."""
        return tuple(node.node_id for node in self.nodes if node.filtered)


def build_schema(graph: KnowledgeGraph) -> Schema:
    """The types of a knowledge base, and which node types its edges join, most frequent first."""
    arrays, types = graph.arrays, graph.node_types
    joined = np.stack([types[arrays.heads], arrays.relations, types[arrays.tails]], axis=1)
    rows, counts = np.unique(joined, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:100]
    patterns = tuple((graph.type_names[h], graph.relations[e], graph.type_names[t]) for h, e, t in rows[order].tolist())
    return Schema(graph.type_names, graph.relations, patterns)


class FourStepFocus:
    """Ranks the nodes of a knowledge base for questions.

    ``reader``: Step 1; None leaves out steps 1 and 2 (the baselines).
    ``grader``: Step 4; None keeps the order of the vector search.
    ``symmetric``: Edge types that hold in both directions however they are stored.
    ``answer_types``: Node types that can be an answer; all where none is named.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        encoder: Encoder,
        reader: TripletReader | None = None,
        grader: Grader | None = None,
        settings: FocusSettings | None = None,
        symmetric: frozenset[str] = frozenset(),
        answer_types: Collection[str] = (),
    ) -> None:
        self._graph, self._vectors, self._encoder = graph, graph.vectors.passage_files(), encoder
        self._reader, self._grader, self._settings = reader, grader, settings or FocusSettings()
        self._symmetric = symmetric
        self._node_type = {name: code for code, name in enumerate(graph.type_names)}
        wanted = [self._node_type[name] for name in answer_types or graph.type_names if name in self._node_type]
        self._is_answer: NDArray[np.bool_] = np.isin(graph.node_types, wanted)
        models = encoder.model_id, encoder.revision, reader and reader.version, grader and grader.version
        types = sorted(symmetric), sorted(answer_types)
        self.version = content_id("four_step_focus", VERSION, asdict(self._settings), graph.version, *models, *types)

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        """Evidence of each question's best answers; none where the question failed."""
        return [list(ranking.picks) for ranking in self.rank(questions)]

    def rank(self, questions: Sequence[Question]) -> list[NodeRanking]:
        if not questions:
            return []
        texts = [q.text for q in questions]
        queries = self._reader.read(texts) if self._reader else [(None, None)] * len(questions)
        vectors = self._encoder.encode_sentences(texts)
        drafts = []
        for question, (query, reply), vector in zip(questions, queries, vectors, strict=True):
            drafts.append(replace(self._found(question, query, vector), reply=reply))
        graded = self._graded(questions, drafts)
        return [self._with_evidence(draft, v) for draft, v in zip(graded, vectors, strict=True)]

    def _found(self, question: Question, query: TripletQuery | Failure | None, vector: FloatArray) -> NodeRanking:
        """Steps 2 and 3."""
        notes, method = list[str](), self._settings.search
        if isinstance(query, Failure):
            if not self._settings.fallback:
                return NodeRanking(question.question_id, "failed", error=query.reason)
            notes.append(f"the question was not read as triplets, so all nodes were searched: {query.reason}")
            query = None
        filtered: IntArray = np.zeros(0, np.int64)
        if query is not None:
            narrowed, reasons = self._substituted(query)
            notes += reasons
            if narrowed.is_narrowed:
                candidates = sorted_unique(narrowed.candidates).astype(np.int64)
                candidates = candidates[self._is_answer[candidates]]
                order = np.lexsort((candidates, -self._vectors.similarities(vector, candidates, method)))
                filtered = candidates[order[: self._settings.k_max]]
            else:
                notes.append("no usable triplet touches the target: all nodes were searched")
        room = self._settings.k_max - len(filtered)
        allowed = self._is_answer.copy()
        allowed[filtered] = False
        found = np.concatenate([filtered, self._vectors.nearest(vector, allowed, room, method)])
        similarities = self._vectors.similarities(vector, found, method).tolist()
        nodes = tuple(
            RankedNode(self._graph.node_ids[node], place < len(filtered), similarity, None)
            for place, (node, similarity) in enumerate(zip(found.tolist(), similarities, strict=True))
        )
        status = "answered" if nodes else "insufficient"
        return NodeRanking(question.question_id, status, nodes, (), query, tuple(notes))

    def patterns(self, query: TripletQuery) -> tuple[list[TriplePattern], Variable]:
        """The triplets over positions and codes; a constant's name stands for all nodes that it links to."""
        texts = [t.text for triplet in query.triplets for t in (triplet.head, triplet.tail) if not t.is_variable]
        links = dict(zip(texts, self._graph.linker.link_many(texts), strict=True))

        def placed(term: Term) -> Variable | Constant:
            if not term.is_variable:
                return Constant(term.text, links[term.text].nodes)
            return Variable(term.text, None if term.node_type == ANY_TYPE else self._node_type[str(term.node_type)])

        codes = {name: code for code, name in enumerate(self._graph.relations)}
        patterns = [
            # An edge type without any edge gets a code that no edge has.
            TriplePattern(placed(t.head), codes.get(t.edge_type, -1), placed(t.tail), t.edge_type in self._symmetric)
            for t in query.triplets
        ]
        target = placed(query.target)
        assert isinstance(target, Variable)
        return patterns, target

    def _substituted(self, query: TripletQuery) -> tuple[SubstitutionResult, list[str]]:
        patterns, target = self.patterns(query)
        settings = self._settings
        narrowed = substitution.substitute(
            self._graph.typed_graph,
            patterns,
            target,
            form=settings.triplets or "corrected",
            use_edge_types=settings.edge_types,
            use_direction=settings.direction,
        )
        notes = [f"triplet {number + 1} was left out: {reason}" for number, reason in narrowed.skipped_patterns]
        notes += [f"the variable {name} is joined to no constant" for name in query.adrift]
        if settings.exclude_mentioned:
            ends = {end for p in patterns for end in (p.head, p.tail) if isinstance(end, Constant)}
            mentioned = [end.nodes[0] for end in ends if len(end.nodes) == 1]
            narrowed = replace(narrowed, candidates=np.setdiff1d(narrowed.candidates, mentioned))
        if narrowed.is_narrowed and not len(narrowed.candidates):
            notes.append("no node satisfies all triplets")
        return narrowed, notes

    def _graded(self, questions: Sequence[Question], drafts: Sequence[NodeRanking]) -> list[NodeRanking]:
        """Step 4: nodes that satisfy the triplets stay above the others, each group by its grades."""
        if self._grader is None:
            return list(drafts)
        pairs = [
            (question.text, self._card(self._number(node)))
            for question, draft in zip(questions, drafts, strict=True)
            for node in draft.nodes
        ]
        grades = iter(self._grader.grade(pairs))
        made = []
        for draft in drafts:
            replies = [next(grades) for _ in draft.nodes]
            reply = ReplyCost.total([draft.reply, *(cost for _, cost in replies)])
            failures = [grade.reason for grade, _ in replies if isinstance(grade, Failure)]
            if failures:
                made.append(replace(draft, status="failed", nodes=(), error=failures[0], reply=reply))
                continue
            own_grades = [grade for grade, _ in replies if not isinstance(grade, Failure)]
            nodes = [replace(node, grade=grade) for node, grade in zip(draft.nodes, own_grades, strict=True)]
            nodes.sort(key=lambda n: (not n.filtered, -(n.grade or 0.0), -n.similarity, n.node_id))
            made.append(replace(draft, nodes=tuple(nodes), reply=reply))
        return made

    def _number(self, node: RankedNode) -> int:
        return int(self._graph.node_numbers([node.node_id])[0])

    def _told(self, node: int) -> list[int]:
        return self._graph.first_edges(node, self._settings.card_relations)

    def _card(self, node: int) -> NodeCard:
        graph = self._graph
        told = tuple(map(graph.triple, self._told(node)))
        return NodeCard(graph.names[node], graph.type_names[int(graph.node_types[node])], graph.documents[node], told)

    def _with_evidence(self, draft: NodeRanking, vector: FloatArray) -> NodeRanking:
        """Edges that satisfy the triplets, and what was read of the best answers: what a grader was shown of each, or
        without one the passage of its document that is nearest."""
        settings, graph = self._settings, self._graph
        patterns, target = self.patterns(draft.query) if draft.query else ([], None)
        picks: dict[tuple[str, str, str], SelectedEvidence] = {}
        for rank, node in enumerate(draft.nodes[: settings.evidence_nodes], 1):
            place = self._number(node)
            about = {"answer": node.node_id, "rank": rank}
            if node.filtered and target is not None:
                for number, *edge in substitution.witness_edges(
                    graph.typed_graph,
                    patterns,
                    target,
                    place,
                    use_edge_types=settings.edge_types,
                    use_direction=settings.direction,
                    limit=settings.edges_per_triplet,
                ):
                    (found,) = graph.arrays.edges_from(*edge)[:1]
                    asked = draft.query.triplets[number] if draft.query else None
                    triplet = [asked.head.text, asked.edge_type, asked.tail.text] if asked else []
                    pick = edge_evidence(graph, found, node.similarity, **about, triplet=triplet)
                    picks.setdefault(("edge", graph.edge_ids[found], ""), pick)
            why = json.dumps({**about, "notes": draft.notes}, sort_keys=True, ensure_ascii=False)
            itself = Parent("node", node.node_id, node.node_id)
            if self._grader is not None:
                edges = (graph.edge_ids[edge] for edge in self._told(place))
                parents: tuple[Parent, ...] = (itself, *(Parent("edge", edge, edge) for edge in edges))
                shown = self._card(place).text(MAX_DOCUMENT_CHARACTERS)
                picks[("node", node.node_id, "")] = SelectedEvidence(
                    "", "chunk", parents, "", shown, node.grade or 0.0, why
                )
            elif (passage := self._vectors.best_passage(vector, place)) is not None:
                passage_id, start, end, score = passage
                parents = (itself, Parent("passage", passage_id, passage_id))
                picks[("node", node.node_id, f"{start}:{end}")] = SelectedEvidence(
                    "", "chunk", parents, f"{start}:{end}", graph.documents[place][start:end], score, why
                )
        return replace(draft, picks=tuple(picks.values()))
