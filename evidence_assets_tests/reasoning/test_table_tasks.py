"""How a table is shown, and how strictly explanations of it are read."""

from __future__ import annotations

import pytest

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning.table_tasks import parse_explanation, table_text
from evidence_assets.reasoning.tables.view import TableView

VIEW = TableView.of("t", "Scores", ["Model", "F1"], [["A", "[BOLD] 1.0"], ["B", ""]])


def test_the_table_is_written_with_places() -> None:
    assert table_text(VIEW).splitlines() == [
        "Caption: Scores",
        "[r0c0] Model | [r0c1] F1",
        "[r1c0] A | [r1c1] 1.0",
        "[r2c0] B | [r2c1] (empty)",
    ]


def test_explanations_are_read_step_by_step() -> None:
    steps = parse_explanation('1. [r1c0] "A" has [r1c1] "1.0".\n2. So it leads,\nby far.', VIEW)
    assert [step.cells for step in steps] == [((1, 0), (1, 1)), ()]
    assert steps[0].quoted == ("A", "1.0")
    assert steps[1].text == "So it leads, by far."


@pytest.mark.parametrize("reply", ["", " \n ", "1. See [r9c0]."])
def test_unusable_explanations_are_refused(reply: str) -> None:
    with pytest.raises(UnusableReply):
        parse_explanation(reply, VIEW)
