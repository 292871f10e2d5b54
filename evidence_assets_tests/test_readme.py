"""The README's commands, run as they stand in the installed environment."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from evidence_assets.assets.corpus import Corpus
from evidence_assets.benchmarks.declared_benchmarks import Benchmark
from evidence_assets.profiles import load
from evidence_assets.systems.kbloom.seeds import read_seed_folder
from evidence_assets_tests.conftest import REPOSITORY, World

README = (REPOSITORY / "README.md").read_text()
# They change the environment or this repository, or name machines and files that a test does not have.
NOT_RUN = (
    "pip ",
    "vllm serve",
    "EVIDENCE_PROFILE=paper",
    ".venv/bin/evidence add",
    ".venv/bin/evidence run mine",
    ".venv/bin/evidence explore",
    '.venv/bin/evidence ask "How long',
    '.venv/bin/evidence ask "Rome',
)


def blocks(language: str) -> list[str]:
    """Code blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    """Shell commands, continued lines joined, comments and settings left out."""
    lines = "\n".join(blocks("sh")).replace("\\\n", " ").splitlines()
    stripped = [line.split("  #")[0].strip() for line in lines]
    return [line for line in stripped if line and not line.startswith(("#", "export", *NOT_RUN))]


def test_the_readme_has_the_commands_that_the_tests_below_look_for() -> None:
    assert any(c.startswith("make demo") for c in commands())
    assert any(c.startswith(".venv/bin/evidence query") for c in commands())
    assert len(blocks("python")) == 1 and len(blocks("yaml")) >= 3 and len(blocks("json")) == 1


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("make")])
def test_make_targets_exist(command: str) -> None:
    done = subprocess.run([*shlex.split(command), "-n"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith(".venv/bin/evidence")])
def test_evidence_commands_run(command: str, made_world: World, request: pytest.FixtureRequest) -> None:
    # what is asked is kept in the lake, so it is asked of a copy
    world = request.getfixturevalue("changed_world") if " ask " in command else made_world
    done = world.invoke(*shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    assert done.stdout.strip()


@pytest.mark.long
@pytest.mark.parametrize("command", [c for c in commands() if c.startswith(".venv/bin/dagster")])
def test_dagster_commands_run(command: str, changed_world: World) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dagster", *shlex.split(command)[1:]],
        env={**os.environ, **changed_world.environment},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_notebook_lines_run(made_world: World) -> None:
    done = subprocess.run(
        [sys.executable, "-c", blocks("python")[0]],
        env={**os.environ, **made_world.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "answered" in done.stdout


def test_the_yaml_examples_are_what_the_components_take(tmp_path: Path) -> None:
    for text in blocks("yaml"):
        stated = yaml.safe_load(text)
        if "type" in stated:
            component = {"Corpus": Corpus, "Benchmark": Benchmark}[stated["type"].rsplit(".", 1)[1]]
            component.model_validate(stated["attributes"])
        elif "pairs" in stated:
            path = tmp_path / f"{stated['id']}.yaml"
            path.write_text(text)
            assert [relation.id for relation in read_seed_folder(tmp_path).relations] == [stated["id"]]
        else:
            path = tmp_path / "profile.yaml"
            path.write_text(text)
            assert load(str(path)).name == stated["name"]


def test_the_example_question_is_read(tmp_path: Path) -> None:
    from evidence_assets.benchmarks.user_benchmark import read_questions

    path = tmp_path / "questions.jsonl"
    path.write_text(blocks("json")[0])
    assert next(read_questions(path, "mine")).gold == ("A",)
