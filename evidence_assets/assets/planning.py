"""What a preset asks for, before anything runs: counted where it is known, timed where it was measured here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from evidence_assets import profiles, systems
from evidence_assets.assets.pace import A_RELATION, seconds_of
from evidence_assets.benchmarks.declared import Benchmark, declared
from evidence_assets.experiment.scores.published_figures import RECORDED, Key
from evidence_assets.experiment.system import OwnStages, crossings
from evidence_assets.experiment.variants import Variant, known, presets, variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import KINDS
from evidence_assets.reproduction.cells import Candidate, Ours
from evidence_assets.text.nearest import nearest


@dataclass(frozen=True)
class Planned:
    """One variant on one benchmark, or on all relations; None is what is not known here."""

    variant: str
    benchmark: str
    questions: int | None
    calls: int | None
    seconds: float | None


def plan(name: str, lake: Lake | None, instance: dg.DagsterInstance, model: str = "") -> list[Planned]:
    """Every variant of the preset ``name`` with every model that it is crossed with, or with one, on each benchmark.

    Raises BadInput where there is no such preset, or no such model.
    """
    known([name], "preset")
    profile = profiles.load()
    names = {model: kind for kind in KINDS for model in profile.names(kind)}
    if model and model not in names:
        raise BadInput(f"profile {profile.name} has no model {model!r}; did you mean {nearest(model, names)!r}?")
    chosen = [
        crossed
        for variant in variants()
        if name in variant.presets
        for crossed in crossings(systems.load(variant.system), variant, frozenset([name]))
        if not model or crossed.profile.names(names[model])[0] == model
    ]
    return plan_variants(chosen, presets()[name].benchmarks, lake, instance, presets()[name].relations)


def plan_variants(
    chosen: Sequence[Variant], on: Sequence[str], lake: Lake | None, instance: dg.DagsterInstance, relations: int = 0
) -> list[Planned]:
    """These variants on those of these benchmarks that they can answer; harvests on the lake's ``relations``."""
    planned = []
    for variant in chosen:
        if variant.family == "knowledge":
            seeds = lake.read("relation_seeds", columns=["relation_id"])["relation_id"].n_unique() if lake else 0
            each = seconds_of(instance, [f"{variant.place}/harvest"], metadata=A_RELATION)
            n = seeds or relations
            planned.append(Planned(f"knowledge/{variant.label}", "all relations", n, 0, each and each * n))
            continue
        if isinstance(systems.load(variant.system).method_of(variant), OwnStages) and variant.method != RECORDED:
            continue  # prepares what others answer from
        each = seconds_of(instance, steps_of(variant))
        for benchmark in (declared()[name] for name in on):
            if benchmark.family == variant.family:
                questions, options = sizes(benchmark, lake)
                calls = _calls(variant, questions, options) if questions else None
                seconds = each * questions if each and questions else None
                planned.append(Planned(variant.label, benchmark.name, questions or None, calls, seconds))
    return planned


def sizes(benchmark: Benchmark, lake: Lake | None) -> tuple[int, int]:
    """Questions of a benchmark and options of all of them together: the lake's, else as declared; 0 where unknown."""
    if lake is not None:
        rows = lake.read("questions", f"questions/{benchmark.family}", columns=["benchmark", "options"])
        options = rows.filter(rows["benchmark"] == benchmark.name)["options"].list.len()
        if len(options):
            return len(options), int(options.sum())
    return benchmark.expected.questions, benchmark.expected.questions * benchmark.expected.options


def steps_of(variant: Variant) -> list[str]:
    """Assets that a question goes through on its way to an answer of the variant."""
    method = systems.load(variant.system).method_of(variant)
    evidence = variant.at(f"evidence/{variant.family}/{variant.selector}", method.models(method.settings_of(variant)))
    return [evidence, *([f"chains/{variant.place}"] if _explains(variant) else []), f"predictions/{variant.place}"]


def _explains(variant: Variant) -> bool:
    return variant.explain and variant.family in ("mcqa", "table")


def _calls(variant: Variant, questions: int, options: int) -> int | None:
    """Requests to the profile's language model, where their number does not depend on what comes back."""
    if variant.profile.generator.backend == "extractive" or variant.method == RECORDED:
        return 0
    if variant.family in ("mcqa", "table"):
        return questions + (options if _explains(variant) else 0)
    if variant.family == "graph":
        return None if variant.parameters.get("recall") else questions
    return None if variant.parameters.get("triplets") or variant.parameters.get("rerank") else 0


def times(instance: dg.DagsterInstance, able: Sequence[Candidate], lake: Lake) -> dict[Key, list[Ours]]:
    """What is compared with printed times: the last seconds a question of the steps, times the lake's questions."""
    found: dict[Key, dict[Ours, None]] = defaultdict(dict)
    for candidate in able:
        variant, name = candidate.variant, candidate.benchmark
        partitions = [f"{name}|{shard}" for shard in range(profiles.load().shards.questions)]
        for timed, figure in candidate.timed():
            steps = [step for step in steps_of(variant) if step.partition("/")[0] in timed.steps]
            each = seconds_of(instance, steps, partitions)
            if each is None:
                continue
            questions, _ = sizes(declared()[name], lake)
            value = {"hours": each * questions / 3600, "minutes": each * questions / 60}.get(figure.metric, each / 60)
            model = candidate.model_id if figure.model or "predictions" in timed.steps else ""
            variant_name = variant.label if model else variant.name
            score = Ours(variant_name, name, model, figure.metric, value, None, None, questions, differs=timed.differs)
            found[figure.key][score] = None
    return {key: list(scores) for key, scores in found.items()}
