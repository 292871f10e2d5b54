"""What share of a preset's run is Dagster's own: everything outside asset bodies, checks and the writing of rows.

    python bench/measure_bookkeeping.py [--preset uscrake_main] [--questions 1000]

A lake is made in a temporary folder with the sample's corpus and a benchmark of as many questions (those of the sample,
over and over, each with a number of its own, so that no row is reused). Then every asset of the preset is materialized for
it as the demo does it, in one process, with Dagster's records in SQLite files. Seconds inside the functions of assets and
checks and inside the IO manager are added up; the rest of the runs' time is bookkeeping.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BENCHMARK = "generated"


class Clock:
    """Seconds by what they were spent on; what runs inside something else counts there only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inside = False

    def around(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            if self._inside:
                return function(*arguments, **named)
            self._inside, started = True, time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self._inside = False
                self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started

        return timed


def generated(raw: Path, count: int) -> None:
    """As many questions as asked for, made of those of the sample."""
    lines = (raw / "sample" / "benchmarks" / "sample_mcqa.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    folder = raw / "benchmarks" / BENCHMARK
    folder.mkdir(parents=True)
    with (folder / "questions.jsonl").open("w", encoding="utf-8") as stream:
        for number in range(count):
            row = {k: v for k, v in rows[number % len(rows)].items() if k != "question_id"}
            changed = {"source_id": str(number), "split": "test", "text": f"{row['text']} ({number})"}
            stream.write(json.dumps(row | changed, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="uscrake_main")
    parser.add_argument("--questions", type=int, default=1000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        os.environ |= {
            "EVIDENCE_LAKE": str(root / "lake"),
            "DAGSTER_HOME": str(root),
            "EVIDENCE_PRESETS": chosen.preset,
        }
        measure(root, chosen.preset, chosen.questions)


def measure(root: Path, preset: str, questions: int) -> None:
    import dagster as dg

    from evidence_assets.assets.pace import A_MINUTE
    from evidence_assets.assets.resources import LakeIOManager, LakeResource
    from evidence_assets.benchmarks import declared as benchmark

    known = benchmark.declared()
    extra = benchmark.Benchmark(name=BENCHMARK, task="mcqa", corpus="sample", source="raw/sample")
    benchmark.declared = lambda folder=None: {**known, BENCHMARK: extra}  # type: ignore[assignment]
    from evidence_assets.definitions import defs

    loaded = defs()
    graph, job = loaded.resolve_asset_graph(), loaded.resolve_implicit_global_asset_job_def()
    lake, clock = LakeResource().open(), Clock()
    for node in job.all_node_defs:
        if isinstance(node, dg.OpDefinition):
            function = node.compute_fn
            node._compute_fn = function._replace(decorated_fn=clock.around("assets and checks", function.decorated_fn))
    LakeIOManager.handle_output = clock.around("rows written", LakeIOManager.handle_output)  # type: ignore[method-assign]

    with dg.DagsterInstance.get() as instance:

        def run(keys: list[dg.AssetKey], partition: str | None) -> float:
            started = time.perf_counter()
            job.execute_in_process(
                instance=instance, asset_selection=keys, partition_key=partition,
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            )  # fmt: skip
            return time.perf_counter() - started

        corpus = ["chunks", "embeddings"], ["index", "token_store"]
        run([dg.AssetKey(["raw", "sample"])], None)
        run([dg.AssetKey(["corpus", "sample", name]) for name in corpus[0]], "0")
        run([dg.AssetKey(["corpus", "sample", name]) for name in corpus[1]], None)
        generated(lake.raw, questions)
        clock.seconds.clear()
        own = {key for key in graph.materializable_asset_keys if f"preset/{preset}" in graph.get(key).tags}
        tables = ("evidence", "chains", "predictions", "citations", "counterfactuals")
        sharded = [key for key in own if key.path[0] in tables and key.path[1] == "mcqa"]
        scores = [key for key in own if key.path[:2] == ["scores", "mcqa"]]
        steps = len(sharded) + 1 + len(scores)
        took = run([dg.AssetKey(["questions", "mcqa"]), *sharded], f"{BENCHMARK}|0") + run(scores, BENCHMARK)
        speeds = {}
        for key in scores:
            event = instance.get_latest_materialization_event(key)
            made = event.asset_materialization if event is not None else None
            if made is not None and A_MINUTE in made.metadata:
                speeds[key.path[-1]] = float(str(made.metadata[A_MINUTE].value))
    inside = sum(clock.seconds.values())
    print(f"{preset}, {questions:,} questions, {steps} assets with their checks: {took:.1f} s")
    for what, seconds in sorted(clock.seconds.items()):
        print(f"  {what:20} {seconds:8.1f} s {seconds / took:7.2%}")
    print(
        f"  {'bookkeeping':20} {took - inside:8.1f} s {(took - inside) / took:7.2%}   {(took - inside) / steps:.2f} s an asset"
    )

    for variant, speed in sorted(speeds.items()):
        print(f"  {variant}: {speed:,.0f} questions a minute")


if __name__ == "__main__":
    main()
