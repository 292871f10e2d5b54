"""How well each node scorer ranks the nodes of gold paths on the sample graph, and what the answers are worth.

The sample world's graph and the questions on it, as the assets build them (profile `embedded`, MiniLM). The first half
of the questions is what a default may be chosen on, the second what is reported. Per question: the spread of the
scores; the share of (gold-path node, other node) pairs of the subgraph ranked rightly (AUC; the question's own
concepts are not ranked); whether the picked paths hold every edge of every gold path; and whether the extractive
reasoner answers rightly. Intervals are 95 % paired bootstrap of the difference to `gat` and to `cosine`.

Run: python bench/measure_graph_selection.py [--split dev]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from evidence_assets import profiles
from evidence_assets.assets.models_in_use import encoder
from evidence_assets.assets.selector_methods.ugat import settings_of
from evidence_assets.benchmarks import own
from evidence_assets.benchmarks.graphs import rows as graph_rows
from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.benchmarks.rows import question_rows
from evidence_assets.experiment.answering import chain_rows, prediction_rows
from evidence_assets.experiment.gold_evidence import evidence_recall, gold_edges
from evidence_assets.experiment.metrics import bootstrap
from evidence_assets.experiment.question_concepts import concepts_of, numbers
from evidence_assets.experiment.scoring import correct
from evidence_assets.experiment.selection import asked, evidence_rows
from evidence_assets.graphs import knowledge
from evidence_assets.graphs.knowledge import OpenGraph, encoded
from evidence_assets.lake.store import prepare
from evidence_assets.reasoning.extractive import ExtractiveSolver
from evidence_assets.sample.render import render
from evidence_assets.systems.ugat.selector import GraphPaths

SCORERS = ("none", "cosine", "gat", "gcn", "contrastive", "walk")


def frame(table: str, rows: object) -> pl.DataFrame:
    made = pl.from_arrow(prepare(table, rows))  # type: ignore[arg-type]
    assert isinstance(made, pl.DataFrame)
    return made


def stated(folder: Path) -> pl.DataFrame:
    """The triples that the sample's files state."""
    return graph_rows.triple_table(_files(), folder, load())


def opened(raw: Path, folder: Path, triples: pl.DataFrame) -> OpenGraph:
    """A graph of these triples as the assets make it, below ``folder``, with the synonyms of the sample's files."""
    model = encoder(profiles.load().encoder)
    nodes, edges = knowledge.merged(triples, graph_rows.synonyms(_files(), raw))
    nodes, edges = frame("kg_nodes", nodes), frame("kg_edges", edges)
    knowledge.build_csr(folder / "csr", nodes, edges, "bench")
    knowledge.build_name_vectors(folder / "vectors", nodes, model, "bench", "bench")
    graph, relations = knowledge.open_csr(folder / "csr", "bench")
    forms = knowledge.open_name_vectors(folder / "vectors", nodes, "bench", "bench")
    return OpenGraph(
        "sample", "bench", graph, nodes["node_id"].to_list(), nodes["name"].to_list(), edges["edge_id"].to_list(),
        relations, forms, partial(encoded, model),
    )  # fmt: skip


def _files() -> list[GraphSource]:
    return [GraphSource("tab_separated", (f"graphs/{name}.tsv",), "own") for name in ("biomedical", "commonsense")]


def interval(difference: np.ndarray) -> str:
    gain = bootstrap(difference[~np.isnan(difference)])
    return f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--split", default="test", choices=("dev", "test"))
    split = parser.parse_args().split
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        render(folder, "full")
        graph = opened(folder, folder, stated(folder))
        records = list(own.read_questions(folder / "benchmarks/sample_graph.jsonl", "sample_graph"))
    rows = frame("questions", question_rows(records, split, 0, 1))
    questions, gold_rows = asked(rows), rows.sort("question_id").to_dicts()
    named = concepts_of(questions, graph.linker, graph.encode)
    linked = {each.question_id: each for each in named}
    edge_number = {edge: i for i, edge in enumerate(graph.edge_ids)}
    none = frame("lineage_edges", [])
    solver = ExtractiveSolver(encoder(profiles.load().encoder))
    found: dict[str, np.ndarray] = {}
    for scorer in SCORERS:
        selector = GraphPaths(scorer, graph, linked, load(), settings_of(scorer, {"scorer": scorer}))
        start = time.process_time()
        selections = selector.find(questions)
        seconds = time.process_time() - start
        values = []
        for selection, question, concepts in zip(selections, gold_rows, named, strict=True):
            edges = {edge_number[e] for g in question["gold_evidence"] for e in gold_edges(g) or () if e in edge_number}
            ends = {int(n) for e in edges for n in (graph.graph.heads[e], graph.graph.tails[e])}
            part = selection.subgraph
            ranked = ~np.isin(part.nodes, numbers(concepts.concepts))
            gold = np.isin(part.nodes, list(ends))
            if selection.scores is None or not (gold & ranked).any() or not (~gold & ranked).any():
                values.append((np.nan, np.nan))
                continue
            right, rest = selection.scores.scores[gold & ranked], selection.scores.scores[~gold & ranked]
            above = (right[:, None] > rest).mean() + 0.5 * (right[:, None] == rest).mean()
            values.append((selection.scores.spread, above))
        evidence = evidence_rows(selector, questions, frame("evidence", []), none)
        table = frame("evidence", evidence.rows)
        recall = [(evidence_recall([q], table) or [np.nan])[0] for q in gold_rows]
        chains = frame("chains", chain_rows(solver, scorer, questions, table, frame("chains", []), none).rows)
        answers = prediction_rows(solver, scorer, questions, table, chains, frame("predictions", []), none).rows
        by_question = {row["question_id"]: row for row in answers}
        right = [correct(q, by_question[q["question_id"]]) for q in gold_rows]
        found[scorer] = np.column_stack([np.array(values), recall, right]).astype(float)
        print(f"  {scorer}: {seconds:.1f} CPU s, {table.height} paths", flush=True)
    print(f"\n{split}: {len(questions)} questions, {graph.graph.n_nodes} nodes, {graph.graph.n_edges} edges")
    print(f"{'scorer':12} {'spread':>7} {'AUC':>6} {'paths':>6} {'right':>6}   AUC to gat; to cosine; right to gat")
    for scorer, each in found.items():
        spread, above, recall, right = (np.nan if np.isnan(c).all() else np.nanmean(c) for c in each.T)
        told = []
        for baseline, column in (("gat", 1), ("cosine", 1), ("gat", 3)):
            same = scorer == baseline or np.isnan(each[:, column]).all()
            told.append("–" if same else interval(each[:, column] - found[baseline][:, column]))
        print(f"{scorer:12} {spread:7.3f} {above:6.3f} {recall:6.3f} {right:6.3f}   {'; '.join(told)}")


if __name__ == "__main__":
    main()
