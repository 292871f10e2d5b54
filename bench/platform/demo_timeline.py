"""Where the time of a demo goes: seconds per asset, steps at work at once, and the rest.

Reads the runs of the last `evidence demo` from DAGSTER_HOME. A step's seconds are those of the clock, so measure on an
idle machine.

    python -m bench.platform.demo_timeline [--assets 20]
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from itertools import pairwise
from typing import NamedTuple

import dagster as dg

from evidence_assets.assets.run_liveness import PARENT_TAG
from evidence_assets.cli.runner import dagster_home


class Span(NamedTuple):
    """A run or a step, in seconds since the epoch."""

    name: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


def read_spans(instance: dg.DagsterInstance) -> tuple[list[Span], list[Span], Counter[str]]:
    """The runs and steps of the last command, and its events by type."""
    records = instance.get_run_records()
    if not records:
        raise SystemExit("no runs in DAGSTER_HOME: run `evidence demo` first")
    command = records[0].dagster_run.tags.get(PARENT_TAG)
    runs, steps, events = list[Span](), list[Span](), Counter[str]()
    for record in records:
        if record.dagster_run.tags.get(PARENT_TAG) != command:
            continue
        if record.start_time is not None and record.end_time is not None:
            runs.append(Span(record.dagster_run.run_id, record.start_time, record.end_time))
        starts: dict[str, float] = {}
        for entry in instance.all_logs(record.dagster_run.run_id):
            event = entry.dagster_event
            events[event.event_type_value if event else "log message"] += 1
            if event is None or event.step_key is None:
                continue
            if event.is_step_start:
                starts[event.step_key] = entry.timestamp
            elif (event.is_step_success or event.is_step_failure) and event.step_key in starts:
                steps.append(Span(event.step_key.replace("__", "/"), starts[event.step_key], entry.timestamp))
    return runs, steps, events


def seconds_by_concurrency(steps: list[Span]) -> tuple[dict[int, float], dict[str, float]]:
    """Seconds with 0, 1, 2… steps at once, and those that each asset's steps ran alone."""
    changes = sorted([(step.start, 1, step) for step in steps] + [(step.end, -1, step) for step in steps])
    seconds, alone, active = defaultdict[int, float](float), defaultdict[str, float](float), set[Span]()
    for (time, change, step), (next_time, _, _) in pairwise(changes):
        (active.add if change == 1 else active.remove)(step)
        seconds[len(active)] += next_time - time
        if len(active) == 1:
            alone[next(iter(active)).name] += next_time - time
    return dict(sorted(seconds.items())), alone


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the time of the last demo went.")
    parser.add_argument("--assets", type=int, default=20, help="how many assets to list")
    limit = parser.parse_args().assets
    dagster_home()
    with dg.DagsterInstance.get() as instance:
        runs, steps, events = read_spans(instance)
    wall, in_steps = max(r.end for r in runs) - min(r.start for r in runs), sum(s.seconds for s in steps)
    in_runs = sum(run.seconds for run in runs)
    print(f"{wall:.1f} s from the first run to the last, in {len(runs)} runs with {len(steps)} steps")
    print(f"{in_steps:.1f} s in steps, {in_runs - in_steps:.1f} s in runs outside steps")
    seconds_with, alone = seconds_by_concurrency(steps)
    for count, seconds in seconds_with.items():
        print(f"{seconds:8.1f} s with {count} steps at once")
    print(f"{sum(events.values()):,} events: " + ", ".join(f"{n:,} {kind}" for kind, n in events.most_common()))
    by_asset = defaultdict[str, float](float)
    for step in steps:
        by_asset[step.name] += step.seconds
    print("   steps     alone  asset")
    for name, seconds in sorted(by_asset.items(), key=lambda item: -item[1])[:limit]:
        print(f"{seconds:8.1f}  {alone[name]:8.1f}  {name}")


if __name__ == "__main__":
    main()
