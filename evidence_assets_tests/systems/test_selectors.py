"""Every method of every system passes the contract of selectors. New methods are included automatically."""

import pytest

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import FAMILIES, benchmarks_of_family
from evidence_assets.experiment.evidence.sources import missing_source_reason
from evidence_assets.experiment.methods import SelectionMethod, read_settings
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.systems.a2q.classifier_tuning import ClassifierSettings
from evidence_assets.systems.a2q.linked_paths import PathSettings
from evidence_assets.systems.a2q.selection import A2QSettings, TripleSettings
from evidence_assets.systems.kbloom.harvesting import KBloomSettings
from evidence_assets_tests.conftest import World
from evidence_assets_tests.systems.selector_contract import SelectorCase, SelectorContract

NEEDS_A_MODEL = ("a2q_tuned", "kg_both", "kg_background")
"""Variants that need a model outside the default asset graph: a tuned classifier or a language model."""
NEEDS_A_PRESET = ("first_rows",)
"""Methods that read the evidence of a variant that only a preset loads."""


def find_cases() -> dict[str, tuple[Variant, str]]:
    """The first variant of each method and family, with a benchmark that has its sources."""
    cases: dict[str, tuple[Variant, str]] = {}
    for variant in variants():
        if variant.family not in FAMILIES or variant.evidence or variant.name in NEEDS_A_MODEL:
            continue
        method = systems.open_method(variant)
        if variant.method in NEEDS_A_PRESET or not isinstance(method, SelectionMethod):
            continue
        for benchmark in benchmarks_of_family(variant.family):
            if not missing_source_reason(method.sources, benchmark):
                name = f"{variant.method or variant.system} on {variant.family}"
                cases.setdefault(name, (variant, benchmark.name))
    return cases


CASES = find_cases()


class TestEveryMethod(SelectorContract):
    selects_nothing = frozenset({"closed_book"})
    selects_nearest_edges = frozenset({"nearest_triples"})

    @pytest.fixture(scope="class", params=sorted(CASES))
    @classmethod
    def case(cls, request: pytest.FixtureRequest, made_world: World) -> SelectorCase:
        variant, benchmark = CASES[request.param]
        return SelectorCase.open(variant, Lake(made_world.root / "data_lake"), benchmark)


LIMITS = {A2QSettings: "top_n", TripleSettings: "top_n", PathSettings: "top_n", ClassifierSettings: "triples"}


@pytest.mark.parametrize(("settings", "name"), [*LIMITS.items(), (KBloomSettings, "n")])
def test_a_limit_of_zero_is_refused(settings: type, name: str) -> None:
    with pytest.raises(BadInput, match=f"^{name}: x: Input should be greater than 0"):
        read_settings(settings, {name: 0}, owner="x", defaults={"benchmark": "b"})
