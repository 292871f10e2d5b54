"""Evidence rows: independent of block size, and reused when unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from evidence_assets.experiment import rows as row_writers
from evidence_assets.experiment.evidence.selection import Parent, Question, SelectedEvidence, evidence_rows
from evidence_assets.experiment.stage import PreviousOutput
from evidence_assets.lake.rows import prepare_rows
from evidence_assets_tests.lake_rows import as_stored

QUESTIONS = [Question(f"q{i}", "b", "table_qa", "Which?", ("x", "y")) for i in range(5)]


class NumberSelector:
    """Selects as many rows for a question as its number."""

    def __init__(self, version: str = "1") -> None:
        self.version, self.question_ids = version, list[str]()

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        for question in questions:
            self.question_ids.append(question.question_id)
            parent = Parent("table", "t", "v")
            yield [
                SelectedEvidence("AB"[k % 2], "cell", (parent,), f"r{k}c0", f"cell {k}", 1.0 / (k + 1), None)
                for k in range(int(question.question_id[1:]))
            ]


def test_rows_are_independent_of_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    single = evidence_rows("picks", NumberSelector(), QUESTIONS)
    assert (single.rows.num_rows, single.lineage.num_rows, single.reused) == (10, 20, 0)
    monkeypatch.setattr(row_writers, "ROWS_PER_TYPED_BLOCK", 3)
    blocks = evidence_rows("picks", NumberSelector(), QUESTIONS)
    assert blocks.rows.column("locator").num_chunks > 1
    for table in ("rows", "lineage"):
        name = "evidence" if table == "rows" else "lineage_edges"
        assert prepare_rows(name, getattr(blocks, table)).equals(prepare_rows(name, getattr(single, table)))
    assert [row["rank"] for row in single.rows.to_pylist() if row["question_id"] == "q4"] == [1, 1, 2, 2]


def test_only_changed_questions_are_selected_again() -> None:
    first = evidence_rows("picks", NumberSelector(), QUESTIONS[:4])
    previous = PreviousOutput(as_stored("evidence", first.rows), as_stored("lineage_edges", first.lineage))
    selector = NumberSelector()
    output = evidence_rows("picks", selector, QUESTIONS, previous)
    assert selector.question_ids == ["q0", "q4"], "a question without evidence has no rows to reuse"
    assert (output.reused, output.rows.num_rows, output.lineage.num_rows) == (6, 10, 20)
    changed = NumberSelector("2")
    assert evidence_rows("picks", changed, QUESTIONS, previous).reused == 0 and len(changed.question_ids) == 5
