"""Necessity and sufficiency of citations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.experiment.answers.necessity import Case, Verdict, check_batch


def check(answer: Callable[[tuple[str, ...]], str], case: Case) -> Verdict:
    return check_batch(lambda requests: [answer(subset) for _, subset in requests], [case])[0]


def both_needed(ids: tuple[str, ...]) -> str:
    return "A" if {"a", "b"} <= set(ids) else "insufficient"


def test_redundant_citations_are_needed_together_but_not_each() -> None:
    verdict = check(lambda ids: "A" if ids else "insufficient", Case("q", ("a", "b"), ("a", "b", "a")))
    assert verdict == Verdict("q", True, True, {"a": False, "b": False})


def test_nothing_cited_gives_no_verdict_and_asks_nothing() -> None:
    def never(ids: tuple[str, ...]) -> str:
        raise AssertionError("asked although nothing is cited")

    assert check(never, Case("q", ("a",), ())) == Verdict("q", None, None, {})
    assert check_batch(lambda requests: [], []) == []


def test_bad_input_names_the_question() -> None:
    with pytest.raises(ValueError, match="question q: 'x' is cited but not among the evidence"):
        Case("q", ("a",), ("x",))
    with pytest.raises(ValueError, match="question q: an evidence id comes twice"):
        Case("q", ("a", "a"), ("a",))
    with pytest.raises(ValueError, match="got 1 answers"):
        check_batch(lambda requests: ["A"], [Case("q", ("a", "b"), ("a",))])


@given(
    st.sets(st.sampled_from("abcd")), st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.booleans()), max_size=4)
)
def test_many_at_once_equal_one_at_a_time(enough: set[str], drawn: list[tuple[set[str], bool]]) -> None:
    def answer(ids: tuple[str, ...]) -> str:
        return "A" if enough <= set(ids) else "insufficient"

    cases = [
        Case(f"q{i}", tuple("abcd") if whole else tuple(sorted(cited)), tuple(sorted(cited)))
        for i, (cited, whole) in enumerate(drawn)
    ]
    calls: list[Sequence[tuple[str, tuple[str, ...]]]] = []

    def answer_many(requests: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
        calls.append(requests)
        return [answer(ids) for _, ids in requests]

    assert check_batch(answer_many, cases) == [check(answer, case) for case in cases]
    assert len(calls) == 1 and len(set(calls[0])) == len(calls[0]), "one call, no request twice"
