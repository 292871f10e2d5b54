"""`evidence measure`: a table of variants with baselines; a signal ends it, and the next call finishes its work."""

import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import dagster as dg
import pytest

from evidence_assets.benchmarks.declared_benchmarks import Benchmark
from evidence_assets.cli.measure import BenchmarkRows
from evidence_assets.cli.runner import _is_reused
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import World
from evidence_assets_tests.lake_rows import chunk, evidence, question

MEASURE = ("measure", "sample_mcqa", "bm25", "cosine")


@pytest.mark.long
def test_sigterm_ends_a_measurement_that_the_next_call_finishes(world: World) -> None:
    command = [sys.executable, "-m", "evidence_assets.cli", *MEASURE]
    with subprocess.Popen(
        command, env={**os.environ, **world.environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if line.lstrip().startswith("3/"))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors
    assert errors.endswith("evidence: stopped; run the command again to continue: finished work is reused\n")
    with dg.DagsterInstance.from_config(str(world.root / "dagster_home")) as instance:
        unfinished = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]
        assert instance.get_run_ids(dg.RunsFilter(statuses=unfinished)) == []
    result = world.invoke(*MEASURE, "--baselines")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert any("sample_mcqa, n = 4 questions" in line for line in lines)
    names = [re.split(r" *[│┃] *", line)[1] for line in lines if re.match("[│┃]", line)]
    baselines = ["longest option", "association", "most frequent", "nearest (bm25)", "nearest (cosine)"]
    assert names[:8] == ["variant", "bm25", "cosine", *(f"baseline: {name}" for name in baselines)]
    assert names[8:11] == ["paired difference", "bm25 − cosine", "bm25 − cosine"]
    lake = Lake(world.root / "data_lake")
    corpora = {asset for table, asset in lake.assets() if table == "chunks"}
    assert corpora == {"corpus/sample/chunks"} and not lake.files("kg_edges"), "only what the variants need"
    second = world.invoke(*MEASURE, "--half", "second")
    assert second.exit_code == 0 and "sample_mcqa, second half, n = 2 questions" in second.stdout
    assert "baseline" not in second.stdout
    assert not [line for line in second.stdout.splitlines() if line.endswith(" reused)")], "reused rows are not listed"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [({"rows_computed": 0}, True), ({"rows_computed": 3}, False), ({"file_changed": True}, False), ({}, True)],
)
def test_a_materialization_without_computed_rows_or_a_changed_file_is_reused(
    metadata: dict[str, int | bool], expected: bool
) -> None:
    materialization = dg.AssetMaterialization("a", metadata=metadata)
    event = SimpleNamespace(step_materialization_data=SimpleNamespace(materialization=materialization))
    assert _is_reused(event) == expected


def test_rows_of_a_retrieval_benchmark_have_no_predictions(lake: Lake, other_settings: pytest.MonkeyPatch) -> None:
    bm25 = next(variant for variant in variants() if variant.key == "retrieval/bm25")
    score = {"score_id": "s", "scope_kind": "benchmark", "scope_id": "quiz", "selector": "bm25", "reasoner": "", "n": 1}
    score |= {"model_id": "", "metric": "mrr", "value": 1.0, "low": 1.0, "high": 1.0}
    lake.write("scores/retrieval/bm25", "quiz", {"scores": [score]})
    lake.write("questions/retrieval", "quiz|0", {"questions": [question(1, task="retrieval")]})
    lake.write("evidence/retrieval/bm25", "quiz|0", {"evidence": [evidence(1, 1, "Bees buzz.", source_id="k1")]})
    lake.write("corpus/c/chunks", "0", {"chunks": [chunk(1, "Bees buzz.", doc_id="bees")]})
    other_settings.setenv("EVIDENCE_LAKE", str(lake.root))
    rows = BenchmarkRows.read(Benchmark(name="quiz", task="retrieval", corpus="c"), [bm25])
    tables = rows.tables["bm25"]
    assert tables.predictions.is_empty() and tables.evidence.height == 1 and tables.documents == {"k1": "bees"}
