"""What every declared variant of USCRaKE reaches on the sample's multiple-choice questions: one table.

    python bench/measure_uscrake.py [--split test] [variant …]

Without names all reasoners of the group ``uscrake`` are run, whether their presets are opted in or not, and the
baselines ``bm25`` and ``cosine``. The corpus, the graph and the questions are taken from the lake that EVIDENCE_LAKE
names, else made in a temporary one, there without the harvested triples. Settings are chosen on ``dev``; ``test`` is
what assets report. Columns: accuracy of the reasoner with its 95 % Wilson interval, share of gold evidence among what
was picked for a question, rows of evidence an option, share of gold evidence whose chunk the coarse pool holds, and
processor seconds of selection alone. Below stands how often evidence is said to entail the option it was picked for:
of rows that hold gold evidence, for the right option; of all rows picked for wrong ones.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import numpy as np
import polars as pl

from evidence_assets import profiles
from evidence_assets.benchmarks.declared import benchmarks
from evidence_assets.benchmarks.readers import questions_of
from evidence_assets.benchmarks.rows import question_rows
from evidence_assets.experiment import gold_evidence, scoring
from evidence_assets.experiment.metrics import accuracy
from evidence_assets.experiment.selection import Asked, asked, evidence_rows
from evidence_assets.experiment.solvers import chooser
from evidence_assets.lake.store import Lake, prepare
from evidence_assets.systems.uscrake.system import Uscrake

BENCHMARK = "sample_mcqa"
BASELINES = ("bm25", "cosine")
STANCES_OF = ("uscrake",)
CHUNKS = ("corpus/sample/chunks", "corpus/sample/embeddings")
GRAPH = [f"knowledge/sample/{part}" for part in ("triples", "nodes", "edges", "csr", "node_vectors")]


def made_lake(folder: Path) -> Lake:
    """A lake with what the variants read and nothing else."""
    from evidence_assets.definitions import defs

    os.environ["EVIDENCE_LAKE"] = str(folder)
    shards = profiles.load().shards
    lake = Lake.create(folder, question_shards=shards.questions, corpus_shards=shards.corpus)
    job, instance = defs().resolve_implicit_global_asset_job_def(), dg.DagsterInstance.ephemeral()

    def make(*keys: str, partition: str | None = None) -> None:
        job.execute_in_process(
            instance=instance,
            partition_key=partition,
            asset_selection=[dg.AssetKey(key.split("/")) for key in keys],
            run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
        )

    make("raw/sample")
    for shard in range(shards.corpus):
        make(*CHUNKS, partition=str(shard))
    make("corpus/sample/index", "corpus/sample/token_store", *GRAPH)
    return lake


def table(name: str, rows: Any) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(prepare(name, rows)))


def pool_recall(selector: Uscrake, questions: list[Asked], rows: pl.DataFrame, lake: Lake) -> float:
    """Share of gold sentences whose chunk is in the coarse pool of any option; of one group one is enough."""
    chunks = lake.read("chunks", "corpus/sample/chunks").sort("chunk_id")["text"].to_list()
    shares = []
    for question, row in zip(questions, rows.sort("question_id").to_dicts(), strict=True):
        if row["gold_evidence"] and selector._passages is not None:
            pools = selector._pools(selector._passages, selector._options([question]))
            pool = [chunks[i] for i in np.unique(np.concatenate(pools))]
            groups: dict[str, bool] = {}
            for i, gold in enumerate(row["gold_evidence"]):
                name = gold["group"] or str(i)
                groups[name] = groups.get(name, False) or any(gold["text"] in text for text in pool)
            shares.append(sum(groups.values()) / len(groups))
    return float(np.mean(shares)) if shares else float("nan")


def stances(rows: pl.DataFrame, evidence: pl.DataFrame) -> str:
    """Rows that are said to entail their option: those of gold evidence for the right one, and those for wrong ones."""
    questions = {row["question_id"]: row for row in rows.to_dicts()}
    right, wrong = [], []
    for row in evidence.to_dicts():
        question = questions[row["question_id"]]
        if question["negated"] or "says" not in (row["why"] or ""):
            continue
        entails = json.loads(row["why"])["says"] == "entails"
        if row["option"] not in question["gold"]:
            wrong.append(entails)
        elif gold_evidence.is_gold(question, row):
            right.append(entails)
    if not right or not wrong:
        return ""
    return (
        f"  entails: {sum(right)} of {len(right)} rows with gold evidence for the right option, "
        f"{sum(wrong)} of {len(wrong)} rows for wrong ones"
    )


def measured(names: list[str], split: str, lake: Lake) -> None:
    """Print the table, a line as soon as it is known."""
    declared = benchmarks()[BENCHMARK].model_copy(update={"split": split})
    rows = table("questions", question_rows(questions_of(lake, declared), split, 0, 1))
    questions = asked(rows)
    step: Any = SimpleNamespace(lake=lake, benchmark=BENCHMARK, profile=profiles.load(), progress=lambda _: None)
    methods = {v.attributes["name"]: v.attributes for v in variants("Selector") if v.attributes["family"] == "mcqa"}
    chosen = [
        v.attributes
        for v in variants("Reasoner")
        if v.attributes["family"] == "mcqa"
        and (v.attributes["name"] in names if names else v.attributes.get("group") == "uscrake")
    ]
    if not names:
        chosen += [{"name": name, "selector": name} for name in BASELINES]
    unknown = sorted(set(names) - {v["name"] for v in chosen})
    if unknown:
        raise SystemExit(f"there is no reasoner {unknown[0]!r} of the family mcqa")
    print(f"{split}: {len(questions)} questions of {BENCHMARK}; graph beside the corpus: {declared.joined_graph}")
    print(f"{'variant':34}{'accuracy':>9}{'95 %':>16}{'recall':>8}{'rows':>6}{'pool':>7}{'cpu s':>8}", flush=True)
    no_lineage, known = table("lineage_edges", []), {}
    for variant in chosen:
        stated = methods[variant["selector"]]
        if stated["name"] not in known:
            selector = METHODS[stated["method"]].make(stated["name"], step, dict(stated.get("parameters", {})))
            started = time.process_time()
            made = evidence_rows(selector, questions, table("evidence", []), no_lineage)
            seconds = time.process_time() - started
            pool = pool_recall(selector, questions, rows, lake) if isinstance(selector, Uscrake) else float("nan")
            known[stated["name"]] = table("evidence", made.rows), pool, seconds
        evidence, pool, seconds = known[stated["name"]]
        explained = variant.get("explain", True)
        solver = chooser(variant.get("solver", "generator"), "mcqa", step, explained=explained)
        chains = answering.chain_rows(
            solver, stated["name"], questions if explained else [], evidence, table("chains", []), no_lineage
        )
        predicted = answering.prediction_rows(
            solver,
            stated["name"],
            questions,
            evidence,
            table("chains", chains.rows),
            table("predictions", []),
            no_lineage,
        )
        answers = {row["question_id"]: row for row in predicted.rows}
        found = accuracy([scoring.correct(row, answers[row["question_id"]]) for row in rows.to_dicts()])
        recall = float(np.mean(gold_evidence.evidence_recall(rows.to_dicts(), evidence)))
        options = sum(len(q.options) for q in questions)
        print(
            f"{variant['name']:34}{found.value:9.3f}{f'{found.low:.3f} – {found.high:.3f}':>16}{recall:8.3f}"
            f"{evidence.height / options:6.1f}{pool:7.3f}{seconds:8.1f}",
            flush=True,
        )
        if variant["name"] in STANCES_OF:
            print(stances(rows, evidence), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*")
    parser.add_argument("--split", default="test", choices=["dev", "test"])
    stated = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = os.environ.get("EVIDENCE_LAKE")
        lake = Lake(place) if place else made_lake(Path(folder) / "data_lake")
        measured(stated.variants, stated.split, lake)


if __name__ == "__main__":
    main()
