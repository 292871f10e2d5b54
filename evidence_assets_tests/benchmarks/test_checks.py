"""What all questions must fulfil, ids that come twice, and which questions ask for the exception."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.benchmarks.records import build_question, unique_questions
from evidence_assets.lake.errors import BadInput

GOOD = {
    "benchmark": "b",
    "source_id": "q",
    "split": "test",
    "task": "mcqa",
    "text": "Which?",
    "options": ("x", "y"),
    "gold": ("A",),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_id": " "}, "source_id: is empty"),
        ({"text": "\n"}, "text: is empty"),
        ({"task": "quiz"}, "task: 'quiz' is not a task; use one of"),
        ({"options": ()}, "options: no option"),
        ({"options": ("x",)}, r"options: 1 option\(s\)"),
        ({"options": ("x", " ")}, r"options\[1\]: is empty"),
        ({"gold": ("C",)}, "gold: 'C' is not one of A, B"),
        ({"gold": ("A", "A")}, "gold: contains a label twice"),
        ({"task": "verification", "options": ("x", "x"), "gold": ()}, "options: contains two equal labels"),
        ({"task": "kgqa", "options": (), "gold": ("u", "u")}, "gold: contains an answer twice"),
        ({"task": "kgqa", "options": (), "gold": ("u",), "aliases": ((), ())}, "aliases: 2 lists of aliases for 1"),
    ],
)
def test_faulty_questions(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=f"f:3: {message}"):
        build_question(Row({}, Path("f"), 3), **(GOOD | changes))


def test_good_questions_pass_unchanged() -> None:
    row, output = build_question(Row({}, Path("f"), 3), **GOOD)
    assert list(unique_questions([(row, output)])) == [output] and output.labels == ("A", "B")
    with pytest.raises(BadInput, match="f:3: source_id: 'q' occurs twice"):
        list(unique_questions([(row, output), (row, output)]))
