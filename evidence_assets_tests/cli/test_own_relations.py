"""Own relations: docs/relations.md in a new project, with seeds and a corpus about other material than the sample's."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from evidence_assets.assets import seeds
from evidence_assets.cli.project import create_project
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import Harvesting
from evidence_assets.systems.kbloom import sample_model
from evidence_assets.systems.kbloom.sample_model import find_names
from evidence_assets.systems.kbloom.seeds import merged_collections
from evidence_assets_tests.assets.small_worlds import clear_profile_caches
from evidence_assets_tests.conftest import REPOSITORY

COMPOSERS = {
    "Aida": "Verdi", "Carmen": "Bizet", "Elektra": "Strauss", "Faust": "Gounod", "Fidelio": "Beethoven", "Lulu": "Berg",
    "Magic Flute": "Mozart", "Nabucco": "Verdi", "Norma": "Bellini", "Salome": "Strauss", "Tosca": "Puccini",
    "Turandot": "Puccini",
}  # fmt: skip
WORDINGS = (
    "{0} was composed by {1}.", "{1} composed {0}.", "{1} is the composer of {0}.", "The opera {0} is by {1}.",
)  # fmt: skip
PAGE = (REPOSITORY / "docs" / "relations.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"`([\w/.]+\.yaml)`:\n\n```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def project(tmp_path: Path, other_settings: pytest.MonkeyPatch) -> Path:
    """A project with the files of the page, and texts on operas."""
    for name in ("EVIDENCE_LAKE", "DAGSTER_HOME"):
        other_settings.delenv(name, raising=False)
    folder = tmp_path / "project"
    create_project(folder)
    sentences = [wording.format(*fact) for fact in COMPOSERS.items() for wording in WORDINGS]
    (folder / "data_lake/raw/corpora/library/operas.md").write_text(" ".join(sentences))
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("corpus: library", "corpus: library, training_steps: 400, n: 12"))
    other_settings.chdir(folder)
    other_settings.setenv("EVIDENCE_PROFILE", "mine.yaml")
    return folder


def run_command(project: Path, *arguments: str) -> tuple[int, str]:
    """The exit status of a command in the project, and its output with single spaces."""
    command = [sys.executable, "-m", "evidence_assets.cli", *arguments]
    process = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=480, check=False)
    return process.returncode, " ".join((process.stdout + process.stderr).split())


def test_the_page_harvests_a_corpus_of_ones_own_and_says_how_many_triples_arrived(project: Path) -> None:
    assert list(FILES) == ["data_lake/raw/seeds/composed_by.yaml", "declarations/operas/defs.yaml", "mine.yaml"]
    run, ask = map(shlex.split, re.findall(r"^evidence ((?:run|ask) .*)$", PAGE, re.MULTILINE))
    declaration = project / "declarations/operas/defs.yaml"
    declaration.write_text(declaration.read_text().replace("kbloom/operas]", "kbloom/operas], best_harvested: 11"))
    status, output = run_command(project, *run)
    assert status == 0, output
    assert "composed_by: 12 triples in knowledge/kbloom/operas, 11 of them in the graph operas" in output, output
    status, output = run_command(project, *ask)
    assert status == 0 and "answer: verdi" in output, output


def test_words_that_the_corpus_lacks_are_named_with_a_query_of_its_words(project: Path) -> None:
    seed = project / "data_lake/raw/seeds/composed_by.yaml"
    seed.write_text(seed.read_text() + "  - [Rusalka, Dvorak]\n  - [Parsifal, Verdi]\n")
    status, output = run_command(project, "run", "operas")
    assert status == 1 and "does not know the words 'Rusalka', 'Dvorak', 'Parsifal'" in output, output
    assert "knowledge/kbloom/operas has no triples for the graph operas" in output, output
    [query] = re.findall(r'`evidence query "(.*?)"` lists', output)
    status, output = run_command(project, "query", query, "--format", "csv")
    assert status == 0 and "fidelio" in output.split() and "rusalka" not in output.split(), output


def test_names_of_a_corpus_are_its_words_and_capitalised_words_in_a_row() -> None:
    sentences = ["The Magic Flute was composed by Mozart in 1791.", "In Vienna, Äolus Öl flows.", "It is so."]
    runs = {"Magic Flute", "Äolus Öl"}
    assert find_names(sentences) - runs == {"Magic", "Flute", "composed", "Mozart", "Vienna", "Äolus", "Öl", "flows"}
    assert runs <= find_names(sentences)


def test_a_model_of_ones_own_corpus_masks_its_names(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "text": ["Aida is by Verdi. It is."],
        "sentence_offsets": [[{"start": 0, "end": 17}, {"start": 18, "end": 24}]],
    }
    context: Any = SimpleNamespace(
        lake=lake, read=lambda table, asset: pl.DataFrame(texts) if "notes" in asset else None
    )
    monkeypatch.setattr(sample_model, "train_if_changed", lambda folder, input_hash, train: train(folder))
    monkeypatch.setattr(sample_model, "train_sample_masked_lm", lambda *arguments: {"arguments": arguments})
    report: Any = sample_model._train(context, Harvesting(corpus="notes", training_steps=7))
    sentences, names, _, settings = report["arguments"]
    assert sentences == ["Aida is by Verdi.", "It is."] and names == {"Aida", "Verdi"} and settings.steps == 7


def test_a_graph_of_a_project_adds_its_collection_and_the_sample_has_no_part(project: Path) -> None:
    assert merged_collections() == ("biomedical", "commonsense", "operas")
    lake = Lake.create(project / "data_lake", question_shards=1, corpus_shards=1)
    sample_seeds = lake.raw_path("sample/seeds")
    sample_seeds.mkdir(parents=True)
    (sample_seeds / "may_treat.yaml").write_text(
        "id: may_treat\ncollection: c\nprompt: <HEAD> <TAIL>\npairs: [[a, b]]\n"
    )
    assert set(seeds.read_seeds(lake).relations) == {"composed_by"}, "their words are not those of the corpus"
    (project / "mine.yaml").write_text("extends: embedded\nname: mine\n")
    clear_profile_caches()
    assert set(seeds.read_seeds(lake).relations) == {"composed_by", "may_treat"}
