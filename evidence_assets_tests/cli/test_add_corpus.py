"""Documents from anywhere as a corpus: planned first, checked, and made again only where they changed."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evidence_assets.benchmarks.declarations import declarations
from evidence_assets.cli import app
from evidence_assets.cli.add_corpus import add_corpus, plan_only
from evidence_assets.cli.experiments import corpus_told
from evidence_assets.experiment import corpus_plan
from evidence_assets.experiment.corpus_plan import CorpusPlan
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "dumps"
    folder.mkdir()
    texts = [f"Bee number {i} buzzes in the garden. It sleeps in hive {i % 7}." for i in range(60)]
    pq.write_table(
        pa.table({"id": [f"p{i}" for i in range(60)], "title": ["Bees"] * 60, "text": texts}), folder / "a.parquet"
    )
    lines = [json.dumps({"doc_id": f"j{i}", "text": text}) for i, text in enumerate(texts)]
    (tmp_path / "b.jsonl").write_text("\n".join(lines) + "\n")
    return [folder, tmp_path / "b.jsonl"]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "data_lake")


def test_a_plan_is_near_what_comes_of_it(files: list[Path], lake: Lake) -> None:
    told: list[CorpusPlan] = []
    added = add_corpus(lake, "bees", files, told.append)
    [plan] = told
    assert added.documents == 120 and plan.documents == pytest.approx(120, rel=0.05) and plan.files == 2
    assert plan.chunks == pytest.approx(120, rel=0.05) and plan.seconds > 0
    assert plan.kept == added.tokens == "stored" and plan.disk_bytes > plan.bytes
    assert sorted(p.relative_to(added.raw).as_posix() for p in added.raw.rglob("*.*")) == ["b.jsonl", "dumps/a.parquet"]


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_out_of_the_folder_is_not_followed_and_one_within_is(
    linked: str, files: list[Path], lake: Lake, tmp_path: Path
) -> None:
    folder, elsewhere = files[0], tmp_path / "elsewhere"
    (folder / "again.parquet").symlink_to(folder / "a.parquet")
    elsewhere.mkdir()
    (elsewhere / "private.parquet").write_bytes((folder / "a.parquet").read_bytes())
    link = folder / "link.parquet"
    link.symlink_to(elsewhere / "private.parquet" if linked == "file" else elsewhere)
    for places in ([folder], files):
        with pytest.raises(BadInput, match="leads out of") as refused:
            add_corpus(lake, "bees", places)
        assert refused.value.file == link and not (lake.raw / "corpora").exists()
    link.unlink()
    with pytest.raises(BadInput, match="p0"):  # read through the link within, whose ids are there already
        add_corpus(lake, "bees", [folder])


def test_a_large_corpus_makes_token_vectors_on_demand(
    files: list[Path], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_plan, "STORED_UP_TO", 1000)
    assert add_corpus(lake, "bees", files, lambda plan: None).tokens == "on_demand"
    [declared] = declarations(lake.root / "declarations")
    assert declared.attributes["tokens"] == "on_demand"
    files[1].write_text('{"doc_id": "x", "text": "Only one."}\n')
    again = add_corpus(lake, "bees", files)
    assert again.changed and again.tokens == "on_demand" and again.documents == 61


def test_nothing_changes_where_a_file_is_bad(files: list[Path], lake: Lake) -> None:
    before = add_corpus(lake, "bees", files)
    files[1].write_text('{"doc_id": "p7", "text": "The same id is in the other file."}\n')
    with pytest.raises(BadInput, match=r"'p7' occurs twice"):
        add_corpus(lake, "bees", files)
    files[1].write_text('{"doc_id": "x"}\n')
    with pytest.raises(BadInput) as raised:
        add_corpus(lake, "bees", files)
    assert (raised.value.file, raised.value.line, raised.value.field) == (files[1], 1, "text")
    assert (before.raw / "b.jsonl").read_text().count("\n") == 60


def test_files_that_cannot_be_together_or_are_not_there(files: list[Path], tmp_path: Path, lake: Lake) -> None:
    (tmp_path / "other").mkdir()
    shutil.copyfile(files[1], tmp_path / "other" / "b.jsonl")
    with pytest.raises(BadInput, match=r"two files that would be called b\.jsonl"):
        plan_only("bees", [files[1], tmp_path / "other" / "b.jsonl"])
    with pytest.raises(BadInput, match=r"none\.txt: there is no such file or folder"):
        plan_only("bees", [files[1], tmp_path / "none.txt"])
    assert not (lake.root / "raw").exists()


def test_too_little_room_is_told_before_anything_is_made(
    files: list[Path], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(10, 0, 10))
    with pytest.raises(BadInput, match=r"takes about 0\.0 GB, .* has 0\.0 GB free: make room"):
        add_corpus(lake, "bees", files, lambda plan: None)
    assert not (lake.root / "raw").exists() and not (lake.root / "cache").exists()


def test_the_command_plans_builds_and_is_asked(files: list[Path], lake: Lake) -> None:
    run = CliRunner().invoke
    arguments = ["add", "corpus", "bees", *map(str, files), "--lake", str(lake.root)]
    planned = run(app, [*arguments, "--plan"])
    assert planned.exit_code == 0 and "2 files of 0.00 GB, about 120 documents, 120 chunks" in planned.output, (
        planned.output
    )
    assert not (lake.root / "raw").exists()
    made = run(app, arguments)
    assert made.exit_code == 0 and "bees: 120 documents" in made.output, made.output
    assert (lake.root / "indexes" / "asset=corpus.bees.index" / "index.faiss").exists()
    assert corpus_told("bees", lake.root).startswith("corpus bees: 120 chunks, index flat of 0.1 MiB, recall exact")
    assert "bugs: not made here" in corpus_told("bugs", lake.root)
