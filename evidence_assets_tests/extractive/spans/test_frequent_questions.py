"""The text below a question of a FAQ."""

import pytest

from evidence_assets.extractive.spans.frequent_questions import find_text_below
from evidence_assets.reasoning.tasks import EvidenceItem

FAQ = "**Can I renew a card?**\nYes, twice.\n\n## What does a lost card cost?\nA new one costs 3 euros.\n\n"
FAQ += "## Can I pay after the tour?\nYes, at the desk.\n\n# Shop\n## When is it open?\nAt ten.\n\n"
FAQ += "# Pool\n## When is it open?\nAt six."


def cut(*spans: tuple[int, int]) -> list[EvidenceItem]:
    return [EvidenceItem(f"{a}", "sentence", "faq", f"{a}:{b}", FAQ[a:b]) for a, b in spans]


ROWS = cut((0, 35), (37, len(FAQ)))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Can I renew a card?", "Yes, twice."),
        ("can I renew my card", "Yes, twice."),
        ("What does a lost card cost?", "A new one costs 3 euros."),
        ("When does a lost card cost?", None),
        ("Can I renew a book?", None),
        ("Can I not renew my card?", None),
        ("Can I pay before the tour?", None),
        ("Can I pay after a tour?", "Yes, at the desk."),
        ("When is it open?", None),
    ],
)
def test_same_question(question: str, expected: str | None) -> None:
    below = find_text_below(question, ROWS)
    assert (below.text if below else None) == expected


def test_rows_below_must_adjoin() -> None:
    start = FAQ.index("##")
    end = FAQ.index("A new one")
    question = "What does a lost card cost?"
    assert find_text_below(question, cut((start, end - 1))) is None
    below = find_text_below(question, cut((start, end - 1), (end, len(FAQ))))
    assert below and below.evidence_ids == (str(start), str(end))
