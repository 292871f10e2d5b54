"""Questions parsed to a path query over a graph's relations, against the nearest path of triples, on the sample.

    python -m bench.measure_path_queries

From each entity that a question names, all queries of one or two relations, forwards or backwards, are written as text
without the other entities ("glue is used for something, and something …"). The one with the largest cosine to the
question runs: its answers are all ends. ``nearest path``: every path with its entities is a text, and the end of the
nearest one is the answer. No real questions with a knowledge base and a schema are part of the development data.
Nothing is tuned; the difference of F1 is paired over questions (95 %, bootstrap).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import evidence_assets
from bench.differences import format_difference
from bench.minilm import MiniLm
from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.experiment.scores.metrics import mean, paired_bootstrap
from evidence_assets.graphs.entity_linking import EntityLinker

SAMPLE = Path(evidence_assets.__file__).parent / "sample" / "full"
Step = tuple[str, bool]
Neighbours = Mapping[str, Mapping[Step, Sequence[str]]]


def read_neighbours() -> Neighbours:
    neighbours: dict[str, dict[Step, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in ("biomedical", "commonsense"):
        for line in (SAMPLE / "graphs" / f"{name}.tsv").read_text(encoding="utf-8").splitlines():
            head, relation, tail = line.split("\t")
            neighbours[head][relation, True].append(tail)
            neighbours[tail][relation, False].append(head)
    return neighbours


def find_paths(neighbours: Neighbours, start: str) -> dict[tuple[Step, ...], list[tuple[str, ...]]]:
    """The entities of all paths of one or two relations by query."""
    paths: dict[tuple[Step, ...], list[tuple[str, ...]]] = defaultdict(list)
    for step, ends in neighbours.get(start, {}).items():
        for end in ends:
            paths[(step,)].append((start, end))
            for second, others in neighbours.get(end, {}).items():
                paths[step, second] += [(start, end, other) for other in others if other != start]
    return {query: ends for query, ends in paths.items() if ends}


def write_path(query: Sequence[Step], entities: Sequence[str]) -> str:
    """The path as sentences, heads first."""
    vocabulary = load_vocabulary().relations
    sentences = []
    for (relation, forwards), a, b in zip(query, entities, entities[1:], strict=False):
        head, tail = (a, b) if forwards else (b, a)
        sentences.append(f"{head} {vocabulary[relation].template} {tail}")
    return ", and ".join(sentences)


def f1(answers: set[str], gold: set[str]) -> float:
    hits = len(answers & gold)
    return 2 * hits / (len(answers) + len(gold)) if hits else 0.0


def main() -> None:
    neighbours, encoder = read_neighbours(), MiniLm()
    names = sorted(neighbours)
    linker = EntityLinker(names)
    lines = (SAMPLE / "benchmarks" / "sample_kgqa.jsonl").read_text(encoding="utf-8").splitlines()
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for question in map(json.loads, lines):
        starts = sorted({names[n] for span in linker.find_spans(question["text"]) for n in span.link.nodes})
        paths = [(query, ends) for start in starts for query, ends in find_paths(neighbours, start).items()]
        middle = {1: (), 2: ("something",)}
        query_texts = [write_path(query, (ends[0][0], *middle[len(query)], "what")) for query, ends in paths]
        path_texts = [(write_path(query, path), path[-1]) for query, ends in paths for path in ends]
        texts = [question["text"], *query_texts, *(text for text, _ in path_texts)]
        vectors = np.asarray(encoder.encode_sentences(texts))
        cosines = vectors[1:] @ vectors[0]
        gold = {*(question["gold"] or ()), *(question["gold_also"] or ())}
        best, ends = paths[int(np.argmax(cosines[: len(paths)]))] if paths else ((), [])
        parsed = {path[-1] for path in ends}
        nearest = {path_texts[int(np.argmax(cosines[len(paths) :]))][1]} if paths else set()
        gold_queries = {tuple(r for _, r, _ in each["locator"]) for each in question["gold_evidence"]}
        for name, value in (
            ("path query", f1(parsed, gold)),
            ("nearest path", f1(nearest, gold)),
            ("relations right", float(tuple(r for r, _ in best) in gold_queries)),
        ):
            values[question["split"]][name].append(value)
            values["all"][name].append(value)
    for split, each in values.items():
        d = paired_bootstrap(each["path query"], each["nearest path"])
        print(split, ", ".join(f"{name} {mean(numbers).value:.3f}" for name, numbers in each.items()), end=" ")
        print(f"F1 {format_difference(d)}, n = {d.n}")


if __name__ == "__main__":
    main()
