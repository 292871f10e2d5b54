"""What every method that picks evidence must fulfil, whichever system it belongs to: a new one is tested by being
there.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import FAMILIES, benchmarks_of_family
from evidence_assets.experiment.evidence.selection import Question, SelectedEvidence, Selector, build_questions
from evidence_assets.experiment.evidence.sources import missing_source_reason
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.system import Method
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import World

NEEDS_A_MODEL = ("a2q_tuned", "kg_both", "kg_background")
"""Variants whose evidence needs what the default graph does not make: a tuned classifier, a language model's memory."""
QUESTIONS_PER_CASE = 3


def method_of(variant: Variant) -> Method[Any] | None:
    method = systems.load(variant.system).method_of(variant)
    return method if isinstance(method, Method) else None


def find_cases() -> dict[str, tuple[Variant, str]]:
    """The first variant of each method and family, with a benchmark that it can be asked about."""
    found: dict[str, tuple[Variant, str]] = {}
    for variant in variants():
        if variant.family not in FAMILIES or variant.evidence or variant.name in NEEDS_A_MODEL:
            continue
        method = method_of(variant)
        benchmark = next(
            (
                b
                for b in benchmarks_of_family(variant.family)
                if method and not missing_source_reason(method.sources, b)
            ),
            None,
        )
        if method and benchmark:
            found.setdefault(f"{variant.method or variant.system} on {variant.family}", (variant, benchmark.name))
    return found


CASES = find_cases()


def without_scores(picks: list[SelectedEvidence]) -> list[tuple[object, ...]]:
    """Picks without their scores, whose last digits may depend on what is computed beside them."""
    return [(p.option, p.kind, p.parents, p.locator, p.text) for p in picks]


@pytest.mark.parametrize("case", sorted(CASES))
class TestSelectorContract:
    @pytest.fixture
    def step(self, case: str, made_world: World) -> StageContext:
        variant, benchmark = CASES[case]
        stage = build_stages(systems.load(variant.system), variant)[0]
        lake = Lake(made_world.root / "data_lake")
        return stage.prepare(StageContext(lake, "evidence", stage.key, f"{benchmark}|0"))

    @pytest.fixture
    def selector(self, case: str, step: StageContext) -> Selector:
        variant, _ = CASES[case]
        method = method_of(variant)
        assert method is not None
        opened: Selector = method.open_selector(step, method.settings_of(variant))
        return opened

    @pytest.fixture
    def questions(self, case: str, step: StageContext) -> list[Question]:
        return build_questions(step.read_input("questions"))[:QUESTIONS_PER_CASE]

    def test_picks_name_an_option_a_source_and_a_finite_score(
        self, case: str, selector: Selector, questions: list[Question]
    ) -> None:
        picked = list(selector.select(questions))
        assert len(picked) == len(questions) > 1
        for question, picks in zip(questions, picked, strict=True):
            assert {pick.option for pick in picks} <= {"", *question.labels}
            assert all(pick.parents and pick.kind and math.isfinite(pick.score) for pick in picks)
        assert any(picked) or case.startswith("closed_book")

    def test_a_question_gets_alone_what_it_gets_among_others(
        self, case: str, selector: Selector, questions: list[Question]
    ) -> None:
        among = list(selector.select(questions))
        alone = list(selector.select(questions[-1:]))
        assert without_scores(alone[0]) == without_scores(among[-1])

    def test_no_question_gets_nothing(self, case: str, selector: Selector) -> None:
        assert list(selector.select([])) == []

    def test_the_version_is_that_of_what_is_read(self, case: str, selector: Selector, step: StageContext) -> None:
        variant, _ = CASES[case]
        method = method_of(variant)
        assert method is not None
        assert method.open_selector(step, method.settings_of(variant)).version == selector.version
