"""Yes and no from one statement."""

import pytest

from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.extractive.spans.yes_no import find_verdict
from evidence_assets.reasoning.tasks import EvidenceItem


def judge(question: str, *texts: str) -> str | None:
    """The verdict on texts; "stated" if a statement has all words without settling the question."""
    items = [EvidenceItem(str(n), "sentence", "d", f"{1000 * n + 1}:", text) for n, text in enumerate(texts)]
    verdict = find_verdict(question, split_passages(items))
    return None if verdict is None else verdict.answer or "stated"


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("Can I put hot ashes in the bin?", "Never put hot ashes in the bin.", "no"),
        ("Are dogs allowed in the garden?", "Dogs are allowed in the garden.", "yes"),
        ("Are dogs allowed in the garden?", "Dogs are forbidden in the garden.", "no"),
        ("Are dogs forbidden in the garden?", "Dogs are forbidden in the garden.", "yes"),
        ("Was the old barn sold?", "The old barn was not sold.", "no"),
        ("Must visitors sign the book?", "Visitors need not sign the book.", "no"),
        ("Must visitors sign the book?", "Visitors must sign the book.", "yes"),
        ("Is the museum open on Mondays?", "The museum is closed on Mondays.", "no"),
        ("Is the museum closed on Mondays?", "The museum is open on Mondays.", "no"),
        ("Is the museum open on Mondays?", "The museum is not closed on Mondays.", "yes"),
    ],
)
def test_polarity_decides(question: str, text: str, answer: str) -> None:
    assert judge(question, text) == answer


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Can I store wood in the shed?", "Wood may only be stored in the shed from October."),
        ("Are books renewed twice?", "Films are not renewed twice, but books are renewed without limit."),
        ("May visitors sign the book?", "Visitors need not sign the book."),
        ("Was the barn sold in May?", "The barn might be sold in May."),
        ("Must visitors sign the book?", "Visitors sign the book."),
    ],
)
def test_what_does_not_settle_it_is_stated(question: str, text: str) -> None:
    assert judge(question, text) == "stated"


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Are cats allowed in the garden?", "Dogs are allowed in the garden."),
        ("Did Anna pay Paul in March?", "In March Paul sued the firm of Anna."),
        ("Can I eat it here?", "You can eat here."),
    ],
)
def test_other_content_is_no_answer(question: str, text: str) -> None:
    assert judge(question, text) is None


def test_contradicting_statements_are_no_answer() -> None:
    assert (
        judge("Is the shop open on Monday?", "The shop is open on Monday.", "The shop is not open on Monday.") is None
    )
