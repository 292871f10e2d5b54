"""Score recorded answers of other models and print their accuracies next to those stated beside the recording.

    python bench/measure_replay.py FOLDER

FOLDER holds ``index.tsv`` and the recorded files; an ``ATTRIBUTION.md`` in it states the accuracies as
``MODEL MODE N, MODE N; MODEL …``.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from evidence_assets.experiment.replay import accuracies, read_recorded, score


def stated(folder: Path) -> dict[tuple[str, str], int]:
    """Right answers by model and mode as the recording's description states them."""
    text = (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.count("cot ") > 1)
    found: dict[tuple[str, str], int] = {}
    for part in line.partition("(")[0].split(";"):
        model, counts = part.split(maxsplit=1)
        found |= {(model, mode): int(count) for mode, count in re.findall(r"(\w+) (\d+)", counts)}
    return found


def main(folder: Path) -> None:
    recorded = list(read_recorded(folder))
    first, strict = (list(score(recorded, several)) for several in ("first", "refuse"))
    beside, by_first, by_strict = stated(folder), accuracies(first), accuracies(strict)
    print(f"{'model':<20} {'mode':<8} {'stated':>7} {'first of several':>17} {'one only':>9} {'failed':>7} {'of':>4}")
    for (model, mode), (right, _, count) in by_first.items():
        alone, failed, _ = by_strict[model, mode]
        print(f"{model:<20} {mode:<8} {beside[model, mode]:>7} {right:>17} {alone:>9} {failed:>7} {count:>4}")
        assert right == beside[model, mode], f"{model} {mode}: {right} right, stated {beside[model, mode]}"
    print("\nUnusable replies (one only):")
    for reason, count in Counter(item.error for item in strict if item.error).most_common():
        print(f"{count:>4}  {reason}")
    for one, other in zip(first, strict, strict=True):
        if one.correct != other.correct:
            print(f"\nRight by its first letter only: {one.recorded.path} ({other.error})")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
