"""What a printed table needs before it can be filled: data, models and known costs of building its sources."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.experiment.answering import Answering
from evidence_assets.experiment.methods import SelectionMethod
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.profiles import GeneratorSettings, ModelKind, ModelSettings, StrictModel
from evidence_assets.reproduction.cells import CellSource
from evidence_assets.reproduction.data_files import RequiredData
from evidence_assets.systems.kbloom.system import KBloom, find_judges

MEASUREMENTS_FILE = Path(__file__).with_name("measurements.yaml")
NOT_MEASURED = "not measured"
AnySettings = GeneratorSettings | ModelSettings


class Measurement(StrictModel):
    """A measurement of the docs that a plan shows for an asset."""

    work: str = ""
    results: tuple[str, ...] = ()
    """Texts of the page, word for word."""
    page: str = ""
    """Page and section below ``docs``."""
    part: str = ""
    """Part of the asset that was measured; empty for all."""
    seconds: float | None = None
    """By the clock, of all results."""
    mebibytes: int | None = None
    """Most memory of its own."""
    measured: int = 1
    rows: int = 1
    """Rows that were measured, and those of the asset: time and disk space are multiplied by their ratio."""
    bytes_per_row: int = 0

    @property
    def factor(self) -> float:
        """How many times as large the asset is as what was measured."""
        return self.rows / self.measured

    @property
    def disk_bytes(self) -> int | None:
        """Disk space of the asset; None if it was not measured."""
        return self.bytes_per_row * self.rows or None


@cache
def measurements() -> dict[str, tuple[Measurement, ...]]:
    """The measurements that plans show, by asset: ``corpus/wikipedia``."""
    return TypeAdapter(dict[str, tuple[Measurement, ...]]).validate_python(read_yaml_mapping(MEASUREMENTS_FILE))


class UsedModel(NamedTuple):
    """A model of the profile and what it is used for."""

    use: str
    settings: AnySettings

    @property
    def server(self) -> str:
        """URL of its server; empty for a model in the process."""
        is_served = isinstance(self.settings, GeneratorSettings) and self.settings.backend == "openai"
        return self.settings.base_url if is_served and isinstance(self.settings, GeneratorSettings) else ""

    @property
    def port(self) -> int | None:
        """Port of its server on this machine; None for a model in the process or a remote service."""
        address = urlsplit(self.server)
        return address.port if address.hostname in ("127.0.0.1", "localhost") else None


def find_models(sources: Iterable[CellSource], finder: RequiredData) -> list[UsedModel]:
    """The models that fill these cells, each with its uses."""
    uses: dict[AnySettings, dict[str, None]] = {}
    for source in sources:
        for use, settings in _models_of_source(source, finder):
            uses.setdefault(settings, {})[use] = None
    return [UsedModel(", ".join(names), settings) for settings, names in uses.items()]


def _models_of_source(source: CellSource, finder: RequiredData) -> Iterator[UsedModel]:
    method = systems.open_method(source.variant)
    if isinstance(method, KBloom):
        yield from _harvesting_models(method, is_judged=source.score_asset.endswith("_judged"))
        return
    if isinstance(method, SelectionMethod):
        is_answered = source.has_answers and not source.is_recorded
        answering_kinds = Answering(method).model_kinds if is_answered else ()
        yield from _models_of_kinds(source.variant, answering_kinds)
    for upstream in finder.find_upstream(source.score_asset, all_benchmarks().get(source.benchmark)).methods:
        if isinstance(upstream, KBloom):
            yield from _harvesting_models(upstream, is_judged=False)
        else:
            yield from _models_of_kinds(upstream.variant, upstream.model_kinds)
            if "token_store" in upstream.sources or upstream.variant.bertscore or upstream.variant.family == "graph":
                yield UsedModel("token encoder", upstream.variant.profile.token_encoder)
    if source.variant.reader and source.variant.profile.reader:
        yield UsedModel("reader", source.variant.profile.reader)


def _models_of_kinds(variant: Variant, kinds: Collection[ModelKind]) -> Iterator[UsedModel]:
    for kind in kinds:
        settings: AnySettings = getattr(variant.profile, kind)
        if not (isinstance(settings, GeneratorSettings) and settings.backend == "extractive"):
            yield UsedModel("language model" if kind == "generator" else kind.replace("_", " "), settings)


def _harvesting_models(method: KBloom, *, is_judged: bool) -> Iterator[UsedModel]:
    """The models of a harvest, and of its judgement."""
    profile = method.variant.profile
    harvesting = profile.harvesting
    optional = {"causal": harvesting.causal}
    if method.settings.prompts != "initial":
        optional |= {"writer": harvesting.writer, "substitution": harvesting.substitution}
    if is_judged:
        optional["likelihood"] = harvesting.likelihood
    yield from _models_of_kinds(method.variant, ["masked_model", "encoder"])
    yield from (UsedModel(f"harvesting: {use}", settings) for use, settings in optional.items() if settings)
    if method.rewords_prompts:
        yield UsedModel("harvesting: paraphraser", profile.generator)
    if is_judged:
        yield from (UsedModel("judge", judge) for judge in find_judges())


def find_measurements(sources: Iterable[CellSource], finder: RequiredData) -> list[tuple[str, Measurement]]:
    """Corpora, graphs and harvests that are built for these cells, each with its measurements or an empty one."""
    assets = set[str]()
    for source in sources:
        upstream = finder.find_upstream(source.score_asset, all_benchmarks().get(source.benchmark))
        assets |= {key for key, _ in upstream.inputs if key.startswith(("corpus/", "knowledge/"))}
    return [(asset, each) for asset in sorted(assets) for each in measurements().get(asset, (Measurement(),))]
