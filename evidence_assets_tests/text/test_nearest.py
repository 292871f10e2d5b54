"""The known name that a misspelt one is most like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.text.nearest import nearest

NAMES = st.text(min_size=1, max_size=8)


def test_the_most_alike_is_named() -> None:
    assert nearest("jds", ["cosine", "jsd", "euclidean"]) == "jsd"
    assert nearest("jds", iter(["cosine", "jsd"])) == "jsd"
    assert nearest("jsd", []) == ""


@given(NAMES, st.lists(NAMES, min_size=1, max_size=5))
def test_some_known_name_is_always_given_and_a_known_one_is_its_own(name: str, known: list[str]) -> None:
    assert nearest(name, known) in known
    assert nearest(known[0], known) == known[0]
