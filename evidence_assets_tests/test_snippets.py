"""Every command and snippet of the README and the documentation runs."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from evidence_assets.assets.benchmark import COMPONENTS
from evidence_assets.benchmarks.user_benchmark import read_questions
from evidence_assets.profiles import load
from evidence_assets.systems.kbloom.seeds import read_seed_folder
from evidence_assets_tests.conftest import REPOSITORY, World, run_python

TUTORIALS = ("tutorial", "own-data", "served-model", "explorer", "dagster-ui", "relations", "reproduce")
PAGES = {path.stem: path for path in [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]}
PAGES |= {name: REPOSITORY / "docs" / f"{name}.md" for name in TUTORIALS}


def code_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page].read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def shell_lines(page: str) -> list[str]:
    """The commands of a page, in order; continued lines are joined, comments and servers left out."""
    lines = "\n".join(code_blocks(page, "sh")).replace("\\\n", " ").splitlines()
    commands = [line.replace(".venv/bin/", "").split("  #")[0].strip() for line in lines]
    return [line for line in commands if line and line != "evidence explore" and not line.startswith(("#", "export "))]


def all_blocks(language: str) -> list[tuple[str, str]]:
    return [(page, block) for page in PAGES for block in code_blocks(page, language)]


@pytest.mark.parametrize(
    "line", sorted({line for page in PAGES for line in shell_lines(page) if line.startswith("make")})
)
def test_make_targets_exist(line: str) -> None:
    result = subprocess.run([*shlex.split(line), "-n"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.fixture
def shell(changed_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Run a line of a page in a materialized world; `evidence` runs in this process unless the line sets variables."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_notes").mkdir()
    (tmp_path / "my_notes" / "cats.md").write_text("Cats sleep for thirteen hours a day.")
    environment = {**os.environ, **changed_world.environment}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"

    def run(line: str) -> str:
        if line.startswith("evidence "):
            result = changed_world.invoke(*shlex.split(line)[1:])
            assert result.exit_code == 0, result.output
            return result.stdout
        cwd = REPOSITORY if line.startswith("dagster ") else tmp_path
        process = subprocess.run(
            ["bash", "-c", line], env=environment, cwd=cwd, capture_output=True, text=True, check=False
        )
        missing_models = process.returncode == 1 and line.endswith("evidence doctor")  # its way to say so
        assert process.returncode == 0 or missing_models, process.stderr[-2000:]
        return process.stdout

    return run


@pytest.mark.parametrize("page", ["README", "tutorial"])
def test_the_commands_of_a_page_run(page: str, shell: Callable[[str], str]) -> None:
    for line in shell_lines(page):
        if not line.startswith("make"):
            assert shell(line).strip(), line


@pytest.mark.long
@pytest.mark.parametrize("page", ["own-data", "reproduce", "served-model", "explorer", "dagster-ui"])
def test_the_slow_commands_of_a_page_run(page: str, shell: Callable[[str], str]) -> None:
    for line in shell_lines(page):
        if not line.startswith("make"):
            shell(line)


@pytest.mark.parametrize(("page", "text"), all_blocks("python"))
def test_python_snippets_run(page: str, text: str, made_world: World) -> None:
    assert "answered" in run_python("-c", text, env=made_world.environment)


@pytest.mark.parametrize(("page", "text"), all_blocks("yaml"))
def test_yaml_snippets_are_valid(page: str, text: str, tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(text))
    fields = documents[0]
    if "type" in fields:
        for document in documents:
            COMPONENTS[document["type"].rsplit(".", 1)[1]].model_validate(document["attributes"])
    elif "pairs" in fields:
        (tmp_path / f"{fields['id']}.yaml").write_text(text)
        assert [relation.id for relation in read_seed_folder(tmp_path).relations] == [fields["id"]]
    else:
        path = tmp_path / "profile.yaml"
        path.write_text(text)
        assert load(str(path)).name == fields["name"]


@pytest.mark.parametrize(("page", "text"), all_blocks("json"))
def test_json_snippets_are_questions(page: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(text)
    assert next(read_questions(path, "mine")).gold == ("A",)


@pytest.mark.long
def test_the_documentation_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "uscrake_published" in (tmp_path / "site" / "reference" / "variants.html").read_text()
