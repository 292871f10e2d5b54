"""``python -m tools.campaign kill | fuzz | load | crowd``: see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description="Campaigns of faults.")
    commands = parser.add_subparsers(dest="campaign", required=True)
    kill = commands.add_parser("kill", help="kill processes that make the lake, and compare what is made after")
    kill.add_argument("--rounds", type=int, default=20)
    kill.add_argument(
        "--only", nargs="*", default=[], help="kinds of rounds: empty, removed, seed, document, question, table"
    )
    fuzz = commands.add_parser("fuzz", help="spoilt inputs to every reader")
    fuzz.add_argument("--inputs", type=int, default=1000)
    fuzz.add_argument("--only", default="", help="readers whose name holds this")
    load = commands.add_parser("load", help="readers beside writers, and Dagster's records at 100,000 events")
    load.add_argument("--minutes", type=float, default=1)
    load.add_argument("--readers", type=int, default=50)
    load.add_argument("--events", type=int, default=100_000)
    crowd = commands.add_parser("crowd", help="two demos and two backfills at once on one lake")
    for command in (kill, fuzz, load, crowd):
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--folder", type=Path, help="where worlds lie, and those with defects stay")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        if options.campaign == "kill":
            from tools.campaign import kill as kills

            return int(bool(kills.campaign(folder, options.rounds, options.seed, options.only)))
        if options.campaign == "load":
            from tools.campaign import load as readers

            return int(bool(readers.campaign(folder, options.minutes, options.readers, options.events, options.seed)))
        if options.campaign == "crowd":
            from tools.campaign import crowd as writers

            return int(bool(writers.campaign(folder)))
        from tools.campaign import fuzz as inputs

        return int(bool(inputs.campaign(folder, options.inputs, options.seed, options.only)))


if __name__ == "__main__":
    sys.exit(main())
