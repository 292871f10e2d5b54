"""Candidate nodes for the variables of triplets in a typed graph: the filter of 4StepFocus."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evidence_assets.graphs.arrays import IntArray, TypedGraph
from evidence_assets.lake.array_files import sorted_unique

SubstitutionForm = Literal["printed", "corrected"]


@dataclass(frozen=True)
class Variable:
    """An unknown node of a type (None: any type)."""

    name: str
    node_type: int | None = None


@dataclass(frozen=True)
class Constant:
    """A named entity and the nodes that match its name."""

    name: str
    nodes: tuple[int, ...]


Term = Variable | Constant


@dataclass(frozen=True)
class TriplePattern:
    """A triplet to satisfy; ``edge_type`` None accepts any type, ``symmetric`` accepts both directions.

    ``is_denied``: The graph must not have the edge; a denied constant stands for all nodes that match its name.
    """

    head: Term
    edge_type: int | None
    tail: Term
    symmetric: bool = False
    is_denied: bool = False

    @property
    def ends(self) -> tuple[Term, Term]:
        return self.head, self.tail


Candidates = dict[Term, IntArray]


@dataclass(frozen=True)
class SubstitutionResult:
    """Result of a substitution.

    ``is_narrowed`` is False if no usable triplet contains the target: its candidates are then all nodes of its type.
    ``unconnected_patterns``: Used triplets that no chain of variables connects to the target, on which it does not
        depend.
    """

    candidates: IntArray
    candidates_by_term: Candidates
    used_patterns: tuple[int, ...]
    skipped_patterns: tuple[tuple[int, str], ...]
    is_narrowed: bool
    unconnected_patterns: tuple[int, ...] = ()


def substitute(
    graph: TypedGraph,
    patterns: Sequence[TriplePattern],
    target: Variable,
    *,
    form: SubstitutionForm = "corrected",
    fixed_target: int | None = None,
) -> SubstitutionResult:
    """Find the candidate nodes of the target variable (Algorithms 2 and 3 of 4StepFocus).

    Triplets of two constants, or with a constant without nodes, are skipped with a reason; so are denied triplets with
    a variable that is in no other used triplet (safe negation as failure).

    ``printed`` follows Algorithm 2 exactly. If both ends are variables, it intersects the heads with the nodes to which
    the heads point (line 17), and the tails with the nodes that point to the tails (line 22), which leaves nothing
    between nodes of different types. Triplets of a variable with itself are skipped, as in Algorithm 3.

    ``corrected`` intersects the heads with the nodes that point to a tail, and the tails with those to which a head
    points, until nothing changes (arc consistency). A contradiction empties the variables that are connected to it by
    variables or ambiguous constants, as in the printed algorithm. If the connected triplets form a tree over these, the
    result is exactly the nodes of the target in assignments that satisfy them, otherwise a superset.

    ``fixed_target``: The only candidate of the target, instead of all nodes of its type.
    """
    reasons = _skip_reasons(patterns, form)
    used = {number: _with_denied_constants(p) for number, p in enumerate(patterns) if not reasons[number]}
    usable_patterns = list(used.values())
    terms = dict.fromkeys([target, *(term for p in usable_patterns for term in p.ends)])
    candidates = {
        term: graph.of_type(term.node_type) if isinstance(term, Variable) else np.unique(term.nodes) for term in terms
    }
    if fixed_target is not None:
        candidates[target] = np.array([fixed_target])
    narrow = _narrow_printed if form == "printed" else _narrow_corrected
    narrow(graph, usable_patterns, candidates)
    connected = _connected_terms(usable_patterns, {target})
    return SubstitutionResult(
        candidates=candidates[target],
        candidates_by_term=candidates,
        used_patterns=tuple(used),
        skipped_patterns=tuple((number, reason) for number, reason in enumerate(reasons) if reason),
        is_narrowed=any(target in p.ends for p in usable_patterns),
        unconnected_patterns=tuple(number for number, p in used.items() if connected.isdisjoint(p.ends)),
    )


def witness_edges(
    graph: TypedGraph, patterns: Sequence[TriplePattern], target: Variable, node: int, limit: int = 20
) -> list[tuple[int, int, int, int]]:
    """Edges that support a candidate: (triplet number, head, edge type, tail), ``limit`` per triplet.

    The target is fixed to the node, and all other variables are narrowed again. Triplets that are not connected to the
    target have no edges here.
    """
    narrowed = substitute(graph, patterns, target, fixed_target=node)
    edges: list[tuple[int, int, int, int]] = []
    for number in narrowed.used_patterns:
        pattern = patterns[number]
        if number in narrowed.unconnected_patterns or pattern.is_denied:
            continue
        ends = tuple(narrowed.candidates_by_term[end] for end in pattern.ends)
        witnesses: set[tuple[int, int, int, int]] = set()
        for kind in graph.edge_types if pattern.edge_type is None else (pattern.edge_type,):
            for heads, tails in (ends, ends[::-1])[: 1 + pattern.symmetric]:
                pairs = _first_pairs(*_edge_pairs(graph, kind, heads, tails), limit, loops=pattern.head == pattern.tail)
                witnesses |= {(number, head, kind, tail) for head, tail in pairs}
        edges += sorted(witnesses)[:limit]
    return edges


def _first_pairs(heads: IntArray, tails: IntArray, limit: int, *, loops: bool) -> list[list[int]]:
    """The first pairs in ascending order; with ``loops``, only those of a node with itself."""
    pairs = np.stack([heads, tails], axis=1)
    pairs = pairs[heads == tails] if loops else pairs
    return [*pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))[:limit]].tolist()]


def _skip_reasons(patterns: Sequence[TriplePattern], form: SubstitutionForm) -> list[str]:
    """For each triplet, why it is not used, or an empty text."""
    asserted_patterns = [p for p in patterns if not p.is_denied and not _skip_reason(p, form, ())]
    bound = {end for p in asserted_patterns for end in p.ends}
    return [_skip_reason(pattern, form, bound) for pattern in patterns]


def _skip_reason(pattern: TriplePattern, form: SubstitutionForm, bound: Collection[Term]) -> str:
    """Why a triplet is not used, or an empty text; ``bound`` are the ends of the used triplets that are not denied."""
    for end in pattern.ends:
        if isinstance(end, Constant) and not end.nodes:
            return f"the constant {end.name!r} matches no node"
    if all(isinstance(end, Constant) for end in pattern.ends):
        return "both ends are constants"
    if form == "printed" and pattern.head == pattern.tail:
        return "both ends are the same variable"
    if pattern.is_denied and form == "printed":
        return "the printed form has no denied triplets"
    for end in pattern.ends if pattern.is_denied else ():
        if isinstance(end, Variable) and end not in bound:
            return f"the variable {end.name!r} is only in denied triplets"
    return ""


def _with_denied_constants(pattern: TriplePattern) -> TriplePattern:
    """The pattern; a denied one has constants of its own, which other triplets do not narrow."""
    if not pattern.is_denied:
        return pattern
    head, tail = (replace(end, name=f"not {end.name}") if isinstance(end, Constant) else end for end in pattern.ends)
    return replace(pattern, head=head, tail=tail)


def _edge_pairs(graph: TypedGraph, kind: int | None, heads: IntArray, tails: IntArray) -> tuple[IntArray, IntArray]:
    """Edges from ``heads`` to ``tails``, looked up from the smaller side."""
    outgoing = len(heads) <= len(tails)
    near, far = graph.pairs(kind, heads if outgoing else tails, outgoing=outgoing)
    is_end = np.zeros(graph.n_nodes, dtype=bool)
    is_end[tails if outgoing else heads] = True
    near = near[is_end[far]]
    far = far[is_end[far]]
    return (near, far) if outgoing else (far, near)


def _matching_edges(graph: TypedGraph, pattern: TriplePattern, candidates: Candidates) -> tuple[IntArray, IntArray]:
    """Heads and tails of the edges that satisfy a triplet."""
    heads = candidates[pattern.head]
    tails = candidates[pattern.tail]
    along = _edge_pairs(graph, pattern.edge_type, heads, tails)
    if pattern.symmetric:
        against = _edge_pairs(graph, pattern.edge_type, tails, heads)
        along = np.concatenate([along[0], against[1]]), np.concatenate([along[1], against[0]])
    if pattern.head == pattern.tail:
        loops = along[0] == along[1]
        along = along[0][loops], along[1][loops]
    return along


def _undenied_ends(graph: TypedGraph, pattern: TriplePattern, candidates: Candidates) -> tuple[IntArray, IntArray]:
    """Heads with a tail to which they have no such edge, and tails alike; for constants, with no edge at all."""
    edges = np.unique(np.stack(_matching_edges(graph, pattern, candidates)), axis=1)
    remaining = []
    for end, other, nodes in zip(pattern.ends, pattern.ends[::-1], edges, strict=True):
        is_unary = isinstance(other, Constant) or end == other
        denied, counts = np.unique(nodes, return_counts=True)
        denied = denied[counts >= (1 if is_unary else len(candidates[other]))]
        remaining.append(candidates[end] if isinstance(end, Constant) else np.setdiff1d(candidates[end], denied))
    return remaining[0], remaining[1]


def _is_open(term: Term) -> bool:
    """Whether a term can be narrowed: a variable, or a constant that matches several nodes."""
    return isinstance(term, Variable) or len(term.nodes) > 1


def _connected_terms(patterns: Sequence[TriplePattern], terms: Collection[Term]) -> set[Term]:
    """The terms that a chain of triplets over variables and ambiguous constants connects to one of ``terms``."""
    connected = {term for term in terms if _is_open(term)}
    for _ in patterns:  # a chain is at most as long as there are triplets
        ends = ({p.head, p.tail} for p in patterns if not connected.isdisjoint(p.ends))
        connected |= {term for pair in ends for term in pair if _is_open(term)}
    return connected


def _narrow_corrected(graph: TypedGraph, patterns: Sequence[TriplePattern], candidates: Candidates) -> None:
    """Arc consistency; the triplet with the fewest candidates goes first."""
    pending = set(range(len(patterns)))
    while pending:
        number = min(pending, key=lambda i: (min(len(candidates[e]) for e in (patterns[i].head, patterns[i].tail)), i))
        pending.remove(number)
        pattern = patterns[number]
        edges = (_undenied_ends if pattern.is_denied else _matching_edges)(graph, pattern, candidates)
        if not len(edges[0]):
            # No assignment satisfies the triplets connected to this one.
            contradictory = _connected_terms(patterns, pattern.ends)
            candidates.update(dict.fromkeys(contradictory, np.zeros(0, np.int64)))
            pending -= {i for i in pending if not contradictory.isdisjoint((patterns[i].head, patterns[i].tail))}
            continue
        for term, nodes in zip(pattern.ends, edges, strict=True):
            previous = candidates[term]
            candidates[term] = sorted_unique(nodes)
            if len(candidates[term]) < len(previous):
                pending |= {i for i, other in enumerate(patterns) if i != number and term in other.ends}


def _narrow_printed(graph: TypedGraph, patterns: Sequence[TriplePattern], candidates: Candidates) -> None:
    """Algorithm 2 as printed, repeated until nothing changes."""

    def neighbours(term: Term, pattern: TriplePattern, *, outgoing: bool) -> IntArray:
        directions = (outgoing, not outgoing) if pattern.symmetric else (outgoing,)
        nodes = candidates[term]
        return sorted_unique(np.concatenate([graph.pairs(pattern.edge_type, nodes, outgoing=d)[1] for d in directions]))

    while True:
        previous_sizes = {term: len(nodes) for term, nodes in candidates.items()}
        for pattern in patterns:
            head = pattern.head
            tail = pattern.tail
            targets = neighbours(head, pattern, outgoing=True)
            sources = neighbours(tail, pattern, outgoing=False)
            if isinstance(head, Constant):
                candidates[tail] = np.intersect1d(candidates[tail], targets, assume_unique=True)
            elif isinstance(tail, Constant):
                candidates[head] = np.intersect1d(candidates[head], sources, assume_unique=True)
            else:
                candidates[head] = np.intersect1d(candidates[head], targets, assume_unique=True)
                candidates[tail] = np.intersect1d(candidates[tail], sources, assume_unique=True)
        if previous_sizes == {term: len(nodes) for term, nodes in candidates.items()}:
            return
