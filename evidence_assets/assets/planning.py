"""What a preset asks for, before anything runs: counted where it is known, timed where this instance has measured it.

Questions are the lake's, else what the benchmark declares; calls follow from the structure of a variant, or are not
stated; tokens and seconds are those that its rows with this model and its last steps took here. Nothing is guessed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from evidence_assets import profiles, systems
from evidence_assets.assets.pace import A_RELATION, seconds_of
from evidence_assets.benchmarks.declared import Benchmark, declared
from evidence_assets.experiment.derived_figures import Key, Ours
from evidence_assets.experiment.reproduction import Candidate
from evidence_assets.experiment.scores.published_figures import RECORDED
from evidence_assets.experiment.system import OwnStages, crossings
from evidence_assets.experiment.variants import Variant, known, presets, variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import KINDS, Kind
from evidence_assets.text.nearest import nearest


@dataclass(frozen=True)
class Planned:
    """One variant on one benchmark, or on all relations; None is what nobody knows here."""

    variant: str
    benchmark: str
    questions: int | None
    calls: int | None
    seconds: float | None
    tokens_in: int | None = None
    tokens_out: int | None = None


def plan(name: str, lake: Lake | None, instance: dg.DagsterInstance, model: str = "") -> list[Planned]:
    """Every variant of the preset ``name`` with every model that it is crossed with, or with one, on each benchmark.

    Raises BadInput where there is no such preset, or no such model.
    """
    known([name], "preset")
    preset, kind = presets()[name], kind_of(model)
    chosen = [
        crossed
        for variant in variants()
        if name in variant.presets
        for crossed in crossings(systems.load(variant.system), variant, frozenset([name]))
        if not kind or crossed.profile.names(kind)[0] == model
    ]
    return plan_variants(chosen, preset.benchmarks, lake, instance, preset.relations)


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
        own = isinstance(systems.load(variant.system).method_of(variant), OwnStages)
        if own and variant.family != "knowledge" and variant.method != RECORDED:
            continue  # prepares what others answer from
        if variant.family == "knowledge":
            relations = _harvested(stated_relations, lake)
            each = seconds_of(instance, [f"{variant.place}/harvest"], metadata=A_RELATION)
            planned.append(
                Planned(f"knowledge/{variant.label}", "all relations", relations, 0, each and each * relations)
            )
            continue
        each = seconds_of(instance, steps_of(variant))
        for benchmark in (declared()[b] for b in on):
            if benchmark.family == variant.family:
                questions, options = sizes(benchmark, lake)
                calls = _calls(variant, questions, options) if questions else None
                seconds = each * questions if each and questions else None
                tokens = _tokens(variant, questions, lake) if calls != 0 else (0, 0)
                planned.append(Planned(variant.label, benchmark.name, questions or None, calls, seconds, *tokens))
    return planned


def kind_of(model: str) -> Kind | None:
    """Of what kind a model of the profile is that is named by hand; None where none is."""
    if not model:
        return None
    profile = profiles.load()
    for kind in KINDS:
        if model in profile.names(kind):
            return kind
    names = [name for kind in KINDS for name in profile.names(kind)]
    raise BadInput(f"profile {profile.name} has no model {model!r}; did you mean {nearest(model, names)!r}?")


def _tokens(variant: Variant, questions: int, lake: Lake | None) -> tuple[int | None, int | None]:
    """Tokens that so many questions take, as many each as those that this variant and model have answered here took."""
    if lake is None:
        return None, None
    totals, answered = [0, 0], 0
    for table in ("chains", "predictions"):
        rows = lake.read(table, f"{table}/{variant.place}", columns=["question_id", "tokens_in", "tokens_out"])
        rows = rows.drop_nulls()
        answered = max(answered, rows["question_id"].n_unique())
        totals = [totals[0] + int(rows["tokens_in"].sum()), totals[1] + int(rows["tokens_out"].sum())]
    if not answered:
        return None, None
    return round(totals[0] / answered * questions), round(totals[1] / answered * questions)


def sizes(benchmark: Benchmark, lake: Lake | None) -> tuple[int, int]:
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


def steps_of(variant: Variant) -> list[str]:
    """Assets that a question goes through on its way to an answer of the variant."""
    explained = [f"chains/{variant.place}"] if _explains(variant) else []
    picking = systems.load(variant.system).method_of(variant)
    evidence = variant.at(f"evidence/{variant.family}/{variant.selector}", picking.models(picking.settings_of(variant)))
    return [evidence, *explained, f"predictions/{variant.place}"]


def _explains(variant: Variant) -> bool:
    return variant.explain and variant.family in ("mcqa", "table")


def _calls(variant: Variant, questions: int, options: int) -> int | None:
    """Requests to the profile's language model, where their number does not hang on what comes back."""
    if (
        variant.profile.generator.backend == "extractive"
        or variant.solver == "extractive"
        or variant.method == RECORDED
    ):
        return 0
    if variant.family in ("mcqa", "table"):
        return questions + (options if _explains(variant) else 0)
    if variant.family == "graph":
        return None if variant.parameters.get("recall") else questions
    return None if variant.parameters.get("triplets") or variant.parameters.get("rerank") else 0


def times(instance: dg.DagsterInstance, able: Sequence[Candidate], lake: Lake) -> dict[Key, list[Ours]]:
    """What is printed for times, with the seconds a question of the last computation times the lake's questions."""
    found: dict[Key, dict[Ours, None]] = defaultdict(dict)
    for candidate in able:
        variant, name = candidate.variant, candidate.benchmark.name
        partitions = [f"{name}|{shard}" for shard in range(profiles.load().shards.questions)]
        for timed, figure in candidate.timed():
            steps = [step for step in steps_of(variant) if step.partition("/")[0] in timed.steps]
            each = seconds_of(instance, steps, partitions)
            if each is None:
                continue
            questions, _ = sizes(candidate.benchmark, lake)
            value = {"hours": each * questions / 3600, "minutes": each * questions / 60}.get(figure.metric, each / 60)
            model = candidate.model_id if figure.model or "predictions" in timed.steps else ""
            made_by = variant.label if model else variant.name
            score = Ours(made_by, name, model, figure.metric, value, None, None, questions, differs=timed.differs)
            found[figure.key][score] = None
    return {key: list(scores) for key, scores in found.items()}
