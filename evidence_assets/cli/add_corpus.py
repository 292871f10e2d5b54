"""A folder of documents as a corpus of the lake: copied below ``raw``, declared, and brought up to date when it changes."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

from evidence_assets.benchmarks.corpora import corpus_files, read_documents
from evidence_assets.benchmarks.declarations import DEFS, declarations, instances
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.store import Lake

COMPONENT = "evidence_assets.assets.corpus.Corpus"
NAME = re.compile(r"[a-z0-9][a-z0-9_]*")


@dataclass(frozen=True)
class Added:
    """Where the documents of a corpus lie now, how many they are, and whether anything changed."""

    raw: Path
    declaration: Path
    documents: int
    changed: bool


def name_of(folder: Path) -> str:
    """The name of a corpus that a folder's name gives."""
    name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.casefold()).strip("_")
    if not name:
        raise BadInput("gives no name for a corpus: name one by --corpus", file=folder)
    return name


def add_corpus(lake: Lake, name: str, folder: Path, defs: Path = DEFS) -> Added:
    """Read all documents, copy what has changed into the lake, and declare the corpus where nothing does.

    Raises
    ------
    BadInput
        Where a file cannot be read, the folder is empty, or the name belongs to a corpus of other files.
    """
    if not NAME.fullmatch(name):
        raise BadInput(f"{name!r} is no name for a corpus: use small letters, digits and '_'")
    below = f"corpora/{name}"
    raw, declaration = lake.raw / below, defs / "corpus" / name / "defs.yaml"
    for other in instances("Corpus", defs):
        if other.attributes.get("name") == name and other.attributes.get("folder") != below:
            raise BadInput(f"there is a corpus {name!r} of other files already: choose another name", file=other.file)
    documents = sum(1 for _ in read_documents(folder))
    files = {path.relative_to(folder).as_posix(): path for path in corpus_files(folder)}
    before = {p.relative_to(raw).as_posix(): p for p in raw.rglob("*") if p.is_file()} if raw.is_dir() else {}
    changed = files.keys() != before.keys() or any(file_id(path) != file_id(before[n]) for n, path in files.items())
    if changed:
        with replacing_folder(raw) as temporary:
            for path_below, source in files.items():
                (temporary / path_below).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, temporary / path_below)
    if not declaration.exists():
        declared = {"type": COMPONENT, "attributes": {"name": name, "folder": below}}
        with replacing_folder(declaration.parent) as temporary:
            (temporary / "defs.yaml").write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")
        (declaration.parent.parent / f".{name}.lock").unlink(missing_ok=True)
        declarations.cache_clear()
    return Added(raw, declaration, documents, changed)
