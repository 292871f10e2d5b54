"""What commands of `evidence` are going to materialize, for sensors on any machine, which must not request it as well.

A command renews its plan while it lives, so that the plan of a killed one expires. Of commands that write at the same
moment, a new one can lose its plan until it renews it, so that something is computed twice, with the same result; the
plan of one that ends can stay until it expires.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import dagster as dg
from pydantic import BaseModel, TypeAdapter

SECONDS_BETWEEN_RENEWALS = 20.0
SECONDS_VALID = 60.0
_CURSOR = "evidence/command_plans"
"""Name of the plans in Dagster's records."""


class CommandPlan(BaseModel):
    """Names of assets, and the time until which the plan is valid, in seconds since the epoch."""

    keys: list[str]
    valid_until: float


_PLANS = TypeAdapter(dict[str, CommandPlan])


def read_plans(instance: dg.DagsterInstance) -> dict[str, CommandPlan]:
    """The valid plans of all commands."""
    text = instance.daemon_cursor_storage.get_cursor_values({_CURSOR}).get(_CURSOR)
    plans = _PLANS.validate_json(text) if text else {}
    return {name: plan for name, plan in plans.items() if plan.valid_until > time.time()}


@contextmanager
def announce_plan(instance: dg.DagsterInstance, keys: Iterable[dg.AssetKey]) -> Iterator[None]:
    """Announce that this process materializes these assets in the context."""
    name = str(uuid.uuid4())
    asset_names = sorted(key.to_user_string() for key in keys)
    is_done = Event()

    def write(seconds: float) -> None:
        plans = read_plans(instance) | {name: CommandPlan(keys=asset_names, valid_until=time.time() + seconds)}
        instance.daemon_cursor_storage.set_cursor_values({_CURSOR: _PLANS.dump_json(plans).decode()})

    def renew() -> None:
        while not is_done.wait(SECONDS_BETWEEN_RENEWALS):
            write(SECONDS_VALID)

    write(SECONDS_VALID)
    renewing = Thread(target=renew, daemon=True)
    renewing.start()
    try:
        yield
    finally:
        is_done.set()
        renewing.join()
        write(0)
