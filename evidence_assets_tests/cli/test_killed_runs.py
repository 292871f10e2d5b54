"""Runs of killed processes are marked as failed at the next start; those of a live process are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets.run_liveness import fail_killed_runs, liveness_lock

STARTS_A_RUN_AND_DIES = """
import os, signal, sys
from pathlib import Path
import dagster as dg
from evidence_assets.assets.run_liveness import liveness_lock

@dg.asset(pool="gpu")
def killed(): os.kill(os.getpid(), signal.SIGKILL)

home = Path(os.environ["DAGSTER_HOME"])
with dg.DagsterInstance.get() as instance, liveness_lock(home) as tags:
    dg.materialize([killed], instance=instance, tags=tags)
"""


def test_a_run_whose_process_was_killed_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(
        "telemetry: {enabled: false}\nconcurrency: {pools: {default_limit: 1, granularity: op}}\n"
    )
    killed = subprocess.run([sys.executable, "-c", STARTS_A_RUN_AND_DIES], env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL
    started_filter = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
    with dg.DagsterInstance.get() as instance, liveness_lock(tmp_path) as tags:
        assert len(instance.get_runs(started_filter)) == 1
        assert instance.event_log_storage.get_concurrency_info("gpu").active_slot_count == 1

        @dg.asset
        def asks() -> None:
            assert fail_killed_runs(instance, tmp_path) == 1, "the calling run is alive"

        @dg.asset(pool="gpu")
        def waits() -> None: ...

        assert dg.materialize([asks], instance=instance, tags=tags).success
        assert instance.event_log_storage.get_concurrency_info("gpu").active_slot_count == 0
        assert dg.materialize([waits], instance=instance, tags=tags).success, "its pool slot is free again"
        assert instance.get_runs(started_filter) == []
        assert fail_killed_runs(instance, tmp_path) == 0
        failed = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
        assert len(failed) == 1
    assert list((tmp_path / "alive").iterdir()) == []
