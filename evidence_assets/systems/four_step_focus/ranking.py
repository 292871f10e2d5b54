"""4StepFocus (Boer, Koch, Kramer): ranks the nodes of a knowledge base as answers to a question.

Runs the four steps (triplets, substitution, vector search, reranking) and collects the evidence. The paper's baselines
(vector search, multi-vector search, vector search with reranking) are the same class without triplets.
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
from evidence_assets.reasoning.tasks import Failure, Omission, ReplyCost
from evidence_assets.systems.four_step_focus import VERSION
from evidence_assets.systems.four_step_focus.grading import MAX_DOCUMENT_CHARACTERS, Grader, NodeCard
from evidence_assets.systems.four_step_focus.question_forms import FormParser
from evidence_assets.systems.four_step_focus.triplets import ANY_TYPE, PromptedTriplets, Term, TripletQuery

TripletReader = PromptedTriplets | FormParser
"""Translates questions into triplets; one result per question, in order."""


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
class NodeRanking:
    """Ranked nodes of a question; ``status``: answered, insufficient (no nodes) or failed (``error``).

    ``is_narrowed``: Whether triplets narrowed the target's candidates, which they support then.
    ``notes`` list the triplets that could not be used, with reasons. ``omissions``: unusable triplets and grades.
    """

    status: str
    nodes: tuple[RankedNode, ...] = ()
    evidence: tuple[SelectedEvidence, ...] = ()
    query: TripletQuery | None = None
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
        answer_codes = [self._node_type[name] for name in answer_types or graph.type_names if name in self._node_type]
        self._is_answer: NDArray[np.bool_] = np.isin(graph.node_types, answer_codes)
        models = encoder.model_id, encoder.revision, reader and reader.version, grader and grader.version
        types = sorted(symmetric), sorted(answer_types)
        self.version = content_id("four_step_focus", VERSION, asdict(self._settings), graph.version, *models, *types)

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        """Evidence of each question's best answers; empty if the question failed."""
        return [list(ranking.evidence) for ranking in self.rank(questions)]

    def rank(self, questions: Sequence[Question]) -> list[NodeRanking]:
        if not questions:
            return []
        texts = [q.text for q in questions]
        queries = self._reader.read_triplets(texts) if self._reader else [(None, None)] * len(questions)
        vectors = self._encoder.encode_sentences(texts)
        drafts = []
        for (query, reply), vector in zip(queries, vectors, strict=True):
            drafts.append(replace(self._find_nodes(query, vector), reply=reply))
        graded = self._grade(questions, drafts)
        return [self._add_evidence(draft, v) for draft, v in zip(graded, vectors, strict=True)]

    def _find_nodes(self, query: TripletQuery | Failure | None, vector: FloatArray) -> NodeRanking:
        """Substitute the triplets and search vectors (steps 2 and 3)."""
        notes, omissions, method = list[str](), list[Omission](), self._settings.search
        if isinstance(query, Failure):
            if not self._settings.fallback:
                return NodeRanking("failed", error=query.reason)
            notes.append(f"the question was not read as triplets, so all nodes were searched: {query.reason}")
            omissions.append(Omission("missing", "triplets", query.reason))
            query = None
        filtered: IntArray = np.zeros(0, np.int64)
        is_narrowed = False
        if query is not None:
            narrowed, reasons = self._substitute(query)
            notes += reasons
            is_narrowed = narrowed.is_narrowed
            candidates = sorted_unique(narrowed.candidates).astype(np.int64)
            candidates = candidates[self._is_answer[candidates]]
            if is_narrowed:
                order = np.lexsort((candidates, -self._vectors.similarities(vector, candidates, method)))
                filtered = candidates[order[: self._settings.k_max]]
            else:  # a whole type is too many for exact similarities
                is_candidate = np.zeros(len(self._graph), dtype=bool)
                is_candidate[candidates] = True
                filtered = self._vectors.nearest(vector, is_candidate, self._settings.k_max, method)
                notes.append("no usable triplet touches the target: all nodes of its type are candidates")
        n_remaining = self._settings.k_max - len(filtered)
        allowed = self._is_answer.copy()
        allowed[filtered] = False
        ranked_nodes = np.concatenate([filtered, self._vectors.nearest(vector, allowed, n_remaining, method)])
        similarities = self._vectors.similarities(vector, ranked_nodes, method).tolist()
        nodes = tuple(
            RankedNode(node, self._graph.node_ids[node], position < len(filtered), similarity, None)
            for position, (node, similarity) in enumerate(zip(ranked_nodes.tolist(), similarities, strict=True))
        )
        status = "answered" if nodes else "insufficient"
        return NodeRanking(status, nodes, (), query, is_narrowed, tuple(notes), tuple(omissions))

    def build_patterns(self, query: TripletQuery) -> tuple[list[TriplePattern], Variable]:
        """Patterns of the triplets over node numbers; a constant matches all nodes that its name links to."""
        texts = [t.text for triplet in query.triplets for t in (triplet.head, triplet.tail) if not t.is_variable]
        links = dict(zip(texts, self._graph.linker.link_many(texts), strict=True))
        codes = {name: code for code, name in enumerate(self._graph.relations)}

        def convert_term(term: Term, edge_type: int, end: Literal["heads", "tails"]) -> Variable | Constant:
            if term.is_variable:
                return Variable(term.text, None if term.node_type == ANY_TYPE else self._node_type[str(term.node_type)])
            return Constant(term.text, links[term.text].nodes or self._find_nearest(term.text, edge_type, end))

        patterns = []
        for triplet in query.triplets:
            edge_type = codes.get(triplet.edge_type, -1)  # an edge type without edges gets a code that no edge has
            ends = convert_term(triplet.head, edge_type, "heads"), convert_term(triplet.tail, edge_type, "tails")
            is_symmetric = triplet.edge_type in self._symmetric
            kind = edge_type if self._settings.edge_types else None
            patterns.append(TriplePattern(ends[0], kind, ends[1], is_symmetric, triplet.is_denied))
        target = convert_term(query.target, -1, "heads")
        assert isinstance(target, Variable)
        return patterns, target

    def _find_nearest(self, name: str, edge_type: int, end: Literal["heads", "tails"]) -> tuple[int, ...]:
        """The ``nearest_nodes`` nearest to a name, of the types that the edge type has at this end."""
        if not self._settings.nearest_nodes:
            return ()
        arrays, types = self._graph.arrays, self._graph.node_types
        ends = (arrays.heads if end == "heads" else arrays.tails)[arrays.relations == edge_type]
        allowed = np.isin(types, np.unique(types[ends]))
        vector = self._encoder.encode_sentences([name])[0]
        nearest = self._vectors.nearest(vector, allowed, self._settings.nearest_nodes, self._settings.search)
        return tuple(sorted(nearest.tolist()))

    def _substitute(self, query: TripletQuery) -> tuple[SubstitutionResult, list[str]]:
        patterns, target = self.build_patterns(query)
        settings = self._settings
        narrowed = substitution.substitute(
            self._graph.typed_graph, patterns, target, form=settings.triplets or "corrected"
        )
        notes = [f"triplet {number + 1} was left out: {reason}" for number, reason in narrowed.skipped_patterns]
        notes += [f"triplet {number + 1} is not connected to the target" for number in narrowed.unconnected_patterns]
        if settings.exclude_mentioned:
            ends = {end for p in patterns for end in (p.head, p.tail) if isinstance(end, Constant)}
            mentioned = [end.nodes[0] for end in ends if len(end.nodes) == 1]
            narrowed = replace(narrowed, candidates=np.setdiff1d(narrowed.candidates, mentioned))
        if narrowed.is_narrowed and not len(narrowed.candidates):
            notes.append("no node satisfies all triplets")
        return narrowed, notes

    def _grade(self, questions: Sequence[Question], drafts: Sequence[NodeRanking]) -> list[NodeRanking]:
        """Rerank by grades (step 4); candidates of the target stay above the others.

        A node without a usable grade keeps the similarity of the vector search.
        """
        if self._grader is None:
            return list(drafts)
        pairs = [
            (question.text, self._card(node.number))
            for question, draft in zip(questions, drafts, strict=True)
            for node in draft.nodes
        ]
        grades = iter(self._grader.grade(pairs))
        rankings = []
        for draft in drafts:
            replies = [next(grades) for _ in draft.nodes]
            reply = ReplyCost.total([draft.reply, *(cost for _, cost in replies)])
            nodes, omissions = list[RankedNode](), list(draft.omissions)
            for node, (grade, _) in zip(draft.nodes, replies, strict=True):
                if isinstance(grade, Failure):
                    omissions.append(Omission("rejected", f"grade of {self._graph.names[node.number]}", grade.reason))
                    nodes.append(node)
                else:
                    nodes.append(replace(node, grade=grade))
            nodes.sort(key=lambda n: (not n.filtered, -n.score, -n.similarity, n.node_id))
            rankings.append(replace(draft, nodes=tuple(nodes), omissions=tuple(omissions), reply=reply))
        return rankings

    def _card(self, node: int) -> NodeCard:
        graph = self._graph
        relations = tuple(map(graph.triple, graph.first_edges(node, self._settings.card_relations)))
        return NodeCard(
            graph.names[node],
            graph.type_names[int(graph.node_types[node])],
            graph.documents[node],
            relations,
            relations_left_out=len(graph.arrays.edges_at(np.array([node]))) - len(relations),
        )

    def _add_evidence(self, draft: NodeRanking, vector: FloatArray) -> NodeRanking:
        """Add evidence of the best answers: edges that satisfy the triplets, and card or nearest passage."""
        settings, graph = self._settings, self._graph
        query = draft.query if draft.is_narrowed else None
        patterns, target = self.build_patterns(query) if query else ([], None)
        evidence: dict[tuple[str, str, str], SelectedEvidence] = {}
        for rank, node in enumerate(draft.nodes[: settings.evidence_nodes], 1):
            about = {"answer": node.node_id, "rank": rank}
            if query and target and node.filtered:
                for triplet_index, *edge in substitution.witness_edges(
                    graph.typed_graph, patterns, target, node.number, settings.edges_per_triplet
                ):
                    (edge_number,) = graph.arrays.edges_from(*edge)[:1]
                    matched = query.triplets[triplet_index]
                    triplet = [matched.head.text, matched.edge_type, matched.tail.text]
                    item = edge_evidence(graph, edge_number, node.similarity, **about, triplet=triplet)
                    evidence.setdefault(("edge", graph.edge_ids[edge_number], ""), item)
            ungraded = {"grade": "rejected"} if self._grader is not None and node.grade is None else {}
            details = json.dumps({**about, **ungraded, "notes": draft.notes}, sort_keys=True, ensure_ascii=False)
            node_parent = Parent("node", node.node_id, node.node_id)
            if self._grader is not None:
                edges = (graph.edge_ids[edge] for edge in graph.first_edges(node.number, settings.card_relations))
                parents: tuple[Parent, ...] = (node_parent, *(Parent("edge", edge, edge) for edge in edges))
                card_text = self._card(node.number).text(MAX_DOCUMENT_CHARACTERS)
                evidence[("node", node.node_id, "")] = SelectedEvidence(
                    "", "chunk", parents, "", card_text, node.score, details
                )
            elif (passage := self._vectors.best_passage(vector, node.number)) is not None:
                passage_id, start, end, score = passage
                parents = (node_parent, Parent("passage", passage_id, passage_id))
                evidence[("node", node.node_id, f"{start}:{end}")] = SelectedEvidence(
                    "", "chunk", parents, f"{start}:{end}", graph.documents[node.number][start:end], score, details
                )
        return replace(draft, evidence=tuple(evidence.values()))
