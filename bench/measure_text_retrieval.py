"""Which unsupervised ranking of passages, sentences and facts finds the gold ones: one table.

    EVIDENCE_DEV_DATA=… python bench/measure_text_retrieval.py

HotpotQA-100: recall at 2, 5 and 10 of gold passages among 994 and of gold sentences among 4,139. OpenBookQA: recall of
the gold fact among 1,326, a fact being scored by its best option (query: stem ⊕ option). Transport re-ranks the
cosine top 100 (facts: top 30), everything else ranks all. The settings of the fusion are chosen on the first half of the
questions alone (``tune_text_retrieval.py``); both halves are printed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from token_encoding import Encoded, encode

from evidence_assets.retrieval.bm25 import BM25Index, CorpusStatistics
from evidence_assets.retrieval.fusion import CHUNK_WEIGHTS, SENTENCE_WEIGHTS, fuse, lift, spread
from evidence_assets.retrieval.maxsim import maxsim_texts
from evidence_assets.transport import GroundCost, TokenMeasure, TokenPool, distance, ground_cost, ground_costs
from evidence_assets.transport.costs.euclidean import Euclidean

Array = NDArray[np.float64]
VARIANTS = tuple(ground_costs())
FUNCTION_WORDS = """
    a an the of in on at to for from by with and or but is are was were be been being it its this that these those as
    which who whom whose what when where why how did does do has have had not no he she they his her their him them i
    you we our your my me us if than then so such into about also
"""
STOP = frozenset(FUNCTION_WORDS.split())


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def content_mask(pieces: Sequence[str]) -> Array:
    """1 for words that say something, 0 for punctuation and function words."""
    return np.array([float(p not in STOP and any(c.isalnum() for c in p)) for p in pieces])


class ExpandedEuclidean(Euclidean):
    """‖x − y‖ by one product: ranks as the careful form does and is ten times faster at 1,152 dimensions."""

    def matrix(self, x: Array, y: Array) -> Array:
        square = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1)[None, :] - 2 * x @ y.T
        return np.asarray(np.sqrt(np.maximum(square, 0)))


def compared_by(name: str) -> GroundCost:
    """The cost whose matrix is solved."""
    cost = ground_cost(name)
    return ExpandedEuclidean() if type(cost).matrix is Euclidean.matrix else cost


@dataclass
class Task:
    """One retrieval problem: queries, the units ranked for them, and which are gold."""

    name: str
    queries: list[str]
    groups: list[list[int]]  # queries of each question; a unit takes its best score over them
    units: list[str]
    rows: list[NDArray[np.int64]]  # token rows of each unit in ``encoded``
    gold: list[set[int]]
    encoded: Encoded
    asked: Encoded
    parents: NDArray[np.int64] | None = None  # passage of each sentence
    deep: int = 100


def hotpot(data: Path) -> tuple[Task, Task]:
    corpus = json.loads((data / "hotpotqa-100" / "hotpotqa_train_corpus.json").read_text(encoding="utf-8"))
    asked = json.loads((data / "hotpotqa-100" / "hotpotqa_train.json").read_text(encoding="utf-8"))
    titles = list(corpus)
    texts, spans = [], []
    for title in titles:
        text = f"{title}. "
        bounds = []
        for sentence in corpus[title]:
            bounds.append((len(text), len(text) + len(sentence)))
            text += sentence
        texts.append(text)
        spans.append(bounds)
    encoded = encode(texts, layers=True, most=512)
    queries = [q["question"] for q in asked]
    questions = encode(queries, layers=True)
    number = {t: i for i, t in enumerate(titles)}
    rows, sentences, parents, index = [], [], [], {}
    for i, title in enumerate(titles):
        own = np.arange(encoded.offsets[i], encoded.offsets[i + 1])
        for j, (low, high) in enumerate(spans[i]):
            part = own[(encoded.starts[own] >= low) & (encoded.starts[own] < high)]
            index[title, j] = len(sentences)
            sentences.append(texts[i][low:high])
            rows.append(part if len(part) else own[:1])
            parents.append(i)
    whole = [np.arange(encoded.offsets[i], encoded.offsets[i + 1]) for i in range(len(titles))]
    singles = [[i] for i in range(len(queries))]
    gold = [{number[t] for t, _ in q["supporting_facts"]} for q in asked]
    exact = [{index[t, n] for t, n in map(tuple, q["supporting_facts"]) if (t, n) in index} for q in asked]
    passages = Task("passages", queries, singles, texts, whole, gold, encoded, questions)
    return passages, Task("sentences", queries, singles, sentences, rows, exact, encoded, questions, np.array(parents))


def openbook(data: Path) -> Task:
    facts = [
        line.strip().strip('"')
        for line in (data / "obqa" / "Data" / "Main" / "openbook.txt").read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    asked = [
        json.loads(line)
        for line in (data / "obqa" / "Data" / "Additional" / "dev_complete.jsonl").read_text("utf-8").splitlines()
    ]
    number = {f.lower(): i for i, f in enumerate(facts)}
    queries, groups, gold = [], [], []
    for q in asked:
        groups.append(list(range(len(queries), len(queries) + len(q["question"]["choices"]))))
        queries += [f"{q['question']['stem']} {c['text']}" for c in q["question"]["choices"]]
        gold.append({number[q["fact1"].strip().strip('"').lower()]})
    encoded = encode(facts, layers=True)
    rows = [np.arange(encoded.offsets[i], encoded.offsets[i + 1]) for i in range(len(facts))]
    return Task("facts", queries, groups, facts, rows, gold, encoded, encode(queries, layers=True), deep=30)


def unit_pool(task: Task) -> TokenPool:
    offsets = np.concatenate([[0], np.cumsum([len(r) for r in task.rows])])
    taken = np.concatenate(task.rows)
    return TokenPool(task.encoded.vectors[taken], offsets, np.ones(len(taken)), check=False)


class Scorer:
    """All single scores of a task, kept in a temporary folder because transport takes minutes."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.pool = unit_pool(task)
        self.pieces = [[task.encoded.pieces[r] for r in rows] for rows in task.rows]
        self.asked_pieces = [task.asked.pieces_of(i) for i in range(len(task.queries))]
        self.statistics = CorpusStatistics.from_texts(self.pieces)
        self.cache = Path(tempfile.gettempdir()) / "evidence-retrieval-scores"
        self.cache.mkdir(exist_ok=True)

    def kept(self, name: str, make: Callable[[], Array]) -> Array:
        path = self.cache / f"{self.task.name}-{name}.npy"
        if not path.exists():
            np.save(path, make())
        return np.asarray(np.load(path))

    def bm25(self) -> Array:
        def make() -> Array:
            index = BM25Index([words(u) for u in self.task.units], form="plus_one")
            return np.stack([index.scores(words(q)) for q in self.task.queries])

        return self.kept("bm25", make)

    def cosine(self) -> Array:
        def make() -> Array:
            if self.task.name == "sentences":
                written = np.array([bool(u.strip()) for u in self.task.units])
                units = np.zeros((len(written), self.task.encoded.pooled.shape[1]), dtype=np.float32)
                units[written] = encode([u.strip() for u in self.task.units if u.strip()]).pooled
            else:
                units = self.task.encoded.pooled
            return (self.task.asked.pooled @ units.T).astype(np.float64)

        return self.kept("cosine", make)

    def context_cosine(self) -> Array:
        """Cosine with the mean of a unit's token vectors as they stand in their passage; leads transport."""

        def make() -> Array:
            vectors = self.task.encoded.vectors
            means = np.stack([vectors[r].astype(np.float64).mean(axis=0) for r in self.task.rows])
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            return np.asarray(self.task.asked.pooled.astype(np.float64) @ means.T)

        return self.kept("context-cosine", make)

    def maxsim(self, weighted: bool = False) -> Array:
        def make() -> Array:
            scores = []
            for i, pieces in enumerate(self.asked_pieces):
                weights = content_mask(pieces) * self.masses(pieces) if weighted else None
                scores.append(maxsim_texts(self.task.asked.vectors[self.task.asked.rows(i)], self.pool, weights))
            return np.stack(scores)

        return self.kept(f"maxsim{'-weighted' if weighted else ''}", make)

    def masses(self, pieces: list[str]) -> Array:
        return self.statistics.token_weights(pieces, "plus_one")

    def weights(self, pieces: list[str], variant: str, content: bool) -> Array:
        if content:
            return content_mask(pieces) * self.masses(pieces)
        if ground_cost(variant).weighting == "idf":
            return np.array([self.statistics.idf(p, "plus_one") for p in pieces])
        return self.statistics.token_weights(pieces, "printed")

    def measure(
        self,
        encoded: Encoded,
        rows: NDArray[np.int64],
        pieces: list[str],
        variant: str,
        content: bool,
    ) -> TokenMeasure:
        cost = ground_cost(variant)
        if cost.layers:
            assert encoded.layers is not None
            vectors = cost.vectors(np.asarray(encoded.layers[rows], dtype=np.float64))
        else:
            vectors = encoded.vectors[rows].astype(np.float64)
        return cost.measure(vectors, self.weights(pieces, variant, content))

    def transport(self, variant: str, content: bool = False) -> Array:
        """Negative distances; minus infinity for what was not transported."""

        def make() -> Array:
            task = self.task
            lead = self.context_cosine()
            result = np.full(lead.shape, -np.inf)
            made: dict[int, TokenMeasure] = {}
            for i in range(len(task.queries)):
                span = task.asked.rows(i)
                x = self.measure(task.asked, np.arange(span.start, span.stop), self.asked_pieces[i], variant, content)
                order = np.argsort(-lead[i], kind="stable")[: task.deep]
                for unit in order:
                    if unit not in made:
                        made[unit] = self.measure(task.encoded, task.rows[unit], self.pieces[unit], variant, content)
                    result[i, unit] = -distance(x, made[unit], compared_by(variant))
            return result

        return self.kept(f"ot-{variant}{'-content' if content else ''}", make)


def title_links(titles: list[str], texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Passages whose text (not its own title) mentions the title of another, without what stands in brackets."""
    found: list[tuple[int, int]] = []
    names = [re.sub(r"\s*\(.*?\)", "", t).strip().lower() for t in titles]
    bodies = [text[len(title) + 2 :].lower() for title, text in zip(titles, texts, strict=True)]
    for target, name in enumerate(names):
        if len(name) >= 3:
            pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
            found += [
                (i, target) for i, body in enumerate(bodies) if i != target and name in body and pattern.search(body)
            ]
    sources, targets = zip(*found, strict=True)
    return np.array(sources), np.array(targets)


def fused(scorer: Scorer, weights: Mapping[str, float], drop: str = "") -> Array:
    """Single scores joined, query by query; ``drop`` leaves one out."""
    scores = {
        "bm25": scorer.bm25(),
        "maxsim": scorer.maxsim(),
        "cosine": scorer.context_cosine(),
        "transport": scorer.transport("cosine"),
    }
    kept = {name: w for name, w in weights.items() if name != drop}
    return np.stack([fuse({n: scores[n][i] for n in kept}, kept) for i in range(len(scorer.task.queries))])


def linked(passages: Scorer, titles: list[str], drop: str = "") -> Array:
    """Fused passage scores spread along the links between passages."""
    sources, targets = title_links(titles, passages.task.units)
    return np.stack([spread(row, sources, targets) for row in fused(passages, CHUNK_WEIGHTS, drop)])


def lifted(sentences: Scorer, whole: Array, drop: str = "") -> Array:
    assert sentences.task.parents is not None
    own = fused(sentences, SENTENCE_WEIGHTS, drop)
    return np.stack([lift(s, p, sentences.task.parents) for s, p in zip(own, whole, strict=True)])


def recalls(task: Task, scores: Array, half: slice = slice(None)) -> list[float]:
    """Share of the gold units in the first 2, 5 and 10, averaged over questions, in per cent."""
    out = []
    chosen = range(len(task.groups))[half]
    ranked = {q: np.argsort(-scores[task.groups[q]].max(axis=0), kind="stable")[:10].tolist() for q in chosen}
    for k in (2, 5, 10):
        shares = [len(task.gold[q] & set(ranked[q][:k])) / len(task.gold[q]) for q in chosen if task.gold[q]]
        out.append(100 * float(np.mean(shares)))
    return out


def line(name: str, cells: Sequence[float]) -> str:
    return f"{name:34}" + "".join(f"{c:7.1f}" for c in cells)


def halves(task: Task, scores: Array) -> list[float]:
    n = len(task.groups) // 2
    return [*recalls(task, scores, slice(0, n)), *recalls(task, scores, slice(n, None))]


def main() -> None:
    if not os.environ.get("EVIDENCE_DEV_DATA"):
        raise SystemExit("set EVIDENCE_DEV_DATA to the folder of the development data")
    data = Path(os.environ["EVIDENCE_DEV_DATA"])
    passages, sentences = hotpot(data)
    tasks = [passages, sentences, openbook(data)]
    scorers = [Scorer(t) for t in tasks]
    print(f"{'':34}{'passages @2 5 10':>21}{'sentences @2 5 10':>21}{'facts @2 5 10':>21}")
    rows: list[tuple[str, Callable[[Scorer], Array]]] = [
        ("bm25", Scorer.bm25),
        ("cosine of pooled vectors", Scorer.cosine),
        ("maxsim", Scorer.maxsim),
    ]
    rows += [(f"transport {v}", lambda s, v=v: s.transport(v)) for v in VARIANTS]  # type: ignore[misc]
    rows.append(("transport cosine, content words", lambda s: s.transport("cosine", content=True)))
    simple: dict[str, list[list[float]]] = {s.task.name: [] for s in scorers}
    for name, make in rows:
        made = [make(s) for s in scorers]
        print(line(name, [c for s, m in zip(scorers, made, strict=True) for c in recalls(s.task, m)]), flush=True)
        for s, m in zip(scorers, made, strict=True):
            simple[s.task.name].append(halves(s.task, m))
    print("the best of these in each column, which is not one method")
    for s in scorers:
        print(line(f"  {s.task.name}: first half | second half", np.max(simple[s.task.name], axis=0).tolist()))
    corpus = json.loads((data / "hotpotqa-100" / "hotpotqa_train_corpus.json").read_text(encoding="utf-8"))
    first, second, third = scorers
    for drop in ("", "transport"):
        name = f"fusion{' without ' + drop if drop else ''}"
        plain = [fused(s, SENTENCE_WEIGHTS if s is second else CHUNK_WEIGHTS, drop) for s in scorers]
        print(line(f"{name}, no links", [c for s, r in zip(scorers, plain, strict=True) for c in recalls(s.task, r)]))
        whole = linked(first, list(corpus), drop)
        best = [whole, lifted(second, whole, drop), plain[2]]
        print(line(name, [c for s, r in zip(scorers, best, strict=True) for c in recalls(s.task, r)]))
        for s, r in zip((first, second, third), best, strict=True):
            print(line(f"  {s.task.name}: first half | second half", halves(s.task, r)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
