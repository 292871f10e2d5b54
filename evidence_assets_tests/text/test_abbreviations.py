"""Short forms and their definitions: what is believed, what is not, and reading a text in another's forms."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.text.abbreviations import definitions, definitions_in, in_words_of, is_short_form, stands_for


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the transition zone (TZ) was scanned", {"TZ": "transition zone"}),
        ("TZ (transition zone) was scanned", {"TZ": "transition zone"}),
        ("TZ = transition zone; PZ = peripheral zone.", {"TZ": "transition zone", "PZ": "peripheral zone"}),
        ("WHO stands for World Health Organization", {"WHO": "World Health Organization"}),
        ("multiparametric magnetic resonance imaging (mpMRI)", {"mpMRI": "multiparametric magnetic resonance imaging"}),
        ("the model (left) of 2019 (see A2)", {}),
        ("NASA: the first of many", {}),
        ("results (TZ)", {}),
        ("", {}),
    ],
)
def test_definitions(text: str, found: dict[str, str]) -> None:
    assert definitions(text) == found


def test_a_short_form_has_capitals_or_digits() -> None:
    assert is_short_form("F1") and is_short_form("DNA")
    assert not is_short_form("a") and not is_short_form("Zone") and not is_short_form("TWO WORDS")
    assert not stands_for("TZ", "zone of transition")


def test_a_text_is_read_in_the_forms_that_the_names_use() -> None:
    known = {"TZ": "transition zone", "PZ": "peripheral zone"}
    assert in_words_of("Transition zones beat peripheral zones.", known, ["TZ", "PZ"]) == "TZ beat PZ."
    assert in_words_of("TZ beats PZ.", known, ["transition zone", "PZ"]) == "transition zone beats PZ."
    both = "The transition zone (TZ)"
    assert in_words_of(both, known, ["transition zone", "TZ"]) == both
    assert in_words_of("tz and zones", known, ["transition zone"]) == "tz and zones"


def test_the_first_definition_counts() -> None:
    assert definitions_in(["CAT: computed axial tomography", "CAT = clear air turbulence", "x"]) == {
        "CAT": "computed axial tomography"
    }


@given(st.text(alphabet="abAB ()=:;.", max_size=40), st.lists(st.text(alphabet="abAB ", max_size=8), max_size=4))
@settings(max_examples=200, deadline=None)
def test_any_text_has_definitions_that_fit_and_can_be_read(text: str, names: list[str]) -> None:
    found = definitions(text)
    assert all(is_short_form(short) and stands_for(short, long) for short, long in found.items())
    in_words_of(text, found, names)
