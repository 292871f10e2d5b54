"""``evidence measure``: a table of variants with baselines; a signal ends it, and the next call finishes its work."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import dagster as dg
import pytest

from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import World

COMMAND = ("measure", "sample_mcqa", "bm25", "cosine")


@pytest.mark.slow
def test_sigterm_ends_a_measurement_that_the_next_call_finishes(world: World) -> None:
    command = [sys.executable, "-m", "evidence_assets.cli", *COMMAND]
    with subprocess.Popen(
        command, env={**os.environ, **world.environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if line.lstrip().startswith("3/"))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode != 0 and "Traceback" not in errors
    with dg.DagsterInstance.from_config(str(world.root / "dagster_home")) as instance:
        unfinished = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]
        assert instance.get_run_ids(dg.RunsFilter(statuses=unfinished)) == []
    result = world.invoke(*COMMAND, "--baselines")
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
    second = world.invoke(*COMMAND, "--half", "second")
    assert second.exit_code == 0 and "sample_mcqa, second half, n = 2 questions" in second.stdout
    assert "baseline" not in second.stdout


def test_a_measurement_without_options_has_no_baselines(world: World) -> None:
    result = world.invoke("measure", "sample_skb", "graph_cosine", "--baselines")
    assert result.exit_code == 1 and "has no options to choose from: remove --baselines" in result.output
