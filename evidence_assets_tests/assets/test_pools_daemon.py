"""Steps wait for their pool and runs do not: five runs under a real daemon, with its queue."""

from __future__ import annotations

import time

import dagster as dg
import pytest

from bench.measure_fresh import daemon
from evidence_assets import profiles
from evidence_assets.assets.resources import set_limits
from evidence_assets_tests.conftest import World

pytestmark = pytest.mark.long
RUNS, SLOTS = 5, 2
USERS = f"""
import os, time
import dagster as dg

def note(word):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(word + " ")

@dg.op
def reads():
    note("read")

@dg.op(pool="llm", ins={{"after": dg.In(dg.Nothing)}})
def asks():
    note("asks")
    deadline = time.monotonic() + 200
    while open(os.environ["NOTES"]).read().split().count("read") < {RUNS}:
        assert time.monotonic() < deadline, "the other runs wait for this one"
        time.sleep(0.1)
    time.sleep(0.2)
    note("done")

@dg.job(executor_def=dg.in_process_executor)
def user():
    asks(after=reads())

@dg.sensor(job=user, default_status=dg.DefaultSensorStatus.RUNNING)
def users(context):
    return [dg.RunRequest(run_key=str(number)) for number in range({RUNS})]

defs = dg.Definitions(jobs=[user], sensors=[users])  # without it, Dagster takes the job alone
"""


def test_runs_queue_by_step_and_not_by_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have a place in the pool keep it until all have begun: did a run wait for one, none would end."""
    notes, code, profile = (world.root / name for name in ("notes", "users.py", "pools.yaml"))
    code.write_text(USERS)
    profile.write_text(f"extends: embedded\nname: pools\npools: {{llm: {SLOTS}}}\n")
    settings = world.root / "dagster_home" / "dagster.yaml"
    assert "max_concurrent_runs: 4\n" in settings.read_text()
    settings.write_text(settings.read_text().replace("max_concurrent_runs: 4\n", f"max_concurrent_runs: {RUNS}\n"))
    for name, value in (world.environment | {profiles.PROFILE_VARIABLE: str(profile)}).items():
        monkeypatch.setenv(name, value)
    with dg.DagsterInstance.get() as instance:
        assert set_limits(instance)["llm"] == SLOTS
        with daemon({"NOTES": str(notes)}, world.root / "daemon.log", "-f", code) as process:
            deadline = time.monotonic() + 240
            while len(instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS]))) < RUNS:
                told = (world.root / "daemon.log").read_text()[-3000:]
                assert process.poll() is None and time.monotonic() < deadline, told
                time.sleep(0.5)
    words = notes.read_text().split()
    asking = [words[:end].count("asks") - words[:end].count("done") for end in range(len(words) + 1)]
    assert max(asking) == SLOTS, "no more steps ask than the profile allows"
    assert words[: words.index("done")].count("read") == RUNS, "all runs had begun before the first was answered"
