"""Attention2Query and paths on the ConceptNet slice, against retrieval without attention.

Questions of CommonsenseQA (train, 100) and OpenBookQA (dev, 500) of the development data; graph and true dev triples of
the ConceptNet slice. A question counts where its right option names a node of the graph. ``hit@k``: the right
option's node is an end of one of the first k triples; ``coverage``: share of the question's content words in the ten
triples; ``first``: of the options, the right one is met first in the ten triples (two met by one triple count half).
Whoever is told the options can put a triple of each into the ten, so hits at 10 say how many options are covered, and
only ``first`` says whether the right one is told from the wrong ones; drawing lots gives one over the number of options.
λ, θ, and the weights of paths are tuned on the first half of the questions by hit@10, everything is reported on the
second half, with paired 95 % bootstrap intervals of the difference to vanilla.

No cross-encoder is at hand offline: the relevance classifier here is the cosine of question and triple by the same
encoder, so "vanilla" means that classifier untrained. ``--tune`` tunes the embedded encoder into a cross-encoder on
the triples of the first half of each benchmark, and reports it as ``tuned classifier``.

Run: ``EVIDENCE_DEV_DATA=… python bench/measure_a2q.py [--questions 150] [--tune]``
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evidence_assets.experiment.metrics import coverage, paired_bootstrap
from evidence_assets.experiment.selection import Asked, Pick, Selector
from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.graphs.facts import GraphFacts, plain_sentence
from evidence_assets.graphs.graph import Graph
from evidence_assets.models.encoders import EMBEDDED, load_encoder
from evidence_assets.models.protocols import Encoder, Reranker
from evidence_assets.models.reranker_training import Labelled, TuningSettings, tune_reranker
from evidence_assets.models.rerankers import load_reranker
from evidence_assets.systems.a2q.linked_paths import LinkedPaths, PathSettings
from evidence_assets.systems.a2q.system import A2Q, A2QSettings, LinkedTriples, NearestTriples
from evidence_assets.text.stop_words import is_filler
from evidence_assets.text.words import word_key, words_with_offsets


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


@dataclass(frozen=True)
class Choice:
    """A question, the nodes of its right option, and those of each of its options."""

    asked: Asked
    gold: frozenset[int]
    options: tuple[frozenset[int], ...]


def read_questions(data: Path, linker: EntityLinker, limit: int) -> dict[str, list[Choice]]:
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
                nodes = tuple(frozenset(linker.link(option).nodes) for option in options)
                asked = Asked(row["id"], name, "mcqa", row["question"]["stem"], options)
                kept.append(Choice(asked, frozenset(link.nodes), nodes))
        found[name] = kept[:limit]
    return found


def content_words(text: str) -> set[str]:
    return {word_key(word) for word, _, _ in words_with_offsets(text) if not is_filler([word])}


COLUMNS = ("hit@1", "hit@10", "coverage", "first")


def scores(node_of: dict[str, int], questions: list[Choice], picks: list[list[Pick]]) -> np.ndarray:
    """One row a question: its four measures."""
    rows = []
    for choice, found in zip(questions, picks, strict=True):
        ends = []
        for pick in found:
            head, _, tail = json.loads(pick.why or "{}")["triple"]
            ends.append({node_of[head], node_of[tail]})
        words = set().union(*(content_words(pick.text) for pick in found)) if found else set()
        hits = [bool(set().union(*ends[:k]) & choice.gold) if ends else False for k in (1, 10)]
        first = 0.0
        for pair in ends[:10]:
            met = {nodes for nodes in choice.options if nodes & pair}
            if met:
                first = float(choice.gold in met) / len(met)
                break
        rows.append([*map(float, hits), coverage(content_words(choice.asked.text), words), first])
    return np.array(rows)


def tuned_classifier(a2q: A2Q, node_of: dict[str, int], choices: list[Choice], folder: Path) -> Reranker:
    """The embedded encoder, tuned to tell the triples that hold the right option from the others."""
    pairs = []
    for choice, picks in zip(choices, a2q.select([choice.asked for choice in choices]), strict=True):
        own = []
        for pick in picks:
            head, _, tail = json.loads(pick.why or "{}")["triple"]
            own.append(Labelled(choice.asked.text, pick.text, bool({node_of[head], node_of[tail]} & choice.gold)))
        pairs += own if len({pair.relevant for pair in own}) == 2 else []
    start = time.process_time()
    losses = tune_reranker(EMBEDDED, pairs, folder, TuningSettings(epochs=3, rate=5e-5))
    print(f"  tuned on {len(pairs)} triples, {sum(p.relevant for p in pairs)} of them with the right option, in "
          f"{time.process_time() - start:.0f} s; losses {', '.join(f'{loss:.3f}' for loss in losses)}")  # fmt: skip
    return load_reranker(str(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=150, help="per benchmark at most")
    parser.add_argument("--tune", action="store_true", help="also tune a cross-encoder (minutes)")
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
    everything = [choice.asked for choices in benchmarks.values() for choice in choices]
    encoder.sentences([q.text for q in everything] + [o for q in everything for o in q.options])
    classifier = CosineClassifier(encoder)

    def run(selector: Selector, choices: list[Choice]) -> np.ndarray:
        return scores(node_of, choices, selector.select([choice.asked for choice in choices]))

    def a2q(settings: A2QSettings, reranker: Reranker | None = classifier) -> A2Q:
        return A2Q("a2q", facts, node_vectors, linker, encoder, reranker, settings)

    def paths(settings: PathSettings) -> LinkedPaths:
        return LinkedPaths("paths", facts, linker, encoder, sentence_vectors, settings)

    def told(measures: np.ndarray) -> str:
        return " ".join(f"{name} {value:.3f}" for name, value in zip(COLUMNS, measures.mean(axis=0), strict=True))

    for benchmark, choices in benchmarks.items():
        tuning, reporting = choices[: len(choices) // 2], choices[len(choices) // 2 :]
        print(f"\n{benchmark}: {len(tuning)} questions to tune on, {len(reporting)} to report on")
        best: tuple[float, float, A2QSettings] | None = None
        for score in ("cosine", "softmax"):
            for penalty in (0.05, 0.1, 0.2, 0.3):
                for layers in (1, 2, 3, 5):
                    settings = A2QSettings(penalty=penalty, layers=layers, score=score)  # type: ignore[arg-type]
                    measures = run(a2q(settings), tuning)
                    mean = measures.mean(axis=0)
                    print(f"  tune {score:7s} λ {penalty:.2f} θ {layers}: {told(measures)}")
                    if best is None or (mean[1], mean[0]) > best[:2]:
                        best = (mean[1], mean[0], settings)
        assert best is not None
        chosen = best[2]
        print(f"  chosen: {chosen.score}, λ {chosen.penalty}, θ {chosen.layers}")
        swept = []
        for penalty in (0.0, 0.05, 0.1, 0.2):
            for bridge in (0.0, 0.1, 0.2, 0.4):
                weights = PathSettings(penalty=penalty, bridge=bridge)
                measures = run(paths(weights), tuning)
                print(f"  tune paths λ {penalty:.2f} bridge {bridge:.2f}: {told(measures)}")
                swept.append((measures[:, 1].mean(), measures[:, 3].mean(), weights))
        weights = max(swept, key=lambda item: item[:2])[2]
        print(f"  chosen: paths, λ {weights.penalty}, bridge {weights.bridge}")
        systems: dict[str, Selector] = {
            "vanilla": a2q(chosen),
            "published λ 0.2 θ 3": a2q(replace(chosen, penalty=0.2, layers=3)),
            "no path": a2q(replace(chosen, paths=False)),
            "no option": a2q(replace(chosen, options=False)),
            "no classifier": a2q(chosen, None),
            "nearest triples": NearestTriples("nearest", facts, encoder, sentence_vectors),
            "linked entities": LinkedTriples("linked", facts, linker, encoder, sentence_vectors),
            "nearest triples, options": NearestTriples("n", facts, encoder, sentence_vectors, options=True),
            "linked entities, options": LinkedTriples("l", facts, linker, encoder, sentence_vectors, options=True),
            "a2q_paths, tuned weights": paths(weights),
            "a2q_paths, default weights": paths(PathSettings()),
        }
        if arguments.tune:
            with tempfile.TemporaryDirectory() as folder:
                learned = tuned_classifier(a2q(replace(chosen, top_n=40), None), node_of, tuning, Path(folder))
                systems["tuned classifier"] = a2q(chosen, learned)
        results = {name: run(system, reporting) for name, system in systems.items()}
        everywhere = A2Q("all", facts, node_vectors, linker, encoder, classifier, replace(chosen, top_n=10_000))
        all_picks = everywhere.select([choice.asked for choice in reporting])
        reached = scores(node_of, reporting, [sorted(p, key=lambda pick: -pick.score)[:10] for p in all_picks])
        ends = [{n for pick in p for t in [json.loads(pick.why or "{}")["triple"]] for n in (node_of[t[0]], node_of[t[2]])}
                for p in all_picks]  # fmt: skip
        inside = np.mean([bool(choice.gold & found) for choice, found in zip(reporting, ends, strict=True)])
        attention = [[json.loads(pick.why or "{}")["attention"] for pick in p] for p in all_picks if p]
        print(f"  why: the right option is in {inside:.3f} of vanilla's candidate triples ({np.mean([len(p) for p in all_picks]):.0f} "
              f"a question), in {reached[:, 1].mean():.3f} of its ten; the smallest attention of a question's candidates "
              f"is {np.mean([min(a) / max(a) for a in attention]):.3f} of the largest")  # fmt: skip
        for name, values in results.items():
            line = f"  {name:26s} {told(values)}"
            for other in ("vanilla", "linked entities, options") if name.startswith("a2q_paths") else ("vanilla",):
                if name == other:
                    continue
                line += "" if other == "vanilla" else f" | beside {other}:"
                for column, what in enumerate(COLUMNS):
                    d = paired_bootstrap(values[:, column], results[other][:, column])
                    line += f" | Δ{what} {d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
            print(line)


if __name__ == "__main__":
    main()
