"""Statements that have the words of a question and an answer of its kind."""

import pytest

from evidence_assets.extractive.spans.complete_statements import find_complete_statement
from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.reasoning.tasks import EvidenceItem


def statement(question: str, *sentences: str) -> str | None:
    """The statement among sentences of one chunk."""
    items = [EvidenceItem(f"e{n}", "sentence", "d", f"{n}:{n + 1}", text) for n, text in enumerate(sentences)]
    passage = find_complete_statement(question, split_passages(items))
    return None if passage is None else passage.text


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Who does most of the repairs?", "**Ada Holt** joined us in 2015 and does most of our repairs."),
        ("Who helped Tom yesterday?", "After lunch Ann helped Tom yesterday."),
        ("Who was the shed built by?", "The old shed was built with oak by Ida Roth."),
        ("Who took the minutes?", "Minutes taken by: Ruth Okafor"),
        ("When is the next meeting?", "Next meeting: 8 May."),
        ("Where does the sponsored run start?", "The sponsored run on 11 May starts at the old mill and leads to Ulm."),
        ("How much does the small boat weigh?", "Empty, the small boat weighs 35 kg."),
        ("How many hives survived the winter?", "Of all that we had, 12 hives survived the winter."),
        ("Why is the gate locked at night?", "The gate is locked at night because foxes came in."),
    ],
)
def test_a_sentence_with_all_words_and_the_kind_of_answer_is_stated(question: str, sentence: str) -> None:
    assert statement(question, "The yard is old.", sentence) == sentence


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Who helped Tom yesterday?", "Tom helped Ann yesterday."),
        ("Whom did Tom help yesterday?", "Ann helped Tom yesterday."),
        ("Who chairs the chess club?", "The chess club meets on Fridays in Ulm."),
        ("Who took the minutes?", "The repair takes 15 minutes."),
        ("Who was treasurer before Ida Roth?", "Our treasurer, Ida Roth, is leaving."),
        ("Who was head of the club before Ida Roth?", "The head of the club is Ida Roth, after Bo Lund had left."),
        ("Who is head of the club?", "The head of the club came from Ulm and spoke in Bergen."),
        ("When does the museum open?", "The museum is open, ten minutes on foot from Ulm."),
        ("In which year was the great storm?", "The cross was put up in 1953, after all survived the great storm."),
        ("Where does the retake take place?", "The retake is oral and takes place in the week of 23 March."),
        ("Where does the walk start?", "The walk starts on Wednesdays."),
        ("How many cats survived the winter?", "All cats left and 12 hives survived the winter."),
        ("How much does the small boat weigh?", "The small boat weighs little, and costs 35 euros."),
        ("Why is the gate locked at night?", "The gate is not locked at night because foxes came in."),
        ("What is the price of the boat?", "The price of the boat is high."),
        ("Who sings?", "In the hall Ada sings."),
    ],
)
def test_another_role_kind_segment_or_polarity_is_no_answer(question: str, sentence: str) -> None:
    assert statement(question, sentence) is None


def test_less_than_half_of_the_words_may_be_in_other_sentences() -> None:
    walk = "The sponsored walk starts at the mill."
    dogs = "Last year 94 dogs took part and we raised 2,310 pounds."
    assert statement("How many dogs took part in the walk last year?", walk, dogs) == dogs
    assert statement("How many dogs took part in the walk last year?", dogs) is None, "not the walk"
    assert statement("How many dogs took part in the walk of 2023?", walk, dogs) is None, "a number is in the sentence"
    assert statement("How many cats took part in the walk last year?", "All cats walk.", dogs) is None
    assert statement("When does the walk start?", "The walk is long.", "It starts on 8 May.") is None


def test_the_sentence_with_most_words_is_stated() -> None:
    workshop = "First aider, workshop: Joe Abara."
    office = "First aider, office: Priya Nandan."
    assert statement("Who is the first aider for the office?", workshop, office) == office
