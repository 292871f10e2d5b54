"""What a preset asks for, before anything runs: counted where it is known, timed where this instance has measured it.

Questions are the lake's, else what the benchmark declares; calls to a language model follow from the structure of a
variant, or are not stated; seconds are those of the variant's last steps here, on whatever benchmark. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from evidence_assets import profiles, systems
from evidence_assets.assets.pace import A_RELATION, seconds_of
from evidence_assets.benchmarks.declared import Benchmark, declared
from evidence_assets.experiment.presets import known, presets
from evidence_assets.experiment.system import OwnStages
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.store import Lake


@dataclass(frozen=True)
class Planned:
    """One variant on one benchmark, or on all relations; None is what nobody knows here."""

    variant: str
    benchmark: str
    questions: int | None
    calls: int | None
    seconds: float | None


def plan(name: str, lake: Lake | None, instance: dg.DagsterInstance) -> list[Planned]:
    """Every variant of the preset ``name`` on every benchmark of it that it can answer.

    Raises
    ------
    BadInput
        Where there is no such preset.
    """
    known([name], "preset")
    preset = presets()[name]
    return plan_variants(
        [v for v in variants() if name in v.presets], preset.benchmarks, lake, instance, preset.relations
    )


def plan_variants(
    chosen: Sequence[Variant],
    on: Sequence[str],
    lake: Lake | None,
    instance: dg.DagsterInstance,
    stated_relations: int = 0,
) -> list[Planned]:
    """These variants on those of these benchmarks that they can answer."""
    planned = []
    for variant in chosen:
        if isinstance(systems.load(variant.system).method_of(variant), OwnStages) and variant.family != "knowledge":
            continue  # prepares what others answer from
        if variant.family == "knowledge":
            relations = _harvested(stated_relations, lake)
            each = seconds_of(instance, [f"{variant.place}/harvest"], metadata=A_RELATION)
            planned.append(Planned(variant.place, "all relations", relations, 0, each and each * relations))
            continue
        each = seconds_of(instance, _steps(variant))
        for benchmark in (declared()[b] for b in on):
            if benchmark.family == variant.family:
                questions, options = _sizes(benchmark, lake)
                calls = _calls(variant, questions, options) if questions else None
                seconds = each * questions if each and questions else None
                planned.append(Planned(variant.name, benchmark.name, questions or None, calls, seconds))
    return planned


def _sizes(benchmark: Benchmark, lake: Lake | None) -> tuple[int, int]:
    """Questions of a benchmark and options of all of them together: the lake's, else as declared; 0 where unknown."""
    if lake is not None:
        rows = lake.read("questions", f"questions/{benchmark.family}", columns=["benchmark", "options"])
        options = rows.filter(rows["benchmark"] == benchmark.name)["options"].list.len()
        if len(options):
            return len(options), int(options.sum())
    return benchmark.expected.questions, benchmark.expected.questions * benchmark.expected.options


def _harvested(stated: int, lake: Lake | None) -> int:
    """Relations to harvest: those of the lake's seeds, else as many as were published."""
    seeds = 0 if lake is None else lake.read("relation_seeds", columns=["relation_id"])["relation_id"].n_unique()
    return seeds or stated


def _steps(variant: Variant) -> list[str]:
    """Assets that a question goes through on its way to an answer of the variant."""
    explained = [f"chains/{variant.place}"] if _explains(variant) else []
    return [f"evidence/{variant.family}/{variant.selector}", *explained, f"predictions/{variant.place}"]


def _explains(variant: Variant) -> bool:
    return variant.explain and variant.family in ("mcqa", "table")


def _calls(variant: Variant, questions: int, options: int) -> int | None:
    """Requests to the profile's language model, where their number does not hang on what comes back."""
    if profiles.load().generator.backend == "extractive" or variant.solver == "extractive":
        return 0
    if variant.family in ("mcqa", "table"):
        return questions + (options if _explains(variant) else 0)
    if variant.family == "graph":
        return None if variant.parameters.get("recall") else questions
    return None if variant.parameters.get("triplets") or variant.parameters.get("rerank") else 0
