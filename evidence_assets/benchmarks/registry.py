"""The datasets by name, and the one door to their questions.

A reader's module in ``official`` declares its datasets in ``READERS`` and is found there; a new benchmark is a module. A
user's own benchmark needs none: see :mod:`evidence_assets.benchmarks.own`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from pkgutil import iter_modules

from evidence_assets.benchmarks import official, own
from evidence_assets.benchmarks.checks import Located, some, unique_questions
from evidence_assets.benchmarks.info import DatasetInfo, PairReader, Reader
from evidence_assets.benchmarks.records import Document, Question
from evidence_assets.lake.errors import BadInput
from evidence_assets.text.nearest import nearest

_MODULES = [import_module(f"{official.__name__}.{module.name}") for module in iter_modules(official.__path__)]
READERS: dict[str, tuple[DatasetInfo, Reader]] = {
    entry[0].name: entry for module in _MODULES for entry in getattr(module, "READERS", ())
}
DATASETS: dict[str, DatasetInfo] = {name: info for name, (info, _) in READERS.items()} | {
    module.INFO.name: module.INFO for module in _MODULES if hasattr(module, "INFO")
}
PASSAGES: dict[str, Callable[[Path, str], Iterator[Document]]] = {
    name: read for module in _MODULES for name, read in getattr(module, "PASSAGES", {}).items()
}
"""Datasets whose questions come with the passages that they are answered from."""
PAIRS: dict[str, PairReader] = {
    name: read for module in _MODULES for name, read in getattr(module, "PAIRS", {}).items()
} | {"own_tables": lambda files, split: own.read_about_files(files[0], split=split)}
"""Readers that give each claim or question with its table."""


def info(name: str) -> DatasetInfo:
    """What the dataset ``name`` declares of itself."""
    if name not in DATASETS:
        near = nearest(name, DATASETS)
        raise BadInput(f"there is no dataset {name!r}; did you mean {near!r}? Known are {', '.join(sorted(DATASETS))}")
    return DATASETS[name]


def read_questions(name: str, folder: Path, *splits: str) -> Iterator[Question]:
    """The questions of one or more splits, in the order of their files; no id may come twice in all of them.

    ``name``: Name of a dataset in :data:`DATASETS`; it becomes the questions' ``benchmark``.
    ``folder``: Where its files lie, as the authors lay them out or side by side.
    ``splits``: One or more of its splits.
    """
    declared = info(name)
    if name not in READERS:
        raise BadInput(f"{declared.title} holds no questions")
    if not splits:
        raise BadInput(f"name a split of {declared.title}: {', '.join(declared.splits)}", field="split")
    for split in splits:
        declared.find(folder, split)  # all files before the first question
    return unique_questions(chain.from_iterable(_split(name, folder, split) for split in splits))


def _split(name: str, folder: Path, split: str) -> Iterator[Located]:
    """The questions of a split, of which there must be some: one of its several files may hold none."""
    declared, read = info(name), READERS[name][1]
    files = declared.find(folder, split)
    place = files[0] if len(files) == 1 else folder
    return some(read(declared, folder, split), lambda: declared.nothing_in(place, split))


def check_passages(name: str) -> None:
    """Refuse a dataset that brings no passages."""
    if name not in PASSAGES:
        raise BadInput(f"{info(name).title} brings no passages; known: {', '.join(PASSAGES)}")


def read_passages(name: str, folder: Path, split: str) -> Iterator[Document]:
    """The passages that come with the questions of a split, each once, called as the gold evidence calls them."""
    check_passages(name)
    return PASSAGES[name](folder, split)
