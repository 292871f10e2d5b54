"""The stance of evidence on an option."""

from __future__ import annotations

import pytest

from evidence_assets.systems.uscrake.hypotheses import classify_stance

PRESSURE = "Which drug is used to treat high blood pressure?"


@pytest.mark.parametrize(
    ("option", "kind", "text", "expected"),
    [
        ("lisinopril", "chunk", "Lisinopril treats high blood pressure.", "entails"),
        ("lisinopril", "chunk", "Lisinopril is a drug.", "mentions"),  # the kind of thing asked for is no topic
        ("lisinopril", "chunk", "Lisinopril is never used for high blood pressure.", "contradicts"),
        ("lisinopril", "chunk", "It is not for high blood pressure. Lisinopril treats high blood pressure.", "entails"),
        ("beta blocker", "chunk", "A blocker treats high blood pressure.", "mentions"),  # half of the option
        ("beta blocker", "triple", "beta blocker may treat high blood pressure", "entails"),
    ],
)
def test_a_statement_must_name_the_option_and_what_is_asked(option: str, kind: str, text: str, expected: str) -> None:
    assert classify_stance(PRESSURE, option, kind, text) == expected
