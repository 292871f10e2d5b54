"""``python -m tools.sample_world [OUT]`` writes the files that the package ships."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.sample_world.question_forms import write_question_forms
from tools.sample_world.render import render

SHIPPED = Path(__file__).parents[2] / "evidence_assets" / "sample"


def main() -> None:
    """Write both sizes of the sample world and the forms of its questions."""
    parser = argparse.ArgumentParser(prog="python -m tools.sample_world", description="Write the sample world.")
    parser.add_argument("out", type=Path, nargs="?", default=SHIPPED, help="the folder that the package ships")
    out: Path = parser.parse_args().out
    render(out / "full", "full")
    render(out / "small", "small")
    write_question_forms(out / "question_forms.yaml")


if __name__ == "__main__":
    main()
