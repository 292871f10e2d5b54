"""Work that is kept while a partition is made: after a kill the rest alone is done, and the files are the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from evidence_assets.experiment.evidence.selection import Parent, Question, SelectedEvidence, evidence_rows
from evidence_assets.experiment.stage import StageContext
from evidence_assets.lake.store import Lake

QUESTIONS = [Question(f"q{i:03d}", "b", "mcqa", "Which?", ("x", "y")) for i in range(60)]
ASSET, PARTITION = "evidence/mcqa/slow", "b|0"


class Slow:
    """Takes its time, and writes down what it was asked."""

    def __init__(self, seen: Path, seconds: float, version: str = "1") -> None:
        self._seen, self._seconds, self.version = seen, seconds, version

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        for question in questions:
            with self._seen.open("a") as file:
                file.write(f"{question.question_id}\n")
            time.sleep(self._seconds)
            number = int(question.question_id[1:])
            parents = (Parent("chunk", f"c{number}", self.version),)
            yield [SelectedEvidence(label, "chunk", parents, "", f"text {number}", 1 / (number + 1)) for label in "AB"]


def make(lake: Lake, selector: Slow) -> tuple[int, int]:
    """Make the partition; how many rows were taken over, and how many questions selected."""
    step = StageContext(lake, "evidence", ASSET, PARTITION)
    made = evidence_rows("slow", selector, QUESTIONS, step.previous_output, step.progress("questions"))
    assert made.lineage is not None
    lake.write(ASSET, PARTITION, {"evidence": made.rows, "lineage_edges": made.lineage})
    return made.reused or 0, made.metadata["questions_selected_anew"]


def contents(lake: Lake) -> list[bytes]:
    return [lake.path(table, ASSET, PARTITION).read_bytes() for table in ("evidence", "lineage_edges")]


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from evidence_assets.lake import blocks
from evidence_assets_tests.experiment.test_blocks import *
blocks.BLOCK_SECONDS = 0.1
make(Lake(Path(sys.argv[1]) / "lake"), Slow(Path(sys.argv[1]) / "seen", 0.02))
"""


def test_a_killed_step_goes_on_from_its_last_block_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    lake, seen = Lake.create(tmp_path / "lake"), tmp_path / "seen"
    script = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parents[2])]
    process = subprocess.Popen(script)
    try:
        while not (seen.exists() and len(seen.read_text().split()) > 30):
            assert process.poll() is None
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = seen.read_text().split()
    assert not lake.path("evidence", ASSET, PARTITION).exists()
    reused, selected = make(lake, Slow(seen, 0))
    again = seen.read_text().split()[len(before) :]
    assert selected == len(again) and reused == 2 * (len(QUESTIONS) - selected)
    lost = set(again) & set(before)
    assert 0 < len(lost) < 20 < len(before), "what was selected since the last block, and no more"
    assert not lake.blocks_folder(ASSET, PARTITION).exists()
    other = Lake.create(tmp_path / "other")
    assert make(other, Slow(tmp_path / "unread", 0)) == (0, len(QUESTIONS))
    assert contents(lake) == contents(other)
