"""``evidence reproduce`` on the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import PROFILE_VARIABLE
from evidence_assets.reproduction.published_figures import PublishedName, figures
from evidence_assets_tests.assets.tiny_lake import webqsp_text
from evidence_assets_tests.benchmarks.official.contract import write_files
from evidence_assets_tests.conftest import run_python

MODEL_ID = "Qwen/Qwen2.5-72B-Instruct-AWQ"


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake with one score (3 of 4 right) whose printed figure is 95.40 %."""
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(PROFILE_VARIABLE, "paper")
    metrics = {"accuracy": accuracy([True, True, True, False])}
    rows = metric_rows("obqa", "uscrake_published", "prompted", MODEL_ID, metrics, [PublishedName("uscrake", "full")])
    Lake.create(tmp_path / "lake").write("scores/mcqa/uscrake_published", "obqa", {"scores": rows})


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["reproduce", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_all_tables_are_listed_with_their_state() -> None:
    tables = json.loads(run("--json"))
    assert sum(t["printed"] for t in tables) == len(figures())
    for table in tables:
        assert table["fillable"] + sum(r["cells"] for r in table["reasons"]) == table["printed"]
        assert table["filled"] <= table["fillable"]
        assert bool(table["data"]) == bool(table["fillable"])
    (table,) = [t for t in tables if t["table"] == "thesis-7.3"]
    assert table["filled"] == 2 and "openbookqa" in table["data"]["obqa"].lower().replace("-", "")
    labels = ("uscrake_published", "uscrake_published@llama3_3_70b", "uscrake_published@qwen2_5_14b")
    assert f"evidence run obqa --variants {','.join(labels)}" in table["run"]
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


def test_the_error_for_a_misspelt_table_suggests_the_nearest_name() -> None:
    result = CliRunner().invoke(app, ["reproduce", "thesis-7,3"])
    assert result.exit_code == 1 and "thesis-7.3" in result.output


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
