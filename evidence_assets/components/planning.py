"""What a preset will cost, before anything runs: rows, model calls, tokens, time and disk, as estimates.

Counts come from the lake where it has the questions (and evidence of the selector), else from what a benchmark declares
of itself and the profile's settings; rates from ``rates.yaml``, each with its source. Corpora, indexes and graphs are not counted: they are made once, whatever is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from evidence_assets import profiles
from evidence_assets.components.benchmark import Benchmark, Family, benchmarks, declared
from evidence_assets.components.declarations import Declaration, variants
from evidence_assets.components.presets import Preset, known, presets
from evidence_assets.components.selector_methods import METHODS
from evidence_assets.datasets.published import figures
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.prompts import CHOOSE_TOKENS, EXPLAIN_TOKENS, choose_request, explain_request
from evidence_assets.reasoning.tasks import ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.systems.published_figures import printed_model

FILE = Path(__file__).with_name("rates.yaml")
CHARACTERS = {"chunk": 0, "triple": 40, "cell": 15, "question": 120, "option": 30}
"""Characters of a text of each kind where a typical one is meant; a chunk is as long as the profile cuts it."""


@lru_cache
def rates() -> dict[str, Any]:
    """The table of rates, each a mapping with ``value`` and ``source``."""
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def _value(*path: str) -> float:
    entry: Any = rates()
    for part in path:
        entry = entry[part]
    return float(entry["value"])


@dataclass(frozen=True)
class Count:
    """How many questions a benchmark has, options each on average, and how that is known."""

    questions: int
    options: float
    known_from: str


@dataclass
class Estimate:
    """The cost of one variant on one benchmark."""

    variant: str
    benchmark: str
    count: Count
    rows: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    """At most: the limit of every call."""
    selecting: float | None = None
    """Seconds; None where no rate is known."""
    reasoning: float | None = None
    bytes: int = 0

    @property
    def seconds(self) -> float:
        """What is known of the time."""
        return (self.selecting or 0.0) + (self.reasoning or 0.0)


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
        Where there is no such preset, or it is not about questions.
    """
    known([name], "preset")
    preset = presets()[name]
    if not preset.benchmarks:
        raise BadInput(
            f"preset {name} is not about questions; what it costs depends on its relations and is not planned"
        )
    members = [r for r in variants("Reasoner") if name in r.presets]
    notes = []
    families = {declared()[b].family for b in preset.benchmarks}
    if not members:
        notes.append(
            "no variant names this preset yet: the numbers are for one, of each task family, at the profile's k"
        )
        members = [Declaration(FILE, "", {"name": "one variant", "family": f, "solver": "generator"}) for f in families]
    in_use = benchmarks()
    chosen = [in_use[b] for b in preset.benchmarks if b in in_use]
    if not chosen:
        chosen = [b for b in in_use.values() if b.family in families]
        notes.append(f"profile {profiles.load().name} runs none of its benchmarks: these are its own")
    estimates = []
    for member in members:
        for benchmark in chosen:
            if member.attributes["family"] != benchmark.family:
                continue
            count = count_of(benchmark, lake)
            if count is None:
                notes.append(
                    f"{benchmark.name}: nobody knows how many questions it has; materialize questions/{benchmark.family}"
                )
                continue
            estimates.append(estimate(member, benchmark, count, lake))
    return PresetPlan(preset, estimates, list(dict.fromkeys(notes)))


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
    chains = round(count.questions * max(count.options, 1))
    per_chain = sum(each.values())
    # The evidence of a claim is picked once for all of its labels.
    selections = count.questions if benchmark.task == "verification" else chains
    evidence = round(selections * per_chain)
    made = Estimate(str(reasoner.attributes["name"]), benchmark.name, count)
    citations = round(chains * _value("citations_per_chain"))
    made.rows = {
        "evidence": evidence, "chains": chains, "predictions": count.questions, "citations": citations,
        "lineage_edges": 2 * evidence + chains + round(chains * per_chain) + count.questions + chains + 2 * citations,
    }  # fmt: skip
    texts = {kind: _characters(kind) for kind in each}
    stored = sum(number * texts[kind] for kind, number in each.items()) * selections * _value("text_share")
    made.bytes = round(stored + sum(n * _value("bytes_per_row", table) for table, n in made.rows.items()))
    generator = profile.generator
    extractive = reasoner.attributes.get("solver", "extractive") == "extractive" or generator.backend == "extractive"
    if extractive:
        made.reasoning = (
            chains * _value("seconds_per_chain", family) if family in rates()["seconds_per_chain"] else None
        )
    else:
        made.calls = chains + count.questions
        made.prompt_tokens = round(_prompt_characters(benchmark, count, each) / _value("characters_per_token"))
        made.reply_tokens = chains * EXPLAIN_TOKENS + count.questions * CHOOSE_TOKENS
        model = printed_model(generator.name, {f.model for f in figures()})
        if model in rates()["seconds_per_call"]:
            made.reasoning = made.calls * _value("seconds_per_call", model)
    kind = "measured" if generator.backend == "extractive" else "published"
    for key in (selector.attributes.get("group"), selector.attributes.get("method")) if selector else ():
        if kind in rates()["seconds_per_selection"].get(key, {}):
            made.selecting = chains * _value("seconds_per_selection", str(key), kind)
            break
    return made


def _characters(kind: str) -> int:
    return CHARACTERS[kind] or round(profiles.load().chunking.max_tokens * _value("characters_per_token"))


def _prompt_characters(benchmark: Benchmark, count: Count, each: dict[str, float]) -> float:
    """Characters of all prompts, by writing one of each kind with texts of the expected length."""
    items = tuple(
        EvidenceItem(f"{kind}{i}", kind, "", "", "x" * _characters(kind))
        for kind, n in each.items()
        for i in range(round(n))
    )
    question, option = "x" * CHARACTERS["question"], "x" * CHARACTERS["option"]
    explain = explain_request(ExplainOption(question, "A", option, items, benchmark.task))
    options = max(round(count.options), 1)
    labels = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:options])
    choose = choose_request(ChooseAnswer(question, labels, (option,) * options, (), {}, benchmark.task))
    cited = _value("citations_per_chain") * sum(len(item.text) for item in items) / max(len(items), 1)
    compared = options * (_value("chain_tokens") * _value("characters_per_token") + cited)
    one = len(choose.system) + len(choose.user) + compared
    asked = count.questions * max(count.options, 1)
    return asked * (len(explain.system) + len(explain.user)) + count.questions * one
