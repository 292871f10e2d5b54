"""A folder of documents as a corpus: validated, and rebuilt only if it changed."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from evidence_assets.benchmarks.declared_benchmarks import benchmarks, declarations
from evidence_assets.cli import app
from evidence_assets.cli.add_corpus import add_corpus, corpus_name, describe_changed_files
from evidence_assets.experiment.corpus_building import open_chunks
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "My dumps"
    (folder / "deep").mkdir(parents=True)
    texts = [f"Bee number {i} buzzes in the garden. It sleeps in hive {i % 7}." for i in range(60)]
    columns = {"id": [f"p{i}" for i in range(60)], "title": ["Bees"] * 60, "text": texts}
    pq.write_table(pa.table(columns), folder / "a.parquet")
    lines = [json.dumps({"doc_id": f"j{i}", "text": text}) for i, text in enumerate(texts)]
    (folder / "deep" / "b.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_out_of_the_folder_is_not_followed_and_one_within_is(
    linked: str, folder: Path, lake: Lake, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (folder / "again.parquet").symlink_to(folder / "a.parquet")
    elsewhere.mkdir()
    (elsewhere / "private.parquet").write_bytes((folder / "a.parquet").read_bytes())
    link = folder / "link.parquet"
    link.symlink_to(elsewhere / "private.parquet" if linked == "file" else elsewhere)
    with pytest.raises(BadInput, match="leads out of") as raised:
        add_corpus(lake, "bees", folder)
    assert raised.value.file == link and not (lake.root / "raw" / "corpora").exists()
    link.unlink()
    with pytest.raises(BadInput, match="p0"):  # read through the link within, whose ids are there already
        add_corpus(lake, "bees", folder)


def test_a_changed_folder_is_updated_and_a_bad_file_changes_nothing(folder: Path, lake: Lake) -> None:
    added, lines = add_corpus(lake, corpus_name(folder), folder), folder / "deep" / "b.jsonl"
    [declared] = declarations(lake.root / "declarations")
    assert (declared.component, declared.attributes) == ("Corpus", {"name": "my_dumps", "folder": "corpora/my_dumps"})
    lines.write_text('{"doc_id": "p7", "text": "The same id is in the other file."}\n')
    with pytest.raises(BadInput, match=r"'p7' occurs twice"):
        add_corpus(lake, "my_dumps", folder)
    lines.write_text('{"doc_id": "x"}\n')
    with pytest.raises(BadInput) as raised:
        add_corpus(lake, "my_dumps", folder)
    assert (raised.value.file, raised.value.line, raised.value.field) == (lines, 1, "text")
    assert (added / "deep" / "b.jsonl").read_text().count("\n") == 60
    lines.unlink()
    add_corpus(lake, "my_dumps", folder)
    assert open_chunks(lake, "my_dumps").documents == 60
    assert [path.name for path in added.rglob("*") if path.is_file()] == ["a.parquet"]


def test_names_and_folders_that_cannot_be_added(folder: Path, tmp_path: Path, lake: Lake) -> None:
    with pytest.raises(BadInput, match="this folder does not exist"):
        add_corpus(lake, "bees", tmp_path / "none")
    with pytest.raises(BadInput, match="is not a valid corpus name"):
        add_corpus(lake, "../x", folder)
    add_corpus(lake, "bees", folder)
    declarations.cache_clear()
    [declared] = declarations(lake.root / "declarations")
    declared.file.write_text(declared.file.read_text().replace("corpora/bees", "other"))
    declarations.cache_clear()
    with pytest.raises(BadInput, match="a corpus 'bees' with other files"):
        add_corpus(lake, "bees", folder)


@pytest.fixture
def _forgets_declarations() -> Iterator[None]:
    yield
    declarations.cache_clear()
    benchmarks.cache_clear()


@pytest.mark.usefixtures("_forgets_declarations")
def test_the_commands_build_the_corpus_in_a_new_lake(folder: Path, tmp_path: Path) -> None:
    run, root = CliRunner().invoke, tmp_path / "new lake"
    result = run(app, ["add", "corpus", "bees", str(folder), "--lake", str(root)])
    assert result.exit_code == 0 and "bees: 120 documents" in result.output, result.output
    assert (root / "indexes" / "asset=corpus.bees.index" / "index.faiss").exists()
    answer = run(app, ["ask", "Which animal buzzes?", "Bee", "Cat", "--folder", str(folder), "--lake", str(root)])
    assert "A. Bee [the answer]" in answer.stdout, answer.output
    assert "my_dumps: 120 documents" in answer.stderr
    other = tmp_path / "other" / folder.name
    other.mkdir(parents=True)
    (other / "a.txt").write_text("Nothing buzzes.")
    refused = run(app, ["ask", "Which animal buzzes?", "--folder", str(other), "--lake", str(root)])
    assert refused.exit_code == 1 and "has the documents of" in refused.output
    assert open_chunks(Lake(root), "my_dumps").documents == 120


def test_one_error_names_all_bad_files_and_lines(folder: Path, lake: Lake) -> None:
    (folder / "b.jsonl").write_text(
        '{"doc_id": "1"}\n{"doc_id": "2", "text": "Two."}\n{"doc": "3", "text": "Three."}\n'
    )
    (folder / "c.jsonl").write_text("no JSON\n")
    with pytest.raises(BadInput) as raised:
        add_corpus(lake, "bees", folder)
    places = [Path(message.split(": ")[0]).name for message in str(raised.value).splitlines()]
    assert places == ["b.jsonl:1", "b.jsonl:3", "c.jsonl:1"]


def test_tables_are_copied_and_other_files_that_are_no_documents_are_named(folder: Path, lake: Lake) -> None:
    (folder / "rooms.csv").write_text("Room,Seats\n")
    (folder / "empty.txt").touch()
    (folder / "logo.png").touch()
    messages: list[str] = []
    added = add_corpus(lake, "bees", folder, messages.append)
    expected = "skipped files, which are empty or neither documents nor tables (2): empty.txt, logo.png"
    assert messages[0] == expected and messages[-1] == "files with tables (1): rooms.csv"
    assert {path.name for path in added.iterdir()} == {"a.parquet", "deep", "rooms.csv"}


@pytest.mark.usefixtures("_forgets_declarations")
def test_texts_that_cannot_be_read_are_skipped_and_named(tmp_path: Path, lake: Lake) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("The library was founded by Ida Holm.")
    (folder / "cafe.txt").write_bytes("Das Café öffnet um neun.".encode("latin-1"))
    (folder / "deep").mkdir()
    (folder / "deep" / "scan.pdf").write_bytes(b"%PDF-1.4\n%%EOF")
    messages: list[str] = []
    added = add_corpus(lake, "notes", folder, messages.append)
    assert [path.name for path in added.rglob("*")] == ["a.txt"] and open_chunks(lake, "notes").documents == 1
    skipped = [message for message in messages if message.startswith("skipped: ")]
    assert [message.partition(": ")[2].split(": ")[0] for message in skipped] == [
        f"{folder}/cafe.txt:1",
        f"{folder}/deep/scan.pdf",
    ]
    assert "is not UTF-8; convert the file to UTF-8" in skipped[0]
    assert messages[-1] == "documents skipped because they cannot be read: 2 of 3"
    assert describe_changed_files(lake, "notes") == "", "they are no news"
    (folder / "cafe.txt").write_text("The café opens at nine.")
    assert "has other files now" in describe_changed_files(lake, "notes")
    messages.clear()
    add_corpus(lake, "notes", folder, messages.append)
    assert open_chunks(lake, "notes").documents == 2 and messages[-1].endswith("1 of 3")
    for name in ("a.txt", "cafe.txt"):
        (folder / name).unlink()
    with pytest.raises(BadInput, match=r"notes: none of its 1 documents can be read"):
        add_corpus(lake, "notes", folder)
    assert open_chunks(lake, "notes").documents == 2, "a failure changes nothing"


@pytest.mark.usefixtures("_forgets_declarations")
def test_a_folder_is_asked_without_the_texts_that_cannot_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "cafe.txt").write_bytes("Das Café öffnet um neun.".encode("latin-1"))
    (folder / "prices.csv").write_text("item,price\noar,85\nrope,12\n")
    ask = ["ask", "What is the price of a rope?", "--folder", str(folder), "--lake", str(tmp_path / "lake")]
    result = CliRunner().invoke(app, ask)
    assert "answer: 12 (answered" in result.stdout, result.output
    assert f"skipped: {folder}/cafe.txt:1: byte 8 of the line" in result.stderr
    (folder / "prices.csv").unlink()
    result = CliRunner().invoke(app, ask)
    assert result.exit_code == 1 and "none of its 1 documents can be read" in result.stderr


@pytest.mark.usefixtures("_forgets_declarations")
@pytest.mark.parametrize("defect", ["edited", "removed", "no token store"])
def test_ask_updates_a_corpus_whose_files_changed_or_that_a_run_built_in_part(
    defect: str, tmp_path: Path, lake: Lake
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("The library was founded by Ida Holm.")
    (folder / "b.txt").write_text("The reading room has twelve tables.")
    run, where = CliRunner().invoke, ["--lake", str(lake.root)]
    run(app, ["add", "corpus", "notes", str(folder), *where])
    stored = lake.root / "raw" / "corpora" / "notes" / "a.txt"
    if defect == "edited":
        stored.write_text("The library was founded by Berta Lund.")
    elif defect == "removed":
        stored.unlink()
    else:
        shutil.rmtree(lake.index_folder("corpus/notes/token_store"))
    result = run(app, ["ask", "Who founded the library?", "--corpus", "notes", *where])
    assert result.exit_code == 0, result.output
    assert "notes: " in result.stderr, "the update is reported"
    assert ("Berta Lund" in result.stdout) == (defect == "edited")
    assert ("Ida Holm" in result.stdout) == (defect == "no token store")
    assert ("has other files now" in result.stderr) == (defect == "removed")
    os.utime(folder / "b.txt", ns=(2**62, 2**62))
    again = run(app, ["ask", "Who founded the library?", "--corpus", "notes", *where])
    assert "encoding chunks" not in again.stderr
    assert f"{folder} has other files now: `evidence add corpus notes {folder}` updates the corpus\n" in again.stderr
