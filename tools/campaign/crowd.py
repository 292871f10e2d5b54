"""Two `evidence demo` and two backfills at once on one lake, which must end as one demo alone leaves it.

The commands are those that people give: two processes of the command line, and a webserver that is asked for two
backfills of the same partitions, which a daemon carries out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tools.campaign.kill import find_leftovers
from tools.campaign.world import REPOSITORY, World, in_child, prepare, table
from tools.cluster import backfill, parquet, run_backfill, selection
from tools.cluster_processes import Cluster, answers, wait

BENCHMARK = "sample_tables"


class OneMachine(Cluster):
    """Webserver and daemon over a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.world = World.new(folder / "world")
        self.environment = {**os.environ, **self.world.environment}
        del self.environment["OMP_NUM_THREADS"]  # as many threads as people have

    def start_all(self) -> None:
        workspace = str(REPOSITORY / "workspace.yaml")
        place: dict[str, Path] = {"cwd": REPOSITORY}
        port = str(self.ports["webserver"])
        self.start(
            "webserver", self.python("dagster_webserver", "-h", "127.0.0.1", "-p", port, "-w", workspace), **place
        )
        self.start("daemon", [Path(sys.executable).with_name("dagster-daemon"), "run", "-w", workspace], **place)
        wait(lambda: answers(self.ports["webserver"]), "the webserver", 300)

    def demo(self, world: World, name: str) -> subprocess.Popen[bytes]:
        self.environment |= world.environment
        return self.start(name, self.python("evidence_assets.cli", "demo"), cwd=REPOSITORY)


def campaign(folder: Path, say: Callable[[str], None] = print) -> int:
    """Run both demos and both backfills at once, then one demo alone; how many defects there were."""
    prepare(folder)
    machine = OneMachine(folder)
    os.environ |= machine.world.environment  # what is asked for is read from the definitions of that lake
    alone = World.new(folder / "alone")
    rows: list[tuple[str, str, str]] = []
    try:
        machine.start_all()
        began = time.monotonic()
        demos = [machine.demo(machine.world, name) for name in ("one", "other")]
        backfill_ids = [backfill(machine, selection(BENCHMARK), name) for name in ("first", "second")]
        states = [run_backfill(machine, name, lambda running: None) for name in backfill_ids]
        statuses = [demo.wait() for demo in demos]
        took = f"{time.monotonic() - began:.0f}"
        rows += [(f"demo {n}", f"exit {status}", took) for n, status in enumerate(statuses)]
        rows += [(f"backfill {n}", state, took) for n, state in enumerate(states)]
        began = time.monotonic()
        lone = machine.demo(alone, "alone").wait()
        rows.append(("a demo alone", f"exit {lone}", f"{time.monotonic() - began:.0f}"))
    finally:
        machine.stop()
    say(table(("at once", "ended", "seconds"), rows))
    actual, expected = parquet(machine.world.lake), parquet(alone.lake)
    changed = sorted(name for name in actual.keys() | expected.keys() if actual.get(name) != expected.get(name))
    problems: dict[str, list[str]] = in_child(machine.world, lambda: find_leftovers(machine.world)) | {
        "different bytes": changed
    }
    say(
        f"{len(expected)} Parquet files of a demo alone; of the crowd: "
        + ", ".join(f"{len(what)} {name}" for name, what in problems.items())
    )
    for name, what in problems.items():
        for line in what[:10]:
            say(f"{name}: {line}")
    n_failures = sum(status != 0 for status in (*statuses, lone)) + sum(
        state != "COMPLETED_SUCCESS" for state in states
    )
    if not n_failures:
        shutil.rmtree(folder / "alone")
    return n_failures + sum(map(len, problems.values()))
