"""Start-up: what a command imports before it answers. `bench.platform.ask` measures the times."""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from evidence_assets.benchmarks.declared_benchmarks import Benchmark
from evidence_assets.cli import COMMANDS, app
from evidence_assets.cli.measure import BenchmarkRows
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import World, run_python
from evidence_assets_tests.lake_rows import chunk, evidence, question

HEAVY = {"dagster", "faiss", "polars", "scipy", "sentence_transformers", "sklearn", "torch", "transformers"}
READERS = {"duckdb", "numpy", "pyarrow"}
CODE = """
import json, sys
from evidence_assets.cli import main
try:
    main()
except SystemExit as end:
    print()
    print(json.dumps([end.code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def imported_packages(*command: str, status: int = 0) -> set[str]:
    """The packages that a command has imported when it ends with this exit status."""
    actual_status, packages = json.loads(run_python("-c", CODE, *command, timeout=120).splitlines()[-1])
    assert actual_status == status
    return set(packages)


def test_the_help_imports_neither_heavy_packages_nor_readers_of_the_lake() -> None:
    assert not imported_packages("--help") & (HEAVY | READERS | {"pydantic", "yaml"})


@pytest.mark.parametrize(
    ("command", "argument", "status"), [("query", "SELECT count(*) FROM predictions", 0), ("trace", "abc", 1)]
)
def test_commands_that_read_rows_import_no_heavy_package(command: str, argument: str, status: int, lake: Lake) -> None:
    packages = imported_packages(command, argument, "--lake", str(lake.root), status=status)
    assert "duckdb" in packages and not packages & HEAVY


@pytest.mark.parametrize("options", [(), ("Anna Schmidt", "Carlos Ruiz")])
def test_a_first_question_imports_no_package_that_it_does_not_need(options: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "team.txt").write_text("The billing system is maintained by Carlos Ruiz.", encoding="utf-8")
    question = ("Who maintains the billing system?", *options)
    packages = imported_packages(
        "ask", *question, "--folder", str(tmp_path / "notes"), "--lake", str(tmp_path / "lake")
    )
    assert "torch" in packages
    # sympy comes with torch's compiler
    assert not packages & {"dagster", "matplotlib", "sentence_transformers", "sympy", "transformers", "uvicorn"}


def test_the_list_of_commands_shows_the_first_line_of_each_help() -> None:
    group = typer.main.get_command(app)
    context = typer.Context(group)
    for name, (_, summary) in COMMANDS.items():
        command = group.get_command(context, name)  # type: ignore[attr-defined]
        assert command is not None and command.help.splitlines()[0] == summary and len(summary) <= 70, name
    assert set(group.commands) == set(COMMANDS), "a command is missing in COMMANDS"  # type: ignore[attr-defined]


def test_an_unknown_command_gets_a_suggestion() -> None:
    assert "Did you mean 'trace'" in CliRunner().invoke(app, ["tracee"]).stderr


# The queries of docs/reproduction.md for table 3.2 and figure 3.3, against plain loops over the stored rows


PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"


def test_the_documented_queries_count_tables_and_labels(made_world: World) -> None:
    queries = [sql for sql in re.findall(r'^evidence query "(.+)"$', PAGE.read_text(), re.M) if "verification" in sql]
    sizes, labels = (json.loads(made_world.invoke("query", sql, "--format", "json").stdout) for sql in queries)
    lake = Lake(made_world.root / "data_lake")
    claims = lake.read("questions", "questions/table").filter(pl.col("task") == "verification").to_dicts()
    tables = {row["table_id"]: row for row in lake.read("tables").to_dicts()}
    assert claims
    for row in sizes:
        tables_of_claims = [tables[claim["table_id"]] for claim in claims if claim["benchmark"] == row["benchmark"]]
        assert row["claims"] == len(tables_of_claims)
        columns, rows = zip(*((len(table["header"]), table["n_rows"]) for table in tables_of_claims), strict=True)
        for name, counts in (("column", columns), ("row", rows)):
            assert (row[f"min_{name}"], row[f"max_{name}"]) == (min(counts), max(counts))
            assert row[f"mode_{name}"] in statistics.multimode(counts)
            assert abs(row[f"average_{name}"] - statistics.mean(counts)) < 0.006
    claims_by_label = Counter((claim["benchmark"], claim["gold"][0]) for claim in claims)
    assert {(row["benchmark"], row["label"]): row["claims"] for row in labels} == claims_by_label


# ``evidence measure``: a table of variants with baselines; a signal ends it, and the next call finishes its work.


COMMAND = ("measure", "sample_mcqa", "bm25", "cosine")


@pytest.mark.long
def test_sigterm_ends_a_measurement_that_the_next_call_finishes(world: World) -> None:
    command = [sys.executable, "-m", "evidence_assets.cli", *COMMAND]
    with subprocess.Popen(
        command, env={**os.environ, **world.environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if line.lstrip().startswith("3/"))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors
    assert errors.endswith("evidence: stopped; run the command again to continue: finished work is reused\n")
    with dg.DagsterInstance.from_config(str(world.root / "dagster_home")) as instance:
        unfinished = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]
        assert instance.get_run_ids(dg.RunsFilter(statuses=unfinished)) == []
    result = world.invoke(*COMMAND, "--baselines")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert any("sample_mcqa, n = 4 questions" in line for line in lines)
    names = [re.split(r" *[│┃] *", line)[1] for line in lines if re.match("[│┃]", line)]
    baselines = ["longest option", "association", "most frequent", "nearest (bm25)", "nearest (cosine)"]
    assert names[:8] == ["variant", "bm25", "cosine", *(f"baseline: {name}" for name in baselines)]
    assert names[8:11] == ["paired difference", "bm25 − cosine", "bm25 − cosine"]
    lake = Lake(world.root / "data_lake")
    corpora = {asset for table, asset in lake.assets() if table == "chunks"}
    assert corpora == {"corpus/sample/chunks"} and not lake.files("kg_edges"), "only what the variants need"
    second = world.invoke(*COMMAND, "--half", "second")
    assert second.exit_code == 0 and "sample_mcqa, second half, n = 2 questions" in second.stdout
    assert "baseline" not in second.stdout


def test_rows_of_a_retrieval_benchmark_have_no_predictions(lake: Lake, other_settings: pytest.MonkeyPatch) -> None:
    bm25 = next(variant for variant in variants() if variant.key == "retrieval/bm25")
    score = {"score_id": "s", "scope_kind": "benchmark", "scope_id": "quiz", "selector": "bm25", "reasoner": "", "n": 1}
    score |= {"model_id": "", "metric": "mrr", "value": 1.0, "low": 1.0, "high": 1.0}
    lake.write("scores/retrieval/bm25", "quiz", {"scores": [score]})
    lake.write("questions/retrieval", "quiz|0", {"questions": [question(1, task="retrieval")]})
    lake.write("evidence/retrieval/bm25", "quiz|0", {"evidence": [evidence(1, 1, "Bees buzz.", source_id="k1")]})
    lake.write("corpus/c/chunks", "0", {"chunks": [chunk(1, "Bees buzz.", doc_id="bees")]})
    other_settings.setenv("EVIDENCE_LAKE", str(lake.root))
    rows = BenchmarkRows.read(Benchmark(name="quiz", task="retrieval", corpus="c"), [bm25])
    tables = rows.tables["bm25"]
    assert tables.predictions.is_empty() and tables.evidence.height == 1 and tables.documents == {"k1": "bees"}
