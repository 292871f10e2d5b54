"""The contract of selectors, tested for every method of every system. New methods are included automatically."""

import math

import pytest

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import FAMILIES, benchmarks_of_family
from evidence_assets.experiment.evidence.selection import Question, SelectedEvidence, Selector, build_questions
from evidence_assets.experiment.evidence.sources import missing_source_reason
from evidence_assets.experiment.methods import AnySelectionMethod, SelectionMethod, read_settings
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.systems.a2q.classifier_tuning import ClassifierSettings
from evidence_assets.systems.a2q.linked_paths import PathSettings
from evidence_assets.systems.a2q.selection import A2QSettings, TripleSettings
from evidence_assets.systems.kbloom.harvesting import KBloomSettings
from evidence_assets_tests.conftest import World

NEEDS_A_MODEL = ("a2q_tuned", "kg_both", "kg_background")
"""Variants that need a model outside the default asset graph: a tuned classifier or a language model."""
NEEDS_A_PRESET = ("first_rows",)
"""Methods that read the evidence of a variant that only a preset loads."""
QUESTIONS_PER_CASE = 3


def find_cases() -> dict[str, tuple[Variant, AnySelectionMethod, str]]:
    """The first variant of each method and family, with its method and a benchmark that has its sources."""
    cases: dict[str, tuple[Variant, AnySelectionMethod, str]] = {}
    for variant in variants():
        if variant.family not in FAMILIES or variant.evidence or variant.name in NEEDS_A_MODEL:
            continue
        method = systems.open_method(variant)
        if variant.method in NEEDS_A_PRESET or not isinstance(method, SelectionMethod):
            continue
        for benchmark in benchmarks_of_family(variant.family):
            if not missing_source_reason(method.sources, benchmark):
                name = f"{variant.method or variant.system} on {variant.family}"
                cases.setdefault(name, (variant, method, benchmark.name))
    return cases


CASES = find_cases()


def without_scores(evidence: list[SelectedEvidence]) -> list[tuple[object, ...]]:
    """Evidence without scores, whose last digits can depend on the batch."""
    return [(item.option, item.kind, item.parents, item.locator, item.text) for item in evidence]


@pytest.mark.parametrize("case", sorted(CASES))
class TestSelectorContract:
    @pytest.fixture
    def context(self, case: str, made_world: World) -> StageContext:
        variant, _, benchmark = CASES[case]
        stage = build_stages(systems.open_method(variant))[0]
        lake = Lake(made_world.root / "data_lake")
        return stage.prepare(StageContext(lake, "evidence", stage.key, f"{benchmark}|0"))

    @pytest.fixture
    def selector(self, case: str, context: StageContext) -> Selector:
        _, method, _ = CASES[case]
        return method.open_selector(context)

    @pytest.fixture
    def questions(self, case: str, context: StageContext) -> list[Question]:
        return build_questions(context.read_input("questions"))[:QUESTIONS_PER_CASE]

    def test_evidence_has_an_option_a_source_and_a_finite_score(
        self, case: str, selector: Selector, questions: list[Question]
    ) -> None:
        selected = list(selector.select(questions))
        assert len(selected) == len(questions) > 1
        for question, evidence in zip(questions, selected, strict=True):
            assert {item.option for item in evidence} <= {"", *question.labels}
            assert all(item.parents and item.kind and math.isfinite(item.score) for item in evidence)
        assert any(selected) or case.startswith("closed_book")

    def test_evidence_does_not_depend_on_the_other_questions(
        self, case: str, selector: Selector, questions: list[Question]
    ) -> None:
        with_others = list(selector.select(questions))
        alone = list(selector.select(questions[-1:]))
        assert without_scores(alone[0]) == without_scores(with_others[-1])

    def test_no_questions_give_no_evidence(self, case: str, selector: Selector) -> None:
        assert list(selector.select([])) == []

    def test_a_reopened_selector_has_the_same_version(
        self, case: str, selector: Selector, context: StageContext
    ) -> None:
        _, method, _ = CASES[case]
        assert method.open_selector(context).version == selector.version


LIMITS = {A2QSettings: "top_n", TripleSettings: "top_n", PathSettings: "top_n", ClassifierSettings: "triples"}


@pytest.mark.parametrize(("settings", "name"), [*LIMITS.items(), (KBloomSettings, "n")])
def test_a_limit_of_zero_is_refused(settings: type, name: str) -> None:
    with pytest.raises(BadInput, match=f"^{name}: x: Input should be greater than 0"):
        read_settings(settings, {name: 0}, owner="x", defaults={"benchmark": "b"})
