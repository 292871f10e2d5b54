"""What a preset will cost: counted by hand for one benchmark, and rates that their printed sources give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets import profiles
from evidence_assets.assets import benchmark, planning
from evidence_assets.assets.planning import count_of, estimate, plan, rates
from evidence_assets.benchmarks.declarations import Declaration
from evidence_assets.cli import app
from evidence_assets.experiment.presets import presets
from evidence_assets.experiment.published import figures
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import evidence, question


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The profile paper."""
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, "paper")
    benchmark.benchmarks.cache_clear()
    yield
    benchmark.benchmarks.cache_clear()


def declared(component: str, **attributes: object) -> Declaration:
    return Declaration(Path("defs.yaml"), f"x.{component}", attributes)


@pytest.fixture
def variant(monkeypatch: pytest.MonkeyPatch) -> Declaration:
    """A reasoner of the preset uscrake_costs with a selector of seven chunks an option."""
    selector = declared("Selector", name="z", family="mcqa", method="bm25", parameters={"k": 7}, group="uscrake")
    reasoner = declared(
        "Reasoner", name="z", family="mcqa", selector="z", solver="generator", presets=["uscrake_costs"]
    )
    both = {"Selector": [selector], "Reasoner": [reasoner]}
    monkeypatch.setattr(planning, "variants", lambda component: both.get(component, []))
    return reasoner


def test_rows_calls_and_times_are_those_counted_by_hand(paper: None, variant: Declaration) -> None:
    made = {e.benchmark: e for e in plan("uscrake_costs").estimates}
    assert set(made) == {"obqa", "csqa", "arc_c", "medmcqa", "piqa", "riddle"}
    piqa = made["piqa"]
    assert (piqa.count.questions, piqa.count.options, piqa.count.known_from) == (1838, 2.0, "declared")
    assert piqa.rows["chains"] == 3676
    assert piqa.rows["evidence"] == 3676 * 7
    assert piqa.rows["predictions"] == 1838
    assert piqa.calls == 3676 + 1838
    assert piqa.reply_tokens == 3676 * 1024 + 1838 * 32
    # Seven chunks of 512 tokens stand in every prompt for an option.
    assert 3676 * 7 * 512 < piqa.prompt_tokens < 2 * 3676 * 7 * 512
    assert piqa.reasoning == pytest.approx(5514 * rates()["seconds_per_call"]["qwen2.5-72b"]["value"])
    assert piqa.selecting == pytest.approx(3676 * rates()["seconds_per_selection"]["uscrake"]["published"]["value"])


def test_claims_get_their_evidence_once_and_extractive_reasoning_calls_no_model(variant: Declaration) -> None:
    claims = benchmark.declared()["scitab"]
    reasoner = declared("Reasoner", name="y", family="table", selector="y", solver="generator")
    count = count_of(claims, None)
    assert count is not None
    found = estimate(reasoner, claims, count)
    assert found.rows["evidence"] == 1224 * profiles.load("embedded").retrieval.chunks
    assert found.rows["chains"] == 3 * 1224
    assert (found.calls, found.prompt_tokens, found.reply_tokens) == (0, 0, 0)
    assert found.reasoning is not None and found.selecting is None


def test_the_lake_knows_better_than_the_declaration(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "data_lake")
    obqa = benchmark.declared()["obqa"]
    assert count_of(obqa, lake) == count_of(obqa, None)
    lake.write("questions/mcqa", "obqa|0", {"questions": [question(i, "obqa") for i in range(3)]})
    found = count_of(obqa, lake)
    assert found is not None
    assert (found.questions, found.options, found.known_from) == (3, 2.0, "lake")
    assert count_of(benchmark.Benchmark(name="mine", task="mcqa"), None) is None


def test_evidence_in_the_lake_says_how_much_a_selector_picks(tmp_path: Path, variant: Declaration) -> None:
    lake = Lake.create(tmp_path / "data_lake")
    piqa = benchmark.declared()["piqa"]
    rows = [evidence(1, rank, "t", benchmark="piqa") for rank in (1, 2, 3)]
    rows.append(evidence(2, 1, "t", benchmark="piqa"))
    lake.write("evidence/mcqa/z", "piqa|0", {"evidence": rows})
    count = count_of(piqa, None)
    assert count is not None
    assert estimate(variant, piqa, count).rows["evidence"] == 3676 * 7
    assert estimate(variant, piqa, count, lake).rows["evidence"] == 3676 * 2


@pytest.mark.parametrize("model", ["qwen2.5-14b", "qwen2.5-72b", "llama-3.3-70b"])
def test_seconds_a_call_are_those_of_the_printed_hours(model: str) -> None:
    sizes = {name: b.expected for name, b in benchmark.declared().items() if b.reader != "own"}
    hours = [f for f in figures() if (f.table, f.model, f.metric) == ("7.8", model, "hours")]
    assert len(hours) == 6
    calls = sum(sizes[f.benchmark].questions * (sizes[f.benchmark].options + 1) for f in hours)
    stated = rates()["seconds_per_call"][model]
    assert stated["value"] == pytest.approx(sum(f.value for f in hours) * 3600 / calls, abs=0.006)
    assert f"{calls:,} calls" in stated["source"]


def test_seconds_a_selection_are_those_of_the_printed_times() -> None:
    sizes = {name: b.expected for name, b in benchmark.declared().items() if b.reader != "own"}
    stages = ("chunk_retrieval_stage", "kg_reasoning_stage")
    hours = [f for f in figures() if f.table == "7.8" and f.variant in stages]
    options = sum(e.questions * e.options for e in (sizes[name] for name in {f.benchmark for f in hours}))
    stated = rates()["seconds_per_selection"]
    assert stated["uscrake"]["published"]["value"] == pytest.approx(
        sum(f.value for f in hours) * 3600 / options, abs=0.06
    )
    minutes = {f.benchmark: f.value for f in figures() if f.table == "3.4" and f.variant == "column_filtering_stage"}
    options = sum(sizes[name].questions * sizes[name].options for name in minutes)
    assert stated["ucret"]["published"]["value"] == pytest.approx(sum(minutes.values()) * 60 / options, abs=0.0006)


def test_every_rate_has_its_source() -> None:
    def entries(node: object) -> Iterator[dict[str, object]]:
        if isinstance(node, dict):
            if "value" in node:
                yield node
            else:
                for child in node.values():
                    yield from entries(child)

    found = list(entries(rates()))
    assert len(found) > 10
    assert all(entry["source"] and float(str(entry["value"])) > 0 for entry in found)


def test_a_preset_that_there_is_not_is_refused_with_its_neighbour(paper: None) -> None:
    with pytest.raises(BadInput, match="did you mean 'uscrake_main'"):
        plan("uscrake_mian")


def test_the_command_prints_the_same_numbers(variant: Declaration, paper: None, tmp_path: Path) -> None:
    lake = ["--lake", str(tmp_path)]
    done = CliRunner().invoke(app, ["plan", "uscrake_costs", "--json", *lake])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert sum(e["calls"] for e in found["estimates"]) == sum(e.calls for e in plan("uscrake_costs").estimates)
    shown = CliRunner().invoke(app, ["plan", "uscrake_costs", *lake])
    assert shown.exit_code == 0 and "estimates" in shown.output


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_is_planned_in_the_published_profile(name: str, paper: None) -> None:
    made = plan(name)
    assert made.estimates and not made.notes, made.notes
    for row in made.estimates:
        assert row.count.questions > 0 and row.bytes > 0 and all(n >= 0 for n in row.rows.values()), row
        if made.preset.relations:
            assert row.calls > 0 and row.prompt_tokens > row.calls
        elif row.reply_tokens or row.rows.get("chains"):
            # A reasoner that names no solver is the profile's language model.
            assert row.calls > 0 and row.reply_tokens > 0 and row.prompt_tokens > 0 and row.reasoning
    if made.preset.benchmarks:
        assert {row.benchmark for row in made.estimates} == set(made.preset.benchmarks)


def test_a_harvest_is_counted_by_its_relations_prompts_and_pairs(paper: None, tmp_path: Path) -> None:
    found = {e.variant: e for e in plan("kbloom_prompts").estimates}
    whole, first = found["kbloom_printed"], found["kbloom_initial"]
    assert (whole.count.questions, whole.count.known_from) == (55, "declared")
    # Both searches keep 1,000 triples of each relation, and the collection those of one of them; with one prompt instead of 20 a twentieth passes through the model.
    assert whole.rows["triples"] == first.rows["triples"] == 55 * 3 * 1000
    assert whole.calls == pytest.approx(20 * first.calls, rel=1e-4)
    assert found["kbloom_corrected"].rows["triples"] == 55 * 2 * 1000, "without the baseline"
    assert whole.selecting is None, "no rate is known of this model here"
    lake = Lake.create(tmp_path / "data_lake")
    seeds = [seed("treats", i) for i in range(3)] + [seed("eats", 0)]
    lake.write("knowledge/seeds", "treats", {"relation_seeds": seeds})
    by_lake = plan("kbloom_prompts", lake).estimates[0]
    assert (by_lake.count.questions, by_lake.count.known_from) == (2, "lake")


def test_the_embedded_harvest_has_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, "embedded")
    found = plan("kbloom_costs").estimates
    relations = len(profiles.load("embedded").harvesting.sample_relations)
    assert {e.count.questions for e in found} == {relations} and all(e.seconds > 0 for e in found)


def test_short_answers_and_ranked_nodes_are_calls_too(paper: None) -> None:
    answers = {(e.variant, e.benchmark): e for e in plan("kaping_cases").estimates}
    assert answers["kg_graph", "webqsp"].calls == 1639
    assert answers["kg_both", "webqsp"].calls == 4 * 1639, "three requests recall what the fourth is answered with"
    assert answers["kg_none", "webqsp"].rows["evidence"] == 0
    nodes = {(e.variant, e.benchmark): e for e in plan("fourstepfocus_main").estimates}
    assert nodes["vector_search", "stark_prime_human"].calls == 0
    assert nodes["fourstepfocus", "stark_prime_human"].calls == 98
    assert nodes["fourstepfocus_reranked", "stark_prime_human"].calls == 98 * 21


def seed(relation: str, number: int) -> dict[str, object]:
    return {
        "relation_id": relation, "collection": "c", "prompt": "<HEAD> <TAIL>", "head": f"h{number}", "tail": "t",
        "seed_id": f"{relation}{number}", "seed_hash": "v", "position": number, "template": "<HEAD> <TAIL>",
        "head_kinds": [], "tail_kinds": [], "symmetric": False, "functional": False,
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_is_planned_without_a_model_too(name: str, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["plan", name, "--lake", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert ("model inputs" if presets()[name].relations else "evidence") in " ".join(shown.output.split())
