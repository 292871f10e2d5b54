"""``python -m tools.campaign kill | fuzz``: see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description="Campaigns of faults.")
    commands = parser.add_subparsers(dest="campaign", required=True)
    kill = commands.add_parser("kill", help="kill processes that make the lake, and compare what is made after")
    kill.add_argument("--rounds", type=int, default=20)
    kill.add_argument(
        "--only", nargs="*", default=[], help="kinds of rounds: empty, removed, seed, document, question, table"
    )
    fuzz = commands.add_parser("fuzz", help="corrupted inputs to every reader")
    fuzz.add_argument("--inputs", type=int, default=1000)
    fuzz.add_argument("--only", default="", help="readers whose name contains this")
    for command in (kill, fuzz):
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--folder", type=Path, help="keeps worlds and inputs with defects here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        if options.campaign == "kill":
            from tools.campaign import kill as kills

            return int(bool(kills.campaign(folder, options.rounds, options.seed, options.only)))
        from tools.campaign import fuzz as inputs

        return int(bool(inputs.campaign(folder, options.inputs, options.seed, options.only)))


if __name__ == "__main__":
    sys.exit(main())
