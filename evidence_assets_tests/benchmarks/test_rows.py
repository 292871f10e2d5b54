"""Which questions count as asking for the exception: what the benchmark says comes before what the words say."""

from __future__ import annotations

import pytest

from evidence_assets.benchmarks.records import Question, Task, question_rows

NEGATED = "Which of these is NOT a fish?"


@pytest.mark.parametrize(
    ("text", "stated", "task", "expected"),
    [
        (NEGATED, None, "mcqa", True),
        (NEGATED, False, "mcqa", False),
        ("Which is a fish?", True, "mcqa", True),
        ("Which is a fish?", None, "mcqa", False),
        (NEGATED, None, "table_qa", True),
        (NEGATED, None, "kgqa", False),
    ],
)
def test_negated(text: str, stated: bool | None, task: Task, expected: bool) -> None:
    question = Question("b", "1", "test", task, text, ("cod", "cat") if task != "kgqa" else (), negated=stated)
    (row,) = question_rows([question], "test", 0, 1)
    assert row["negated"] is expected
