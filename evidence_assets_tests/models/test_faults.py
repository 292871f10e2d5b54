"""Every fault of the table ends in what the table says, with a sentence that says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from evidence_assets_tests.models.faults import FAULTS, STEP, Fault, Scene, asking, outcome, scene_in


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene_in(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_ends_in_what_the_table_says(fault: Fault, scene: Scene) -> None:
    ends_in, said, asked = outcome(fault, scene)
    assert ends_in == fault.ends_in, said
    assert re.search(fault.says, said, re.DOTALL), said
    assert asked == fault.asked
    assert len(said) < 700, "a sentence, not a dump"


def test_a_good_server_ends_in_no_fault(scene: Scene) -> None:
    ends_in, _, _ = outcome(Fault("no fault", asking("B"), STEP, ""), scene)
    assert ends_in.startswith("nothing wrong: Choice(answer='B'")
