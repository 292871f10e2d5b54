"""Evidence rows: only changed questions are selected again, and after a kill only the remaining ones."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence
from evidence_assets.experiment.evidence_rows import evidence_rows
from evidence_assets.experiment.stage import StageContext
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.questions import Question

QUESTIONS = [Question(f"q{i:03d}", "b", "mcqa", "Which?", ("x", "y")) for i in range(60)]
ASSET, PARTITION = "evidence/mcqa/slow", "b|0"


class SlowSelector:
    """Sleeps for each question and logs its id."""

    def __init__(self, log: Path, seconds: float, version: str = "1") -> None:
        self._log, self._seconds, self.version = log, seconds, version

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        for question in questions:
            with self._log.open("a") as file:
                file.write(f"{question.question_id}\n")
            time.sleep(self._seconds)
            number = int(question.question_id[1:])
            parents = (Parent("chunk", f"c{number}", self.version),)
            yield [
                SelectedEvidence(label, "chunk", parents, str(n), f"text {number}", 1 / (number + 1))
                for n, label in enumerate("ABA")
            ]


def run(lake: Lake, selector: SlowSelector, questions: Sequence[Question] = QUESTIONS) -> tuple[int, int]:
    """Materialize the partition; return the numbers of reused rows and selected questions."""
    step = StageContext(lake, "evidence", ASSET, PARTITION)
    output = evidence_rows("slow", selector, questions, step.previous_output, step.progress("questions"))
    assert output.lineage is not None
    lake.write(ASSET, PARTITION, {"evidence": output.rows, "lineage_edges": output.lineage})
    return output.reused or 0, output.metadata["questions_selected"]


def contents(lake: Lake) -> list[bytes]:
    return [lake.path(table, ASSET, PARTITION).read_bytes() for table in ("evidence", "lineage_edges")]


KILLED_SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from evidence_assets.lake import blocks
from evidence_assets_tests.experiment.test_blocks import *
blocks.BLOCK_SECONDS = 0.1
run(Lake(Path(sys.argv[1]) / "lake"), SlowSelector(Path(sys.argv[1]) / "log", 0.02))
"""


def test_only_changed_questions_are_selected_again(tmp_path: Path) -> None:
    lake, log = Lake.create(tmp_path / "lake"), tmp_path / "log"
    assert run(lake, SlowSelector(log, 0), QUESTIONS[:4]) == (0, 4)
    assert run(lake, SlowSelector(log, 0), QUESTIONS[:6]) == (12, 2)
    rows = lake.read("evidence", ASSET).filter(pl.col("question_id") == "q005").sort("option", "rank")
    assert rows.select("option", "rank", "locator").rows() == [("A", 1, "0"), ("A", 2, "2"), ("B", 1, "1")]
    assert lake.read("lineage_edges", ASSET).height == 6 * 3 * 2, "of each row to its question and chunk"
    assert run(lake, SlowSelector(log, 0, "2"), QUESTIONS[:6]) == (0, 6)


def test_a_killed_step_resumes_from_its_last_checkpoint_with_identical_files(tmp_path: Path) -> None:
    lake, log = Lake.create(tmp_path / "lake"), tmp_path / "log"
    script = [sys.executable, "-c", KILLED_SCRIPT, str(tmp_path), str(Path(__file__).parents[2])]
    process = subprocess.Popen(script)
    try:
        while not (log.exists() and len(log.read_text().split()) > 30):
            assert process.poll() is None
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = log.read_text().split()
    assert not lake.path("evidence", ASSET, PARTITION).exists()
    reused, selected = run(lake, SlowSelector(log, 0))
    selected_ids = log.read_text().split()[len(before) :]
    assert selected == len(selected_ids) and reused == 3 * (len(QUESTIONS) - selected)
    repeated = set(selected_ids) & set(before)
    assert 0 < len(repeated) < 20 < len(before), "only questions since the last checkpoint are repeated"
    assert not lake.blocks_folder(ASSET, PARTITION).exists()
    other = Lake.create(tmp_path / "other")
    assert run(other, SlowSelector(tmp_path / "unread", 0)) == (0, len(QUESTIONS))
    assert contents(lake) == contents(other)
