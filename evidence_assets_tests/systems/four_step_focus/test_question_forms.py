"""Questions written in known forms are read back exactly; others are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.four_step_focus.question_forms import Form, FormParser
from evidence_assets.systems.four_step_focus.triplets import ANY_TYPE, Term, Triplet, TripletQuery

PARSER = FormParser(
    [
        Form("a medicine prescribed for {}", "treats", "head"),
        Form("Which medicine would fight {}?", "treats", "head"),
        Form("the illness that is relieved by {}", "treats", "tail"),
        Form("a typical sign of {}", "shows", "head"),
        Form("the illness suggested by {}", "shows", "tail"),
        Form("something that is kept in {}", "in", "head"),
    ],
    ["drug", "disease"],
)


def variable(number: int, node_type: str = ANY_TYPE) -> Term:
    return Term(f"?x{number}", node_type)


def test_one_description() -> None:
    query = PARSER.parse("Name a medicine prescribed for gout.")
    assert query == TripletQuery((Triplet(variable(0), "treats", Term("gout")),), variable(0))
    assert PARSER.parse("Which medicine would fight the gout?") == query
    assert PARSER.parse("Find something that is kept in a salt cellar").triplets[0].tail == Term("salt cellar")


def test_nested_and_joined_descriptions() -> None:
    query = PARSER.parse(
        "Which drug is at once a medicine prescribed for the illness suggested by salt and pepper, a medicine "
        "prescribed for gout and a typical sign of the illness that is relieved by rest?"
    )
    drug = variable(0, "drug")
    assert query.target == drug
    assert query.triplets == (
        Triplet(Term("salt and pepper"), "shows", variable(1)),
        Triplet(drug, "treats", variable(1)),
        Triplet(drug, "treats", Term("gout")),
        Triplet(Term("rest"), "treats", variable(2)),
        Triplet(drug, "shows", variable(2)),
    )


NAMES = st.lists(st.sampled_from(["gout", "salt", "red eye", "oil and vinegar"]), min_size=2, max_size=3, unique=True)


@given(NAMES, st.lists(st.integers(0, 3), min_size=2, max_size=3))
def test_what_is_written_is_read_back(names: list[str], kinds: list[int]) -> None:
    phrases, expected = [], []
    hidden = 1
    for name, kind in zip(names, kinds, strict=False):
        if kind == 0:
            phrases.append(f"a medicine prescribed for {name}")
            expected.append(Triplet(variable(0, "drug"), "treats", Term(name)))
        elif kind == 1:
            phrases.append(f"the illness suggested by {name}")
            expected.append(Triplet(Term(name), "shows", variable(0, "drug")))
        else:
            phrases.append(f"a medicine prescribed for the illness suggested by {name}")
            expected.append(Triplet(Term(name), "shows", variable(hidden)))
            expected.append(Triplet(variable(0, "drug"), "treats", variable(hidden)))
            hidden += 1
    text = f"Which drug is at once {', '.join(phrases[:-1])} and {phrases[-1]}?"
    assert PARSER.parse(text).triplets == tuple(expected)


@pytest.mark.parametrize("question", ["", "?", "What is love?", "gout", "Which drug is at once", "Was ist Gicht?"])
def test_other_questions_are_refused(question: str) -> None:
    with pytest.raises(UnusableReply, match="none of the known forms"):
        PARSER.parse(question)
    assert isinstance(PARSER.read([question])[0][0], Failure)


def test_without_forms_each_question_is_refused_with_what_to_do() -> None:
    with pytest.raises(UnusableReply, match="name a language model"):
        FormParser(()).parse("Which drug may treat gout?")
