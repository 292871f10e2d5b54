"""``evidence reproduce`` on the command line."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance
from typer.testing import CliRunner

from evidence_assets.cli import app, runner, table_runs
from evidence_assets.cli.reproduce import load_tables, plan_table
from evidence_assets.cli.run_selection import ANSWER_KINDS, RunSelection
from evidence_assets.cli.runner import Report
from evidence_assets.cli.table_plans import compute_totals, format_totals
from evidence_assets.cli.table_runs import load_selection, runnable_sources
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import PROFILE_VARIABLE
from evidence_assets.reproduction.cells import Cell, find_best_profile
from evidence_assets.reproduction.data_files import RequiredData
from evidence_assets.reproduction.presets import PRESETS_VARIABLE
from evidence_assets.reproduction.published_figures import PublishedName, figures
from evidence_assets.reproduction.table_plans import NOT_MEASURED
from evidence_assets_tests.assets.test_planning import record_pace
from evidence_assets_tests.assets.tiny_lake import webqsp_text
from evidence_assets_tests.benchmarks.official.contract import write_files
from evidence_assets_tests.conftest import run_python
from evidence_assets_tests.lake_rows import question

MODEL_ID = "Qwen/Qwen2.5-72B-Instruct-AWQ"
LARGEST_UNKNOWN_SHARE = 0.2
"""Of the cells of all plans in an empty lake; mostly hours."""


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, other_settings: pytest.MonkeyPatch) -> None:
    """A lake with one score (3 of 4 right) whose printed figure is 95.40 %."""
    other_settings.setenv("EVIDENCE_LAKE", str(tmp_path / "lake"))
    other_settings.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    other_settings.setenv(PROFILE_VARIABLE, "paper")
    metrics = {"accuracy": accuracy([True, True, True, False])}
    rows = metric_rows("obqa", "uscrake_published", "prompted", MODEL_ID, metrics, [PublishedName("uscrake", "full")])
    Lake.create(tmp_path / "lake").write("scores/mcqa/uscrake_published", "obqa", {"scores": rows})


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["reproduce", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_all_tables_are_listed_with_their_state() -> None:
    tables = json.loads(run("--json"))
    assert sum(t["printed"] for t in tables) == len(figures())
    for table in tables:
        assert table["fillable"] + sum(r["cells"] for r in table["reasons"]) == table["printed"]
        assert table["filled"] <= table["fillable"]
        assert bool(table["data"]) == bool(table["fillable"])
    (table,) = [t for t in tables if t["table"] == "thesis-7.3"]
    assert table["filled"] == 2 and "openbookqa" in table["data"]["obqa"].lower().replace("-", "")
    assert table["run"] == ["evidence reproduce thesis-7.3 --run"] and "freebase" not in table["data"]
    output = " ".join(run().split())
    assert f"{len(figures()):,} cells are printed" in output and ", 3 are filled." in output  # in Fig. 7.5, too


def test_one_table_has_our_figures_next_to_the_printed_ones() -> None:
    cells = json.loads(run("thesis-7.3", "--json"))["cells"]
    direct, derived = [cell for cell in cells if cell["ours"] is not None]
    assert (direct["printed"], direct["ours"], direct["n"]) == (0.954, 0.75, 4)
    assert direct["difference"] == pytest.approx(-0.204)
    assert "4 of 500 questions" in direct["differences, or why there is no score"]
    assert (derived["metric"], derived["printed"]) == ("accuracy_delta_vs_best_baseline", 0.041)
    assert derived["ours"] == pytest.approx(0.75 - 0.913), "the printed best baseline is subtracted"
    assert "minus the printed best baseline" in derived["differences, or why there is no score"]
    assert len(cells) == 37 and " 0.75 " in run("thesis-7.3")


def test_the_error_for_a_misspelt_table_suggests_the_nearest_names() -> None:
    result = CliRunner().invoke(app, ["reproduce", "thesis-7,3"])
    assert result.exit_code == 1 and "'thesis-7.3'" in result.output, result.output
    for options in (["--plan"], ["--run"], ["thesis-7.3", "--run", "--json"], ["thesis-7.3", "--run", "--plan"]):
        refused = CliRunner().invoke(app, ["reproduce", *options])
        assert refused.exit_code == 1 and "--" in refused.output


def test_the_notes_of_the_figures_are_below_the_table() -> None:
    output = run("thesis-3.5")
    cells = json.loads(run("thesis-3.5", "--json"))["cells"]
    notes = dict.fromkeys(cell["note on the figure"] for cell in cells if cell["note on the figure"])
    assert any("SUPPORTS and NEI rows swapped" in note for note in notes)
    for number, note in enumerate(notes, 1):
        assert f"[{number}] {note}" in output and f" [{number}] " in output.partition("\n[1]")[0]


def test_a_table_is_drawn_beside_its_printed_figures(tmp_path: Path) -> None:
    file = tmp_path / "table.svg"
    assert f"{file}: 1 scores" in run("thesis-7.3", "--plot", str(file)), "the difference is no share"
    picture = file.read_text()
    assert picture.startswith("<svg") and "obqa accuracy uscrake_published" in picture
    assert "0.750" in picture and "0.954" in picture
    for name, arguments in (("has no share", ["thesis-3.5", "--plot", str(file)]), (".svg", ["a2q-2", "--plot", "x"])):
        refused = CliRunner().invoke(app, ["reproduce", *arguments])
        assert refused.exit_code == 1 and name in refused.output


@pytest.mark.slow
def test_every_table_has_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is there: data with targets, models with ports, work, sources, and what cannot be had."""
    n_planned = 0
    cells_known: list[bool] = []
    for profile in ("paper", "companions"):
        monkeypatch.setenv(PROFILE_VARIABLE, profile)
        finder = RequiredData()
        for name, cells in load_tables(None).items():
            if find_best_profile(cell.figure for cell in cells) == profile:
                plan = plan_table(name, cells, finder)
                check_plan(plan, cells)
                cells_known += check_cells(plan)
                n_planned += 1
    assert n_planned == 57
    assert cells_known.count(False) / len(cells_known) < LARGEST_UNKNOWN_SHARE


def check_cells(plan: dict[str, Any]) -> list[bool]:
    """Whether each cell of a plan is a number; one that is none gives its reason."""
    columns = {
        "data": ("bytes",),
        "models": ("cards", "weights", "cache", "context"),
        "work": ("items", "requests", "tokens_in", "tokens_out", "seconds"),
        "sources": ("seconds", "mebibytes", "disk_bytes"),
    }
    rows = [(part, row) for part in columns for row in plan[part] if part != "data" or row["targets"]]
    cells = [row[name] for part, row in rows for name in columns[part]]
    assert all(cell in (None, "not known", "remote service") or float(cell) >= 0 for cell in cells), plan["table"]
    return [isinstance(cell, int | float) or cell == "remote service" for cell in cells]


def check_plan(plan: dict[str, Any], cells: Sequence[Cell]) -> None:
    name = plan["table"]
    requests = [work["requests"] for work in plan["work"]]
    assert plan["totals"]["requests"] == {"known": sum(requests), "unknown_parts": 0}, name
    is_runnable = bool(plan["work"])
    assert is_runnable == bool(plan["presets"]) == bool(plan["models"]) == bool(plan["data"]), name
    assert bool(plan["unavailable"]) or all(cell.sources for cell in cells), name
    for data in plan["data"]:
        assert data["origin"] and (data["targets"] or "packaged" in data["origin"]), (name, data)
        assert all(target.startswith(os.environ["EVIDENCE_LAKE"]) for target in data["targets"]), (name, data)
    for model in plan["models"]:
        assert model["use"] and model["cards"] and model["weights"] and model["context"], (name, model)
        assert bool(model["port"]) == ("127.0.0.1" in model["server"]), (name, model)
        assert not model["server"].startswith("https") or model["note"].startswith("retired"), (name, model)
    for work in plan["work"]:
        assert work["items"] and work["requests"] is not None and work["seconds"] is None, (name, work)
        assert bool(work["requests"]) == bool(work["tokens_from"]) == bool(work["context"]), (name, work)
    for source in plan["sources"]:
        assert (source["measured"] == NOT_MEASURED) != bool(source["page"]), (name, source)


@pytest.mark.parametrize(
    ("table", "profile", "presets"),
    [
        ("thesis-6.2", "paper", ["ugat_main"]),
        ("thesis-7.5", "paper", ["uscrake_costs"]),
        ("thesis-fig-5.11", "paper", ["kbloom_costs", "kbloom_prompts"]),
        ("4stepfocus-1", "companions", ["fourstepfocus_main"]),
        ("kaping-background-5.3", "companions", ["kaping_cases"]),
    ],
)
def test_a_table_chooses_its_profile_and_presets(
    table: str, profile: str, presets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PROFILE_VARIABLE)
    plan = json.loads(run(table, "--plan", "--json"))
    assert (plan["profile"], plan["presets"]) == (profile, presets)


@pytest.mark.slow
def test_a_plan_counts_what_is_known_and_guesses_nothing() -> None:
    plan = json.loads(run("thesis-7.5", "--plan", "--json"))
    assert {data["name"] for data in plan["data"]} == {"obqa", "csqa", "arc_c", "wikipedia"}, "no graph for chunks"
    chunks, *_ = plan["sources"]
    assert chunks["disk_bytes"] == 478 * 11_400_000 and chunks["asset"] == "corpus/wikipedia/chunks"
    assert chunks["seconds"] == pytest.approx(75.6 * 11_400_000 / 1_090_935)
    context = 426 + 15 * 512 + 1024
    models = {model["model"]: model for model in plan["models"]}
    assert models[MODEL_ID] | {"context": context, "cache": 32 * context * 327_680, "cards": 2} == models[MODEL_ID]
    assert (models["BAAI/bge-m3"]["cards"], models["BAAI/bge-m3"]["cache"]) == (1, 0)
    work = {(row["benchmark"], row["variant"]): row for row in plan["work"]}
    assert work["obqa", "uscrake_jsd_chunks"]["items"] == 500
    assert work["obqa", "uscrake_jsd_chunks"]["requests"] == 500 * (4 + 1)
    claims = {row["variant"]: row for row in json.loads(run("thesis-3.5", "--plan", "--json"))["work"]}
    assert claims["ucret_published@llama3_3_70b"]["requests"] == 4 * claims["ucret_published@llama3_3_70b"]["items"]
    output = run("thesis-7.5", "--plan")
    assert "hours are not measured" in output and "docs/measured.md#corpus-size" in output and "5.4 GB" in output
    assert "missing; about 228.0 kB" in output and "~ " in output
    totals = " ".join(output.split()).rpartition("In all: ")[2]
    requests = sum(work["requests"] for work in plan["work"])
    assert totals.startswith(f"{requests:,} requests, ") and " tokens, at least " in totals, totals


@pytest.mark.parametrize(
    ("seconds", "disk_bytes", "text"),
    [
        (1800.0, 10**9, "5 requests, 120 tokens, 1.5 hours, 3.0 GB of disk for data and sources."),
        (None, None, "5 requests, 120 tokens, at least 1.0 hours, at least 2.0 GB of disk for data and sources."),
    ],
)
def test_a_total_is_a_lower_bound_where_a_part_is_unknown(
    seconds: float | None, disk_bytes: int | None, text: str
) -> None:
    data = [{"targets": ["raw/a"], "bytes": 2 * 10**9}, {"targets": [], "bytes": 10**12}]
    work = [{"requests": 5, "tokens_in": 100, "tokens_out": 20, "seconds": 3600.0}]
    sources = [{"seconds": seconds, "disk_bytes": disk_bytes}]
    totals = compute_totals({"data": data, "work": work, "sources": sources})
    assert format_totals(totals) == f"In all: {text}"
    unknown = compute_totals({"data": [], "work": work, "sources": []}) | {"seconds": {"known": 0, "unknown_parts": 1}}
    assert "tokens, hours not known, 0 bytes of disk" in format_totals(unknown)


@pytest.mark.parametrize("table", ["a2q-2", "a2q-3", "a2q-4", "a2q-6", "a2q-7"])
def test_figures_of_evidence_are_filled_without_answers(table: str, other_settings: pytest.MonkeyPatch) -> None:
    other_settings.setenv(PRESETS_VARIABLE, "")
    cells = load_tables(None)[table]
    plan = plan_table(table, cells, RequiredData())
    assert plan["work"] and not any(work["requests"] for work in plan["work"])
    assert "language model" not in {model["use"] for model in plan["models"]}
    selected = load_selection(runnable_sources(cells), table.replace("-", " ")).keys or ()
    kinds = {key.path[0] for key in selected}
    assert kinds >= {"evidence", "scores"} and not kinds & set(ANSWER_KINDS)


def test_only_figures_of_evidence_need_no_answers() -> None:
    """Hits of a search rank its answers; those of Attention2Query are of triples."""
    sources = [source for cells in load_tables(None).values() for source in runnable_sources(cells)]
    answered = {
        system: {source.has_answers for source in sources if source.variant.system == system}
        for system in ("a2q", "four_step_focus", "uscrake", "ucret", "ugat")
    }
    assert answered == {system: {system != "a2q"} for system in answered}


@pytest.fixture
def run_processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of processes of each run; a run takes an hour for the chunks of each question, and does nothing."""
    numbers: list[int] = []

    def record_run(selection: RunSelection, processes: int = 1) -> Report:
        numbers.append(processes)
        runner.dagster_home()
        with DagsterInstance.get() as instance:
            record_pace(instance, "chunk_rankings/mcqa/uscrake_jsd_chunks", "obqa|0", 3540)
            record_pace(instance, "evidence/mcqa/uscrake_jsd_chunks", "obqa|0", 60)
        return Report()

    monkeypatch.setattr(runner, "run_all", record_run)
    monkeypatch.setattr(table_runs, "load_selection", lambda *_: RunSelection(frozenset()))
    return numbers


def test_a_run_shows_its_times_in_the_lake_that_is_named(tmp_path: Path, run_processes: list[int]) -> None:
    named = Lake.create(tmp_path / "named")
    named.write("questions/mcqa", "obqa|0", {"questions": [question(i, "obqa") for i in range(4)]})
    output = run("thesis-7.8", "--run", "--lake", str(named.root))
    assert len(run_processes) == 1 and re.search(r"chunk_retrieval_stage\W+hours\W+132\.0\W+4\b", output), output


@pytest.mark.parametrize(("cards", "processes"), [(0, 1), (2, 2), (8, 3)])
def test_a_run_has_a_process_for_each_card_that_the_profile_allows(
    cards: int, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_processes: list[int]
) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text("extends: embedded\nname: paper\npools: {gpu: 3}\n")
    monkeypatch.setenv(PROFILE_VARIABLE, str(profile))
    monkeypatch.setattr("torch.cuda.device_count", lambda: cards)
    run("a2q-2", "--run")
    for name in ("sample_mcqa", "sample"):
        result = CliRunner().invoke(app, ["run", name])
        assert result.exit_code == 0, result.output
    assert run_processes == [processes] * 3


@pytest.mark.long
def test_the_printed_commands_fill_a_table(tmp_path: Path) -> None:
    """Small files in the official formats, and an extractive profile in place of the published one."""
    profile, raw = tmp_path / "paper.yaml", Lake.create(tmp_path / "lake").root / "raw"
    profile.write_text("extends: embedded\nname: paper\nsample: small\n")
    files = {
        "webqsp/data/WebQSP.test.json": webqsp_text(),
        "graphs/freebase/triples.tsv": "France\tcapital\tParis\nJapan\tcurrency\tyen\nParis\tlies on\tSeine\n",
        "graphs/freebase/names.tsv": "m.1\tFrance\n",
    }
    write_files(raw, files)
    environment = {
        "EVIDENCE_LAKE": str(tmp_path / "lake"),
        "DAGSTER_HOME": str(tmp_path / "home"),
        PROFILE_VARIABLE: str(profile),
    }
    commands = [("reproduce", "kaping-background-5.5", "--json")]
    for filled in (0, 3):
        for command in commands:
            output = run_python("-m", "evidence_assets.cli", *command, timeout=240, env=environment)
        table = json.loads(output)
        assert [table[name] for name in ("printed", "fillable", "from_records", "filled")] == [13, 10, 7, filled]
        commands = [*(tuple(line.split()[1:]) for line in table["run"]), *commands]
    filled_cells = [cell for cell in table["cells"] if cell["ours"] is not None]
    assert {cell["n"] for cell in filled_cells} == {2}
    for cell in filled_cells:  # another model, fewer questions, and another version of the graph
        note = cell["differences, or why there is no score"]
        for part in (f"printed {cell['model'] or 'without a model'}", "2 of ", "our freebase (your extract"):
            assert part in note, (part, note)
