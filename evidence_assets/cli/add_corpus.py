"""A folder as a corpus of the lake: checked, cut, copied below ``raw``, declared, and brought up to date."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from evidence_assets.benchmarks.corpora import corpus_files, group_files
from evidence_assets.benchmarks.declarations import (
    DECLARATIONS_FOLDER,
    PACKAGE_DEFS,
    declarations_of,
    write_declarations,
)
from evidence_assets.experiment.corpus_building import TokenStorage, choose_token_storage, cut_into_chunks, open_parts
from evidence_assets.experiment.stage import LogFunction, discard_message
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.input_files import reject_outside_links
from evidence_assets.lake.store import Lake


@dataclass(frozen=True)
class AddedCorpus:
    """Where the documents of a corpus lie now, how many they are, and whether anything changed."""

    raw: Path
    documents: int
    changed: bool
    tokens: TokenStorage
    """Whether token vectors of all its chunks are kept."""


def corpus_name(folder: Path) -> str:
    """The name of a corpus that a folder's name gives."""
    name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.casefold()).strip("_")
    if not name:
        raise BadInput("gives no name for a corpus: add it with `evidence add corpus NAME FOLDER`", file=folder)
    return name


def add_corpus(lake: Lake, name: str, folder: Path, inform: LogFunction = discard_message) -> AddedCorpus:
    """Cut all documents of a folder, copy changed files into the lake, and declare the corpus unless it is declared.

    Nothing of the corpus changes before all its files are read and cut. Raises BadInput where a file cannot be read,
    there is none, or the name belongs to a corpus of other files.
    """
    _check(name, folder)
    below, own = f"corpora/{name}", lake.root / DECLARATIONS_FOLDER
    raw, declaration = lake.raw_path(below), own / "corpus" / name
    kept: TokenStorage = "stored"
    for other in [*declarations_of("Corpus", PACKAGE_DEFS), *declarations_of("Corpus", own)]:
        if other.attributes.get("name") == name:
            if other.attributes.get("folder") != below:
                raise BadInput(
                    f"there is a corpus {name!r} of other files already: choose another name", file=other.file
                )
            kept = other.attributes.get("tokens", kept)
    files = {path.relative_to(folder).as_posix(): path for path in corpus_files(folder)}
    changed = {below_folder: file_id(path) for below_folder, path in files.items()} != file_hashes(raw)
    parts = open_parts(lake, name)
    if changed or not parts.documents:
        parts, _ = cut_into_chunks(lake, name, group_files(folder), inform)
    if changed:
        with replacing_folder(raw) as temporary:
            for below_folder, source in files.items():
                (temporary / below_folder).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, temporary / below_folder)
    if not declaration.exists():
        kept = choose_token_storage(parts)
        attributes = {"name": name, "folder": below, **({} if kept == "stored" else {"tokens": kept})}
        write_declarations(declaration, ("corpus.Corpus", attributes))
    return AddedCorpus(raw, parts.documents, changed, kept)


def file_hashes(folder: Path) -> dict[str, str]:
    """The files of a folder with their hashes."""
    return {path.relative_to(folder).as_posix(): file_id(path) for path in folder.rglob("*") if path.is_file()}


def check_name(name: str, what: str) -> None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_]*", name):
        raise BadInput(f"{name!r} is no name for a {what}: use small letters, digits and '_'")


def _check(name: str, folder: Path) -> None:
    check_name(name, "corpus")
    if not folder.is_dir():
        raise BadInput("there is no such folder", file=folder)
    reject_outside_links(folder)
