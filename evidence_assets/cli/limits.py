"""``evidence limits``: the profile's concurrency limits, given to the Dagster instance."""

from __future__ import annotations

import typer

from evidence_assets.cli.console import out, sentences

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
def limits() -> None:
    """Let Dagster run as many steps at once as the profile allows, by pool: gpu, llm. `make ui` does so at its start."""
    with sentences():
        from dagster import DagsterInstance

        from evidence_assets.assets.placing import set_limits
        from evidence_assets.cli.demo import dagster_home

        dagster_home()
        with DagsterInstance.get() as instance:
            found = set_limits(instance)
    out.print(", ".join(f"{pool}: {limit}" for pool, limit in found.items()))
