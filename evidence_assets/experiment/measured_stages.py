"""What stages took where they were measured, for plans of what a lake has not made; nothing is reckoned from it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def stated() -> dict[str, Any]:
    """The figures: a machine, and by place, such as ``corpus`` or ``knowledge/stark_mag``, what was measured by which command."""
    figures: dict[str, Any] = yaml.safe_load((files(__package__) / "measured_stages.yaml").read_text(encoding="utf-8"))
    return figures


def measured(place: str) -> str:
    """A sentence on what the stages of a place took elsewhere; empty where nobody measured them."""
    if place not in stated():
        return ""
    of = stated()[place]
    told = ", ".join(f"{name} {stage['seconds']:,} s" for name, stage in of["stages"].items())
    memory = max(stage["memory"] for stage in of["stages"].values())
    besides = f"; {of['besides']}" if "besides" in of else ""
    return (f"measured elsewhere ({stated()['machine']}; `{of['command']}`) for {of['of']}: {told}, "
            f"at most {memory:,} MiB of memory{besides}")  # fmt: skip
