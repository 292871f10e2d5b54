"""What a dataset declares of itself: its splits, files and counts, its licence, and where to obtain it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from evidence_assets.benchmarks.checks import LocatedQuestion, build_question
from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.benchmarks.records import QuestionRecord, Table, Task
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.text.spelling import closest_name

Item = TypeVar("Item")
OFFICIAL_FOLDER = Path(__file__).with_name("official")


class ChoiceFields(BaseModel):
    """Where the rows of a multiple-choice file are, and which field of a row is what.

    A dot leads into an object: ``question.stem``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    rows: str = ""
    """Place of the rows in a JSON object, such as ``exams.*.data.*``; JSON lines where none is named."""
    columns: tuple[str, ...] = ()
    """Columns of a CSV file without a header."""
    id: str = "{id}"
    """Template of fields of the row and of ``split``, ``subject`` (the file's name without the split), ``place`` in it
    from 0, ``line``, and ``key`` (what the first ``*`` of ``rows`` stands for)."""
    id_else: str = ""
    """Template for rows without a field ``id``."""
    text: str
    options: str | tuple[str, ...] = ""
    """A field for each option; or one field: a list of texts, an object of texts by letter, or objects whose text is
    ``option_text`` and whose label is ``option_label``. Where none is named, the labels are the options."""
    option_text: str = ""
    option_label: str = ""
    labels: tuple[str, ...] = ()
    """What ``gold`` calls each option, where not its letter."""
    gold: str
    gold_text: str = ""
    """A field that repeats the text of the right option, which is checked."""
    gold_lines: bool = False
    """The last file of a split holds the ``label`` of each row, one a line; ``gold`` is then ``label``."""
    evidence: str = ""
    """The passage that comes with the question: a text or a list of texts; with ``?`` if the field may be absent."""
    topics: str = ""
    """What the question is about: a text or a list of texts, which may be absent."""


class DatasetInfo(BaseModel):
    """One dataset as its authors publish it.

    ``files`` maps each split to its files by their official paths, with ``|`` between paths of which one is enough
    and ``*`` for any name; each is also found by its bare name directly in the folder, and with ``.gz`` behind it.
    ``counts`` holds the official number of questions of the splits for which it is known. ``task`` is None for what
    holds facts or texts and no questions.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    files: Mapping[str, tuple[str, ...]]
    licence: str
    source: str
    task: Task | None = None
    counts: Mapping[str, int] = {}
    hidden: tuple[str, ...] = ()
    """Splits whose answers are not public."""
    note: str = ""
    fields: ChoiceFields | None = None
    """How its multiple-choice questions are read; None for what has a reader of its own."""

    @field_validator("files", mode="before")
    @classmethod
    def _listed(cls, files: dict[str, Any]) -> dict[str, Any]:
        return {split: (of,) if isinstance(of, str) else of for split, of in files.items()}

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.files)

    def find_files(self, folder: Path, split: str) -> list[Path]:
        """The files of ``split`` below ``folder``, or an error that says which file to put where."""
        if split not in self.files:
            raise BadInput(f"{self.title} has no split {split!r}; it has {', '.join(self.splits)}", field="split")
        return [path for pattern in self.files[split] for path in self._matches(folder, split, pattern)]

    def read_each(self, folder: Path, split: str, read: Callable[[Path], Iterable[Item]]) -> Iterator[Item]:
        """What ``read`` gives of the files of ``split``, one after another."""
        for file in self.find_files(folder, split):
            yield from read(file)

    def question(self, row: Row, split: str, source_id: str, text: str, **fields: Any) -> LocatedQuestion:
        """A question of this dataset, once it fulfils what all questions must."""
        return build_question(
            row, benchmark=self.name, split=split, task=self.task, source_id=source_id, text=text, **fields
        )

    def resolve_file(self, path: Path, split: str) -> Path:
        """The file of a split: ``path`` itself, or where it is a folder the split's file in it."""
        return self.find_files(path, split)[0] if path.is_dir() else path

    def describe_files(self, split: str) -> str:
        """Which files the split is, where to obtain them and on which terms, as a message says it."""
        files = ", ".join(" or ".join(pattern.split("|")) for pattern in self.files[split])
        return f"{self.title}, split {split}: {files} (obtain it from {self.source}; licence: {self.licence})"

    def no_questions_error(self, place: Path, split: str) -> BadInput:
        """The error to raise where the file or folder ``place`` was read and gave no question of ``split``."""
        return BadInput(f"holds no question; wanted is {self.describe_files(split)}", file=place)

    def find_optional_file(self, folder: Path, pattern: str) -> Path | None:
        """A file beside those of the splits, if it is there."""
        return next(iter(_matching_files(folder, pattern)), None)

    def _matches(self, folder: Path, split: str, pattern: str) -> list[Path]:
        if files := _matching_files(folder, pattern):
            return files
        raise BadInput(f"is not there; wanted is {self.describe_files(split)}", file=folder / pattern.split("|")[0])

    def count_note(self, split: str, count: int) -> str:
        """A sentence if ``count`` questions are not what the whole split has."""
        official = self.counts.get(split, count)
        return (
            "" if official == count else f"{self.title}, split {split}: {count:,} questions, officially {official:,}."
        )


@cache
def load_datasets() -> dict[str, DatasetInfo]:
    """The official datasets by name, as the YAML files beside their readers state them."""
    infos = {}
    for file in sorted(OFFICIAL_FOLDER.glob("*.yaml")):
        for name, fields in read_yaml_mapping(file).items():
            try:
                infos[name] = DatasetInfo(name=name, **fields)
            except (TypeError, ValidationError) as error:
                raise BadInput(f"a dataset is not as it should be: {error}", file=file, field=name) from error
    return infos


def find_dataset(name: str) -> DatasetInfo:
    """What the dataset ``name`` declares of itself."""
    if name not in load_datasets():
        known = ", ".join(sorted(load_datasets()))
        raise BadInput(
            f"there is no dataset {name!r}; did you mean {closest_name(name, load_datasets())!r}? Known are {known}"
        )
    return load_datasets()[name]


Reader: TypeAlias = Callable[[DatasetInfo, Path, str], Iterator[LocatedQuestion]]
"""Reads the questions of one split out of a folder."""
PairReader: TypeAlias = Callable[[Sequence[Path], str], Iterator[tuple[Row, QuestionRecord, Table]]]
"""Reads the questions of one split, each with its table, out of the files that a benchmark names."""


def _matching_files(folder: Path, pattern: str) -> list[Path]:
    """The first of the alternatives of ``pattern`` that is there: by its path, else by its bare name, else packed."""
    for path in pattern.split("|"):
        for candidate in (path, path.rpartition("/")[2]):
            for name in (candidate, f"{candidate}.gz"):
                matches = sorted(match for match in folder.glob(name) if match.is_file())
                if matches:
                    return matches
    return []
