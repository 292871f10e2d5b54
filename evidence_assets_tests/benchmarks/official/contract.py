"""What every reader of a benchmark must pass, and ways to lay out and to spoil tiny files in its format."""

import copy
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from evidence_assets.benchmarks.dataset_info import find_dataset
from evidence_assets.benchmarks.readers import read_questions
from evidence_assets.lake.errors import BadInput

Files = dict[str, str]
ValidFiles = tuple[tuple[str, Files, dict[str, Any]], ...]


def one_question(split: str, files: Files, fields: dict[str, Any]) -> ValidFiles:
    """Files that hold one question of a split, and some of that question's fields."""
    return ((split, files, fields),)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def json_lines(*records: Any) -> str:
    """JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def with_faulty_row(record: dict[str, Any], **changes: Any) -> str:
    """A good row, then a faulty one on line 2; a field that is to be ``...`` is left out."""
    faulty = {key: value for key, value in (record | changes).items() if value is not ...}
    return json_lines(record | ({"id": "good"} if "id" in record else {}), faulty)


def corrupt_text(text: str) -> Iterator[str]:
    """The text of a file, each time with one value of it gone or of another kind."""
    rows = text.splitlines()
    if all(row.startswith(("{", "[")) for row in rows) and len(rows) > 1:
        for place, row in enumerate(rows):
            for other in corrupt_text(row):
                yield "\n".join([*rows[:place], other, *rows[place + 1 :]]) + "\n"
    elif text.startswith(("{", "[")):
        yield from map(json.dumps, _corrupt_values(json.loads(text)))
    else:
        delimiter = next((mark for mark in "\t;" if mark in text), ",")
        for place, row in enumerate(rows):
            fields = row.split(delimiter)
            for at in range(len(fields)):
                for wrong in ([], [""], ["x"], ['"']):
                    other = delimiter.join([*fields[:at], *wrong, *fields[at + 1 :]])
                    yield "\n".join([*rows[:place], other, *rows[place + 1 :]]) + "\n"


def _corrupt_values(value: Any) -> Iterator[Any]:
    yield from (None, 3, "", "x", [], {}, True)
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            without = copy.copy(value)
            del without[key]
            yield without
            for other in _corrupt_values(value[key]):
                changed = copy.copy(value)
                changed[key] = other
                yield changed


class ReaderContract:
    """A subclass gives the names of its datasets, tiny official files of the first of them, and faulty ones."""

    NAMES: ClassVar[tuple[str, ...]]
    VALID_FILES: ClassVar[ValidFiles]
    """Split, files with one question of it, and some fields of the question."""
    FAULTY_FILES: ClassVar[tuple[tuple[str, Files, str], ...]]
    """Split, faulty files, and the expected errors."""
    EMPTY_FILES: ClassVar[tuple[tuple[str, Files, str], ...]] = ()
    """Split, files without a question of it, and which of them is named (DIR is the folder)."""

    def test_declares_what_it_is_and_where_to_put_it(self, tmp_path: Path) -> None:
        for name in self.NAMES:
            declared = find_dataset(name)
            assert declared.title and declared.licence and declared.source.startswith("http") and declared.files
            assert set(declared.counts) <= set(declared.files)
            for split in declared.files:
                with pytest.raises(BadInput) as caught:
                    read_questions(name, tmp_path, split)
                first = declared.files[split][0].split("|")[0]
                for part in (first, str(tmp_path), declared.source, declared.licence):
                    assert part in str(caught.value)

    def test_reads_its_official_files_however_they_are_packed(self, tmp_path: Path) -> None:
        name, info = self.NAMES[0], find_dataset(self.NAMES[0])
        for number, (split, files, expected) in enumerate(self.VALID_FILES):
            plain = write_files(tmp_path / f"{number}", files)
            questions = list(read_questions(name, plain, split))
            assert len(questions) == 1, "each of VALID_FILES has one question"
            question = questions[0]
            assert {field: getattr(question, field) for field in expected} == expected
            assert (question.benchmark, question.split, question.task) == (name, split, info.task)
            windows = {at: "\ufeff" + text.replace("\r\n", "\n").replace("\n", "\r\n") for at, text in files.items()}
            assert list(read_questions(name, write_files(tmp_path / f"{number}w", windows), split)) == [question]
            for path in [path for path in plain.rglob("*") if path in info.find_files(plain, split)]:
                Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
                path.unlink()
            assert list(read_questions(name, plain, split)) == [question]

    def test_malformed_files_name_file_line_and_field(self, tmp_path: Path) -> None:
        for number, (split, files, expected_message) in enumerate(self.FAULTY_FILES):
            with pytest.raises(BadInput, match=expected_message):
                list(read_questions(self.NAMES[0], write_files(tmp_path / f"{number}", files), split))

    def test_corrupt_files_are_read_or_named_in_the_error(self, tmp_path: Path) -> None:
        split, files, _ = self.VALID_FILES[0]
        for at, text in files.items():
            for wrong in corrupt_text(text):
                write_files(tmp_path, files | {at: wrong})
                try:
                    list(read_questions(self.NAMES[0], tmp_path, split))
                except BadInput as error:
                    assert error.file is not None and error.message, wrong

    def test_a_split_without_questions_is_an_error_that_lists_valid_input(self, tmp_path: Path) -> None:
        for number, (split, files, place) in enumerate(self.EMPTY_FILES):
            folder = write_files(tmp_path / f"{number}", files)
            with pytest.raises(BadInput) as caught:
                list(read_questions(self.NAMES[0], folder, split))
            assert caught.value.file == (folder if place == "DIR" else folder / place)
            expected = find_dataset(self.NAMES[0]).describe_files(split)
            assert caught.value.message == f"contains no questions; expected {expected}"
