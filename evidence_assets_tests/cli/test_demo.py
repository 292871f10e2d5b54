"""The whole asset graph: materialized, rerun and queried."""

import json
import re

import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.lake import connect
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import World


def test_the_demo_shows_scores_and_answers_with_their_evidence(made_world: World) -> None:
    output = (made_world.root / "first_run.txt").read_text()
    assert "Scoreboard" in output
    assert "(verified)" in output and "\nevidence\n" in output
    assert "make ui" in output
    [run] = (made_world.root / "data_lake" / "history").iterdir()
    assert f"; {run.name.replace('=', ' ')[:12]}" in output, "one command is one run"


@pytest.mark.long
def test_a_second_run_reuses_unchanged_rows_and_changes_no_byte(changed_world: World) -> None:
    before = changed_world.data()
    output = changed_world.run("demo")
    assert changed_world.data() == before
    unchanged, computed = (
        int(n.replace(",", "")) for n in re.findall(r"rows unchanged ([\d,]+), computed ([\d,]+)", output)[0]
    )
    with connect(changed_world.root / "data_lake") as connection:
        n_expensive = sum(
            connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            for table in ("chunk_embeddings", "evidence", "chains", "predictions")
        )
    assert unchanged >= n_expensive and computed == 0


def test_questions_in_all_output_formats(made_world: World) -> None:
    sql = "SELECT benchmark, count(*) AS n FROM questions GROUP BY 1 ORDER BY 1"
    as_json = json.loads(made_world.invoke("query", sql, "--format", "json").stdout)
    as_csv = made_world.invoke("query", sql, "--format", "csv").stdout.splitlines()
    assert as_csv[0] == "benchmark,n"
    assert [f"{row['benchmark']},{row['n']}" for row in as_json] == as_csv[1:]
    wrong = made_world.invoke("query", "SELECT nonsense")
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith("evidence: ") and "Traceback" not in wrong.stderr


def test_the_doctor_accepts_the_embedded_profile_and_lists_what_paper_lacks() -> None:
    fine = CliRunner().invoke(app, ["doctor"])
    assert fine.exit_code == 0, fine.output
    lacking = CliRunner().invoke(app, ["doctor"], env={"EVIDENCE_PROFILE": "paper"})
    assert lacking.exit_code == 1
    assert "vllm serve" in lacking.stdout


def test_gc_finds_data_of_removed_assets(changed_world: World) -> None:
    lake = Lake(changed_world.root / "data_lake")
    lake.write("evidence/mcqa/forgotten", "b|0", {"evidence": [], "lineage_edges": []})
    assert "asset=evidence.mcqa.forgotten" in changed_world.invoke("gc").stdout
    assert "deleted" in changed_world.invoke("gc", "--yes").stdout
    assert "nothing to delete" in changed_world.invoke("gc").stdout
