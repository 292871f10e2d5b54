"""What the shared hooks promise."""

from contextvars import ContextVar

import pytest

from evidence_assets.benchmarks.declared_benchmarks import benchmarks

VARIABLE = ContextVar("VARIABLE", default="as before")


def test_a_context_variable_is_set_and_left() -> None:
    VARIABLE.set("left")
    assert VARIABLE.get() == "left"


def test_no_later_test_sees_it() -> None:
    assert VARIABLE.get() == "as before"


def test_another_profile_has_other_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmarks.cache_clear()
    monkeypatch.setenv("EVIDENCE_PROFILE", "paper")
    assert "hotpotqa" in benchmarks()


def test_later_tests_have_the_benchmarks_of_their_profile() -> None:
    assert "hotpotqa" not in benchmarks()
