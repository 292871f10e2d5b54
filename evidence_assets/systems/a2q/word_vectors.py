"""Vectors of words from a user's file, which Attention2Query compares in place of a text encoder's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from evidence_assets.benchmarks.line_streams import open_bytes, text_lines
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import file_id
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.vectors import unit_rows
from evidence_assets.text.words import split_words


class TextVectors(Protocol):
    """What Attention2Query asks of an encoder."""

    @property
    def model_id(self) -> str: ...
    @property
    def revision(self) -> str: ...
    def encode_sentences(self, texts: Sequence[str]) -> FloatArray: ...


class WordVectors:
    """Normalised vectors of words in a file; a text of which nothing is known is a zero, near to nothing.

    A text that the file knows as a whole, its words joined by underscores, has that vector (ConceptNet Numberbatch and
    word2vec name phrases so), any other the mean of its words'.

    ``file``: ``word number number …`` a line, perhaps after a line of two counts, or, where it is named ``.bin``,
        word2vec's binary form; either may be packed (``.gz``).
    """

    def __init__(self, file: Path) -> None:
        self._file, self._known = file, dict[str, FloatArray | None]()
        self.model_id, self.revision = file.name.partition(".")[0], file_id(file)

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        spelt = [split_words(text) for text in texts]
        forms = {form for words in spelt for form in (*words, "_".join(words))}
        self._look_up(forms | {form.lower() for form in forms})
        rows = []
        for words in spelt:
            whole = self._vector("_".join(words)) if words else None
            own = [vector for word in words if (vector := self._vector(word)) is not None]
            rows.append(whole if whole is not None else np.mean(own, axis=0) if own else None)
        width = next((len(vector) for vector in self._known.values() if vector is not None), 1)
        filled = [np.zeros(width, np.float32) if row is None else row for row in rows]
        return unit_rows(np.stack(filled)).astype(np.float32) if filled else np.zeros((0, width), np.float32)

    def _vector(self, form: str) -> FloatArray | None:
        found = self._known.get(form)
        return found if found is not None else self._known.get(form.lower())

    def _look_up(self, forms: set[str]) -> None:
        """Find those words in the file that were not looked for before, in one pass over it."""
        new = forms - self._known.keys()
        if not new:
            return
        self._known |= dict.fromkeys(new)
        packed = self._file.name.removesuffix(".gz")
        for word, vector in (
            _read_binary_vectors(self._file, new) if packed.endswith(".bin") else _read_text_vectors(self._file, new)
        ):
            self._known[word] = vector


def _read_text_vectors(file: Path, wanted: set[str]) -> Iterator[tuple[str, FloatArray]]:
    width = 0
    for line, text in text_lines(file, "vectors as text"):
        word, *numbers = text.rstrip().split(" ")
        if line == 1 and len(numbers) == 1:
            continue
        width = width or len(numbers)
        if len(numbers) < width:
            raise BadInput(f"{len(numbers)} numbers, expected {width}", file=file, line=line, field=word)
        word = " ".join([word, *numbers[: len(numbers) - width]])  # GloVe has a few words with spaces
        if word in wanted:
            try:
                yield word, np.array(numbers[-width:], dtype=np.float32)
            except ValueError as error:
                raise BadInput(f"holds no numbers ({error})", file=file, line=line, field=word) from error


def _read_binary_vectors(file: Path, wanted: set[str]) -> Iterator[tuple[str, FloatArray]]:
    with open_bytes(file) as stream:
        head = stream.readline().split()
        if len(head) != 2 or not all(number.isdigit() for number in head):
            raise BadInput("does not begin with the counts of words and numbers", file=file, line=1)
        count, width = map(int, head)
        for number in range(count):
            name = bytearray()
            while (letter := stream.read(1)) not in (b" ", b""):
                name += letter
            content = stream.read(4 * width)
            if len(content) < 4 * width:
                raise BadInput(f"ends within word {number + 1:,} of {count:,}", file=file)
            word = name.decode("utf-8", "replace").strip()
            if word in wanted:
                yield word, np.frombuffer(content, dtype="<f4").astype(np.float32)
