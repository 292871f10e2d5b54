"""What planning assumes, measured on a lake that is there: bytes a row, CPU seconds a selection and a chain.

    EVIDENCE_LAKE=… EVIDENCE_PROFILE=… python bench/measure_rates.py

The numbers stand in evidence_assets/assets/rates.yaml; run this again on a machine of another kind and compare.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
from evidence_assets.assets.selector_methods import METHODS
from evidence_assets.experiment.answering import evidence_items

from evidence_assets import profiles
from evidence_assets.assets.table_asset import Step
from evidence_assets.benchmarks.declared import benchmarks
from evidence_assets.experiment.selection import asked
from evidence_assets.experiment.solvers import solver_named
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake
from evidence_assets.models.in_use import encoder, masked_lm
from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.reasoning.tasks import ExplainOption
from evidence_assets.systems.kbloom.rows import relations_of
from evidence_assets.systems.kbloom.system import KBloomSettings, harvest, mine


class Opened(Step):
    """A step outside of a run."""

    def __init__(self, lake: Lake, benchmark: str) -> None:
        self.lake, self.partition, self.profile = lake, f"{benchmark}|0", profiles.load()

    def progress(self, what: str):  # type: ignore[no-untyped-def]
        return lambda done, total: None


class Counting:
    """A masked language model that counts what passes through it."""

    def __init__(self, model: HFMaskedLM) -> None:
        self._model, self.texts, self.words = model, 0, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if name not in ("slot_log_probs", "word_vectors", "word_log_probs"):
            return found

        def counted(texts: Sequence[str], *arguments: Any) -> Any:
            # One text a word where each word is masked in turn.
            each = [len(text.split()) for text in texts]
            self.texts += sum(each) if name == "word_log_probs" else len(texts)
            self.words += sum(n * n if name == "word_log_probs" else n for n in each)
            return found(texts, *arguments)

        return counted


def measure_harvest(lake: Lake) -> None:
    """Texts and seconds of harvesting each relation of the lake's seeds again."""
    seeds = lake.read("relation_seeds", "knowledge/seeds")
    if not seeds.height:
        return
    profile = profiles.load()
    model, words = Counting(masked_lm(lake, profile.harvesting.model)), encoder(profile.encoder)
    own = KBloomSettings(n=profile.harvesting.n, max_prompts=profile.harvesting.prompts)
    started, weighted = time.process_time(), 0
    relations = relations_of(seeds)
    for relation in relations:
        prompts = mine(relation, model, words, own)  # type: ignore[arg-type]
        for settings in (own, replace(own, variant="bertnet")):
            made = harvest(relation, model, words, settings, prompts=prompts)  # type: ignore[arg-type]
            weighted += len(made.candidates) * sum(prompt.kept for prompt in prompts)
    took = time.process_time() - started
    print(
        f"harvest of {len(relations)} relations: {model.texts:,} texts, "
        f"{model.texts / weighted:.2f} texts a candidate and prompt, {model.words / model.texts:.1f} words a text, "
        f"{took / model.texts:.6f} CPU seconds a text"
    )
    edges = lake.read("lineage_edges", "knowledge/kbloom/harvest", columns=["child_id"]).height
    kept = lake.read("triples", "knowledge/kbloom/harvest", columns=["triple_id"]).height
    print(f"  {edges / max(kept, 1):.1f} lineage edges a triple of the harvest ({kept:,} triples)")


def main() -> None:
    lake = Lake(find_lake())
    measure_harvest(lake)
    print("bytes a row, footers left out")
    for table in TABLES:
        groups = [pq.ParquetFile(path).metadata for path in lake.files(table)]
        rows = sum(g.num_rows for g in groups)
        used = sum(
            g.row_group(i).column(c).total_compressed_size
            for g in groups
            for i in range(g.num_row_groups)
            for c in range(g.num_columns)
        )
        if rows:
            print(f"  {table:18} {used / rows:8.0f}   ({rows:,} rows)")
    for benchmark in benchmarks().values():
        step = Opened(lake, benchmark.name)
        questions = asked(lake.read("questions", f"questions/{benchmark.family}", step.partition))
        hypotheses = sum(len(q.hypotheses) for q in questions)
        if not questions:
            continue
        print(
            f"{benchmark.name}: {len(questions)} questions, {hypotheses} options; CPU seconds, the first includes loading"
        )
        for declared in variants("Selector"):
            family, method = declared.attributes["family"], METHODS[declared.attributes["method"]]
            if family != benchmark.family or not declared.loaded:
                continue
            taken = []
            for _ in range(2):
                started = time.process_time()
                selector = method.make(
                    declared.attributes["name"], step, dict(declared.attributes.get("parameters") or {})
                )
                selector.select(questions)
                taken.append((time.process_time() - started) / hypotheses)
            print(f"  selection, an option  {declared.attributes['name']:20} {taken[0]:8.4f} {taken[1]:8.4f}")
        items = evidence_items(lake.read("evidence", f"evidence/{benchmark.family}/bm25", step.partition))
        tasks = [
            ExplainOption(
                q.text, label, text, items.get((q.question_id, label), items.get((q.question_id, ""), ())), q.task
            )
            for q in questions
            for label, text in q.hypotheses
        ]
        solver = solver_named("extractive", benchmark.family, step)
        started = time.process_time()
        solver.explain(tasks)
        print(f"  extractive, a chain   {(time.process_time() - started) / len(tasks):30.4f}")


if __name__ == "__main__":
    main()
