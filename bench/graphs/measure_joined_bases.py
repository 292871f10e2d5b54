"""How well knowledge bases are joined by names to answer triplets: T-REx, each relation a base of its own.

    EVIDENCE_DEV_DATA=<folder> python -m bench.graphs.measure_joined_bases

A chain of two facts of different bases, such as the organisations that a person's country is a member of, is written
as triplets: (person, country of citizenship, ?x), (?x, member of, ?y). The bases are merged by names, as several
``files`` of a graph are; the constant is linked and the triplets substituted by the functions that 4StepFocus calls.
Right answers follow the facts' Wikidata ids. A chain counts if there is an answer by ids or by names, so that a join of
two entities of the same name counts as wrong; of the chains that share a middle entity, the first counts. One base
alone answers none, by construction. No text is parsed: no knowledge base with real questions is at hand. Last, how many
of STaRK's real queries contain a word that denies; such a word need not exclude an answer.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections import defaultdict
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import polars as pl

from bench.graphs.measure_linking import line
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph, build_structure
from evidence_assets.graphs.merge import merge_edges, merge_nodes
from evidence_assets.graphs.substitution import Constant, TriplePattern, Variable, substitute

_DENIAL = re.compile(r"\b(not|without|never|except|neither|nor|lack(?:s|ing)?|\w+n't)\b", re.IGNORECASE)


class Fact(NamedTuple):
    """A fact with the Wikidata ids and the names of its ends."""

    head: str
    head_name: str
    tail: str
    tail_name: str


def read_bases(folder: Path) -> dict[str, list[Fact]]:
    bases = {}
    for path in sorted(folder.glob("*.jsonl")):
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        bases[path.stem] = [Fact(*(row[f"{e}_{k}"] for e in ("sub", "obj") for k in ("uri", "label"))) for row in rows]
    return bases


def merge_bases(bases: dict[str, list[Fact]]) -> KnowledgeGraph:
    """One graph of all facts, whose nodes are names."""
    rows = [
        (f.head_name, base, f.tail_name, f"{base} {i}") for base, facts in bases.items() for i, f in enumerate(facts)
    ]
    triples = pl.DataFrame(rows, ["head", "relation", "tail", "triple_id"], orient="row").with_columns(
        source=pl.lit("T-REx"), licence=pl.lit("CC0-1.0"), head_type=pl.lit(None), tail_type=pl.lit(None)
    )
    no_synonyms = pl.DataFrame(schema={"name": pl.String, "alias": pl.String})
    with TemporaryDirectory() as folder:
        nodes = pl.concat(merge_nodes([triples], no_synonyms, Path(folder)))
        edges = pl.concat(merge_edges([triples], no_synonyms, Path(folder)))
    return KnowledgeGraph(
        "union", "1", lambda: build_structure(nodes["node_id"], [edges]), nodes.get_column, edges.get_column
    )


def answer(graph: KnowledgeGraph, name: str, relations: tuple[str, str]) -> set[int]:
    """Nodes that two triplets lead to from a name; none if the graph lacks one of the relations."""
    codes = {relation: code for code, relation in enumerate(graph.relations)}
    middle, target = Variable("x"), Variable("y")
    first, second = (codes.get(relation, -1) for relation in relations)
    start = Constant(name, graph.linker.link_many([name])[0].nodes)
    patterns = [TriplePattern(start, first, middle), TriplePattern(middle, second, target)]
    result = substitute(graph.typed_graph, patterns, target)
    return set(result.candidates.tolist()) if len(result.used_patterns) == len(patterns) else set()


def main() -> None:
    data = Path(os.environ["EVIDENCE_DEV_DATA"])
    bases = read_bases(data / "lama" / "TREx")
    union = merge_bases(bases)
    right, joined, sizes, by_ids = list[bool](), list[bool](), list[int](), 0
    for first, second in permutations(bases, 2):
        answers = defaultdict(set)
        for fact in bases[second]:
            answers[fact.head].add(fact.tail_name)
        facts_of = defaultdict(list)
        for fact in bases[first]:
            facts_of[fact.head].append(fact)
        middles = set[str]()
        for facts in facts_of.values():
            tails = {fact.tail for fact in facts}
            names = {name for tail in tails for name in answers[tail]}
            gold = {node for link in union.linker.link_many(sorted(names)) for node in link.nodes}
            nodes = answer(union, facts[0].head_name, (first, second))
            if tails & middles or not nodes | gold:
                continue
            middles |= tails
            by_ids += bool(gold)
            right.append(nodes == gold)
            if nodes:
                joined.append(nodes <= gold)
                sizes.append(len(nodes))
    print(f"{len(bases)} bases, {len(union):,} nodes, {len(right)} chains, of which {by_ids} have an answer by ids")
    print(line("exactly the right answers, or rightly none", right))
    print(line("of the chains with answers, only right ones", joined))
    print(f"  candidates, which alone need vectors: median {np.median(sizes):.0f}, at most {max(sizes)}")
    for name in ("amazon", "mag", "primekg"):
        with (data / "stark" / name / "stark_qa.csv").open(encoding="utf-8") as file:
            denials = [bool(_DENIAL.search(row["query"])) for row in csv.DictReader(file)]
        print(line(f"queries of STaRK {name} with a denial", denials))


if __name__ == "__main__":
    main()
