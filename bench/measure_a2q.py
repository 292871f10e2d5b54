"""Attention2Query on the ConceptNet slice, against retrieval without attention.

Questions of CommonsenseQA (train, 100) and OpenBookQA (dev, 500) of the development data; graph and true dev triples of
the ConceptNet slice. A question counts where its right option names a node of the graph. ``hit@k``: the right
option's node is an end of one of the first k triples; ``coverage``: share of the question's content words in the ten
triples. λ and θ are tuned on the first half of the questions by hit@10, everything is reported on the second half,
with paired 95 % bootstrap intervals of the difference to vanilla.

No cross-encoder is at hand offline: the relevance classifier here is the cosine of question and triple by the same
encoder, so "vanilla" means that classifier untrained.

Run: ``EVIDENCE_DEV_DATA=… python bench/measure_a2q.py [--questions 150]``
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from evidence_assets.methods.entity_linking import EntityLinker
from evidence_assets.methods.graph import Graph
from evidence_assets.methods.ranking_metrics import accuracy, coverage, paired_bootstrap
from evidence_assets.methods.surface_forms import is_filler, word_key, words_with_offsets
from evidence_assets.models.encoders import EMBEDDED, load_encoder
from evidence_assets.models.protocols import Encoder
from evidence_assets.systems.a2q import A2Q, A2QSettings, LinkedTriples, NearestTriples
from evidence_assets.systems.graph_facts import GraphFacts, plain_sentence
from evidence_assets.systems.selection import Asked, Pick, Selector


class CachedEncoder:
    """The encoder with its sentence vectors kept: the sweep asks for the same ones again and again."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._kept = encoder, {}
        self.model_id, self.revision, self.dimensions = encoder.model_id, encoder.revision, encoder.dimensions
        self.max_tokens = encoder.max_tokens
        self.tokens, self.count_tokens = encoder.tokens, encoder.count_tokens

    def keep(self, texts: Sequence[str], vectors: np.ndarray) -> None:
        self._kept.update(zip(texts, vectors, strict=True))

    def sentences(self, texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self._kept]
        if new:
            self.keep(new, self._encoder.sentences(new))
        return np.stack([self._kept[text] for text in texts])


class CosineClassifier:
    """Relevance as the cosine of question and triple."""

    def __init__(self, encoder: CachedEncoder) -> None:
        self._encoder, self.model_id, self.revision = encoder, encoder.model_id, encoder.revision

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        left, right = (self._encoder.sentences([pair[i] for pair in pairs]) for i in (0, 1))
        return (left * right).sum(axis=1)


def read_graph(folder: Path) -> tuple[list[str], list[tuple[int, str, int]]]:
    nodes: dict[str, int] = {}
    edges = {}
    for name in ("train_slice.txt", "dev1.txt", "dev2.txt"):
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            relation, head, tail, *label = line.split("\t")
            if not label or label[0] == "1":
                edges[nodes.setdefault(head, len(nodes)), relation, nodes.setdefault(tail, len(nodes))] = None
    return list(nodes), list(edges)


def read_questions(data: Path, linker: EntityLinker, limit: int) -> dict[str, list[tuple[Asked, frozenset[int]]]]:
    files = {"csqa": data / "csqa" / "train_rand_split.jsonl", "obqa": data / "obqa" / "Data" / "Main" / "dev.jsonl"}
    found = {}
    for name, file in files.items():
        kept = []
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            choices = row["question"]["choices"]
            right = next(choice["text"] for choice in choices if choice["label"] == row["answerKey"])
            link = linker.link(right)
            if link.rule in ("exact", "normalised"):
                options = tuple(choice["text"] for choice in choices)
                kept.append((Asked(row["id"], name, "mcqa", row["question"]["stem"], options), frozenset(link.nodes)))
        found[name] = kept[:limit]
    return found


def content_words(text: str) -> set[str]:
    return {word_key(word) for word, _, _ in words_with_offsets(text) if not is_filler([word])}


def scores(
    facts: GraphFacts, node_of: dict[str, int], questions: list[tuple[Asked, frozenset[int]]], picks: list[list[Pick]]
) -> np.ndarray:
    """Per question hit@1, hit@10 and coverage."""
    rows = []
    for (question, gold), found in zip(questions, picks, strict=True):
        ends = []
        for pick in found:
            head, _, tail = json.loads(pick.why or "{}")["triple"]
            ends.append({node_of[head], node_of[tail]})
        words = set().union(*(content_words(pick.text) for pick in found)) if found else set()
        hits = [bool(set().union(*ends[:k]) & gold) if ends else False for k in (1, 10)]
        rows.append([*map(float, hits), coverage(content_words(question.text), words)])
    return np.array(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=150, help="per benchmark at most")
    parser.add_argument("--cache", type=Path, help="file (.npy) that keeps the graph's vectors between runs")
    arguments = parser.parse_args()
    if not os.environ.get("EVIDENCE_DEV_DATA"):
        raise SystemExit("set EVIDENCE_DEV_DATA to the folder of the development data")
    data = Path(os.environ["EVIDENCE_DEV_DATA"])
    names, edges = read_graph(data / "conceptnet")
    relations = sorted({relation for _, relation, _ in edges})
    graph = Graph.from_edges(
        len(names),
        np.array([h for h, _, _ in edges]),
        np.array([relations.index(r) for _, r, _ in edges]),
        np.array([t for _, _, t in edges]),
    )
    ids = [str(number) for number in range(len(edges))]
    facts = GraphFacts(graph, names, relations, ids, ids, "slice")
    encoder = CachedEncoder(load_encoder(EMBEDDED))
    linker = EntityLinker(names, fuzzy_threshold=0.9)
    start = time.perf_counter()
    sentences = [plain_sentence(names[h], r, names[t]) for h, r, t in edges]
    if arguments.cache and arguments.cache.is_file():
        encoder.keep([*names, *sentences], np.load(arguments.cache))
    node_vectors, sentence_vectors = encoder.sentences(names), encoder.sentences(sentences)
    if arguments.cache:
        np.save(arguments.cache, np.concatenate([node_vectors, sentence_vectors]))
    print(f"{len(names):,} nodes, {len(edges):,} triples encoded in {time.perf_counter() - start:.0f} s")
    node_of = {name: number for number, name in enumerate(names)}
    benchmarks = read_questions(data, linker, arguments.questions)
    everything = [pair for pairs in benchmarks.values() for pair in pairs]
    encoder.sentences([q.text for q, _ in everything] + [o for q, _ in everything for o in q.options])
    classifier = CosineClassifier(encoder)

    def run(selector: Selector, pairs: list[tuple[Asked, frozenset[int]]]) -> np.ndarray:
        return scores(facts, node_of, pairs, selector.select([question for question, _ in pairs]))

    def a2q(settings: A2QSettings, reranker: CosineClassifier | None = classifier) -> A2Q:
        return A2Q("a2q", facts, node_vectors, linker, encoder, reranker, settings)

    for benchmark, pairs in benchmarks.items():
        tuning, reporting = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
        print(f"\n{benchmark}: {len(tuning)} questions to tune on, {len(reporting)} to report on")
        best: tuple[float, float, A2QSettings] | None = None
        for score in ("cosine", "softmax"):
            for penalty in (0.05, 0.1, 0.2, 0.3):
                for layers in (1, 2, 3, 5):
                    settings = A2QSettings(penalty=penalty, layers=layers, score=score)  # type: ignore[arg-type]
                    mean = run(a2q(settings), tuning).mean(axis=0)
                    print(f"  tune {score:7s} λ {penalty:.2f} θ {layers}: hit@1 {mean[0]:.3f} hit@10 {mean[1]:.3f} "
                          f"coverage {mean[2]:.3f}")  # fmt: skip
                    if best is None or (mean[1], mean[0]) > best[:2]:
                        best = (mean[1], mean[0], settings)
        assert best is not None
        chosen = best[2]
        print(f"  chosen: {chosen.score}, λ {chosen.penalty}, θ {chosen.layers}")
        systems: dict[str, Selector] = {
            "vanilla": a2q(chosen),
            "published λ 0.2 θ 3": a2q(replace(chosen, penalty=0.2, layers=3)),
            "no path": a2q(replace(chosen, paths=False)),
            "no option": a2q(replace(chosen, options=False)),
            "no classifier": a2q(chosen, None),
            "nearest triples": NearestTriples("nearest", facts, encoder, sentence_vectors),
            "linked entities": LinkedTriples("linked", facts, linker, encoder, sentence_vectors),
        }
        results = {name: run(system, reporting) for name, system in systems.items()}
        # Told the options like A2Q, so that attention alone makes the difference.
        told = [(replace(q, text=f"{q.text} {', '.join(q.options)}"), gold) for q, gold in reporting]
        for name in ("nearest triples", "linked entities"):
            found = systems[name].select([q for q, _ in told])
            results[f"{name}, options"] = scores(facts, node_of, reporting, found)
        for name, values in results.items():
            rates = [accuracy(values[:, i] > 0) for i in (0, 1)]
            line = f"  {name:24s} hit@1 {rates[0].value:.3f} hit@10 {rates[1].value:.3f} coverage {values[:, 2].mean():.3f}"
            if name != "vanilla":
                for column, what in enumerate(("hit@1", "hit@10", "coverage")):
                    d = paired_bootstrap(values[:, column], results["vanilla"][:, column])
                    line += f" | Δ{what} {d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
            print(line)


if __name__ == "__main__":
    main()
