"""Plans of commands, as sensors read them."""

import time

import dagster as dg
import pytest

from evidence_assets.assets import command_plans
from evidence_assets.assets.command_plans import announce_plan, read_plans


def test_each_command_has_a_plan_until_it_ends() -> None:
    with dg.instance_for_test() as instance:
        with announce_plan(instance, [dg.AssetKey(["raw", "seeds"])]):
            with announce_plan(instance, [dg.AssetKey("left")]):
                assert sorted(key for plan in read_plans(instance).values() for key in plan.keys) == [
                    "left",
                    "raw/seeds",
                ]
            assert [plan.keys for plan in read_plans(instance).values()] == [["raw/seeds"]]
        assert read_plans(instance) == {}


def test_a_living_command_renews_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_plans, "SECONDS_BETWEEN_RENEWALS", 0.05)
    with dg.instance_for_test() as instance, announce_plan(instance, []):
        [(name, first)] = read_plans(instance).items()
        time.sleep(1)
        assert read_plans(instance)[name].valid_until > first.valid_until
