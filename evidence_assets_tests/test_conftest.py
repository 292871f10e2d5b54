"""What the shared hooks promise."""

from contextvars import ContextVar

VARIABLE = ContextVar("VARIABLE", default="as before")


def test_a_context_variable_is_set_and_left() -> None:
    VARIABLE.set("left")
    assert VARIABLE.get() == "left"


def test_no_later_test_sees_it() -> None:
    assert VARIABLE.get() == "as before"
