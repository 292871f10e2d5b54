"""Substitution of variables in triplets by nodes of a typed graph: the filter of 4StepFocus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.typed_graph import TypedGraph

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


@dataclass(frozen=True)
class TriplePattern:
    """A triplet to satisfy; ``edge_type`` None accepts any type, ``symmetric`` accepts both directions."""

    head: Variable | Constant
    edge_type: int | None
    tail: Variable | Constant
    symmetric: bool = False


Candidates = dict[Variable | Constant, IntArray]


@dataclass(frozen=True)
class SubstitutionResult:
    """Result of a substitution.

    ``is_narrowed`` is False if no usable triplet contains the target: its candidates are then all nodes of its type.
    """

    candidates: IntArray
    candidates_by_term: Candidates
    used_patterns: tuple[int, ...]
    skipped_patterns: tuple[tuple[int, str], ...]
    is_narrowed: bool


def substitute(
    graph: TypedGraph,
    patterns: Sequence[TriplePattern],
    target: Variable,
    *,
    form: SubstitutionForm = "corrected",
    use_edge_types: bool = True,
    use_direction: bool = True,
    fixed: Mapping[str, ArrayLike] | None = None,
) -> SubstitutionResult:
    """Find the candidate nodes of the target variable for a list of triplets (4StepFocus, Algorithms 2 and 3).

    Triplets of two constants, or with a constant without nodes, are skipped with a reason.

    ``printed`` follows Algorithm 2 exactly. If both ends are variables, it intersects the heads with the nodes to which
    the heads point (line 17), and the tails with the nodes that point to the tails (line 22), which leaves nothing
    between nodes of different types. Triplets of a variable with itself are skipped, as in Algorithm 3.

    ``corrected`` intersects the heads with the nodes that point to a tail, and the tails with those to which a head
    points, until nothing changes (arc consistency). If the triplets form a forest over variables and ambiguous
    constants, the result is exactly the nodes of the target in satisfying assignments, otherwise a superset.

    ``use_edge_types``, ``use_direction``: Whether they must match (the published runs ignore the type).
    ``fixed``: Initial candidates of variables, instead of all nodes of their type.
    """
    types: dict[str, int | None] = {target.name: target.node_type}
    for term in (term for p in patterns for term in (p.head, p.tail) if isinstance(term, Variable)):
        if types.setdefault(term.name, term.node_type) != term.node_type:
            raise ValueError(f"the variable {term.name!r} has two types; use one")
    used_numbers, skipped = [], []
    for number, pattern in enumerate(patterns):
        reason = _skip_reason(pattern, form)
        if reason:
            skipped.append((number, reason))
        else:
            used_numbers.append(number)
    usable_patterns = [
        replace(
            patterns[i],
            edge_type=patterns[i].edge_type if use_edge_types else None,
            symmetric=patterns[i].symmetric or not use_direction,
        )
        for i in used_numbers
    ]
    terms = dict.fromkeys([target, *(term for p in usable_patterns for term in (p.head, p.tail))])
    candidates = {term: _initial_candidates(graph, term, fixed or {}) for term in terms}
    narrow = _narrow_printed if form == "printed" else _narrow_corrected
    narrow(graph, usable_patterns, candidates)
    return SubstitutionResult(
        candidates=candidates[target],
        candidates_by_term=candidates,
        used_patterns=tuple(used_numbers),
        skipped_patterns=tuple(skipped),
        is_narrowed=any(target in (p.head, p.tail) for p in usable_patterns),
    )


def witness_edges(
    graph: TypedGraph,
    patterns: Sequence[TriplePattern],
    target: Variable,
    node: int,
    *,
    use_edge_types: bool = True,
    use_direction: bool = True,
    limit: int = 20,
) -> list[tuple[int, int, int, int]]:
    """Edges that support one candidate: (triplet number, head, edge type, tail), at most ``limit`` per triplet.

    The target is fixed to the node, and all other variables are narrowed again.
    """
    narrowed = substitute(
        graph, patterns, target, use_edge_types=use_edge_types, use_direction=use_direction, fixed={target.name: [node]}
    )
    edges: list[tuple[int, int, int, int]] = []
    for number in narrowed.used_patterns:
        pattern = patterns[number]
        ends = [narrowed.candidates_by_term[end] for end in (pattern.head, pattern.tail)]
        edge_types = (pattern.edge_type,) if use_edge_types and pattern.edge_type is not None else graph.edge_types
        witnesses: set[tuple[int, int, int]] = set()
        for kind in edge_types:
            for heads, tails in [ends, ends[::-1]] if pattern.symmetric or not use_direction else [ends]:
                pairs = _edge_pairs(graph, kind, heads, tails)
                if pattern.head == pattern.tail:
                    pairs = tuple(p[pairs[0] == pairs[1]] for p in pairs)  # type: ignore[assignment]
                witnesses.update((int(h), kind, int(t)) for h, t in zip(*(p[:limit] for p in pairs), strict=True))
        edges.extend((number, *edge) for edge in sorted(witnesses)[:limit])
    return edges


def _skip_reason(pattern: TriplePattern, form: SubstitutionForm) -> str:
    ends = (pattern.head, pattern.tail)
    for end in ends:
        if isinstance(end, Constant) and not end.nodes:
            return f"the constant {end.name!r} matches no node"
    if all(isinstance(end, Constant) for end in ends):
        return "both ends are constants"
    if form == "printed" and pattern.head == pattern.tail:
        return "both ends are the same variable"
    return ""


def _initial_candidates(graph: TypedGraph, term: Variable | Constant, fixed: Mapping[str, ArrayLike]) -> IntArray:
    if isinstance(term, Constant):
        return graph.as_set(np.array(term.nodes, dtype=np.int64))
    if term.name not in fixed:
        return graph.of_type(term.node_type)
    nodes = graph.as_set(np.asarray(fixed[term.name], dtype=np.int64))
    return nodes if term.node_type is None else nodes[graph.node_types[nodes] == term.node_type]


def _edge_pairs(graph: TypedGraph, kind: int | None, heads: IntArray, tails: IntArray) -> tuple[IntArray, IntArray]:
    """Edges from ``heads`` to ``tails``, looked up from the smaller side."""
    outgoing = len(heads) <= len(tails)
    near, far = graph.rows(kind, outgoing=outgoing).pairs(heads if outgoing else tails)
    present = np.zeros(graph.n_nodes, dtype=bool)
    present[tails if outgoing else heads] = True
    near, far = near[present[far]], far[present[far]]
    return (near, far) if outgoing else (far, near)


def _matching_edges(graph: TypedGraph, pattern: TriplePattern, candidates: Candidates) -> tuple[IntArray, IntArray]:
    """Edges that satisfy a triplet."""
    heads, tails = candidates[pattern.head], candidates[pattern.tail]
    along = _edge_pairs(graph, pattern.edge_type, heads, tails)
    if pattern.symmetric:
        against = _edge_pairs(graph, pattern.edge_type, tails, heads)
        along = np.concatenate([along[0], against[1]]), np.concatenate([along[1], against[0]])
    if pattern.head == pattern.tail:
        loops = along[0] == along[1]
        along = along[0][loops], along[1][loops]
    return along


def _narrow_corrected(graph: TypedGraph, patterns: Sequence[TriplePattern], candidates: Candidates) -> None:
    """Arc consistency; the triplet with the fewest candidates goes first."""
    pending = set(range(len(patterns)))
    while pending:
        number = min(pending, key=lambda i: (min(len(candidates[e]) for e in (patterns[i].head, patterns[i].tail)), i))
        pending.remove(number)
        pattern = patterns[number]
        for term, nodes in zip((pattern.head, pattern.tail), _matching_edges(graph, pattern, candidates), strict=True):
            previous, candidates[term] = candidates[term], graph.as_set(nodes)
            if not len(nodes):
                # No assignment satisfies all triplets, so no variable has a candidate.
                candidates.update(dict.fromkeys(candidates, np.zeros(0, np.int64)))
                return
            if len(candidates[term]) < len(previous):
                pending |= {i for i, other in enumerate(patterns) if i != number and term in (other.head, other.tail)}


def _narrow_printed(graph: TypedGraph, patterns: Sequence[TriplePattern], candidates: Candidates) -> None:
    """Algorithm 2 as printed, repeated until nothing changes."""

    def neighbours(term: Variable | Constant, pattern: TriplePattern, *, outgoing: bool) -> IntArray:
        directions = (outgoing, not outgoing) if pattern.symmetric else (outgoing,)
        rows = [graph.rows(pattern.edge_type, outgoing=way).pairs(candidates[term])[1] for way in directions]
        return graph.as_set(np.concatenate(rows))

    while True:
        previous_sizes = {term: len(nodes) for term, nodes in candidates.items()}
        for pattern in patterns:
            head, tail = pattern.head, pattern.tail
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
