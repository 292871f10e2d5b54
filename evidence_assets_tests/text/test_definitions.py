"""Questions for a definition, and the sentences that define a term."""

import pytest

from evidence_assets.extractive.short_answers import ExtractiveShortAnswers
from evidence_assets.models.registry import get_encoder
from evidence_assets.profiles import EncoderSettings
from evidence_assets.reasoning.short_answers import ShortTask
from evidence_assets.reasoning.tasks import STATED_STATUS, EvidenceItem
from evidence_assets.text.definitions import asked_term, defines
from evidence_assets_tests.reasoning.small_questions import make_question


@pytest.mark.parametrize(
    ("question", "term"),
    [
        ("What is gut stasis?", "gut stasis"),
        ("What's a fusee?", "fusee"),
        ("What are milk runs?", "milk runs"),
        ("What does chronometer mean?", "chronometer"),
        ("What is the price of milk?", ""),
        ("What is your name?", ""),
        ("What is served with the cake?", ""),
        ("What is allowed?", ""),
        ("What does Ana do?", ""),
        ("Who is Ana Lima?", ""),
    ],
)
def test_a_term_is_asked_for_without_an_article_that_names_one_thing(question: str, term: str) -> None:
    assert " ".join(word.text for word in asked_term(question)) == term


@pytest.mark.parametrize(
    ("sentence", "is_definition"),
    [
        ("A milk run is a round trip.", True),
        ("Milk runs are the trips of one lorry.", True),
        ("A milk run means that one lorry collects all.", True),
        ("- **Milk run**: a round trip to suppliers", True),
        ("**Milk run** – a round trip to suppliers", True),
        ("Milk run - Monday", False),
        ("A milk run is cheaper than a courier.", False),
        ("A milk run is planned each week.", False),
        ("The driver of a milk run is a woman.", False),
        ("Milk run: Monday", False),
        ("A milk run is not a race.", False),
    ],
)
def test_a_definition_starts_with_the_term_and_says_what_it_is(sentence: str, is_definition: bool) -> None:
    assert defines(sentence, asked_term("What is a milk run?")) == is_definition


def test_a_term_with_the_may_be_an_attribute_and_is_read_where_a_sentence_must_define_it() -> None:
    question = "What is the Parson?"
    assert not asked_term(question)
    term = asked_term(question, is_one_thing=True)
    assert defines("**The Parson** – the vessel in which the water is heated", term)
    assert not defines("The Parson was bought in 1990.", term)
    assert not asked_term("What is the price of milk?", is_one_thing=True)


def test_a_definition_is_stated_with_its_sentence() -> None:
    texts = ("A milk run is cheap. It starts at six.", "A milk run is a round trip on which a lorry collects goods.")
    items = tuple(EvidenceItem(f"e{n}", "chunk", "d", f"{n}00:", text) for n, text in enumerate(texts))
    solver = ExtractiveShortAnswers(get_encoder(EncoderSettings(name="embedded-minilm")))
    [answer] = solver.answer([ShortTask(make_question("What is a milk run?"), (), items)])
    assert (answer.status, answer.evidence_ids) == (STATED_STATUS, ("e1",))  # type: ignore[union-attr]
