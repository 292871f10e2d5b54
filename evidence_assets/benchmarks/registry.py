"""The datasets by name, and the one door to their questions.

A reader's module in ``official`` names the datasets that it reads in ``READERS`` and is found there; a YAML file beside it states
what they are. A user's own benchmark needs neither: see :mod:`evidence_assets.benchmarks.own`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from pkgutil import iter_modules

from evidence_assets.benchmarks import official, own
from evidence_assets.benchmarks.checks import Located, some, unique_questions
from evidence_assets.benchmarks.info import PairReader, Reader, dataset
from evidence_assets.benchmarks.records import Document, Question
from evidence_assets.lake.errors import BadInput

_MODULES = [import_module(f"{official.__name__}.{module.name}") for module in iter_modules(official.__path__)]
READERS: dict[str, Reader] = {
    name: read for module in _MODULES for name, read in getattr(module, "READERS", {}).items()
}
PASSAGES: dict[str, Callable[[Path, str], Iterator[Document]]] = {
    name: read for module in _MODULES for name, read in getattr(module, "PASSAGES", {}).items()
}
"""Datasets whose questions come with the passages that they are answered from."""
PAIRS: dict[str, PairReader] = {
    name: read for module in _MODULES for name, read in getattr(module, "PAIRS", {}).items()
} | {"own_tables": lambda files, split: own.read_about_files(files[0], split=split)}
"""Readers that give each claim or question with its table."""


def read_questions(name: str, folder: Path, *splits: str) -> Iterator[Question]:
    """The questions of one or more splits, in the order of their files; no id may come twice in all of them.

    ``name``: Name of a dataset; it becomes the questions' ``benchmark``.
    ``folder``: Where its files lie, as the authors lay them out or side by side.
    ``splits``: One or more of its splits.
    """
    declared = dataset(name)
    if name not in READERS:
        raise BadInput(f"{declared.title} holds no questions")
    if not splits:
        raise BadInput(f"name a split of {declared.title}: {', '.join(declared.splits)}", field="split")
    for split in splits:
        declared.find(folder, split)  # all files before the first question
    return unique_questions(chain.from_iterable(_split(name, folder, split) for split in splits))


def _split(name: str, folder: Path, split: str) -> Iterator[Located]:
    """The questions of a split, of which there must be some: one of its several files may hold none."""
    declared, read = dataset(name), READERS[name]
    files = declared.find(folder, split)
    place = files[0] if len(files) == 1 else folder
    return some(read(declared, folder, split), lambda: declared.nothing_in(place, split))


def check_passages(name: str) -> None:
    """Refuse a dataset that brings no passages."""
    if name not in PASSAGES:
        raise BadInput(f"{dataset(name).title} brings no passages; known: {', '.join(PASSAGES)}")


def read_passages(name: str, folder: Path, split: str) -> Iterator[Document]:
    """The passages that come with the questions of a split, each once, called as the gold evidence calls them."""
    check_passages(name)
    return PASSAGES[name](folder, split)
