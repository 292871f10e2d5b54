"""``python -m tools.campaign kill | fuzz | load``: see the package."""

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
    kill.add_argument("--everything", action="store_true", help="all assets of the small sample, not one of each kind")
    for command in (kill,):
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--folder", type=Path, help="where worlds lie, and those with defects stay")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        from tools.campaign.kill import campaign

        return int(bool(campaign(folder, options.rounds, options.seed, everything=options.everything)))


if __name__ == "__main__":
    sys.exit(main())
