"""What a preset will cost, before anything runs: rows, model calls, tokens, time and disk, as estimates.

Counts come from the lake where it has the questions (and evidence of the selector), else from what a benchmark declares
of itself and the profile's settings; rates from ``rates.yaml``, each with its source. Corpora, indexes and graphs are not
counted: they are made once, whatever is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from evidence_assets import profiles
from evidence_assets.assets.benchmark import Benchmark, Family, benchmarks, declared
from evidence_assets.assets.declarations import Declaration, variants
from evidence_assets.assets.planning_kinds import graph_answers, harvest, node_ranking, relation_count
from evidence_assets.assets.planning_rates import FILE, Count, Estimate, characters, rate, rates, seconds_per_call
from evidence_assets.assets.presets import Preset, known, presets
from evidence_assets.assets.selector_methods import METHODS
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.requests import CHOOSE_TOKENS, EXPLAIN_TOKENS, choose_request, explain_request
from evidence_assets.reasoning.tasks import ChooseAnswer, EvidenceItem, ExplainOption


@dataclass(frozen=True)
class PresetPlan:
    """Every variant of a preset on every benchmark, and what the reader should know about the numbers."""

    preset: Preset
    estimates: list[Estimate]
    notes: list[str]


def count_of(benchmark: Benchmark, lake: Lake | None) -> Count | None:
    """Questions and options of a benchmark: from the lake, else as declared; None where neither knows."""
    if lake is not None:
        found = lake.read("questions", f"questions/{benchmark.family}", columns=["benchmark", "options"])
        options = [len(o) for b, o in zip(found["benchmark"], found["options"], strict=True) if b == benchmark.name]
        if options:
            return Count(len(options), sum(options) / len(options), "lake")
    expected = benchmark.expected
    return Count(expected.questions, float(expected.options), "declared") if expected.questions else None


def plan(name: str, lake: Lake | None = None) -> PresetPlan:
    """The estimate of the preset ``name`` with the profile in use.

    Raises
    ------
    BadInput
        Where there is no such preset.
    """
    known([name], "preset")
    preset = presets()[name]
    if not preset.benchmarks:
        relations = relation_count(preset.relations, lake)
        return PresetPlan(preset, [harvest(v, relations) for v in variants("KBloom") if name in v.presets], [])
    notes = []
    families = {declared()[b].family for b in preset.benchmarks}
    members = _members(name, lake)
    if not members:
        notes.append(
            "no variant names this preset yet: the numbers are for one, of each task family, at the profile's k"
        )
        stand_ins = (
            Declaration(FILE, "", {"name": "one variant", "family": f, "solver": "generator"}) for f in families
        )
        members = [_reasoner(declaration, lake) for declaration in stand_ins]
    in_use = benchmarks()
    chosen = [in_use[b] for b in preset.benchmarks if b in in_use]
    if not chosen:
        chosen = [b for b in in_use.values() if b.family in families]
        notes.append(f"profile {profiles.load().name} runs none of its benchmarks: these are its own")
    estimates = []
    for family, estimated in members:
        for benchmark in chosen:
            if family != benchmark.family:
                continue
            count = count_of(benchmark, lake)
            if count is None:
                notes.append(
                    f"{benchmark.name}: nobody knows how many questions it has; materialize questions/{benchmark.family}"
                )
                continue
            estimates.append(estimated(benchmark, count))
    return PresetPlan(preset, estimates, list(dict.fromkeys(notes)))


Member: TypeAlias = tuple[Family, Callable[[Benchmark, Count], Estimate]]
"""A variant of a preset: the family that it answers, and what it costs on a benchmark of it."""


def _members(preset: str, lake: Lake | None) -> list[Member]:
    """The variants that name a preset."""
    found = [_reasoner(r, lake) for r in variants("Reasoner") if preset in r.presets]
    found += [("graph", partial(graph_answers, v)) for v in variants("GraphAnswers") if preset in v.presets]
    found += [("search", partial(node_ranking, v)) for v in variants("NodeRanking") if preset in v.presets]
    return found


def _reasoner(declared: Declaration, lake: Lake | None) -> Member:
    return declared.attributes["family"], lambda benchmark, count: estimate(declared, benchmark, count, lake)


def picks(selector: Declaration | None, family: Family) -> dict[str, int]:
    """Rows of evidence for one option by kind: what the selector's parameters say, else the profile."""
    retrieval = profiles.load().retrieval
    parameters = (selector.attributes.get("parameters") or {}) if selector else {}
    method = METHODS.get(str(selector.attributes.get("method"))) if selector else None
    reads = method.reads if method else {"mcqa": ("corpus", "graph"), "table": ("tables",)}.get(family, ("graph",))
    found = {}
    if "corpus" in reads or "token_store" in reads:
        found["chunk"] = int(parameters.get("k", retrieval.chunks))
    if "tables" in reads:
        found["cell"] = int(parameters.get("k", retrieval.chunks))
    if "graph" in reads or "joined_graph" in reads:
        found["triple"] = int(parameters.get("s", retrieval.triples))
    return found


def rows_found(selector: Declaration | None, benchmark: Benchmark, lake: Lake | None) -> float | None:
    """Rows of evidence a selection of this selector has in the lake on average; None where it has none there."""
    if selector is None or lake is None:
        return None
    found = lake.read("evidence", f"evidence/{selector.place}", columns=["benchmark", "question_id", "option"])
    own = found.filter(found["benchmark"] == benchmark.name)
    selections = own.select("question_id", "option").n_unique()
    return own.height / selections if selections else None


def estimate(reasoner: Declaration, benchmark: Benchmark, count: Count, lake: Lake | None = None) -> Estimate:
    """The cost of one reasoner and its selector on one benchmark."""
    profile = profiles.load()
    family = benchmark.family
    named = f"{family}/{reasoner.attributes.get('selector')}"
    selector = next((s for s in variants("Selector") if s.place == named), None)
    each: dict[str, float] = dict(picks(selector, family))
    seen = rows_found(selector, benchmark, lake)
    if seen is not None:
        each = {kind: n * seen / sum(each.values()) for kind, n in each.items()}
    options = round(count.questions * max(count.options, 1))
    chains = options if reasoner.attributes.get("explain", True) else 0
    per_chain = sum(each.values())
    # The evidence of a claim is picked once for all of its labels.
    selections = count.questions if benchmark.task == "verification" else options
    evidence = round(selections * per_chain)
    made = Estimate(str(reasoner.attributes["name"]), benchmark.name, count)
    citations = round(chains * rate("citations_per_chain"))
    made.rows = {
        "evidence": evidence, "chains": chains, "predictions": count.questions, "citations": citations,
        "lineage_edges": 2 * evidence + chains + round(chains * per_chain) + count.questions + chains + 2 * citations,
    }  # fmt: skip
    made.store(sum(number * characters(kind) for kind, number in each.items()) * selections)
    generator = profile.generator
    extractive = reasoner.attributes.get("solver") == "extractive" or generator.backend == "extractive"
    if extractive:
        made.reasoning = chains * rate("seconds_per_chain", family) if family in rates()["seconds_per_chain"] else None
    else:
        made.calls = chains + count.questions
        made.prompt_tokens = round(_prompt_characters(benchmark, count, each) / rate("characters_per_token"))
        made.reply_tokens = chains * EXPLAIN_TOKENS + count.questions * CHOOSE_TOKENS
        each_call = seconds_per_call()
        made.reasoning = None if each_call is None else made.calls * each_call
    kind = "measured" if generator.backend == "extractive" else "published"
    for key in (selector.attributes.get("group"), selector.attributes.get("method")) if selector else ():
        if kind in rates()["seconds_per_selection"].get(key, {}):
            made.selecting = options * rate("seconds_per_selection", str(key), kind)
            break
    return made


def _prompt_characters(benchmark: Benchmark, count: Count, each: dict[str, float]) -> float:
    """Characters of all prompts, by writing one of each kind with texts of the expected length."""
    items = tuple(
        EvidenceItem(f"{kind}{i}", kind, "", "", "x" * characters(kind))
        for kind, n in each.items()
        for i in range(round(n))
    )
    question, option = "x" * characters("question"), "x" * characters("option")
    explain = explain_request(ExplainOption(question, "A", option, items, benchmark.task))
    options = max(round(count.options), 1)
    labels = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:options])
    choose = choose_request(ChooseAnswer(question, labels, (option,) * options, (), {}, benchmark.task))
    cited = rate("citations_per_chain") * sum(len(item.text) for item in items) / max(len(items), 1)
    compared = options * (rate("chain_tokens") * rate("characters_per_token") + cited)
    one = len(choose.system) + len(choose.user) + compared
    asked = count.questions * max(count.options, 1)
    return asked * (len(explain.system) + len(explain.user)) + count.questions * one
