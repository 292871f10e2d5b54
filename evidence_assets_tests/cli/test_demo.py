"""The whole asset graph: materialized, rerun, killed midway, and queried."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.lake import connect
from evidence_assets.lake.lineage import find_dangling_edges
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import World, new_world


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
    rerun = changed_world.run("demo")
    assert rerun.returncode == 0, rerun.stdout + rerun.stderr
    assert changed_world.data() == before
    unchanged, computed = (
        int(n.replace(",", "")) for n in re.findall(r"rows unchanged ([\d,]+), computed ([\d,]+)", rerun.stdout)[0]
    )
    with connect(changed_world.root / "data_lake") as connection:
        n_expensive = sum(
            connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            for table in ("chunk_embeddings", "evidence", "chains", "predictions")
        )
    assert unchanged >= n_expensive and computed == 0


@pytest.mark.long
def test_a_rerun_after_an_interrupt_or_kill_gives_the_same_bytes(made_world: World, tmp_path: Path) -> None:
    world = new_world(tmp_path / "killed")
    moments = random.Random(1)
    for progress, signal_number in ((2, signal.SIGINT), (moments.randrange(8, 20), signal.SIGKILL)):
        process = subprocess.Popen(
            [sys.executable, "-m", "evidence_assets.cli", "demo"],
            env={**os.environ, **world.environment},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # the test runner may ignore it
        )
        assert process.stdout is not None
        for line in process.stdout:
            if re.match(rf"\s*{progress}/", line):
                break
        time.sleep(moments.uniform(0, 0.3))
        if signal_number == signal.SIGINT:  # as a terminal does, to all processes
            os.killpg(process.pid, signal_number)
        else:
            process.kill()
        process.communicate()
        assert process.returncode == (130 if signal_number == signal.SIGINT else -signal_number)
    result = world.run("demo")
    assert result.returncode == 0, result.stdout + result.stderr
    assert world.data() == made_world.data()


def test_every_lineage_edge_has_existing_ends(made_world: World) -> None:
    lake = Lake(made_world.root / "data_lake")
    files = lake.files("lineage_edges")
    assert files
    with connect(lake.root) as connection:
        for path in files:
            assert find_dangling_edges(connection, path) == [], path


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
    lacking = CliRunner().invoke(app, ["doctor", "--profile", "paper"])
    assert lacking.exit_code == 1
    assert "vllm serve" in lacking.stdout


def test_gc_finds_data_of_removed_assets(changed_world: World) -> None:
    lake = Lake(changed_world.root / "data_lake")
    lake.write("evidence/mcqa/forgotten", "b|0", {"evidence": [], "lineage_edges": []})
    assert "asset=evidence.mcqa.forgotten" in changed_world.invoke("gc").stdout
    assert "deleted" in changed_world.invoke("gc", "--yes").stdout
    assert "nothing to delete" in changed_world.invoke("gc").stdout
