"""The script that checks whether the tests of docs/reproduction.md can fail."""

from __future__ import annotations

from pathlib import Path

from evidence_assets_tests.benchmarks.official.contract import write_files
from tools.mutate_claims import PAGE, ROOT, Mutation, apply_mutation, find_problems, find_tested_claims, read_mutations

SMALL_PAGE = "| a | – | `t.py::test_x` | – |\n| b | – | `t.py::test_y` | – |\n"
TESTS = """\
def test_x():
    assert open("m.py").read() == "x = 1"

def test_y():
    pass
"""


def test_green_stale_and_missing_mutations_are_reported(tmp_path: Path) -> None:
    write_files(tmp_path, {"m.py": "x = 1", "evidence_assets_tests/t.py": TESTS})
    red = Mutation("a", "t.py::test_x", "m.py", "x = 1", "x = 2")
    assert find_problems([red], find_tested_claims(SMALL_PAGE), tmp_path) == ["no mutation: b"]
    stale = red._replace(test="t.py::test_z", old="z")
    assert find_problems([red, stale], {"a": {red.test}}, tmp_path) == [
        "not in docs/reproduction.md: t.py::test_z",
        "m.py: the old text of 'a' occurs 0 times",
    ]
    mutations = (red, red._replace(test="t.py::test_y"), stale)
    assert [apply_mutation(tmp_path, each) for each in mutations] == ["red", "green", "error"]
    assert (tmp_path / "m.py").read_text() == "x = 1"


def test_every_claim_has_a_mutation_that_still_applies() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert find_problems(read_mutations(), find_tested_claims(page)) == []
