"""Substitution of variables in triplets by the nodes of a typed graph: the filter of 4StepFocus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.typed_rows import TypedRows

Form = Literal["printed", "corrected"]


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
class Pattern:
    """A triplet to satisfy; ``edge_type`` None accepts any, ``symmetric`` an edge in either direction."""

    head: Variable | Constant
    edge_type: int | None
    tail: Variable | Constant
    symmetric: bool = False


@dataclass(frozen=True)
class Narrowed:
    """Outcome of a substitution.

    ``narrowed`` is False where no usable triplet touches the target: the candidates are then all nodes of its type.
    """

    candidates: IntArray
    by_term: dict[Variable | Constant, IntArray]
    used: tuple[int, ...]
    skipped: tuple[tuple[int, str], ...]
    narrowed: bool


def substitute(
    graph: TypedRows,
    patterns: Sequence[Pattern],
    target: Variable,
    *,
    form: Form = "corrected",
    use_edge_types: bool = True,
    use_direction: bool = True,
    fixed: Mapping[str, ArrayLike] | None = None,
) -> Narrowed:
    """Candidate nodes of the target variable under a list of triplets (4StepFocus, Algorithms 2 and 3).

    Triplets of two constants, or with a constant that matches no node, are skipped with a reason.

    ``printed`` follows Algorithm 2 to the letter. Where both ends are variables it intersects the heads with the
    nodes that the heads point to (line 17), and the tails with the nodes that point to the tails (line 22); between
    nodes of different type that leaves nothing. A triplet of a variable with itself is left out, as in Algorithm 3.

    ``corrected`` intersects the heads with the nodes that point to a tail, and the tails with those that a head points
    to, until nothing changes (arc consistency). If the triplets form a forest over variables and ambiguous constants,
    the result is exactly the set of nodes that satisfying assignments give the target; a constant that matches several
    nodes stands for one of them, the same in all its triplets. With a cycle, or two triplets between the same two
    variables, it is a superset: no satisfying node is lost, but some may remain that no assignment reaches.

    ``use_edge_types``, ``use_direction``: Whether a triplet's edge type and its direction must agree (the published
        runs ignore the type).
    ``fixed``: Starting candidates of single variables, in place of all nodes of their type.
    """
    types: dict[str, int | None] = {target.name: target.node_type}
    for term in (term for p in patterns for term in (p.head, p.tail) if isinstance(term, Variable)):
        if types.setdefault(term.name, term.node_type) != term.node_type:
            raise ValueError(f"the variable {term.name!r} has two types: give it one")
    used, skipped = [], []
    for number, pattern in enumerate(patterns):
        reason = _why_skipped(pattern, form)
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
    state = _Candidates(graph, kept, fixed or {})
    if form == "printed":
        state.run_printed()
    else:
        state.run_corrected()
    touching = [p for p in kept if target in (p.head, p.tail)]
    terms = dict.fromkeys([target, *(term for p in kept for term in (p.head, p.tail))])
    return Narrowed(
        candidates=state.nodes(target),
        by_term={term: state.nodes(term) for term in terms},
        used=tuple(used),
        skipped=tuple(skipped),
        narrowed=bool(touching),
    )


def witness_edges(
    graph: TypedRows,
    patterns: Sequence[Pattern],
    target: Variable,
    node: int,
    *,
    use_edge_types: bool = True,
    use_direction: bool = True,
    limit: int = 20,
) -> list[tuple[int, int, int, int]]:
    """Edges that support one candidate, as (number of the triplet, head, edge type, tail), at most ``limit`` a triplet.

    The target is fixed to the node and everything else narrowed again, so that only edges of assignments that include
    the node are left (for a forest of triplets; a superset otherwise).
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
    for number in narrowed.used:
        pattern = patterns[number]
        ends = [narrowed.by_term[end] for end in (pattern.head, pattern.tail)]
        kinds = (pattern.edge_type,) if use_edge_types and pattern.edge_type is not None else graph.edge_types
        found: set[tuple[int, int, int]] = set()
        for kind in kinds:
            for heads, tails in [ends, ends[::-1]] if pattern.symmetric or not use_direction else [ends]:
                pairs = _pairs(graph, kind, heads, None, tails, None)
                if pattern.head == pattern.tail:
                    pairs = tuple(p[pairs[0] == pairs[1]] for p in pairs)  # type: ignore[assignment]
                found.update((int(h), kind, int(t)) for h, t in zip(pairs[0][:limit], pairs[1][:limit], strict=True))
        edges.extend((number, *edge) for edge in sorted(found)[:limit])
    return edges


def _why_skipped(pattern: Pattern, form: Form) -> str:
    ends = (pattern.head, pattern.tail)
    for end in ends:
        if isinstance(end, Constant) and not end.nodes:
            return f"the constant {end.name!r} matches no node"
    if all(isinstance(end, Constant) for end in ends):
        return "both ends are constants"
    if form == "printed" and pattern.head == pattern.tail:
        return "both ends are the same variable"
    return ""


def _pairs(
    graph: TypedRows,
    edge_type: int | None,
    heads: IntArray | None,
    head_type: int | None,
    tails: IntArray | None,
    tail_type: int | None,
) -> tuple[IntArray, IntArray]:
    """Edges from ``heads`` to ``tails``, gathered from the side with fewer edges; None stands for all of a type."""
    out, into = graph.rows(edge_type, outgoing=True), graph.rows(edge_type, outgoing=False)
    from_heads = len(out.targets) if heads is None else out.degree(heads)
    from_tails = len(into.targets) if tails is None else into.degree(tails)
    if from_heads <= from_tails:
        near, far = out.pairs(heads)
        near_type, other, other_type = (head_type if heads is None else None), tails, tail_type
    else:
        near, far = into.pairs(tails)
        near_type, other, other_type = (tail_type if tails is None else None), heads, head_type
    keep = np.ones(len(near), dtype=bool)
    if near_type is not None:
        keep &= graph.node_types[near] == near_type
    if other is not None:
        present = np.zeros(graph.n_nodes, dtype=bool)
        present[other] = True
        keep &= present[far]
    elif other_type is not None:
        keep &= graph.node_types[far] == other_type
    near, far = near[keep], far[keep]
    return (near, far) if from_heads <= from_tails else (far, near)


class _Candidates:
    """Candidate sets of the terms; None is all nodes of a variable's type, not written out until needed."""

    def __init__(
        self,
        graph: TypedRows,
        patterns: Sequence[Pattern],
        fixed: Mapping[str, ArrayLike],
    ) -> None:
        self.graph, self.patterns = graph, patterns
        self.contradiction = False
        self.sets: dict[Variable | Constant, IntArray | None] = {}
        for term in (term for p in patterns for term in (p.head, p.tail)):
            if isinstance(term, Constant):
                self.sets[term] = graph.as_set(np.array(term.nodes, dtype=np.int64))
            else:
                self.sets.setdefault(term, None)
        self.fixed = {name: graph.as_set(np.asarray(nodes, dtype=np.int64)) for name, nodes in fixed.items()}
        for term in self.sets:
            if isinstance(term, Variable) and term.name in self.fixed:
                self.sets[term] = self._typed(self.fixed[term.name], term)

    def _typed(self, nodes: IntArray, term: Variable | Constant) -> IntArray:
        code = term.node_type if isinstance(term, Variable) else None
        return nodes if code is None else nodes[self.graph.node_types[nodes] == code]

    def nodes(self, term: Variable | Constant) -> IntArray:
        """The candidates of a term, written out."""
        found = self.sets.get(term)
        if self.contradiction:
            return np.zeros(0, np.int64)
        if found is not None or isinstance(term, Constant):
            return np.zeros(0, np.int64) if found is None else found
        return self._typed(self.fixed.get(term.name, self.graph.of_type(term.node_type)), term)

    def _edges(self, pattern: Pattern) -> tuple[IntArray, IntArray]:
        sides = []
        for term in (pattern.head, pattern.tail):
            sides.append((self.sets[term], term.node_type if isinstance(term, Variable) else None))
        (heads, head_type), (tails, tail_type) = sides
        along = _pairs(self.graph, pattern.edge_type, heads, head_type, tails, tail_type)
        if pattern.symmetric:
            against = _pairs(self.graph, pattern.edge_type, tails, tail_type, heads, head_type)
            along = np.concatenate([along[0], against[1]]), np.concatenate([along[1], against[0]])
        if pattern.head == pattern.tail:
            loops = along[0] == along[1]
            along = along[0][loops], along[1][loops]
        return along

    def _cost(self, pattern: Pattern) -> int:
        out = self.graph.rows(pattern.edge_type, outgoing=True)
        into = self.graph.rows(pattern.edge_type, outgoing=False)
        heads, tails = self.sets[pattern.head], self.sets[pattern.tail]
        return min(
            len(out.targets) if heads is None else out.degree(heads),
            len(into.targets) if tails is None else into.degree(tails),
        )

    def run_corrected(self) -> None:
        """Arc consistency; the triplet with the fewest edges to look at goes first."""
        waiting = set(range(len(self.patterns)))
        costs: dict[int, int] = {}
        while waiting:
            for number in waiting - costs.keys():
                costs[number] = self._cost(self.patterns[number])
            number = min(waiting, key=lambda i: (costs[i], i))
            waiting.remove(number)
            pattern = self.patterns[number]
            for term, nodes in zip((pattern.head, pattern.tail), self._edges(pattern), strict=True):
                before, after = self.sets[term], self.graph.as_set(nodes)
                if not len(after):
                    # No assignment satisfies all triplets: then no variable has a candidate, joined or not.
                    self.contradiction = True
                    return
                self.sets[term] = after
                if before is None or len(after) < len(before):
                    for i, other in enumerate(self.patterns):
                        if term in (other.head, other.tail):
                            costs.pop(i, None)
                            if i != number:
                                waiting.add(i)

    def _neighbours(self, nodes: IntArray, pattern: Pattern, *, outgoing: bool) -> IntArray:
        found = self.graph.rows(pattern.edge_type, outgoing=outgoing).pairs(nodes)[1]
        if pattern.symmetric:
            found = np.concatenate([found, self.graph.rows(pattern.edge_type, outgoing=not outgoing).pairs(nodes)[1]])
        return self.graph.as_set(found)

    def run_printed(self) -> None:
        """Algorithm 2 as printed, repeated until nothing changes."""
        for term, nodes in self.sets.items():
            if nodes is None:
                self.sets[term] = self.nodes(term)
        sets: dict[Variable | Constant, IntArray] = {t: n for t, n in self.sets.items() if n is not None}
        while True:
            before = {term: len(nodes) for term, nodes in sets.items()}
            for pattern in self.patterns:
                head, tail = pattern.head, pattern.tail
                pointed_to = self._neighbours(sets[head], pattern, outgoing=True)
                pointing = self._neighbours(sets[tail], pattern, outgoing=False)
                if isinstance(head, Constant):
                    sets[tail] = np.intersect1d(sets[tail], pointed_to, assume_unique=True)
                elif isinstance(tail, Constant):
                    sets[head] = np.intersect1d(sets[head], pointing, assume_unique=True)
                else:
                    sets[head] = np.intersect1d(sets[head], pointed_to, assume_unique=True)
                    sets[tail] = np.intersect1d(sets[tail], pointing, assume_unique=True)
            if before == {term: len(nodes) for term, nodes in sets.items()}:
                break
        self.sets = dict(sets)
