"""Questions written in known forms are read back exactly; others are refused."""

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
