"""Files as a corpus of the lake: checked, cut, copied below ``raw``, declared, and brought up to date."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from evidence_assets import profiles
from evidence_assets.benchmarks.corpora import corpus_files, portions
from evidence_assets.benchmarks.declarations import DECLARED, DEFS, declare, instances
from evidence_assets.experiment.corpus_making import Tokens, cut, parts_of
from evidence_assets.experiment.corpus_plan import CorpusPlan, plan_corpus
from evidence_assets.experiment.stage import Say, silent
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.input_files import refuse_links_out
from evidence_assets.lake.store import Lake

NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
Planned = Callable[[CorpusPlan], None]


@dataclass(frozen=True)
class Added:
    """Where the documents of a corpus lie now, how many they are, and whether anything changed."""

    raw: Path
    documents: int
    changed: bool
    tokens: Tokens
    """Whether token vectors of all its chunks are kept."""


def name_of(folder: Path) -> str:
    """The name of a corpus that a folder's name gives."""
    name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.casefold()).strip("_")
    if not name:
        raise BadInput("gives no name for a corpus: name one by --corpus", file=folder)
    return name


@contextmanager
def gathered(places: Sequence[Path]) -> Iterator[Path]:
    """One folder that holds the files: the only one named, else a passing one of links to all of them.

    A link within a folder that leads out of it is refused.
    """
    for place in places:
        if place.is_dir():
            refuse_links_out(place)
    if len(places) == 1 and places[0].is_dir():
        yield places[0]
        return
    with TemporaryDirectory() as passing:
        for place in places:
            for path in corpus_files(place) if place.is_dir() else [place]:
                if not path.is_file():
                    raise BadInput("there is no such file or folder", file=path)
                link = Path(passing) / (path.relative_to(place.parent) if place.is_dir() else path.name)
                if link.exists():
                    raise BadInput(f"there are two files that would be called {link.name}: rename one", file=path)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path.resolve())
        try:
            yield Path(passing)
        except BadInput as error:
            if error.file is None:
                raise
            raise BadInput(
                error.message, file=Path(error.file).resolve(), line=error.line, field=error.field
            ) from error


def plan_only(name: str, places: Sequence[Path]) -> CorpusPlan:
    """What a corpus of these files will take."""
    _check_name(name)
    with gathered(places) as folder:
        return plan_corpus(portions(folder), profiles.load())


def add_corpus(
    lake: Lake, name: str, places: Sequence[Path], planned: Planned | None = None, inform: Say = silent
) -> Added:
    """Cut all documents, copy what has changed into the lake, and declare the corpus where nothing does.

    Nothing of the corpus changes before all its files are read and cut. ``planned`` is told before what it will take.

    Raises BadInput where a file cannot be read, there is none, the disk has too little room, or the name belongs to a
    corpus of other files.
    """
    _check_name(name)
    below = f"corpora/{name}"
    own = lake.root / DECLARED
    raw, declaration = lake.raw_place(below), own / "corpus" / name
    kept: Tokens = "stored"
    for other in [*instances("Corpus", DEFS), *instances("Corpus", own)]:
        if other.attributes.get("name") == name:
            if other.attributes.get("folder") != below:
                raise BadInput(
                    f"there is a corpus {name!r} of other files already: choose another name", file=other.file
                )
            kept = other.attributes.get("tokens", kept)
    with gathered(places) as folder:
        files = {path.relative_to(folder).as_posix(): path for path in corpus_files(folder)}
        before = {p.relative_to(raw).as_posix(): p for p in raw.rglob("*") if p.is_file()} if raw.is_dir() else {}
        changed = files.keys() != before.keys() or any(file_id(path) != file_id(before[n]) for n, path in files.items())
        if changed and planned is not None:
            plan = plan_corpus(portions(folder), profiles.load())
            planned(plan)
            _check_room(lake, plan)
            kept = plan.kept if not declaration.exists() else kept
        documents = parts_of(lake, name).documents
        if changed or not documents:
            documents = cut(lake, name, portions(folder), inform)[0].documents
        if changed:
            with replacing_folder(raw) as temporary:
                for path_below, source in files.items():
                    (temporary / path_below).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, temporary / path_below)
    if not declaration.exists():
        attributes = {"name": name, "folder": below, **({} if kept == "stored" else {"tokens": kept})}
        declare(declaration, ("corpus.Corpus", attributes))
    return Added(raw, documents, changed, kept)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadInput(f"{name!r} is no name for a corpus: use small letters, digits and '_'")


def _check_room(lake: Lake, plan: CorpusPlan) -> None:
    free = shutil.disk_usage(lake.root).free
    if plan.disk_bytes > free:
        raise BadInput(
            f"the corpus takes about {plan.disk_bytes / 1e9:,.1f} GB, {lake.root} has {free / 1e9:,.1f} GB free: make "
            "room, or name another lake by --lake"
        )
