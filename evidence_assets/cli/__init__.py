"""The command line: ``evidence demo | run | ask | explore | query | trace | impact | …``.

This module imports no other, so that ``evidence --help`` starts at once; a command imports its module when it is used.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
import warnings
from importlib import import_module
from typing import Any

import typer
import typer.core

# Hide Dagster's beta warnings.
warnings.filterwarnings("ignore", message=".*is currently in (beta|preview)")

STARTED = time.monotonic()
"""When this process began to load the command line."""
GC_THRESHOLD = 100_000
"""New objects after which a process collects garbage; by default that takes a fifth of its start."""
COMMANDS = {
    "init": ("project", "Create a project with a small corpus and a benchmark."),
    "demo": ("materialize", "Materialize all assets and show example answers."),
    "run": ("materialize", "Materialize everything that one benchmark's scores need, or one graph."),
    "ask": ("ask", "Answer a question from documents, tables and a graph."),
    "explore": ("queries", "Browse answers, evidence and sources, and ask, in a web browser."),
    "add": ("experiments", "Add your own data to the lake."),
    "train": ("materialize", "Train a model on graded questions."),
    "query": ("queries", "Query the lake with SQL."),
    "trace": ("queries", "Trace a row back to its evidence and sources."),
    "impact": ("queries", "List the answers and rows that depend on a row or document."),
    "diff": ("queries", "List what changed between two runs: answers, and counts of other rows."),
    "card": ("experiments", "Show a prediction with its evidence."),
    "scoreboard": ("materialize", "Show the accuracy of every variant on every benchmark."),
    "measure": ("measure", "Measure variants on a benchmark, with paired differences."),
    "reproduce": ("reproduce", "List the papers' tables, or compare, plan or fill one table."),
    "variants": ("experiments", "List the variants: what they are, and when they are loaded."),
    "presets": ("experiments", "List the presets of published tables with their variants."),
    "prompts": ("prompts", "Show the prompts that a system sends to a language model."),
    "get": ("project", "Download the official files of a benchmark or graph."),
    "doctor": ("project", "Check the packages, models and devices that a profile needs."),
    "gc": ("project", "List or delete data of removed assets and killed runs."),
}
"""Module and help of every command, in the order of ``evidence --help``."""


class _LazyCommands(typer.core.TyperGroup):
    """Imports a command's module only when the command is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            # an unknown name needs all of them, for a suggestion
            names = [cmd_name] if cmd_name in COMMANDS else list(COMMANDS)
            for module in {COMMANDS[name][0] for name in names}:
                group = typer.main.get_group(import_module(f"{__name__}.{module}").commands)
                self.commands.update(group.commands)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


app = typer.Typer(
    cls=_LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Evidence-based reasoning as data assets: answer questions and trace the evidence.",
)


@app.callback()
def _group() -> None:
    """Make typer build a group although no command is registered yet."""


def main() -> None:
    """Entry point of the console script; SIGTERM ends a command as ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    gc.set_threshold(GC_THRESHOLD)
    try:
        app()
    except SystemExit as stop:
        if stop.code == 130 and sys.argv[1:2] != ["explore"]:  # Typer's exit status after a KeyboardInterrupt
            print("evidence: stopped; run the command again to continue: finished work is reused", file=sys.stderr)
        raise
    except BrokenPipeError:
        # The reader closed the pipe, as `| head` does.
        sys.stderr.close()
        raise SystemExit(0) from None
