"""The check of stored paths against a graph."""

from __future__ import annotations

import pytest

from evidence_assets.reasoning.paths import PathFact, find_path_errors, parse_path_locator, path_locator, path_text

FACTS = {
    "e1": PathFact("a", "may_treat", "f", "aspirin", "fever"),
    "e2": PathFact("m", "may_cause", "f", "malaria", "fever"),
    "e3": PathFact("a", "may_contraindicate", "f", "aspirin", "fever"),
    "e4": PathFact("q", "may_treat", "m", "quinine", "malaria"),
}
WALK = [("e1", True), ("e3", True), ("e2", False), ("e4", False)]
TEXT = "Aspirin may treat fever. Aspirin may contraindicate fever. Malaria may cause fever. Quinine may treat malaria."


def words(relation: str) -> str:
    return relation.replace("_", " ")


def wrong(walk: list[tuple[str, bool]], text: str = TEXT) -> list[str]:
    return find_path_errors(path_locator(walk), text, FACTS, words)


def test_a_valid_path_has_no_errors() -> None:
    assert parse_path_locator(path_locator(WALK)) == WALK
    assert path_text((FACTS[edge] for edge, _ in WALK), words) == TEXT
    assert wrong(WALK) == []


def test_each_error_of_a_path_is_reported() -> None:
    assert wrong([("e1", True), ("e9", True)]) == ["edge e9 is not in the graph"]
    assert wrong([("e1", True), ("e4", True)], "Aspirin may treat fever. Quinine may treat malaria.") == [
        "edge e4 does not start where the previous edge ends"
    ]
    turned = wrong([("e1", False), ("e3", True)], "Aspirin may treat fever. Aspirin may contraindicate fever.")
    assert turned == []  # back and forth between the same two nodes
    assert wrong([("e1", False), ("e2", False)], "Aspirin may treat fever. Malaria may cause fever.") != []
    assert "the text of its edges is" in wrong(WALK, TEXT.replace("may cause", "never causes"))[0]
    assert "the text of its edges is" in wrong(WALK, TEXT + " Aspirin is a metal.")[0]


@pytest.mark.parametrize("locator", ["", "e1+", "[]", '["e1"]', '[["e1", 1]]', '[[1, "+"]]', "{}", "3"])
def test_an_invalid_locator_is_reported(locator: str) -> None:
    (complaint,) = find_path_errors(locator, TEXT, FACTS, words)
    assert "not a list of edges" in complaint
