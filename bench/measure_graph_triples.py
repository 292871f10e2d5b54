"""Triples for questions without options on the sample's graph: Attention2Query, paths, and what they are compared with.

The sample ships 60 such questions; here its maker is asked for more of them, over the same graph. Settings are tuned on
the first half (of the questions in the order of a hash), everything is reported on the second half, with paired 95 %
bootstrap intervals of the difference to Attention2Query as published. ``hit@k``: a gold answer is an end of one of the
first k triples; ``path``: all facts of a gold path are among the ten; ``accuracy``: the extractive solver names a gold
answer from the ten, or none where there is none.

Run: ``python bench/measure_graph_triples.py [--two-hop 90] [--one-hop 90]``
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from evidence_assets.experiment.metrics import accuracy, normalise_answer, paired_bootstrap
from evidence_assets.experiment.selection import Asked, Pick, Selector
from evidence_assets.graphs.knowledge_graph import GraphVectors, KnowledgeGraph
from evidence_assets.graphs.passages import fact_passages, passage_table
from evidence_assets.models.encoders import EMBEDDED, load_encoder
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.rerankers import MaxSimReranker
from evidence_assets.reasoning.short_answers import ExtractiveShortAnswers, Fact, ShortAnswer, ShortTask
from evidence_assets.sample.chains import KnownFacts
from evidence_assets.sample.facts import load_world
from evidence_assets.sample.questions import QuestionMaker, finish, make_kgqa, path_evidence
from evidence_assets.systems.a2q.linked_paths import LinkedPaths, PathSettings
from evidence_assets.systems.a2q.system import A2Q, A2QSettings, LinkedTriples, NearestTriples
from evidence_assets.systems.background.system import BackgroundKnowledge, BackgroundSettings

COLUMNS = ("hit@1", "hit@10", "path", "accuracy")


def values(rows: list[dict[str, Any]], picks: list[list[Pick]], solver: ExtractiveShortAnswers) -> np.ndarray:
    """One row a question: its four measures; NaN where a measure does not apply."""
    tasks, triples = [], []
    for row, own in zip(rows, picks, strict=True):
        found = [tuple(json.loads(pick.why or "{}")["triple"]) for pick in own]
        triples.append(found)
        tasks.append(
            ShortTask(
                row["text"], tuple(Fact(f"{i}", *t, p.text) for i, (t, p) in enumerate(zip(found, own, strict=True)))
            )
        )
    made = []
    for row, found, answer in zip(rows, triples, solver.answer(tasks), strict=True):
        assert isinstance(answer, ShortAnswer)
        forms = {normalise_answer(name) for name in row["gold"] or []}
        forms |= {normalise_answer(a) for aliases in (row["gold_aliases"] or {}).values() for a in aliases}
        if not forms:
            made.append([np.nan, np.nan, np.nan, float(answer.status == "insufficient")])
            continue
        hits = [bool({normalise_answer(t[0]), normalise_answer(t[2])} & forms) for t in found]
        told = {" ".join(t) for t in found}
        path = any(set(gold["text"].split("; ")) <= told for gold in row["gold_evidence"])
        right = answer.answer is not None and normalise_answer(answer.answer) in forms
        made.append([float(any(hits[:1])), float(any(hits[:10])), float(path), float(right)])
    return np.array(made)


def graph_in_memory(
    encoder: Encoder,
    triples: Sequence[tuple[str, str, str]],
    aliases: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> KnowledgeGraph:
    """A graph of these triples, in their order; names and sentences are encoded when they are asked for."""
    names = sorted({name for head, _, tail in triples for name in (head, tail)})
    place = {name: f"n{i:07}" for i, name in enumerate(names)}
    nodes = [{"node_id": place[name], "name": name, "aliases": list(aliases.get(name, []))} for name in names]
    listed = {"triple_ids": [], "sources": [], "licences": []}
    edges = [
        {"edge_id": f"e{i:07}", "head_id": place[h], "relation": r, "tail_id": place[t], **listed}
        for i, (h, r, t) in enumerate(triples)
    ]
    graph = KnowledgeGraph.of_rows("bench", nodes, edges)

    def passages() -> pl.DataFrame:
        none = pl.DataFrame(
            {"input_hash": [], "vector": []}, schema={"input_hash": pl.String, "vector": pl.List(pl.Float32)}
        )
        return pl.DataFrame(passage_table(fact_passages(graph), none, encoder, "bench")[0])

    vectors = GraphVectors(encoder.sentences, lambda: encoder.sentences(graph.forms.texts), passages)
    return replace(graph, stored_vectors=vectors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--two-hop", type=int, default=90)
    parser.add_argument("--one-hop", type=int, default=90)
    parser.add_argument("--unanswerable", type=int, default=18)
    arguments = parser.parse_args()
    world = load_world()
    told = sorted(fact for fact in world.facts if fact.in_graph)
    maker = QuestionMaker(
        KnownFacts(world, told), KnownFacts(world, [f for f in world.facts if f.held_out]), path_evidence, "more"
    )
    make_kgqa(
        maker, {"two_hop": arguments.two_hop, "one_hop": arguments.one_hop, "unanswerable": arguments.unanswerable}
    )
    rows = finish(maker.questions)
    names = sorted({name for fact in told for name in (fact.head, fact.tail)})
    encoder = load_encoder(EMBEDDED)
    graph = graph_in_memory(encoder, [(f.head, f.relation, f.tail) for f in told], world.aliases)
    solver, classifier = ExtractiveShortAnswers(encoder), MaxSimReranker(encoder)
    halves = [[row for row in rows if row["split"] == split] for split in ("dev", "test")]
    print(
        f"{len(names)} nodes, {len(told)} triples; {len(halves[0])} questions to tune on, {len(halves[1])} to report on"
    )

    def run(selector: Selector, asked: list[dict[str, Any]]) -> np.ndarray:
        picks = selector.select([Asked(row["question_id"], "more", "kgqa", row["text"]) for row in asked])
        return values(asked, picks, solver)

    def a2q(settings: A2QSettings, reranker: MaxSimReranker | None = classifier) -> A2Q:
        return A2Q("a2q", graph, encoder, reranker, settings)

    def paths(settings: PathSettings) -> LinkedPaths:
        return LinkedPaths("paths", graph, encoder, settings)

    def told_as(measures: np.ndarray) -> str:
        return " ".join(
            f"{name} {value:.3f}" for name, value in zip(COLUMNS, np.nanmean(measures, axis=0), strict=True)
        )

    def best(candidates: list[tuple[str, Selector, Any]]) -> Any:
        scored = []
        for name, selector, settings in candidates:
            measures = run(selector, halves[0])
            print(f"  tune {name}: {told_as(measures)}")
            scored.append((np.nanmean(measures[:, 3]), np.nanmean(measures[:, 2]), settings))
        return max(scored, key=lambda item: item[:2])[2]

    swept = [A2QSettings(penalty=p, layers=n) for p in (0.1, 0.2, 0.3) for n in (1, 3)]
    attention = best([(f"a2q λ {s.penalty} θ {s.layers}", a2q(s), s) for s in swept])
    weighed = [PathSettings(penalty=p) for p in (0.0, 0.05, 0.1, 0.2)]
    chosen = best([(f"paths λ {s.penalty}", paths(s), s) for s in weighed])
    print(f"chosen: a2q λ {attention.penalty} θ {attention.layers}; paths λ {chosen.penalty}")
    systems: dict[str, Selector] = {
        "a2q, published λ 0.2 θ 3": a2q(A2QSettings()),
        "a2q, tuned λ θ": a2q(attention),
        "a2q, no path": a2q(A2QSettings(paths=False)),
        "a2q, no classifier": a2q(A2QSettings(), None),
        "a2q, 100 nodes kept": a2q(A2QSettings(kept_nodes=100)),
        "nearest triples": NearestTriples("nearest", graph, encoder),
        "linked entities": LinkedTriples("linked", graph, encoder),
        "kaping, one hop": BackgroundKnowledge("one", graph, encoder, BackgroundSettings(model=False)),
        "kaping, two hops": BackgroundKnowledge("two", graph, encoder, BackgroundSettings(model=False, hops=2)),
        "a2q_paths, tuned": paths(chosen),
        "a2q_paths": paths(PathSettings()),
        "a2q_paths, one triple each": paths(replace(chosen, fan=0)),
    }
    results: dict[str, np.ndarray] = {}
    for name, system in systems.items():
        start = time.process_time()
        results[name] = run(system, halves[1])
        taken = 1000 * (time.process_time() - start) / len(halves[1])
        rate = accuracy(results[name][:, 3] > 0)
        line = f"{name:28s} {told_as(results[name])} [{rate.low:.3f}, {rate.high:.3f}] {taken:.0f} ms"
        if len(results) > 1:
            for column, what in enumerate(COLUMNS):
                first, second = results[name][:, column], next(iter(results.values()))[:, column]
                kept = ~np.isnan(first)
                d = paired_bootstrap(first[kept], second[kept])
                line += f" | Δ{what} {d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
        print(line, flush=True)
    hops = np.array([row["hops"] for row in halves[1]])
    for name in ("a2q, published λ 0.2 θ 3", "nearest triples", "a2q_paths"):
        for hop in (1, 2):
            own = results[name][(hops == hop) & ~np.isnan(results[name][:, 0])]
            print(f"  {name}, {hop} hop: {told_as(own)} ({len(own)} questions)")


if __name__ == "__main__":
    main()
