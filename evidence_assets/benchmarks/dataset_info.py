"""Metadata of the official datasets: splits, files, counts, licence and source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BeforeValidator, ConfigDict, ValidationError, model_validator

from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.benchmarks.records import LocatedQuestion, QuestionRecord, Table, Task, build_question
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.profiles import StrictModel
from evidence_assets.text.spelling import did_you_mean

Item = TypeVar("Item")
OFFICIAL_FOLDER = Path(__file__).with_name("official")


class ChoiceFields(StrictModel):
    """Layout of a multiple-choice file: the location of its rows and the meaning of their fields.

    A dot selects a field of an object: ``question.stem``.
    """

    model_config = ConfigDict(coerce_numbers_to_str=True)

    rows: str = ""
    """Path of the rows in a JSON object, such as ``exams.*.data.*``; empty for JSON lines."""
    columns: tuple[str, ...] = ()
    """Columns of a CSV file without a header."""
    id: str = "{id}"
    """Template of fields of the row, ``split``, ``subject`` (the file's name without the split), ``place`` (the row's
    number in the file, from 0), ``line``, and ``key`` (the key matched by the first ``*`` of ``rows``)."""
    id_else: str = ""
    """Template of the id for rows without a field ``id``."""
    text: str
    options: str | tuple[str, ...] = ""
    """One field per option; or one field with a list of texts, an object of texts by letter, or a list of objects with
    ``option_text`` and ``option_label``. If empty, the labels are the options."""
    option_text: str = ""
    option_label: str = ""
    labels: tuple[str, ...] = ()
    """Label of each option in ``gold``, if not its letter."""
    gold: str
    gold_lines: bool = False
    """Whether the last file of a split has the ``label`` of each row, one per line; ``gold`` is then ``label``."""
    evidence: str = ""
    """Field of the question's passage, a text or a list of texts; a trailing ``?`` makes it optional."""
    topics: str = ""
    """Optional field of the topic entities: a text or a list of texts."""


Paths = Annotated[tuple[str, ...], BeforeValidator(lambda paths: (paths,) if isinstance(paths, str) else paths)]
"""Paths of files, one or a list."""


class DatasetInfo(StrictModel):
    """One dataset as published by its authors.

    ``files`` maps each split to the official paths of its files; ``|`` separates alternatives and ``*`` matches any
    name. A file may also be directly in the folder, and may end in ``.gz``. ``counts`` has the official numbers of
    questions. ``task`` is None for datasets of facts or texts without questions. ``max_options``: Options of a
    question, at most; 0 if its fields say it, or unknown.
    """

    name: str
    title: str
    files: Mapping[str, Paths]
    licence: str
    source: str
    task: Task | None = None
    counts: Mapping[str, int] = {}
    max_options: int = 0
    hidden: tuple[str, ...] = ()
    """Splits whose answers are not public."""
    fields: ChoiceFields | None = None
    """Layout of its multiple-choice files; None if a function reads the dataset."""

    @model_validator(mode="after")
    def _check_split_names(self) -> DatasetInfo:
        for key, splits in (("counts", self.counts), ("hidden", self.hidden)):
            for split in splits:
                if split not in self.files:
                    raise ValueError(f"{key}: {split!r} is not a split; files has {', '.join(self.files)}")
        return self

    def check_split(self, split: str) -> None:
        """Raise BadInput if the dataset has no such split."""
        if split not in self.files:
            raise BadInput(f"{self.title} has no split {split!r}; it has {', '.join(self.files)}", field="split")

    def find_files(self, folder: Path, split: str) -> list[Path]:
        """Find the files of ``split`` below ``folder``; the error for a missing file says where to put it."""
        self.check_split(split)
        files: list[Path] = []
        for pattern in self.files[split]:
            matches = matching_files(folder, pattern)
            if not matches:
                message = f"this file is missing; expected {self.describe_files(split)}"
                raise BadInput(message, file=folder / pattern.split("|")[0])
            files += matches
        return files

    def find_public_split(self, folder: Path) -> str:
        """The first split with public answers whose files are there; test and dev come before the others."""
        splits = sorted(self.files, key=lambda split: (split != "test", split != "dev"))
        public = [split for split in splits if split not in self.hidden]
        present = (split for split in public if all(matching_files(folder, path) for path in self.files[split]))
        return next(present, public[0])  # if none is there, reading says which files are missing

    def read_each(self, folder: Path, split: str, read: Callable[[Path], Iterable[Item]]) -> Iterator[Item]:
        """Apply ``read`` to each file of ``split`` and yield all items."""
        for file in self.find_files(folder, split):
            yield from read(file)

    def question(self, row: Row, split: str, source_id: str, text: str, **fields: Any) -> LocatedQuestion:
        """Build and check a question of this dataset."""
        return build_question(
            row, benchmark=self.name, split=split, task=self.task, source_id=source_id, text=text, **fields
        )

    def describe_files(self, split: str) -> str:
        """Describe the files, source and licence of a split for messages."""
        files = ", ".join(" or ".join(pattern.split("|")) for pattern in self.files[split])
        return f"{self.title}, split {split}: {files} (download from {self.source}; licence: {self.licence})"

    def find_optional_file(self, folder: Path, pattern: str) -> Path | None:
        """Find a file that belongs to no split; None if it is missing."""
        return next(iter(matching_files(folder, pattern)), None)

    def count_note(self, split: str, count: int) -> str:
        """A sentence if ``count`` differs from the official number of questions; otherwise empty."""
        official = self.counts.get(split, count)
        note = f"{self.title}, split {split}: {count:,} questions, officially {official:,}."
        return note if official != count else ""


@cache
def load_datasets() -> dict[str, DatasetInfo]:
    """Load the official datasets by name from the YAML files in ``official``."""
    datasets: dict[str, DatasetInfo] = {}
    for file in sorted(OFFICIAL_FOLDER.glob("*.yaml")):
        for name, fields in read_yaml_mapping(file).items():
            if name in datasets:
                raise BadInput("another dataset has this name; rename one", file=file, field=name)
            datasets[name] = _parse_dataset(file, name, fields)
    return datasets


def _parse_dataset(file: Path, name: str, fields: Any) -> DatasetInfo:
    """Validate the description of a dataset; the error names its file and key."""
    if not isinstance(fields, dict):
        raise BadInput("is not a mapping", file=file, field=name)
    available = [key for key in DatasetInfo.model_fields if key != "name"]
    for key in fields:
        if key not in available:
            raise BadInput(f"unknown key{did_you_mean(str(key), available)}", file=file, field=f"{name}.{key}")
    try:
        return DatasetInfo(name=name, **fields)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(key) for key in (name, *first["loc"]))
        raise BadInput(first["msg"].removeprefix("Value error, "), file=file, field=path) from error


def find_dataset(name: str) -> DatasetInfo:
    """Look up an official dataset."""
    if name not in load_datasets():
        names = sorted(load_datasets())
        raise BadInput(f"there is no dataset {name!r}{did_you_mean(name, names, most=len(names))}")
    return load_datasets()[name]


Reader: TypeAlias = Callable[[DatasetInfo, Path, str], Iterator[LocatedQuestion]]
"""Reads the questions of one split from a folder."""
PairReader: TypeAlias = Callable[["DatasetInfo", Path, str], Iterator[tuple[Row, QuestionRecord, Table]]]
"""Reads the questions of one split, each with its table, from a folder."""


def matching_files(folder: Path, pattern: str) -> list[Path]:
    """Files of the first alternative of ``pattern`` that exists: by path, by bare name, or with ``.gz``."""
    for alternative in pattern.split("|"):
        for candidate in (alternative, alternative.rpartition("/")[2]):
            for name in (candidate, f"{candidate}.gz"):
                matches = sorted(match for match in folder.glob(name) if match.is_file())
                if matches:
                    return matches
    return []
