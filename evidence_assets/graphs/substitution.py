"""Substitution of variables in triplets by the nodes of a typed graph: the filter of 4StepFocus."""

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
    """An unknown node of a type (None: of any type)."""

    name: str
    node_type: int | None = None


@dataclass(frozen=True)
class Constant:
    """A named thing and the nodes that its name matches; none means unmatched."""

    name: str
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class TriplePattern:
    """A triplet to satisfy; ``edge_type`` None accepts any, ``symmetric`` an edge in either direction."""

    head: Variable | Constant
    edge_type: int | None
    tail: Variable | Constant
    symmetric: bool = False


Candidates = dict[Variable | Constant, IntArray]


@dataclass(frozen=True)
class SubstitutionResult:
    """Outcome of a substitution.

    ``narrowed`` is False where no usable triplet touches the target: the candidates are then all nodes of its type.
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
    """Candidate nodes of the target variable under a list of triplets (4StepFocus, Algorithms 2 and 3).

    Triplets of two constants, or with a constant that matches no node, are skipped with a reason.

    ``printed`` follows Algorithm 2 to the letter. Where both ends are variables it intersects the heads with the
    nodes that the heads point to (line 17), and the tails with the nodes that point to the tails (line 22); between
    nodes of different type that leaves nothing. A triplet of a variable with itself is left out, as in Algorithm 3.

    ``corrected`` intersects the heads with the nodes that point to a tail, and the tails with those that a head points
    to, until nothing changes (arc consistency). If the triplets form a forest over variables and ambiguous constants,
    the result is exactly the set of nodes that satisfying assignments give the target, else a superset of it.

    ``use_edge_types``, ``use_direction``: Whether they must agree (the published runs ignore the type).
    ``fixed``: Starting candidates of single variables, in place of all nodes of their type.
    """
    types: dict[str, int | None] = {target.name: target.node_type}
    for term in (term for p in patterns for term in (p.head, p.tail) if isinstance(term, Variable)):
        if types.setdefault(term.name, term.node_type) != term.node_type:
            raise ValueError(f"the variable {term.name!r} has two types: give it one")
    used, skipped = [], []
    for number, pattern in enumerate(patterns):
        reason = _skip_reason(pattern, form)
        if reason:
            skipped.append((number, reason))
        else:
            used.append(number)
    kept = [
        replace(
            patterns[i],
            edge_type=patterns[i].edge_type if use_edge_types else None,
            symmetric=patterns[i].symmetric or not use_direction,
        )
        for i in used
    ]
    terms = dict.fromkeys([target, *(term for p in kept for term in (p.head, p.tail))])
    candidates = {term: _initial_candidates(graph, term, fixed or {}) for term in terms}
    narrow = _narrow_printed if form == "printed" else _narrow_corrected
    narrow(graph, kept, candidates)
    return SubstitutionResult(
        candidates=candidates[target],
        candidates_by_term=candidates,
        used_patterns=tuple(used),
        skipped_patterns=tuple(skipped),
        is_narrowed=any(target in (p.head, p.tail) for p in kept),
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
    """Edges that support one candidate, as (number of the triplet, head, edge type, tail), at most ``limit`` a triplet.

    The target is fixed to the node and everything else narrowed again.
    """
    narrowed = substitute(
        graph,
        patterns,
        target,
        use_edge_types=use_edge_types,
        use_direction=use_direction,
        fixed={target.name: [node]},
    )
    edges: list[tuple[int, int, int, int]] = []
    for number in narrowed.used_patterns:
        pattern = patterns[number]
        ends = [narrowed.candidates_by_term[end] for end in (pattern.head, pattern.tail)]
        kinds = (pattern.edge_type,) if use_edge_types and pattern.edge_type is not None else graph.edge_types
        found: set[tuple[int, int, int]] = set()
        for kind in kinds:
            for heads, tails in [ends, ends[::-1]] if pattern.symmetric or not use_direction else [ends]:
                pairs = _edge_pairs(graph, kind, heads, tails)
                if pattern.head == pattern.tail:
                    pairs = tuple(p[pairs[0] == pairs[1]] for p in pairs)  # type: ignore[assignment]
                found.update((int(h), kind, int(t)) for h, t in zip(pairs[0][:limit], pairs[1][:limit], strict=True))
        edges.extend((number, *edge) for edge in sorted(found)[:limit])
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


def _edge_pairs(
    graph: TypedGraph, edge_type: int | None, heads: IntArray, tails: IntArray
) -> tuple[IntArray, IntArray]:
    """Edges from ``heads`` to ``tails``, gathered from the side with fewer nodes."""
    outgoing = len(heads) <= len(tails)
    near, far = graph.rows(edge_type, outgoing=outgoing).pairs(heads if outgoing else tails)
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
    waiting = set(range(len(patterns)))
    while waiting:
        number = min(
            waiting, key=lambda i: (min(len(candidates[end]) for end in (patterns[i].head, patterns[i].tail)), i)
        )
        waiting.remove(number)
        pattern = patterns[number]
        for term, nodes in zip((pattern.head, pattern.tail), _matching_edges(graph, pattern, candidates), strict=True):
            before, candidates[term] = candidates[term], graph.as_set(nodes)
            if not len(nodes):
                # No assignment satisfies all triplets: then no variable has a candidate, joined or not.
                candidates.update(dict.fromkeys(candidates, np.zeros(0, np.int64)))
                return
            if len(candidates[term]) < len(before):
                waiting |= {i for i, other in enumerate(patterns) if i != number and term in (other.head, other.tail)}


def _narrow_printed(graph: TypedGraph, patterns: Sequence[TriplePattern], candidates: Candidates) -> None:
    """Algorithm 2 as printed, repeated until nothing changes."""

    def neighbours(term: Variable | Constant, pattern: TriplePattern, *, outgoing: bool) -> IntArray:
        ways = (outgoing, not outgoing) if pattern.symmetric else (outgoing,)
        rows = [graph.rows(pattern.edge_type, outgoing=way).pairs(candidates[term])[1] for way in ways]
        return graph.as_set(np.concatenate(rows))

    while True:
        before = {term: len(nodes) for term, nodes in candidates.items()}
        for pattern in patterns:
            head, tail = pattern.head, pattern.tail
            pointed_to = neighbours(head, pattern, outgoing=True)
            pointing = neighbours(tail, pattern, outgoing=False)
            if isinstance(head, Constant):
                candidates[tail] = np.intersect1d(candidates[tail], pointed_to, assume_unique=True)
            elif isinstance(tail, Constant):
                candidates[head] = np.intersect1d(candidates[head], pointing, assume_unique=True)
            else:
                candidates[head] = np.intersect1d(candidates[head], pointed_to, assume_unique=True)
                candidates[tail] = np.intersect1d(candidates[tail], pointing, assume_unique=True)
        if before == {term: len(nodes) for term, nodes in candidates.items()}:
            return
