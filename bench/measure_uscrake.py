"""What USCRaKE's variants reach on the sample's multiple-choice questions, beside BM25 and embedding cosine.

    EVIDENCE_LAKE=… python bench/measure_uscrake.py --split dev --graph sample uscrake uscrake_published bm25 cosine

The lake must hold the corpus ``sample`` with its index and token store, and the tables of the graph. Settings are
chosen on ``dev``; ``test`` is what assets report. Printed per variant: share of gold evidence among the evidence picked
for a question, accuracy of the extractive reasoner with its standard error, rows an option, and processor seconds of
selection alone. ``pool`` is the share of gold sentences whose chunk the coarse pool holds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evidence_assets import profiles
from evidence_assets.components.benchmark import benchmarks
from evidence_assets.components.models_in_use import encoder
from evidence_assets.components.readers import questions_of
from evidence_assets.components.selector_methods import METHODS
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake, prepare
from evidence_assets.reasoning.extractive import ExtractiveSolver
from evidence_assets.systems import answering, gold_evidence, scoring
from evidence_assets.systems.benchmark_rows import question_rows
from evidence_assets.systems.selection import asked, evidence_rows
from evidence_assets.systems.uscrake import Uscrake

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "bm25": ("bm25", {}),
    "cosine": ("cosine", {}),
    "uscrake": ("uscrake", {}),
    "uscrake_published": ("uscrake", {"published": True}),
    "chunks": ("uscrake", {"parts": "chunks"}),
    "chunks_whole": ("uscrake", {"parts": "chunks", "grain": "chunk"}),
    "chunks_no_links": ("uscrake", {"parts": "chunks", "links": False}),
    "chunks_5_sentences": ("uscrake", {"parts": "chunks", "sentences": 5}),
    "chunks_20_sentences": ("uscrake", {"parts": "chunks", "sentences": 20}),
    "published_chunks": ("uscrake", {"published": True, "parts": "chunks"}),
    "graph": ("uscrake", {"parts": "graph"}),
    "hybrid": ("uscrake", {"parts": "chunks", "coarse": "hybrid"}),
    **{name: ("uscrake", {"parts": "chunks", "cost": name}) for name in ("jsd", "jsd_unscaled", "maxsim", "euclidean")},
    "transport_cosine": ("uscrake", {"parts": "chunks", "cost": "cosine"}),
}


class Remembering:
    """An encoder that encodes each text once, so that variants share what their reasoner reads."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._known = inner, {}
        self.model_id, self.revision = inner.model_id, inner.revision
        self.dimensions, self.max_tokens = inner.dimensions, inner.max_tokens
        self.count_tokens, self.tokens = inner.count_tokens, inner.tokens

    def sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._inner.sentences(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def empty(table: str) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(prepare(table, [])))


def pool_recall(selector: Uscrake, rows: pl.DataFrame, lake: Lake) -> float:
    """Share of gold sentences whose chunk is in the coarse pool of any option; of one group one is enough."""
    chunks = lake.read("chunks", "corpus/sample/chunks").sort("chunk_id")["text"].to_list()
    shares = []
    for question, row in zip(asked(rows), rows.sort("question_id").to_dicts(), strict=True):
        if row["gold_evidence"] and selector._passages is not None:
            pools = selector._pools(selector._passages, selector._options([question]))
            pool = [chunks[i] for i in np.unique(np.concatenate(pools))]
            groups: dict[str, bool] = {}
            for i, gold in enumerate(row["gold_evidence"]):
                name = gold["group"] or str(i)
                groups[name] = groups.get(name, False) or any(gold["text"] in text for text in pool)
            shares.append(sum(groups.values()) / len(groups))
    return float(np.mean(shares)) if shares else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("variants", nargs="*", default=["uscrake", "uscrake_published", "bm25", "cosine"])
    parser.add_argument("--split", default="dev")
    parser.add_argument("--graph", default="")
    stated = parser.parse_args()
    lake = Lake(os.environ["EVIDENCE_LAKE"])
    declared = benchmarks()["sample_mcqa"].model_copy(update={"graph": stated.graph, "split": stated.split})
    benchmarks()["sample_mcqa"] = declared
    rows = pl.DataFrame(pl.from_arrow(prepare("questions", question_rows(questions_of(lake, declared), stated.split, 0, 1))))  # fmt: skip
    questions = asked(rows)
    model = Remembering(encoder(profiles.load().encoder))
    solver = ExtractiveSolver(model)
    step: Any = SimpleNamespace(lake=lake, benchmark="sample_mcqa")
    print(f"{stated.split}: {len(questions)} questions; graph: {stated.graph or 'none'}")
    print(f"{'variant':22}{'recall':>8}{'accuracy':>10}{'± s.e.':>8}{'rows':>7}{'pool':>7}{'cpu s':>8}", flush=True)
    no_lineage = empty("lineage_edges")
    for name in stated.variants:
        method, parameters = VARIANTS[name]
        selector = METHODS[method].make(name, step, dict(parameters))
        started = time.process_time()
        made = evidence_rows(selector, questions, empty("evidence"), no_lineage)
        seconds = time.process_time() - started
        evidence = pl.DataFrame(pl.from_arrow(prepare("evidence", made.rows)))
        chains = answering.chain_rows(solver, name, questions, evidence, empty("chains"), no_lineage)
        chain_table = pl.DataFrame(pl.from_arrow(prepare("chains", chains.rows)))
        predicted = answering.prediction_rows(
            solver, name, questions, evidence, chain_table, empty("predictions"), no_lineage
        )
        answers = {row["question_id"]: row for row in predicted.rows}
        right = [scoring.correct(row, answers[row["question_id"]]) for row in rows.to_dicts()]
        accuracy = float(np.mean(right))
        error = (accuracy * (1 - accuracy) / len(right)) ** 0.5
        recall = float(np.mean(gold_evidence.evidence_recall(rows.to_dicts(), evidence)))
        options = sum(len(q.options) for q in questions)
        notes = dict(getattr(selector, "notes", {}))
        pool = pool_recall(selector, rows, lake) if isinstance(selector, Uscrake) else float("nan")
        print(
            f"{name:22}{recall:8.3f}{accuracy:10.3f}{error:8.3f}{evidence.height / options:7.1f}{pool:7.3f}{seconds:8.1f}",
            flush=True,
        )
        if notes:
            print("   ", notes, flush=True)
    assert set(evidence.columns) == set(TABLES["evidence"].names)


if __name__ == "__main__":
    main()
