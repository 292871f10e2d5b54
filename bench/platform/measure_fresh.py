"""Seconds from the edit of a seed file to everything that depends on it being fresh, with the daemon running.

    python -m bench.platform.measure_fresh --world FOLDER

The folder holds ``data_lake`` and ``dagster_home`` as `evidence demo` leaves them, and is changed; without it a world
is made first. What is no work of an asset's step is overhead: waiting for a tick, for a place in the queue, for a
process.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import yaml

from evidence_assets.assets.automation import request_stale_assets
from evidence_assets.assets.definitions import load_definitions
from evidence_assets.assets.run_liveness import UNFINISHED_STATUSES
from evidence_assets.assets.seeds import request_seed_runs
from evidence_assets.lake.store import Lake

REPOSITORY = Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG = 1
LIMIT = 60.0
"""Seconds that may pass beside the work of the steps."""


@dataclass(frozen=True)
class RunTimes:
    """One run after the edit; moments are seconds since it."""

    name: str
    requested_at: float
    began: float
    ended: float
    steps: tuple[tuple[float, float], ...]
    succeeded: bool


@dataclass(frozen=True)
class Freshness:
    """What followed from an edit."""

    runs: tuple[RunTimes, ...]

    @property
    def seconds(self) -> float:
        """When the last run had ended."""
        return max(run.ended for run in self.runs)

    @property
    def working(self) -> float:
        """How long at least one step was worked on."""
        covered_seconds = until = 0.0
        for start, end in sorted(step for run in self.runs for step in run.steps):
            covered_seconds += max(0.0, end - max(start, until))
            until = max(until, end)
        return covered_seconds


def _end_with_parent() -> None:
    if sys.platform == "linux":  # elsewhere it outlives a parent that is killed
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def daemon(
    environment: Mapping[str, str], log: Path, *workspace: str | Path, python: str | Path = sys.executable
) -> Iterator[subprocess.Popen[bytes]]:
    """The daemon, over this repository's workspace or another; it and all that it started end with the block."""
    with log.open("w") as log_file:
        process = subprocess.Popen(
            [
                python,
                Path(sys.executable).with_name("dagster-daemon"),
                "run",
                *(workspace or ("-w", REPOSITORY / "workspace.yaml")),
            ],
            env=environment,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            cwd=environment.get("PWD", REPOSITORY),
            preexec_fn=_end_with_parent,
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def edit(seed: Path) -> None:
    """Turn a seed file around, heads for tails, so that its harvest and the graph change."""
    relation = yaml.safe_load(seed.read_text())
    halves = relation["prompt"].split("<HEAD>")
    relation["prompt"] = "<TAIL>".join(half.replace("<TAIL>", "<HEAD>") for half in halves)
    seed.write_text(yaml.safe_dump(relation, sort_keys=False, allow_unicode=True))


def is_settled(repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, lake: Lake) -> bool:
    """Whether nothing runs and a tick would request nothing."""
    if instance.get_run_ids(dg.RunsFilter(statuses=UNFINISHED_STATUSES), limit=1):
        return False
    return (
        not request_seed_runs(repository, instance, lake)[0]
        and not request_stale_assets(repository, instance, None).run_requests
    )


def measure(world: Path, relation: str, patience: float = 600) -> Freshness:
    """Edit a seed file below a running daemon, and wait until nothing is to be made any more."""
    lake, log = Lake(world / "data_lake"), world / "daemon.log"
    repository = load_definitions().get_repository_def()
    with dg.DagsterInstance.get() as instance, daemon(os.environ, log) as process:
        deadline = time.monotonic() + patience

        def wait(is_done: bool) -> None:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            if not is_done:
                time.sleep(2)

        while not (ticked := "follow_data" in log.read_text() and is_settled(repository, instance, lake)):
            wait(ticked)
        before = set(instance.get_run_ids())
        edited = time.time()
        edit(lake.root / "raw" / "seeds" / f"{relation}.yaml")
        while not (fresh := is_settled(repository, instance, lake)):
            wait(fresh)
        records = [r for r in instance.get_run_records() if r.dagster_run.run_id not in before]
        return Freshness(tuple(_run_times(instance, record, edited) for record in reversed(records)))


def _run_times(instance: dg.DagsterInstance, record: dg.RunRecord, edited: float) -> RunTimes:
    run = record.dagster_run
    asset_keys = sorted("/".join(key.path) for key in run.asset_selection or ())
    steps = [
        (step.start_time - edited, step.end_time - edited)
        for step in instance.get_run_step_stats(run.run_id)
        if asset_keys and step.start_time and step.end_time
    ]
    assets = ", ".join(asset_keys) if len(asset_keys) < 4 else f"{len(asset_keys)} assets"
    name = f"{assets} {run.tags.get('dagster/partition', '')}"
    return RunTimes(
        name.strip() if asset_keys else run.job_name,
        record.create_timestamp.timestamp() - edited,
        (record.start_time or 0) - edited,
        (record.end_time or 0) - edited,
        tuple(steps),
        run.is_success,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=Path)
    parser.add_argument("--relation", default="may_treat")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        world = (options.world or Path(temporary)).resolve()
        os.environ |= {"DAGSTER_HOME": f"{world}/dagster_home", "EVIDENCE_LAKE": f"{world}/data_lake"}
        if not options.world:
            subprocess.run([Path(sys.executable).with_name("evidence"), "demo"], check=True, stdout=subprocess.DEVNULL)
        fresh = measure(world, options.relation)
    print(f"{'asked':>7}{'began':>7}{'ended':>7}{'steps':>7}  run")
    for run in fresh.runs:
        worked = sum(end - start for start, end in run.steps)
        failed = "" if run.succeeded else "  FAILED"
        print(f"{run.requested_at:7.1f}{run.began:7.1f}{run.ended:7.1f}{worked:7.1f}  {run.name}{failed}")
    waiting_seconds = fresh.seconds - fresh.working
    print(
        f"fresh after {fresh.seconds:.1f} s: {fresh.working:.1f} s of steps, "
        f"{waiting_seconds:.1f} s waiting (≤ {LIMIT:.0f})"
    )
    return int(waiting_seconds > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
