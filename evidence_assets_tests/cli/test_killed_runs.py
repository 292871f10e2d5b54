"""Runs of killed processes are marked as failed at the next start; those of a live process are not."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets import run_liveness
from evidence_assets.assets.run_liveness import LOCK_FILE_TAG, fail_killed_runs, hold_liveness_lock, wait_for_slots

STARTS_A_RUN_AND_DIES = """
import os, signal, sys
from pathlib import Path
import dagster as dg
from evidence_assets.assets.run_liveness import hold_liveness_lock

@dg.asset(pool="gpu")
def killed(): os.kill(os.getpid(), signal.SIGKILL)

home = Path(os.environ["DAGSTER_HOME"])
with dg.DagsterInstance.get() as instance:
    dg.materialize([killed], instance=instance, tags=hold_liveness_lock(home))
"""


@pytest.fixture(autouse=True)
def dagster_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(
        "telemetry: {enabled: false}\nconcurrency: {pools: {default_limit: 1, granularity: op}}\n"
    )


def test_a_run_whose_process_was_killed_is_ended(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", STARTS_A_RUN_AND_DIES], env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL
    started_filter = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
    tags = hold_liveness_lock(tmp_path)
    with dg.DagsterInstance.get() as instance:
        assert len(instance.get_runs(started_filter)) == 1
        assert instance.event_log_storage.get_concurrency_info("gpu").active_slot_count == 1

        @dg.asset
        def asks() -> None:
            fail_killed_runs(instance, tmp_path)  # the calling run is alive

        @dg.asset(pool="gpu")
        def waits() -> None: ...

        assert dg.materialize([asks], instance=instance, tags=tags).success
        assert instance.event_log_storage.get_concurrency_info("gpu").active_slot_count == 0
        assert dg.materialize([waits], instance=instance, tags=tags).success, "its pool slot is free again"
        assert instance.get_runs(started_filter) == []
        fail_killed_runs(instance, tmp_path)
        failed = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
        assert len(failed) == 1
    assert [file.name for file in (tmp_path / "alive").iterdir()] == [tags[LOCK_FILE_TAG]]


HOLDS_A_SLOT = """
import os, time
import dagster as dg

@dg.asset(pool="gpu")
def holds():
    print("holding", flush=True)
    time.sleep(100)

with dg.DagsterInstance.get() as instance:
    dg.materialize([holds], instance=instance)  # without a lock: as other tools start runs
"""


def test_a_slot_of_another_process_is_waited_for_with_a_message_until_its_process_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_liveness, "SECONDS_BETWEEN_ATTEMPTS", 0.1)
    messages: list[str] = []
    command = [sys.executable, "-c", HOLDS_A_SLOT]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process,
        dg.DagsterInstance.get() as instance,
    ):
        assert process.stdout is not None and process.stdout.readline() == "holding\n"
        fail_killed_runs(instance, tmp_path)  # its process is alive

        def report(text: str) -> None:
            messages.append(text)
            process.kill()
            process.wait()

        wait_for_slots(instance, tmp_path, ["gpu"], hold_liveness_lock(tmp_path), report)
        assert instance.event_log_storage.get_concurrency_info("gpu").active_slot_count == 0
    waiting, killed, free = (re.sub(r"run \w{8} \(\w+\)", "run …", message) for message in messages)
    assert waiting == "waiting for pool gpu, used by run …"
    assert killed == "the process of run … was killed: the run is marked as failed"
    assert free == "the pool slots of run … are free again"


def test_a_slot_of_the_own_process_is_not_waited_for(tmp_path: Path) -> None:
    tags = hold_liveness_lock(tmp_path)
    with dg.DagsterInstance.get() as instance:

        @dg.asset(pool="gpu")
        def holds() -> None:
            wait_for_slots(instance, tmp_path, ["gpu", "no such pool"], tags, pytest.fail)

        assert dg.materialize([holds], instance=instance, tags=tags).success
