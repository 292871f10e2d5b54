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
        ("Is the museum open on Mondays?", "On Mondays, the town museum is open.", "yes"),
        ("Is the barn bigger than the mill?", "The barn is bigger than the mill.", "yes"),
        ("Did Marta build the mill?", "The mill was built by Marta.", "yes"),
        ("Was the mill built by Marta?", "Marta built the mill.", "yes"),
        ("Do club members get free returns?", "Returns are free for members of the club.", "yes"),
        ("May I use a lamp in the cellar?", "In the cellar a lamp is allowed to use.", "yes"),
        ("Are dogs allowed?", "Dogs are not allowed.", "no"),
        ("Was Einstein born in Ulm?", "Albert Einstein was born in Ulm.", "yes"),
        ("Is Anna the director?", "Anna Holm is the director.", "yes"),
        ("Is the museum open on Mondays?", "The museum is open from Monday to Friday.", "yes"),
        ("Can I pay with a card at the desk?", "You can pay by card at the desk.", "yes"),
        ("Can penicillin treat infections?", "Penicillin is commonly used to treat infections.", "yes"),
        ("Is parking free?", "Parking is free.", "yes"),
        ("Is smoking permitted?", "Smoking is prohibited.", "no"),
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
        ("Is the barn bigger than the mill?", "The mill is bigger than the barn."),
        ("Do members pay more than guests?", "Guests pay more than members."),
        ("Can guests cook after ten?", "Guests can cook before ten."),
        ("Is the key under the mat?", "The key is above the mat."),
        ("Was the school founded by nuns?", "The school was founded for nuns."),
        ("Does the dog chase the cat?", "The cat chases the dog."),
        ("Did Anna help Ben?", "Anna was helped by Ben."),
        ("Is delivery free within the city?", "Delivery is possible within the city."),
        ("Did Anna marry Paul?", "Anna's sister married Paul."),
        ("Did the club win the cup?", "The club failed to win the cup."),
        ("Does the house have a cellar?", "The house used to have a cellar."),
        ("Has the roof been repaired?", "The roof will be repaired."),
        ("Can children use the sauna?", "Children under twelve cannot use the sauna."),
        ("Are dogs allowed in the garden?", "Small dogs are allowed in the garden."),
        ("Is the museum open on Mondays?", "The museum shop is open on Mondays."),
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
        ("Is the pool open in May?", "The pool may open in June."),
        ("Are dogs allowed?", "Small dogs are allowed."),
    ],
)
def test_other_content_is_no_answer(question: str, text: str) -> None:
    assert judge(question, text) is None


def test_contradicting_statements_are_no_answer() -> None:
    assert (
        judge("Is the shop open on Monday?", "The shop is open on Monday.", "The shop is not open on Monday.") is None
    )


def test_what_is_allowed_need_not_be_free() -> None:
    assert judge("Is parking free?", "Parking is allowed.") == "stated"
