"""Adds a folder as a corpus: validates, chunks, copies below ``raw`` and declares it, or updates it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from evidence_assets.benchmarks.corpora import DELIMITED_SUFFIXES, corpus_files, find_unreadable_texts, group_files
from evidence_assets.benchmarks.declared_benchmarks import (
    PACKAGE_DEFS,
    check_name,
    declarations_of,
    user_folders,
    write_declarations,
)
from evidence_assets.experiment.corpus_building import open_chunks, update_chunks
from evidence_assets.experiment.stage import LogFunction, discard_message
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.catalogue import DECLARATIONS_FOLDER
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.input_files import reject_outside_links
from evidence_assets.lake.store import Lake

MAX_NAMED_FILES = 5


class NoReadableDocument(BadInput):
    """A folder has documents, and none of them can be read."""


def corpus_name(folder: Path) -> str:
    """Corpus name derived from a folder's name."""
    return source_name(folder, folder.resolve().name, "evidence add corpus NAME FOLDER")


def source_name(path: Path, text: str, command: str) -> str:
    """A name of lowercase letters, digits and '_' from a text; ``command`` is for a text without any."""
    name = re.sub(r"[^a-z0-9]+", "_", text.casefold()).strip("_")
    if not name:
        raise BadInput(f"its name has no letters or digits: use `{command}`", file=path)
    return name


def add_corpus(lake: Lake, name: str, folder: Path, log: LogFunction = discard_message) -> Path:
    """Chunk all documents of a folder, copy changed files to the lake, and declare a new corpus; returns its folder.

    A text that cannot be read, such as a scanned PDF, is skipped and logged with its reason. Changes nothing until all
    other files are chunked. Raises BadInput if Parquet or JSON lines are unreadable, no document can be read, or the
    name belongs to a corpus with other files.
    """
    check_name(name, "corpus")
    reject_outside_links(folder)
    raw_folder = f"corpora/{name}"
    raw = lake.raw_path(raw_folder)
    is_declared = _is_declared(lake, name, raw_folder)
    stored_hashes = file_hashes(raw)
    files = _select_files(folder, stored_hashes, log)
    changed = files.hashes != stored_hashes
    if changed or not open_chunks(lake, name).documents:
        update_chunks(lake, name, group_files(folder, list(files.documents.values())), log)
    if changed:
        with replacing_folder(raw) as temporary:
            copy_files(files.documents | files.tables, temporary)
        if files.tables:
            log(f"files with tables ({len(files.tables)}): {_join_names(files.tables)}")
    if not is_declared:
        declaration = lake.root / DECLARATIONS_FOLDER / "corpus" / name
        write_declarations(declaration, ("corpus.Corpus", {"name": name, "folder": raw_folder}))
    _record_source(lake, name, folder, files.unreadable)
    if n_unreadable := len(files.unreadable):
        n_documents = len(files.documents) + n_unreadable
        log(f"documents skipped because they cannot be read: {n_unreadable} of {n_documents}")
    return raw


class _FolderFiles(NamedTuple):
    """Files of a folder by relative path, hashes of documents and tables, and the texts that cannot be read."""

    documents: dict[str, Path]
    tables: dict[str, Path]
    hashes: dict[str, str]
    unreadable: list[str]


def _select_files(folder: Path, stored_hashes: Mapping[str, str], log: LogFunction) -> _FolderFiles:
    """The files to add; logs those that are skipped. Raises NoReadableDocument if no document is left."""
    documents, tables = _find_files(folder, log)
    hashes = {name: file_id(path) for name, path in (documents | tables).items()}
    new_documents = [path for name, path in documents.items() if stored_hashes.get(name) != hashes[name]]
    errors = find_unreadable_texts(folder, new_documents)  # stored files were read before
    for error in errors.values():
        log(f"skipped: {error}")
    unreadable = [name for name, path in documents.items() if path in errors]
    for name in unreadable:
        del documents[name], hashes[name]
    if not documents:
        raise NoReadableDocument(f"none of its {len(unreadable)} documents can be read: see above", file=folder)
    return _FolderFiles(documents, tables, hashes, unreadable)


def _is_declared(lake: Lake, name: str, raw_folder: str) -> bool:
    """Whether the corpus is declared; raises BadInput if the name belongs to a corpus with other files."""
    corpora = [c for place in (PACKAGE_DEFS, *user_folders(lake.root)) for c in declarations_of("Corpus", place)]
    declared = [corpus for corpus in corpora if corpus.attributes.get("name") == name]
    for other in declared:
        if other.attributes.get("folder") != raw_folder:
            raise BadInput(f"a corpus {name!r} with other files exists already: choose another name", file=other.file)
    return bool(declared)


def _find_files(folder: Path, log: LogFunction) -> tuple[dict[str, Path], dict[str, Path]]:
    """The files of documents and those of tables, by relative path; logs the other files."""
    others: list[Path] = []
    documents = {path.relative_to(folder).as_posix(): path for path in corpus_files(folder, others)}
    tables = {path.relative_to(folder).as_posix(): path for path in others if _is_table(path)}
    if skipped := [path for path in others if not _is_table(path)]:
        names = _join_names(path.relative_to(folder).as_posix() for path in skipped)
        log(f"skipped files, which are empty or neither documents nor tables ({len(skipped)}): {names}")
    return documents, tables


def _join_names(files: Iterable[str]) -> str:
    """The first files of several."""
    return ", ".join(islice(files, MAX_NAMED_FILES))


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(DELIMITED_SUFFIXES)


def copy_files(files: Mapping[str, Path | str], folder: Path) -> None:
    """Copy files, or write texts, by their path in the folder."""
    for relative_path, source in files.items():
        target = folder / relative_path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, Path):
            shutil.copyfile(source, target)
        else:
            target.write_text(source, encoding="utf-8")


def _source_file(lake: Lake, name: str) -> Path:
    """A file of this machine that contains the path of the folder that a corpus was added from."""
    return lake.cache / "sources" / name


def _skipped_file(lake: Lake, name: str) -> Path:
    """A file of this machine with the paths of the documents that were skipped, relative to the source folder."""
    return lake.cache / "skipped" / f"{name}.json"


def _skipped_paths(lake: Lake, name: str) -> set[Path]:
    file = _skipped_file(lake, name)
    return set(map(Path, json.loads(file.read_text(encoding="utf-8")))) if file.exists() else set()


def _record_source(lake: Lake, name: str, folder: Path, unreadable: Sequence[str]) -> None:
    """Store the folder that a corpus was added from, and the documents that were skipped."""
    source = _source_file(lake, name)
    for file, text in ((source, str(folder.resolve())), (_skipped_file(lake, name), json.dumps(unreadable))):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def source_folder(lake: Lake, name: str) -> Path | None:
    """The folder that a corpus was added from; None if this machine does not know it."""
    file = _source_file(lake, name)
    return Path(file.read_text(encoding="utf-8")) if file.exists() else None


def describe_changed_files(lake: Lake, name: str) -> str:
    """How to update a corpus if files of the folder that it was added from are newer, new or gone; empty if not."""
    folder = source_folder(lake, name)
    if folder is None:
        return ""
    added_at = _source_file(lake, name).stat().st_mtime
    raw = lake.raw_path(f"corpora/{name}")
    try:
        others: list[Path] = []
        files = [*corpus_files(folder, others), *filter(_is_table, others)]
        changed_at = {path.relative_to(folder): path.stat().st_mtime for path in files}
    except (OSError, BadInput):  # it has no documents any more
        return ""
    added = {path.relative_to(raw) for path in raw.rglob("*") if path.is_file()}
    is_same = changed_at.keys() - _skipped_paths(lake, name) == added and max(changed_at.values()) <= added_at
    return "" if is_same else f"{folder} has other files now: `evidence add corpus {name} {folder}` updates the corpus"


def file_hashes(folder: Path) -> dict[str, str]:
    """Hash of each file in a folder, by relative path."""
    return {path.relative_to(folder).as_posix(): file_id(path) for path in folder.rglob("*") if path.is_file()}
