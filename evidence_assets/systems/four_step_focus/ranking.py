"""4StepFocus (Boer, Koch, Kramer): ranks the nodes of a knowledge base as answers to a question.

Runs the four steps (triplets, substitution, vector search, reranking) and collects the evidence. The paper's baselines
(vector search, multi-vector search, vector search with reranking) are the same class without triplets.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence, edge_evidence
from evidence_assets.graphs import substitution
from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.substitution import Constant, TriplePattern, Variable
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import Failure, Omission, ReplyCost
from evidence_assets.systems.four_step_focus import VERSION
from evidence_assets.systems.four_step_focus.grading import MAX_DOCUMENT_CHARACTERS, Grader, NodeCard
from evidence_assets.systems.four_step_focus.published_vectors import MODEL, PublishedVectors
from evidence_assets.systems.four_step_focus.question_forms import FormParser
from evidence_assets.systems.four_step_focus.triplets import ANY_TYPE, PromptedTriplets, Term, Triplet, TripletQuery

TripletReader = PromptedTriplets | FormParser
"""Translates questions into triplets; one result per question, in order."""
GRADE_PREFIX = "grade of "
"""Beginning of the omission of a node's grade."""


@dataclass(frozen=True)
class FocusSettings:
    """Settings of the ranking.

    The published runs rerank 20 nodes, use one vector per node, ignore edge types, exclude no nodes and fall back to
    vector search; the other settings are ours. The profile's language model reads
    the triplets. Without one, the forms of the base's questions do, and the column ``reasoner`` is ``form_parser``.

    ``triplets``: How triplets narrow the candidates (see ``graphs.substitution``); empty for the baselines.
    ``nearest_nodes``: A constant that matches no node takes this many nodes, the nearest to its name among the node
        types that its edge type connects (ours: "green" for "greenish").
    ``denials``: Whether the language model can deny triplets ("but not in the liver"; ours).
    ``edge_types``: Whether an edge must have its triplet's type.
    ``directed``: Whether an edge must have its triplet's direction, as the paper's neighbours have; STaRK's own graphs
        hold every edge in both.
    ``exclude_mentioned``: Exclude a node that the question mentions (by a constant that matches only this node):
        "a medicine for what aspirin helps with" does not ask for aspirin.
    ``fallback``: Fall back to vector search, with a note, if a question cannot be read as triplets; otherwise such a
        question fails.
    ``search``: One vector per node, or its best passage.
    ``rerank``: Grade the best ``k_max`` nodes with the profile's language model, or its reranker without one.
    ``evidence_nodes``, ``edges_per_triplet``: Number of answers with evidence rows, and maximum edges per triplet.
    ``card_relations``: Relations of a node on its card for the grader; the card states how many are left out. The paper
        names no limit; a hub's relations would exceed a model's context.
    """

    triplets: Literal["", "corrected", "printed"] = ""
    nearest_nodes: int = 0
    denials: bool = False
    edge_types: bool = True
    directed: bool = True
    exclude_mentioned: bool = True
    fallback: bool = False
    search: Literal["vector", "multi_vector"] = "multi_vector"
    rerank: bool = False
    k_max: int = 20
    evidence_nodes: int = 5
    edges_per_triplet: int = 3
    card_relations: int = 20


@dataclass(frozen=True)
class RankedNode:
    """A ranked node. ``filtered``: it is a candidate of the target; ``grade`` is None without a usable grade."""

    number: int
    node_id: str
    filtered: bool
    similarity: float
    grade: float | None

    @property
    def score(self) -> float:
        """The grade; without one, the similarity of the vector search."""
        return self.similarity if self.grade is None else self.grade


@dataclass(frozen=True)
class LinkedQuery:
    """The triplets of a question, each with its pattern over node numbers, and the target."""

    triplets: tuple[Triplet, ...]
    patterns: tuple[TriplePattern, ...]
    target: Variable

    @property
    def mentioned_nodes(self) -> list[int]:
        """The nodes of constants that match only one."""
        ends = [end for pattern in self.patterns for end in (pattern.head, pattern.tail)]
        return [end.nodes[0] for end in ends if isinstance(end, Constant) and len(end.nodes) == 1]


@dataclass(frozen=True)
class NodeRanking:
    """Ranked nodes of a question; ``status``: answered, insufficient (no nodes) or failed (``error``).

    ``is_narrowed``: Whether triplets narrowed the target's candidates, which they support then.
    ``notes`` list the triplets that could not be used, with reasons. ``omissions``: unusable triplets and grades.
    """

    status: str
    nodes: tuple[RankedNode, ...] = ()
    evidence: tuple[SelectedEvidence, ...] = ()
    query: LinkedQuery | None = None
    is_narrowed: bool = False
    notes: tuple[str, ...] = ()
    omissions: tuple[Omission, ...] = ()
    error: str = ""
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)
    """Cost of the language model's replies for triplets and grades."""

    @property
    def supported(self) -> tuple[str, ...]:
        """Ids of the nodes that satisfy the triplets."""
        return tuple(node.node_id for node in self.nodes if node.filtered and self.is_narrowed)


class FourStepFocus:
    """Ranks the nodes of a knowledge base for questions.

    ``reader``: Step 1; None skips steps 1 and 2 (the baselines).
    ``grader``: Step 4; None keeps the order of the vector search.
    ``symmetric``: Edge types that hold in both directions.
    ``answer_types``: Node types of answers; default: all.
    ``published``: Published vectors, which replace those of the encoder and of the graph.
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
        published: PublishedVectors | None = None,
    ) -> None:
        self._graph = graph
        self._published = published
        self._vectors = published or graph.vectors.passage_files()
        self.vector_model = MODEL if published else f"{encoder.model_id}@{encoder.revision}"
        self._encoder = encoder
        self._reader = reader
        self._grader = grader
        self._settings = settings or FocusSettings()
        self._symmetric = symmetric
        self._type_codes = {name: code for code, name in enumerate(graph.type_names)}
        self._edge_codes = {name: code for code, name in enumerate(graph.relations)}
        self._is_answer = self._find_answer_nodes(answer_types or graph.type_names)
        self.version = content_id(
            "four_step_focus",
            VERSION,
            asdict(self._settings),
            graph.version,
            encoder.model_id,
            encoder.revision,
            reader and reader.version,
            grader and grader.version,
            sorted(symmetric),
            sorted(answer_types),
            *([published.version] if published else []),
        )

    def _find_answer_nodes(self, answer_types: Iterable[str]) -> NDArray[np.bool_]:
        """Whether each node has one of these types, of which the graph may lack some."""
        codes = [self._type_codes[name] for name in answer_types if name in self._type_codes]
        return np.isin(self._graph.node_types, codes)

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        """Evidence of each question's best answers; empty if the question failed."""
        return [list(ranking.evidence) for ranking in self.rank(questions)]

    def rank(self, questions: Sequence[Question]) -> list[NodeRanking]:
        if not questions:
            return []
        texts = [question.text for question in questions]
        queries = self._reader.read_triplets(texts) if self._reader else [(None, None)] * len(questions)
        vectors = self._published.encode(questions) if self._published else self._encoder.encode_sentences(texts)
        drafts = []
        for (query, reply), vector in zip(queries, vectors, strict=True):
            drafts.append(replace(self._find_nodes(query, vector), reply=reply))
        graded = self._grade(questions, drafts)
        return [self._add_evidence(draft, vector) for draft, vector in zip(graded, vectors, strict=True)]

    # Steps 2 and 3: substitution and vector search

    def _find_nodes(self, query: TripletQuery | Failure | None, vector: FloatArray) -> NodeRanking:
        """Candidates that satisfy the triplets, then other nodes near to the question."""
        draft = NodeRanking("answered")
        candidates: IntArray = np.zeros(0, np.int64)
        if isinstance(query, Failure):
            if not self._settings.fallback:
                return NodeRanking("failed", error=query.reason)
            note = f"the question was not read as triplets, so all nodes were searched: {query.reason}"
            omission = Omission("missing", "triplets", query.reason)
            draft = replace(draft, notes=(note,), omissions=(omission,))
        elif query is not None:
            draft, candidates = self._find_candidates(self.link_query(query), vector)
        is_other = self._is_answer.copy()
        is_other[candidates] = False
        others = self._search(vector, is_other, self._settings.k_max - len(candidates))
        numbers = np.concatenate([candidates, others])
        similarities = self._vectors.similarities(vector, numbers, self._settings.search)
        nodes = [
            RankedNode(number, self._graph.node_ids[number], position < len(candidates), similarity, None)
            for position, (number, similarity) in enumerate(zip(numbers.tolist(), similarities.tolist(), strict=True))
        ]
        return replace(draft, status="answered" if nodes else "insufficient", nodes=tuple(nodes))

    def _search(self, vector: FloatArray, is_allowed: NDArray[np.bool_], k: int) -> IntArray:
        """The ``k`` allowed nodes nearest to a vector."""
        return self._vectors.nearest(vector, is_allowed, k, self._settings.search)

    def _find_candidates(self, query: LinkedQuery, vector: FloatArray) -> tuple[NodeRanking, IntArray]:
        """A ranking with the notes on a query, and the best candidates of its target."""
        settings = self._settings
        narrowed = substitution.substitute(
            self._graph.typed_graph, query.patterns, query.target, form=settings.triplets or "corrected"
        )
        notes = [f"triplet {number + 1} was left out: {reason}" for number, reason in narrowed.skipped_patterns]
        notes += [f"triplet {number + 1} is not connected to the target" for number in narrowed.unconnected_patterns]
        candidates = sorted_unique(narrowed.candidates).astype(np.int64)
        if settings.exclude_mentioned:
            candidates = np.setdiff1d(candidates, query.mentioned_nodes)
        if narrowed.is_narrowed and not len(candidates):
            notes.append("no node satisfies all triplets")
        candidates = candidates[self._is_answer[candidates]]
        if narrowed.is_narrowed:
            similarities = self._vectors.similarities(vector, candidates, settings.search)
            candidates = candidates[np.lexsort((candidates, -similarities))][: settings.k_max]
        else:  # a whole type is too many for exact similarities
            is_candidate = np.zeros(len(self._graph), dtype=bool)
            is_candidate[candidates] = True
            candidates = self._search(vector, is_candidate, settings.k_max).astype(np.int64)
            notes.append("no usable triplet touches the target: all nodes of its type are candidates")
        return NodeRanking("answered", query=query, is_narrowed=narrowed.is_narrowed, notes=tuple(notes)), candidates

    def link_query(self, query: TripletQuery) -> LinkedQuery:
        """Link the constants of a query: a constant matches all nodes that its name links to."""
        texts = [t.text for triplet in query.triplets for t in (triplet.head, triplet.tail) if not t.is_variable]
        links = dict(zip(texts, self._graph.linker.link_many(texts), strict=True))

        def link_term(term: Term, edge_type: int, ends: IntArray) -> Variable | Constant:
            if term.is_variable:
                return self._build_variable(term)
            nodes = links[term.text].nodes
            return Constant(term.text, nodes or self._find_nearest(term.text, edge_type, ends))

        patterns = []
        for triplet in query.triplets:
            edge_type = self._edge_codes.get(triplet.edge_type, -1)  # a type without edges gets a code of no edge
            patterns.append(
                TriplePattern(
                    link_term(triplet.head, edge_type, self._graph.arrays.heads),
                    edge_type if self._settings.edge_types else None,
                    link_term(triplet.tail, edge_type, self._graph.arrays.tails),
                    symmetric=triplet.edge_type in self._symmetric or not self._settings.directed,
                    is_denied=triplet.is_denied,
                )
            )
        return LinkedQuery(query.triplets, tuple(patterns), self._build_variable(query.target))

    def _build_variable(self, term: Term) -> Variable:
        node_type = None if term.node_type == ANY_TYPE else self._type_codes[str(term.node_type)]
        return Variable(term.text, node_type)

    def _find_nearest(self, name: str, edge_type: int, ends: IntArray) -> tuple[int, ...]:
        """The ``nearest_nodes`` nearest to a name, of the types that the edge type has at these ends of all edges."""
        if not self._settings.nearest_nodes:
            return ()
        types = self._graph.node_types
        is_allowed = np.isin(types, types[ends[self._graph.arrays.relations == edge_type]])
        vector = self._encoder.encode_sentences([name])[0]
        return tuple(sorted(self._search(vector, is_allowed, self._settings.nearest_nodes).tolist()))

    # Step 4: grades

    def _grade(self, questions: Sequence[Question], drafts: Sequence[NodeRanking]) -> list[NodeRanking]:
        """Rerank by grades; candidates of the target stay above the others."""
        if self._grader is None:
            return list(drafts)
        tasks = [
            (question.text, self._build_card(node))
            for question, draft in zip(questions, drafts, strict=True)
            for node in draft.nodes
        ]
        grades = iter(self._grader.grade(tasks))
        return [self._order_by_grades(draft, [next(grades) for _ in draft.nodes]) for draft in drafts]

    def _order_by_grades(
        self, draft: NodeRanking, grades: Sequence[tuple[float | Failure, ReplyCost | None]]
    ) -> NodeRanking:
        """Sort the nodes by grade; one without a usable grade keeps the similarity of the vector search."""
        nodes = []
        omissions = list(draft.omissions)
        for node, (grade, _) in zip(draft.nodes, grades, strict=True):
            if isinstance(grade, Failure):
                omissions.append(Omission("rejected", f"{GRADE_PREFIX}{self._graph.names[node.number]}", grade.reason))
                nodes.append(node)
            else:
                nodes.append(replace(node, grade=grade))
        nodes.sort(key=lambda n: (not n.filtered, -n.score, -n.similarity, n.node_id))
        reply = ReplyCost.total([draft.reply, *(cost for _, cost in grades)])
        return replace(draft, nodes=tuple(nodes), omissions=tuple(omissions), reply=reply)

    def _build_card(self, node: RankedNode) -> NodeCard:
        graph = self._graph
        relations = tuple(map(graph.triple, graph.first_edges(node.number, self._settings.card_relations)))
        return NodeCard(
            graph.names[node.number],
            graph.type_names[int(graph.node_types[node.number])],
            graph.documents[node.number],
            relations,
            relations_left_out=len(graph.arrays.edges_at(np.array([node.number]))) - len(relations),
        )

    # Evidence

    def _add_evidence(self, draft: NodeRanking, vector: FloatArray) -> NodeRanking:
        """Add evidence of the best answers: edges that satisfy the triplets, and card or nearest passage."""
        shown_edges = set[str]()
        evidence: list[SelectedEvidence] = []
        for rank, node in enumerate(draft.nodes[: self._settings.evidence_nodes], 1):
            about = {"answer": node.node_id, "rank": rank}
            for edge, triplet in self._find_edges(draft, node):
                edge_id = self._graph.edge_ids[edge]
                if edge_id not in shown_edges:
                    shown_edges.add(edge_id)
                    evidence.append(edge_evidence(self._graph, edge, node.similarity, **about, triplet=triplet))
            ungraded = {"grade": "rejected"} if self._grader is not None and node.grade is None else {}
            details = json.dumps({**about, **ungraded, "notes": draft.notes}, sort_keys=True, ensure_ascii=False)
            evidence += self._find_text(node, vector, details)
        return replace(draft, evidence=tuple(evidence))

    def _find_edges(self, draft: NodeRanking, node: RankedNode) -> Iterator[tuple[int, tuple[str, str, str]]]:
        """Edges that support an answer, each with its triplet."""
        query = draft.query
        if query is None or not draft.is_narrowed or not node.filtered:
            return
        for index, *edge in substitution.witness_edges(
            self._graph.typed_graph, query.patterns, query.target, node.number, self._settings.edges_per_triplet
        ):
            triplet = query.triplets[index]
            edges = self._graph.arrays.edges_from(*edge)
            yield edges[0], (triplet.head.text, triplet.edge_type, triplet.tail.text)

    def _find_text(self, node: RankedNode, vector: FloatArray, details: str) -> list[SelectedEvidence]:
        """The card that the grader read; without a grader, the passage nearest to the question, if the node has one."""
        graph = self._graph
        parent = Parent("node", node.node_id, node.node_id)
        if self._grader is not None:
            edges = [graph.edge_ids[edge] for edge in graph.first_edges(node.number, self._settings.card_relations)]
            parents = (parent, *(Parent("edge", edge, edge) for edge in edges))
            text = self._build_card(node).text(MAX_DOCUMENT_CHARACTERS)
            return [SelectedEvidence("", "chunk", parents, "", text, node.score, details)]
        passage = self._vectors.best_passage(vector, node.number)
        if passage is None:
            return []
        passage_id, start, end, score = passage
        text = graph.documents[node.number][start:end]
        passage_parent = Parent("passage", passage_id, passage_id)
        return [SelectedEvidence("", "chunk", (parent, passage_parent), f"{start}:{end}", text, score, details)]
