"""Paths and entity linking beside networkx, igraph, pyahocorasick and spaCy: equal results, seconds and memory.

    EVIDENCE_DEV_DATA=… python -m bench.peers.graphs [--triples 100000] [--pairs 200]

The graph and its names are those of `bench.graphs.selection`; all shortest paths of at most three edges are found
between pairs of nodes drawn by degree. The linkers find the longest names in HotpotQA's passages, all by our normal
forms of words, so that they must find the same spans. Each runs in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.dev_data import dev_data, hotpotqa_pages
from bench.graphs.selection import read_triples
from bench.measuring import Used, in_new_process, make_parser, measured
from bench.peers.installed import missing, versions
from evidence_assets.graphs.arrays import GraphArrays
from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.graphs.paths import shortest_paths
from evidence_assets.text.words import is_filler, name_key, word_key, words_with_offsets

LENGTH = 3
Pair = tuple[int, int]
Paths = set[tuple[int, ...]]
Ends = NDArray[np.int32]


def our_paths(ends: Ends) -> Callable[[Pair], Paths]:
    graph = GraphArrays.from_edges(int(ends.max()) + 1, ends[:, 0], np.zeros(len(ends), np.int32), ends[:, 1])
    limit, relevance = len(ends), np.zeros(graph.n_nodes)
    return lambda pair: {path.nodes for path in shortest_paths(graph, pair[:1], pair[1:], LENGTH, limit, relevance)}


def networkx_paths(ends: Ends) -> Callable[[Pair], Paths]:
    import networkx as nx

    graph = nx.Graph(ends.tolist())

    def find(pair: Pair) -> Paths:
        try:
            if len(nx.bidirectional_shortest_path(graph, *pair)) > LENGTH + 1:
                return set()
        except nx.NetworkXNoPath:
            return set()
        return {tuple(path) for path in nx.all_shortest_paths(graph, *pair)}

    return find


def igraph_paths(ends: Ends) -> Callable[[Pair], Paths]:
    import igraph

    graph = igraph.Graph(ends).simplify()

    def find(pair: Pair) -> Paths:
        if not 1 <= graph.distances(*pair)[0][0] <= LENGTH:
            return set()
        return {tuple(path) for path in graph.get_all_shortest_paths(*pair)}

    return find


Spans = list[Pair]
"""First and last character of each name in a text."""


def leftmost_longest(text: str, matches: Callable[[list[str]], Iterable[Pair]]) -> Spans:
    """The rule of our linker over matches (first word, word after the last) of the normal forms of a text's words."""
    words = words_with_offsets(text)
    longest: dict[int, int] = {}
    for first, last in matches([word_key(word) for word, _, _ in words]):
        longest[first] = max(last, longest.get(first, 0))
    spans, free = [], 0
    for first, last in sorted(longest.items()):
        if first >= free and not is_filler(word for word, _, _ in words[first:last]):
            spans.append((words[first][1], words[last - 1][2]))
            free = last
    return spans


def our_linker(names: Sequence[str]) -> Callable[[str], Spans]:
    linker = EntityLinker(names)
    return lambda text: [(span.start, span.end) for span in linker.find_spans(text)]


def aho_corasick(names: Sequence[str]) -> Callable[[str], Spans]:
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for key in {name_key(name) for name in names} - {""}:
        automaton.add_word(f" {key} ", len(key))
    automaton.make_automaton()

    def matches(keys: list[str]) -> Iterable[Pair]:
        starts = np.cumsum([1, *(len(key) + 1 for key in keys)])
        word_at = {int(start): word for word, start in enumerate(starts)}
        for end, length in automaton.iter(f" {' '.join(keys)} "):
            yield word_at[end - length], word_at[end + 1]

    return lambda text: leftmost_longest(text, matches)


def spacy_matcher(names: Sequence[str]) -> Callable[[str], Spans]:
    import spacy
    from spacy.matcher import PhraseMatcher
    from spacy.tokens import Doc

    vocabulary = spacy.blank("en").vocab
    matcher = PhraseMatcher(vocabulary)
    keys = {name_key(name) for name in names} - {""}
    matcher.add("name", [Doc(vocabulary, words=key.split(" ")) for key in keys])

    def matches(words: list[str]) -> Iterable[Pair]:
        return ((first, last) for _, first, last in matcher(Doc(vocabulary, words=words)))

    return lambda text: leftmost_longest(text, matches)


PATHS = {
    "our search": ((), our_paths),
    "networkx": (("networkx",), networkx_paths),
    "igraph": (("igraph",), igraph_paths),
}
LINKERS = {
    "our linker": ((), our_linker),
    "pyahocorasick": (("ahocorasick",), aho_corasick),
    "spaCy's PhraseMatcher": (("spacy",), spacy_matcher),
}


def run(
    modules: Sequence[str], build: Callable[[Any], Callable[[Any], Any]], data: Any, queries: Sequence[Any]
) -> tuple[list[Any], Used, Used]:
    """Results, and what building and searching used."""
    for module in modules:
        import_module(module)
    ask, building = measured(build, data)
    results, searching = measured(lambda: [ask(query) for query in queries])
    return results, building, searching


def compare(peers: dict[str, Any], data: Any, queries: Sequence[Any], title: str) -> None:
    print(f"\n{title}\n\n| | build, s | ms each | MB | results |\n|---|---|---|---|---|")
    expected: list[Any] = []
    for name, (modules, build) in peers.items():
        if reason := missing(*modules):
            print(f"{name}: not run: {reason}")
            continue
        results, building, searching = in_new_process(run, modules, build, data, queries)
        expected = expected or results
        assert results == expected, f"{name} differs from {next(iter(peers))}"
        count, megabytes = sum(map(len, results)), max(building.megabytes, searching.megabytes)
        print(f"| {name} | {building} | {searching.each(len(queries))} | {megabytes:.0f} | {count:,} |", flush=True)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--triples", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--passages", type=int, default=300)
    options = parser.parse_args()
    triples = read_triples(dev_data(), options.triples)
    names = sorted({name for head, _, tail in triples for name in (head, tail)})
    number = {name: i for i, name in enumerate(names)}
    ends = np.array([(number[head], number[tail]) for head, _, tail in triples], np.int32)
    chosen = np.random.default_rng(0).integers(0, len(ends), (options.pairs, 2))
    pairs = [(int(ends[a, 0]), int(ends[b, 1])) for a, b in chosen if ends[a, 0] != ends[b, 1]]
    print(versions("networkx", "igraph", "pyahocorasick", "spacy"))
    compare(PATHS, ends, pairs, f"{len(ends):,} edges, {len(names):,} nodes, {len(pairs)} pairs of nodes; wall / CPU")
    texts = ["".join(sentences) for sentences in list(hotpotqa_pages().values())[: options.passages]]
    length = sum(map(len, texts))
    compare(LINKERS, names, texts, f"{len(names):,} names, {len(texts)} texts, {length:,} characters; wall / CPU")


if __name__ == "__main__":
    main()
