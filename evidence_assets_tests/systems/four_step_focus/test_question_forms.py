"""Questions in declared forms are parsed exactly; others are rejected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.four_step_focus.question_forms import Form, FormParser
from evidence_assets.systems.four_step_focus.triplets import ANY_TYPE, Term, Triplet

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


NAMES = st.lists(st.sampled_from(["gout", "salt", "red eye", "oil and vinegar"]), min_size=2, max_size=3, unique=True)


@given(NAMES, st.lists(st.integers(0, 3), min_size=2, max_size=3))
def test_questions_in_declared_forms_are_parsed_exactly(names: list[str], patterns: list[int]) -> None:
    phrases, expected = [], []
    n_variables = 1
    for name, pattern in zip(names, patterns, strict=False):
        if pattern == 0:
            phrases.append(f"a medicine prescribed for {name}")
            expected.append(Triplet(variable(0, "drug"), "treats", Term(name)))
        elif pattern == 1:
            phrases.append(f"the illness suggested by {name}")
            expected.append(Triplet(Term(name), "shows", variable(0, "drug")))
        else:
            phrases.append(f"a medicine prescribed for the illness suggested by {name}")
            expected.append(Triplet(Term(name), "shows", variable(n_variables)))
            expected.append(Triplet(variable(0, "drug"), "treats", variable(n_variables)))
            n_variables += 1
    text = f"Which drug is at once {', '.join(phrases[:-1])} and {phrases[-1]}?"
    assert PARSER.parse(text).triplets == tuple(expected)


@pytest.mark.parametrize("question", ["", "?", "What is love?", "gout", "Which drug is at once", "Was ist Gicht?"])
def test_other_questions_are_rejected(question: str) -> None:
    with pytest.raises(UnusableReply, match="none of the known forms"):
        PARSER.parse(question)
    assert isinstance(PARSER.read_triplets([question])[0][0], Failure)
