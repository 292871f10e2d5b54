"""What a preset asks for, before anything runs: counted where it is known, timed where this instance has measured it.

Questions are the lake's, else what the benchmark declares; calls to a language model follow from the structure of a
variant, or are not stated; seconds are those of the variant's last steps here, on whatever benchmark. Nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.benchmark import Benchmark, declared
from evidence_assets.assets.declarations import Declaration, variants
from evidence_assets.assets.pace import A_RELATION, seconds_of
from evidence_assets.assets.presets import known, presets
from evidence_assets.lake.store import Lake

FAMILY_OF = {"GraphAnswers": "graph", "NodeRanking": "search"}
"""Families of the components whose variants state none, as they answer one alone."""


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
    planned = []
    for variant in variants("KBloom"):
        if name in variant.presets:
            relations = _harvested(preset.relations, lake)
            each = seconds_of(instance, [f"knowledge/{variant.attributes['name']}/harvest"], metadata=A_RELATION)
            planned.append(Planned(variant.place, "all relations", relations, 0, each and each * relations))
    for component in ("Reasoner", "GraphAnswers", "NodeRanking"):
        for variant in (v for v in variants(component) if name in v.presets):
            family = variant.attributes.get("family") or FAMILY_OF[component]
            each = seconds_of(instance, _steps(variant, family))
            for benchmark in (declared()[b] for b in preset.benchmarks):
                if benchmark.family == family:
                    questions, options = _sizes(benchmark, lake)
                    calls = _calls(variant, questions, options) if questions else None
                    seconds = each * questions if each and questions else None
                    planned.append(
                        Planned(str(variant.attributes["name"]), benchmark.name, questions or None, calls, seconds)
                    )
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


def _steps(variant: Declaration, family: str) -> list[str]:
    """Assets that a question goes through on its way to an answer of the variant."""
    place = f"{family}/{variant.attributes['name']}"
    explained = [f"chains/{place}"] if _explains(variant) else []
    selector = variant.attributes.get("selector") or variant.attributes["name"]
    return [f"evidence/{family}/{selector}", *explained, f"predictions/{place}"]


def _explains(variant: Declaration) -> bool:
    return variant.component == "Reasoner" and bool(variant.attributes.get("explain", True))


def _calls(variant: Declaration, questions: int, options: int) -> int | None:
    """Requests to the profile's language model, where their number does not hang on what comes back."""
    if profiles.load().generator.backend == "extractive" or variant.attributes.get("solver") == "extractive":
        return 0
    if variant.component == "Reasoner":
        return questions + (options if _explains(variant) else 0)
    if variant.component == "GraphAnswers":
        return None if variant.attributes.get("recall") else questions
    return None if variant.attributes.get("triplets") or variant.attributes.get("rerank") else 0
