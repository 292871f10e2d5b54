"""`evidence init`: a new project, its declarations, and the installed wheel in an empty folder."""

import re
import shlex
import tarfile
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks, declarations_of, write_declarations
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.cli import app
from evidence_assets.cli.project import create_project
from evidence_assets.cli.runner import dagster_home
from evidence_assets.experiment.corpus_building import build_corpus
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import DAGSTER_SETTINGS, REPOSITORY, run_python


@pytest.fixture
def project(tmp_path: Path, other_settings: pytest.MonkeyPatch) -> Path:
    """A new project as the current folder."""
    for name in ("EVIDENCE_LAKE", "DAGSTER_HOME"):
        other_settings.delenv(name, raising=False)
    create_project(tmp_path / "My project")
    other_settings.chdir(tmp_path / "My project")
    return tmp_path / "My project"


def test_a_project_declares_a_corpus_and_a_benchmark(project: Path) -> None:
    assert {"library", "sample"} <= {str(c.attributes["name"]) for c in declarations_of("Corpus")}
    lake = Lake.create(find_lake(), question_shards=1, corpus_shards=1)
    assert lake.root == project / "data_lake" and (lake.raw_path("corpora/library") / "history.md").exists()
    questions = list(read_benchmark_questions(lake, all_benchmarks()["quiz"]))
    assert len(questions) == 4 and all(question.gold for question in questions)


def test_the_history_of_dagster_and_its_settings_are_in_the_project(project: Path) -> None:
    settings = (project / ".dagster" / "dagster.yaml").read_bytes()
    assert dagster_home() == project / ".dagster"
    assert settings == DAGSTER_SETTINGS.read_bytes(), "copy dagster.yaml to project_template/dot_dagster"
    assert 'name = "my-project"' in (project / "pyproject.toml").read_text()
    assert "DAGSTER_HOME=${PWD}/.dagster" in (project / ".env").read_text()


def test_the_first_question_of_a_project_is_answered(project: Path) -> None:
    [command] = re.findall(r"evidence (ask .*)", (project / "README.md").read_text())
    lake = Lake.create(find_lake(), question_shards=1, corpus_shards=1)
    build_corpus(lake, "library", group_files(lake.raw_path("corpora/library")), lambda text: None)
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0 and "answer: Ida Holm" in result.output, result.output


def test_init_changes_no_existing_file(project: Path) -> None:
    (project / "pyproject.toml").write_text("mine")
    with pytest.raises(BadInput, match="exists already"):
        create_project(project)
    refused = CliRunner().invoke(app, ["init", str(project)])
    assert refused.exit_code == 1 and "exists already" in refused.stderr
    assert (project / "pyproject.toml").read_text() == "mine"
    assert "File exists" in CliRunner().invoke(app, ["init", str(project / "README.md")]).output


@pytest.mark.long
def test_the_installed_wheel_works_in_an_empty_folder(tmp_path: Path) -> None:
    """Only our wheel is installed; the other packages are those of this environment."""
    output = run_python(
        "-m", "tools.first_hour", "--shared", "--folder", str(tmp_path), "--lines", "40", cwd=REPOSITORY, timeout=900
    )
    answers = re.findall(
        r"^(?:answer: .*(?= \(answered)|No(?:thing| sure answer) in the documents|No answer found)",
        output,
        re.MULTILINE,
    )
    nothing = "No sure answer in the documents"
    of_notes = ["answer: A. the map room", "answer: 120", "answer: the engine was repaired", nothing]
    expected = [*of_notes, "answer: 1600", "answer: 4", "answer: 350", "answer: Pike and Sons", "No answer found"]
    assert answers[: len(expected)] == expected
    assert "The explorer answers 'How many passengers does the ferry carry?' with '120'." in output
    assert "claims: 2 questions" in output and "baseline: longest option" in output
    assert "upstream: " in output and "Validation successful for code location my-library" in output
    assert "All six pairs of may_treat are used." in output and "runs of its first tick" in output
    project = tmp_path / "my_library"
    assert (project / "data_lake" / "format.json").exists() and (project / ".dagster" / "history").exists()

    [wheel], [sdist] = (list((tmp_path / "source" / "dist").glob(f"*.{end}")) for end in ("whl", "tar.gz"))
    sources = {str(p.relative_to(tmp_path / "source")) for p in (tmp_path / "source").glob("evidence_assets/**/*.*")}
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    assert len(sources) > 400 and not sources - in_wheel and not sources - in_sdist
    [packages] = tmp_path.glob("environment/lib/*/site-packages")
    files = {p.relative_to(packages) for p in packages.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    package_files = {p for p in files if "dist-info" not in p.parts[0]}
    assert {str(p) for p in package_files} == {n for n in in_wheel if "dist-info" not in n} | {"shared.pth"}


def test_gc_keeps_what_other_lakes_presets_profiles_and_models_have(
    tmp_path: Path, other_settings: pytest.MonkeyPatch
) -> None:
    lake, mine = Lake.create(tmp_path / "lake"), {"name": "mine", "folder": "corpora/mine"}
    write_declarations(lake.root / "declarations" / "corpus" / "mine", ("corpus.Corpus", mine))
    for asset in ("corpus/mine/chunks", "corpus/wikipedia/chunks"):
        lake.write(asset, "0", {"chunks": []})
    for asset in ("chains/table/ucret_js", "chains/mcqa/uscrake/other"):
        lake.write(asset, "b|0", {"chains": []})
    other_settings.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    result = CliRunner().invoke(app, ["gc", "--lake", str(lake.root)])
    assert "nothing to delete" in result.output, result.output
