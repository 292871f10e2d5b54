"""From an edited seed file to the last score under a real daemon: one run, with under a minute of overhead."""

from __future__ import annotations

import os

import dagster as dg
import pytest

from bench.platform.measure_fresh import LIMIT, measure
from evidence_assets_tests.conftest import World

pytestmark = pytest.mark.long
EDITED = "may_treat"


def test_an_edit_reaches_the_scoreboard(changed_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in changed_world.environment.items():
        monkeypatch.setenv(name, value)
    fresh = measure(changed_world.root, EDITED)
    assert all(run.succeeded for run in fresh.runs)
    names = [run.name for run in fresh.runs]
    assert names[0] == "follow_changes" and names.count("follow_changes") == 1
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # what shares the machine takes its part of the time
    assert fresh.seconds - fresh.working < LIMIT * busy
    with dg.DagsterInstance.get() as instance:
        runs = instance.get_runs()[: len(fresh.runs) - 1]
        materialized = [(key, run.tags.get("dagster/partition")) for run in runs for key in run.asset_selection or ()]
    assert len(materialized) == len(set(materialized)), "each thing is made once"
    relations = {
        partition
        for key, partition in materialized
        if key.path[:2] in (["knowledge", "seeds"], ["knowledge", "kbloom"])
    }
    assert relations == {EDITED, None}, "no other relation is touched"
    assert {key.path[0] for key, _ in materialized} >= {"knowledge", "evidence", "predictions", "scores", "report"}
