"""Substitution against brute force over all assignments, and the printed form against its own words."""

import itertools
import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.graphs.arrays import TypedGraph
from evidence_assets.graphs.substitution import Constant, TriplePattern, Variable, substitute, witness_edges

TYPES, EDGE_TYPES = 2, 2


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int, int]]]:
    n = draw(st.integers(1, 6))
    node_types = draw(st.lists(st.integers(0, TYPES - 1), min_size=n, max_size=n))
    edge = st.tuples(st.integers(0, n - 1), st.integers(0, EDGE_TYPES - 1), st.integers(0, n - 1))
    return node_types, draw(st.lists(edge, max_size=16))


@st.composite
def queries(
    draw: st.DrawFn, n_nodes: int, *, tree: bool, denials: bool = False
) -> tuple[list[TriplePattern], Variable]:
    """Random triplets; with ``tree`` each new term hangs on one already there (or starts a tree of its own)."""
    variables = [Variable(f"x{i}", draw(st.sampled_from([None, 0, 1]))) for i in range(4)]
    patterns: list[TriplePattern] = []
    placed: list[Variable | Constant] = [variables[0]]
    fresh: list[Variable | Constant] = list(variables[1:])
    for number in range(draw(st.integers(1, 4))):
        if fresh and draw(st.integers(0, 3)) == 0:
            placed.append(fresh.pop())
            old = placed[-1]
        else:
            old = draw(st.sampled_from(placed))
        kinds = ["constant", "variable", "loop"] if tree else ["constant", "variable", "loop", "back"]
        kind = draw(st.sampled_from(kinds))
        new: Variable | Constant
        if kind == "constant" or (kind == "variable" and not fresh):
            nodes = draw(st.lists(st.integers(0, n_nodes - 1), min_size=1, max_size=2, unique=True))
            new = Constant(f"c{number}", tuple(nodes))
        elif kind == "variable":
            new = fresh.pop()
            placed.append(new)
        else:
            new = old if kind == "loop" else draw(st.sampled_from(placed))
        ends = (old, new) if draw(st.booleans()) else (new, old)
        is_denied = denials and draw(st.booleans())
        edge_type = draw(st.sampled_from([None, 0, 1]))
        patterns.append(TriplePattern(ends[0], edge_type, ends[1], draw(st.booleans()), is_denied))
    target = draw(st.sampled_from([v for v in variables if v in placed]))
    return patterns, target


def brute_force(
    node_types: list[int], edges: list[tuple[int, int, int]], patterns: list[TriplePattern], target: Variable
) -> set[int]:
    """Values of the target over all assignments that satisfy every triplet connected to it."""
    patterns = connected_patterns(patterns, target)
    terms = list(dict.fromkeys([target, *(t for p in patterns for t in (p.head, p.tail))]))
    choices = [
        t.nodes if isinstance(t, Constant) else [n for n, kind in enumerate(node_types) if t.node_type in (None, kind)]
        for t in terms
    ]
    present = set(edges)

    def holds(pattern: TriplePattern, head: int, tail: int) -> bool:
        kinds = range(EDGE_TYPES) if pattern.edge_type is None else [pattern.edge_type]
        return any((head, k, tail) in present or (pattern.symmetric and (tail, k, head) in present) for k in kinds)

    results = set()
    for values in itertools.product(*choices):
        value = dict(zip(terms, values, strict=True))

        def is_denied(p: TriplePattern, value: dict[Variable | Constant, int] = value) -> bool:
            heads, tails = (end.nodes if isinstance(end, Constant) else [value[end]] for end in (p.head, p.tail))
            return not any(holds(p, head, tail) for head in heads for tail in tails)

        if all(is_denied(p) if p.is_denied else holds(p, value[p.head], value[p.tail]) for p in patterns):
            results.add(value[target])
    return results


def connected_patterns(patterns: list[TriplePattern], target: Variable) -> list[TriplePattern]:
    """Triplets that variables or ambiguous constants connect to the target, by a walk over one term after another."""
    reached, stack = list[TriplePattern](), [target]
    while stack:
        term = stack.pop()
        for pattern in patterns:
            if term in (pattern.head, pattern.tail) and pattern not in reached:
                reached.append(pattern)
                ends = (pattern.head, pattern.tail)
                stack += [end for end in ends if isinstance(end, Variable) or len(end.nodes) > 1]  # type: ignore[misc]
    return reached


def graph_of(world: tuple[list[int], list[tuple[int, int, int]]]) -> TypedGraph:
    node_types, edges = world
    heads, kinds, tails = np.array(edges, dtype=int).reshape(-1, 3).T
    return TypedGraph(node_types, heads, kinds, tails)


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_corrected_loses_nothing_on_cycles(data: st.DataObject) -> None:
    world = data.draw(graphs())
    patterns, target = data.draw(queries(len(world[0]), tree=False))
    result = substitute(graph_of(world), patterns, target)
    assert brute_force(*world, patterns, target) <= set(result.candidates.tolist())


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_corrected_equals_brute_force_on_trees(data: st.DataObject) -> None:
    """Denied triplets with a variable that no other triplet has are left out."""
    world = data.draw(graphs())
    patterns, target = data.draw(queries(len(world[0]), tree=True, denials=True))
    bound = {end for p in patterns if not p.is_denied for end in (p.head, p.tail)}
    safe = [p for p in patterns if all(isinstance(e, Constant) or e in bound for e in (p.head, p.tail))]
    result = substitute(graph_of(world), patterns, target)
    assert set(result.candidates.tolist()) == brute_force(*world, safe, target)
    assert [patterns[i] for i in result.used_patterns] == safe


DRUG, GENE, DISEASE = 0, 1, 2
TREATS, TARGETS = 0, 1
# drugs 0 1 2, genes 3 4, diseases 5 6; 0 and 1 treat 5, 0 targets 3, 2 targets 4.
MEDICINE = TypedGraph([DRUG] * 3 + [GENE] * 2 + [DISEASE] * 2, [0, 1, 2, 0, 2], [0, 0, 0, 1, 1], [5, 5, 6, 3, 4])
DRUGS, GENES = Variable("d", DRUG), Variable("g", GENE)


def test_conjunction_and_its_witnesses() -> None:
    patterns = [TriplePattern(DRUGS, TREATS, Constant("flu", (5,))), TriplePattern(DRUGS, TARGETS, GENES)]
    result = substitute(MEDICINE, patterns, DRUGS)
    assert result.candidates.tolist() == [0]
    assert result.is_narrowed
    assert result.candidates_by_term[GENES].tolist() == [3]
    assert witness_edges(MEDICINE, patterns, DRUGS, 0) == [(0, 0, TREATS, 5), (1, 0, TARGETS, 3)]
    assert witness_edges(MEDICINE, patterns, DRUGS, 1) == []


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_printed_equals_its_words_in_sets(data: st.DataObject) -> None:
    node_types, edges = data.draw(graphs())
    patterns, target = data.draw(queries(len(node_types), tree=False))
    patterns = [p for p in patterns if p.head != p.tail]
    candidates: dict[object, set[int]] = {}
    for term in [target, *(t for p in patterns for t in (p.head, p.tail))]:
        kind = term.node_type if isinstance(term, Variable) else None
        nodes = term.nodes if isinstance(term, Constant) else range(len(node_types))
        candidates[term] = {n for n in nodes if kind in (None, node_types[n])}
    for _ in range(40):
        for p in patterns:
            both_ways = edges + [(t, k, h) for h, k, t in edges if p.symmetric]
            out = {t for h, k, t in both_ways if h in candidates[p.head] and p.edge_type in (None, k)}
            into = {h for h, k, t in both_ways if t in candidates[p.tail] and p.edge_type in (None, k)}
            if isinstance(p.head, Constant):
                candidates[p.tail] &= out
            elif isinstance(p.tail, Constant):
                candidates[p.head] &= into
            else:
                candidates[p.head] &= out
                candidates[p.tail] &= into
    result = substitute(graph_of((node_types, edges)), patterns, target, form="printed")
    assert set(result.candidates.tolist()) == candidates[target]


def test_queries_with_too_little_information() -> None:
    flu, nothing = Constant("flu", (5,)), Constant("measles", ())
    only_constants = substitute(MEDICINE, [TriplePattern(Constant("a", (0,)), TREATS, flu)], DRUGS)
    assert (only_constants.is_narrowed, only_constants.skipped_patterns) == (False, ((0, "both ends are constants"),))
    assert only_constants.candidates.tolist() == [0, 1, 2]
    unmatched = substitute(MEDICINE, [TriplePattern(DRUGS, TREATS, nothing)], DRUGS)
    assert unmatched.skipped_patterns == ((0, "the constant 'measles' matches no node"),)
    assert not unmatched.is_narrowed
    adrift = substitute(MEDICINE, [TriplePattern(DRUGS, TARGETS, GENES)], DRUGS)
    assert adrift.is_narrowed and adrift.candidates.tolist() == [0, 2]
    contradictory = [TriplePattern(DRUGS, TREATS, flu), TriplePattern(DRUGS, TREATS, Constant("cold", (6,)))]
    assert substitute(MEDICINE, contradictory, DRUGS).candidates.tolist() == []
    elsewhere = TriplePattern(GENES, TARGETS, flu)
    assert substitute(MEDICINE, [elsewhere], DRUGS).candidates.tolist() == [0, 1, 2]
    partly = substitute(MEDICINE, [TriplePattern(DRUGS, TREATS, flu), elsewhere], DRUGS)
    assert (partly.candidates.tolist(), partly.unconnected_patterns) == ([0, 1], (1,))
    assert partly.candidates_by_term[GENES].tolist() == []
    empty = TypedGraph([], [], [], [])
    assert substitute(empty, [TriplePattern(DRUGS, TREATS, nothing)], DRUGS).candidates.tolist() == []
    assert substitute(MEDICINE, [], DRUGS).candidates.tolist() == [0, 1, 2]
    assert substitute(MEDICINE, [TriplePattern(DRUGS, 7, GENES)], DRUGS).candidates.tolist() == []


def test_a_denial_removes_candidates_and_must_be_safe() -> None:
    flu, cancer_gene = Constant("flu", (5,)), Constant("gene", (3,))
    patterns = [TriplePattern(DRUGS, TREATS, flu), TriplePattern(DRUGS, TARGETS, cancer_gene, is_denied=True)]
    assert substitute(MEDICINE, patterns, DRUGS).candidates.tolist() == [1]
    assert [edge[0] for edge in witness_edges(MEDICINE, patterns, DRUGS, 1)] == [0], "an absent edge is no evidence"
    printed = substitute(MEDICINE, patterns, DRUGS, form="printed")
    assert printed.skipped_patterns == ((1, "the printed form has no denied triplets"),)
    unsafe = substitute(MEDICINE, [patterns[0], TriplePattern(DRUGS, TARGETS, GENES, is_denied=True)], DRUGS)
    assert unsafe.candidates.tolist() == [0, 1]
    assert unsafe.skipped_patterns == ((1, "the variable 'g' is only in denied triplets"),)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_witnesses_are_the_first_edges_between_the_candidates(data: st.DataObject) -> None:
    node_types, edges = data.draw(graphs())
    patterns, target = data.draw(queries(len(node_types), tree=True))
    graph = TypedGraph(node_types, *np.array(edges, dtype=np.int64).reshape(-1, 3).T)
    node = data.draw(st.integers(0, len(node_types) - 1))
    limit = data.draw(st.sampled_from([0, 1, 2, 20]))
    narrowed = substitute(graph, patterns, target, fixed_target=node)
    expected = []
    for number in sorted({*narrowed.used_patterns} - {*narrowed.unconnected_patterns}):
        p = patterns[number]
        heads, tails = (set(narrowed.candidates_by_term[end].tolist()) for end in p.ends)
        matches = {
            (number, h, kind, t)
            for h, kind, t in edges
            if p.edge_type in (None, kind) and (h == t or p.head != p.tail)
            if (h in heads and t in tails) or (p.symmetric and h in tails and t in heads)
        }
        expected += sorted(matches)[:limit]
    assert witness_edges(graph, patterns, target, node, limit) == expected


def test_the_witnesses_of_a_hub_are_cut_before_they_are_objects() -> None:
    """A drug with 200,000 genes; its witnesses had 40 MB as tuples."""
    genes = np.arange(1, 200_001)
    graph = TypedGraph(np.minimum(np.arange(200_001), 1), np.zeros_like(genes), np.zeros_like(genes), genes)
    patterns = [TriplePattern(Variable("drug", 0), 0, Variable("gene", 1))]
    expected = [(0, 0, 0, gene) for gene in range(1, 21)]
    assert witness_edges(graph, patterns, Variable("drug", 0), 0) == expected
    tracemalloc.start()
    assert witness_edges(graph, patterns, Variable("drug", 0), 0) == expected
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20
