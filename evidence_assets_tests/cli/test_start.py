"""Start-up: what a command imports before it answers. `bench.platform.ask` measures the times."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from evidence_assets.cli import COMMANDS, app
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import run_python

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
