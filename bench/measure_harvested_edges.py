"""What harvested edges change in the answers to the sample's graph questions: the graph with them, without, and more.

The harvest lies in LAKE, as ``python -m bench.measure_kbloom LAKE`` leaves it; the relations are those of the demo. For
each number of best triples a relation, the graph is built as the assets build it, the questions are answered by the
default selector (``ugat``) and the extractive reasoner, and compared with the answers without harvested edges. Both
halves of the questions are used: nothing is chosen on either. ``true`` is the share of the harvested triples that the
sample's facts hold, whether the corpus states them or not. The sample's graph lacks six in a hundred facts only, so that
it is asked a second time with half of the edges of the demo's relations taken out of its files.

Run: python -m bench.measure_harvested_edges LAKE
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import polars as pl

from bench.measure_graph_selection import frame, opened, stated, wide
from evidence_assets import profiles
from evidence_assets.assets.models_in_use import encoder
from evidence_assets.assets.selector_methods.ugat import settings_of
from evidence_assets.benchmarks import own
from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.benchmarks.rows import question_rows
from evidence_assets.experiment.answering import chain_rows, prediction_rows
from evidence_assets.experiment.metrics import accuracy, mcnemar_exact
from evidence_assets.experiment.question_concepts import surroundings_of
from evidence_assets.experiment.scoring import correct
from evidence_assets.experiment.selection import asked, evidence_rows
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.merge import best_of
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.extractive import ExtractiveSolver
from evidence_assets.sample.facts import load_world
from evidence_assets.systems.ugat.selector import GraphPaths

BEST = (0, 15, 50)
LACKING = (0.0, 0.5)


def built(raw: Path, harvested: pl.DataFrame, lacking: float, relations: list[str]) -> KnowledgeGraph:
    """The sample graph with these harvested triples, ``lacking`` a share of what its files state of these relations."""
    kept = stated(raw)
    gone = pl.Series([int(name[:8], 16) < lacking * 16**8 for name in kept["triple_id"]], dtype=pl.Boolean)
    return opened(raw, pl.concat([kept.filter(~(gone & kept["relation"].is_in(relations))), harvested]))


def answered(graph: KnowledgeGraph, rows: pl.DataFrame) -> tuple[np.ndarray, list[str]]:
    """Whether each question is answered rightly, and the status of each answer."""
    questions, gold = asked(rows), rows.sort("question_id").to_dicts()
    selector = GraphPaths(
        "ugat", graph, surroundings_of(questions, graph, wide()), load(), settings_of("ugat", {"scorer": "walk"})
    )
    none = frame("lineage_edges", [])
    solver = ExtractiveSolver(encoder(profiles.load().encoder))
    table = frame("evidence", evidence_rows(selector, questions, frame("evidence", []), none).rows)
    chains = frame("chains", chain_rows(solver, "ugat", questions, table, frame("chains", []), none).rows)
    made = prediction_rows(solver, "ugat", questions, table, chains, frame("predictions", []), none).rows
    by_question = {row["question_id"]: row for row in made}
    ordered = [by_question[q["question_id"]] for q in gold]
    right = [bool(correct(q, row)) for q, row in zip(gold, ordered, strict=True)]
    return np.array(right), [row["status"] for row in ordered]


def main() -> None:
    lake = Lake(Path(sys.argv[1]).resolve() / "data_lake")
    raw = lake.raw / "sample"
    records = list(own.read_questions(raw / "benchmarks/sample_graph.jsonl", "sample_graph"))
    rows = pl.concat([frame("questions", question_rows(records, split, 0, 1)) for split in ("dev", "test")])
    demo = list(profiles.load("embedded").harvesting.sample_relations)
    triples = lake.read("triples", "knowledge/kbloom/harvest").filter(
        (pl.col("origin") == "kbloom") & pl.col("relation_id").is_in(demo)
    )
    world = load_world()
    right: dict[int, np.ndarray] = {}
    print(
        f"{'lacking':>8} {'best of a relation':>18} {'nodes':>6} {'edges':>6} {'true':>6}  accuracy, {rows.height} questions"
    )
    for lacking, best in itertools.product(LACKING, BEST):
        added = best_of(triples, best) if best else triples.clear()
        facts = {(h.casefold(), r, t.casefold()) for h, r, t in (f.triple for f in world.facts)}
        true = [(h.casefold(), r, t.casefold()) in facts for h, r, t in added.select("head", "relation", "tail").rows()]
        graph = built(raw, added, lacking, demo)
        right[best], status = answered(graph, rows)
        share = accuracy(right[best].tolist())
        told = f"{share.value:.3f} ({share.low:.3f} to {share.high:.3f})"
        if best:
            gained, lost = int((right[best] & ~right[0]).sum()), int((~right[best] & right[0]).sum())
            told += f"; {gained} only with, {lost} only without, p = {mcnemar_exact(right[best], right[0]):.2f}"
        kinds = ", ".join(f"{status.count(kind)} {kind}" for kind in sorted(set(status)))
        held = f"{np.mean(true):.2f}" if true else ""
        print(
            f"{lacking:8.1f} {best:18} {graph.arrays.n_nodes:6} {graph.arrays.n_edges:6} {held:>6}  {told}; {kinds}",
            flush=True,
        )


if __name__ == "__main__":
    main()
