"""What evidence says of an option, by the words of single statements."""

from __future__ import annotations

import pytest

from evidence_assets.systems.uscrake.evidence_judges import stance

QUESTION = "Which drug is used to treat high blood pressure?"


@pytest.mark.parametrize(
    ("option", "kind", "text", "expected"),
    [
        ("lisinopril", "chunk", "Lisinopril treats high blood pressure.", "entails"),
        ("lisinopril", "chunk", "Lisinopril is a drug.", "mentions"),  # the kind of thing asked for is no topic
        ("lisinopril", "chunk", "Lisinopril is never used for high blood pressure.", "contradicts"),
        ("lisinopril", "chunk", "It is not for high blood pressure. Lisinopril treats high blood pressure.", "entails"),
        ("lisinopril", "chunk", "Lisinopril is old. High blood pressure is treated by others.", "mentions"),
        ("beta blocker", "chunk", "A blocker treats high blood pressure.", "mentions"),  # half of the option
        ("beta blocker", "triple", "beta blocker may treat high blood pressure", "entails"),
        ("", "chunk", "High blood pressure is treated.", "mentions"),
        ("lisinopril", "chunk", "", "mentions"),
    ],
)
def test_a_statement_must_name_the_option_and_what_is_asked(option: str, kind: str, text: str, expected: str) -> None:
    assert stance(QUESTION, option, kind, text) == expected
