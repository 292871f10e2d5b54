"""From picks to rows of evidence: the same in one piece and in blocks, made anew and taken over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from evidence_assets.experiment import rows as row_writers
from evidence_assets.experiment.evidence.selection import Parent, Question, SelectedEvidence, evidence_rows
from evidence_assets.experiment.stage import PreviousOutput
from evidence_assets.lake.rows import prepare_rows
from evidence_assets_tests.lake_rows import as_stored

QUESTIONS = [Question(f"q{i}", "b", "table_qa", "Which?", ("x", "y")) for i in range(5)]


class Picks:
    """Gives each question as many picks as its number, one at a time."""

    def __init__(self, version: str = "1") -> None:
        self.version, self.asked = version, list[str]()

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        for question in questions:
            self.asked.append(question.question_id)
            parent = Parent("table", "t", "v")
            yield [
                SelectedEvidence("AB"[k % 2], "cell", (parent,), f"r{k}c0", f"cell {k}", 1.0 / (k + 1), None)
                for k in range(int(question.question_id[1:]))
            ]


def test_rows_are_the_same_in_blocks_and_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evidence_rows("picks", Picks(), QUESTIONS)
    assert (whole.rows.num_rows, whole.lineage.num_rows, whole.reused) == (10, 20, 0)
    monkeypatch.setattr(row_writers, "ROWS_PER_TYPED_BLOCK", 3)
    blocks = evidence_rows("picks", Picks(), QUESTIONS)
    assert blocks.rows.column("locator").num_chunks > 1
    for table in ("rows", "lineage"):
        name = "evidence" if table == "rows" else "lineage_edges"
        assert prepare_rows(name, getattr(blocks, table)).equals(prepare_rows(name, getattr(whole, table)))
    assert [row["rank"] for row in whole.rows.to_pylist() if row["question_id"] == "q4"] == [1, 1, 2, 2]


def test_only_what_has_changed_is_selected_anew() -> None:
    first = evidence_rows("picks", Picks(), QUESTIONS[:4])
    before = PreviousOutput(as_stored("evidence", first.rows), as_stored("lineage_edges", first.lineage))
    again = Picks()
    made = evidence_rows("picks", again, QUESTIONS, before)
    assert again.asked == ["q0", "q4"], "a question without evidence leaves nothing to take over"
    assert (made.reused, made.rows.num_rows, made.lineage.num_rows) == (6, 10, 20)
    changed = Picks("2")
    assert evidence_rows("picks", changed, QUESTIONS, before).reused == 0 and len(changed.asked) == 5
