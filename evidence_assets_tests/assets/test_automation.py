"""When an asset is asked for again: ticks over a small graph of assets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from evidence_assets.assets.automation import follow

WORLD: dict[str, str] = {}
"""What the sources say now, and who fails."""


@pytest.fixture(autouse=True)
def fresh_world() -> Iterator[None]:
    WORLD.clear()
    WORLD["source"] = "1"
    yield
    WORLD.clear()


def asset(name: str, *deps: str, code: str = "1") -> dg.AssetsDefinition:
    @dg.asset(name=name, deps=list(deps), code_version=code)
    def _made() -> dg.MaterializeResult[Any]:
        if WORLD.get("fails") == name:
            raise ValueError("as told")
        return dg.MaterializeResult(data_version=dg.DataVersion(WORLD.get(name, WORLD["source"])))

    return _made


def diamond(code: str = "1") -> dg.Definitions:
    """source → left → sink, source → sink."""
    return dg.Definitions([asset("source"), asset("left", "source", code=code), asset("sink", "left", "source")])


class Ticker:
    def __init__(self, loaded: dg.Definitions) -> None:
        self.instance, self.loaded = dg.DagsterInstance.ephemeral(), loaded
        self.cursor: str | None = None

    def make(self, *names: str) -> bool:
        job = self.loaded.resolve_implicit_global_asset_job_def()
        keys = [dg.AssetKey(name) for name in names]
        return job.execute_in_process(instance=self.instance, asset_selection=keys, raise_on_error=False).success

    def tick(self) -> set[str]:
        result = follow(self.loaded.get_repository_def(), self.instance, self.cursor)
        self.cursor = result.cursor
        return {key.to_user_string() for request in result.run_requests or () for key in request.asset_selection or ()}


def test_other_data_moves_what_reads_it_and_what_a_change_reaches_twice_is_made_once() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    assert ticker.tick() == set()
    WORLD["source"] = "2"
    ticker.make("source")
    assert ticker.tick() == {"left"}, "the sink waits for the other way"
    ticker.make("left")
    assert ticker.tick() == {"sink"}
    ticker.make("sink")
    assert ticker.tick() == set()


def test_the_same_data_made_again_and_a_change_of_code_move_nothing() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    ticker.make("source")
    assert ticker.tick() == set()
    ticker.loaded = diamond(code="2")
    assert ticker.tick() == set()


def test_a_change_stops_where_it_changes_nothing() -> None:
    ticker = Ticker(dg.Definitions([asset("source"), asset("left", "source"), asset("sink", "left")]))
    WORLD["left"] = "always the same"
    ticker.make("source", "left", "sink")
    WORLD["source"] = "2"
    ticker.make("source")
    assert ticker.tick() == {"left"}
    ticker.make("left")
    assert ticker.tick() == set()


def test_a_change_before_the_first_tick_is_seen_and_a_lost_cursor_loses_nothing() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    WORLD["source"] = "2"
    ticker.make("source")
    assert ticker.tick() == {"left"}
    ticker.cursor = None
    assert ticker.tick() == {"left"}


def test_what_failed_is_not_repeated_until_its_inputs_change_again() -> None:
    ticker = Ticker(diamond())
    ticker.make("source", "left", "sink")
    WORLD.update(source="2", fails="left")
    ticker.make("source")
    assert ticker.tick() == {"left"}
    assert not ticker.make("left")
    assert ticker.tick() == {"sink"}, "what else changed goes on"
    ticker.make("sink")
    assert ticker.tick() == set()
    WORLD.update(source="3", fails="")
    ticker.make("source")
    assert ticker.tick() == {"left"}


def test_what_was_never_made_is_left_to_people() -> None:
    ticker = Ticker(diamond())
    ticker.make("source")
    assert ticker.tick() == set()
