"""What the check of the reading cost says to a person whose change is above a ceiling."""

import ast

import pytest
import yaml

from tools.reading_cost import ADVICE, CEILINGS, check_ceilings, is_packed


def test_a_figure_above_its_ceiling_is_reported_with_the_excess_and_the_file() -> None:
    (problem,) = check_ceilings({"nodes": 1_250, "largest function": 300}, {"nodes": 1_000, "largest function": 300})
    assert problem.startswith(
        "nodes: 250 over the ceiling 1,000 of tools/reading_cost.yaml: simplify, or raise `nodes`"
    )


def test_every_ceiling_has_advice() -> None:
    ceilings = yaml.safe_load(CEILINGS.read_text(encoding="utf-8"))
    assert ceilings.keys() == ADVICE.keys()
    figures = {name: ceiling + 1 for name, ceiling in ceilings.items()}
    assert len(check_ceilings(figures, ceilings)) == len(ADVICE)


@pytest.mark.parametrize(
    ("statement", "is_counted"), [("a, b = x, y", True), ("a, b = find()", False), ("a = x, y", False)]
)
def test_only_several_bindings_in_a_statement_are_packed(statement: str, is_counted: bool) -> None:
    assert is_packed(ast.parse(statement).body[0]) is is_counted
