"""The contract of selectors, for every method and every variant that is loaded by default.

New methods and variants are included automatically, except variants that only a preset loads: see FURTHER_VARIANTS.
"""

import pytest

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import FAMILIES, benchmarks_of_family
from evidence_assets.experiment.evidence.sources import missing_source_reason
from evidence_assets.experiment.methods import AnyMethod, SelectionMethod, read_settings
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
NEEDS_A_PRESET = ("first_rows", "published_vectors")
"""Methods that read what only a preset loads: the evidence of a variant, or a user's files."""


FURTHER_VARIANTS = ("table/keep_all", "table/ucret_js", "mcqa/uscrake_graph")
"""Variants that only a preset loads but that select in a way of their own. Add yours if it does."""


def find_benchmark(method: AnyMethod) -> str:
    """The first benchmark of the method's family that has its sources; empty if there is none."""
    benchmarks = benchmarks_of_family(method.variant.family)
    return next((each.name for each in benchmarks if not missing_source_reason(method.sources, each)), "")


def find_cases() -> dict[str, tuple[Variant, str]]:
    """Variants by key, each with a benchmark: loaded ones, further ones, and the first of each method and family."""
    cases: dict[str, tuple[Variant, str]] = {}
    covered_methods: set[tuple[str, str]] = set()
    for variant in variants():
        if variant.family not in FAMILIES or variant.evidence or variant.name in NEEDS_A_MODEL:
            continue
        method = systems.open_method(variant)
        if method.name in NEEDS_A_PRESET or not isinstance(method, SelectionMethod):
            continue
        is_first = (method.name, variant.family) not in covered_methods
        benchmark = find_benchmark(method)
        if benchmark and (is_first or variant.is_loaded or variant.key in FURTHER_VARIANTS):
            covered_methods.add((method.name, variant.family))
            cases[variant.key] = (variant, benchmark)
    return cases


CASES = find_cases()


def test_variants_are_covered_if_they_are_loaded_or_listed() -> None:
    assert CASES.keys() >= {"table/ucret", "table/ucret_published", "search/vector_search", *FURTHER_VARIANTS}
    assert "table/ucret_k3" not in CASES


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
