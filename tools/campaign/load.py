"""Many who read the lake while two write it, and how fast Dagster's pages are when it has recorded much.

What is written says what stood there before, so that every answer must be the one that was given before anything was
written: another one is a torn read.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tools.campaign.kill import data
from tools.campaign.world import World, in_child, prepare, start, table, wait_for

THREADS = 10
"""Readers of one process."""
PAGE = 2.0
"""Seconds that a page of Dagster's may take to read its records."""
QUERIES = (
    "SELECT selector, status, count(*), sum(confidence) FROM predictions GROUP BY ALL ORDER BY ALL",
    "SELECT count(*), count(DISTINCT chain_id) FROM chains JOIN citations USING (chain_id)",
    "SELECT e.selector, count(*) FROM evidence e JOIN questions q USING (question_id) GROUP BY ALL ORDER BY ALL",
    "SELECT parent_kind, count(*) FROM lineage_edges GROUP BY ALL ORDER BY ALL",
)


def _requests(lake: Path) -> dict[str, Callable[[], str]]:
    """What a reader may ask, as text that must never change."""
    from evidence_assets.explorer.answer_text import format_answer
    from evidence_assets.explorer.answer_view import AnswerView, view_answer
    from evidence_assets.lake.catalogue import connect, run_read_only_query
    from evidence_assets.lake.lineage import impact, trace

    with connect(lake) as connection:
        ids = [i for (i,) in connection.execute("SELECT prediction_id FROM predictions ORDER BY ALL").fetchall()][:6]
        chunks = [i for (i,) in connection.execute("SELECT chunk_id FROM chunks ORDER BY ALL LIMIT 3").fetchall()]

    def query(sql: str) -> str:
        with connect(lake) as connection:
            return str(run_read_only_query(connection, sql, 60))

    def walk(step: Callable[..., Any], identifier: str) -> str:
        with connect(lake, lazy=True) as connection:
            return str(step(connection, identifier).as_dict())

    def text(connection: Any, view: AnswerView) -> str:
        return format_answer(view)

    def page(show: Callable[..., str], identifier: str) -> str:
        with connect(lake) as connection:
            return show(connection, view_answer(connection, identifier))

    requests: dict[str, Callable[[], str]] = {f"query {n}": partial(query, q) for n, q in enumerate(QUERIES)}
    requests |= {f"trace {i}": partial(walk, trace, i) for i in ids}
    requests |= {f"impact {i}": partial(walk, impact, i) for i in chunks}
    return requests | {f"reading {i}": partial(page, text, i) for i in ids}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(lake: Path, expected: dict[str, str], until: float, readers: int, seed: int) -> dict[str, Any]:
    """What so many threads of this process saw until then: seconds of each kind of request, errors, torn reads."""
    requests = _requests(lake)
    durations: dict[str, list[float]] = {}
    errors: list[str] = []

    def reader(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        while time.monotonic() < until:
            name = chance.choice(list(requests))
            began = time.monotonic()
            try:
                if _hash(requests[name]()) != expected[name]:
                    errors.append(f"torn: {name}")
            except Exception as error:
                errors.append(f"error: {name}: {type(error).__name__}: {str(error)[:200]}")
            durations.setdefault(name.split()[0], []).append(time.monotonic() - began)

    threads = [threading.Thread(target=reader, args=(number,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"seconds": durations, "wrong": errors}


def campaign(
    folder: Path, minutes: float, readers: int, events: int, seed: int, say: Callable[[str], None] = print
) -> int:
    """Read and write at once for so long, then fill Dagster's records; prints both, returns what went wrong."""
    prepare(folder)
    world = World.new(folder / "world")
    if wait_for(start(world)) != 0:
        raise RuntimeError((world.root / "said.txt").read_text()[-3000:])
    before = data(world)
    expected = in_child(world, lambda: {name: _hash(ask()) for name, ask in _requests(world.lake).items()})
    until = time.monotonic() + 60 * minutes
    second_world = World.new(folder / "beside")  # the same lake and records, with what the campaign notes of its own
    for copy, original in ((second_world.home, world.home), (second_world.lake, world.lake)):
        shutil.rmtree(copy, ignore_errors=True)
        copy.symlink_to(original)
    writers = [_again_until(item, until) for item in (world, second_world)]
    reading = [
        _in_thread(world, expected, until, min(THREADS, readers - n), seed + n) for n in range(0, readers, THREADS)
    ]
    summaries = [answer() for answer in reading]
    runs = [wait() for wait in writers]
    wrong = [line for item in summaries for line in item["wrong"]]
    seconds: dict[str, list[float]] = {}
    for item in summaries:
        for name, took in item["seconds"].items():
            seconds.setdefault(name, []).extend(took)
    rows = []
    for name, took in sorted(seconds.items()):
        took.sort()
        rows.append(
            [name, len(took), *(f"{took[int(len(took) * share)]:.2f}" for share in (0.5, 0.99)), f"{took[-1]:.2f}"]
        )
    say(table(("request", "times", "median s", "p99 s", "longest s"), rows))
    errors, torn = sum(w.startswith("error") for w in wrong), sum(w.startswith("torn") for w in wrong)
    changed = sorted(name for name, value in data(world).items() if before.get(name) != value)
    say(
        f"{readers} readers, {errors} errors, {torn} torn reads; two writers finished {sum(map(len, runs))} runs, "
        f"{sum(status != 0 for item in runs for status in item)} failed, {len(changed)} files changed"
    )
    for line in wrong[:10]:
        say(line)
    slow = in_child(world, lambda: _pages(events))
    say(table(("page of Dagster's", "seconds"), [[name, f"{took:.2f}"] for name, took in slow.items()]))
    late_pages = [name for name, took in slow.items() if took > PAGE and name.startswith("page")]
    return len(wrong) + len(changed) + sum(status != 0 for item in runs for status in item) + len(late_pages)


def _again_until(world: World, until: float) -> Callable[[], list[int]]:
    """Materialize the world again and again, one process after another; a call that waits for their exit statuses."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        while True:
            status = wait_for(start(world))
            os.write(writer, bytes([status & 0xFF]))
            if time.monotonic() > until:
                os._exit(0)
    os.close(writer)

    def wait() -> list[int]:
        wait_for(child)
        with os.fdopen(reader, "rb") as stream:
            return list(stream.read())

    return wait


def _in_thread(
    world: World, expected: dict[str, str], until: float, readers: int, seed: int
) -> Callable[[], dict[str, Any]]:
    """Start a process of readers; a call that waits for what they saw."""
    summaries: list[dict[str, Any]] = []
    work = threading.Thread(
        target=lambda: summaries.append(in_child(world, lambda: _read(world.lake, expected, until, readers, seed)))
    )
    work.start()

    def wait() -> dict[str, Any]:
        work.join()
        return summaries[0] if summaries else {"seconds": {}, "wrong": ["error: a process of readers failed"]}

    return wait


def _pages(events: int) -> dict[str, float]:
    """Fill Dagster's records with materializations, then read what its pages read."""
    from importlib import import_module

    import dagster as dg

    from evidence_assets.assets.run_liveness import speed_up_databases

    speed_up_databases()
    graph = import_module("evidence_assets.cli.runner").load_definitions().resolve_asset_graph()
    keys = list(graph.materializable_asset_keys)
    took: dict[str, float] = {}
    with dg.DagsterInstance.get() as instance:
        began = time.monotonic()
        for number in range(events):
            event = dg.AssetMaterialization(
                keys[number % len(keys)], partition=f"p{number % 997}", metadata={"rows": number}
            )
            instance.report_runless_asset_event(event)
        took[f"(writing {events:,} events)"] = time.monotonic() - began
        pages: dict[str, Callable[[], Any]] = {
            "page of all assets": lambda: instance.get_asset_records(keys),
            "page of runs": lambda: instance.get_run_records(limit=100),
            "page of one asset's events": lambda: instance.fetch_materializations(keys[0], limit=100),
            "page of one asset's partitions": lambda: instance.get_materialized_partitions(keys[0]),
            "page of one run's log": lambda: instance.all_logs(instance.get_runs(limit=1)[0].run_id),
        }
        for name, look in pages.items():
            began = time.monotonic()
            look()
            took[name] = time.monotonic() - began
    return took
