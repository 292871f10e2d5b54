"""Word vectors from a user's file, as an alternative to a text encoder for Attention2Query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from evidence_assets.benchmarks.line_streams import open_bytes, text_lines
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import file_id
from evidence_assets.models.protocols import FloatArray, NamedModel
from evidence_assets.models.vectors import unit_rows
from evidence_assets.text.words import split_words


class TextVectors(NamedModel, Protocol):
    """The encoder interface that Attention2Query needs."""

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray: ...


class WordVectors:
    """Encodes texts with word vectors from a file; a text without known words gets a zero vector.

    Raises BadInput while no text has had a word of the file.

    A text that is a phrase of the file, with its words joined by underscores (as in ConceptNet Numberbatch and
    word2vec), has the vector of the phrase, any other text the mean of its words' vectors.

    ``file``: Text with a line ``word number number …`` per word, optionally after a header line with two counts, or
        word2vec's binary format if the name ends in ``.bin``; either may be compressed (``.gz``).
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._vectors = dict[str, FloatArray | None]()
        self.model_id = file.name.partition(".")[0]
        self.revision = file_id(file)

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        words_of_texts = [split_words(text) for text in texts]
        self._look_up(words_of_texts)
        rows = []
        for words in words_of_texts:
            phrase = self._vector("_".join(words)) if words else None
            word_vectors = [vector for word in words if (vector := self._vector(word)) is not None]
            rows.append(phrase if phrase is not None else np.mean(word_vectors, axis=0) if word_vectors else None)
        width = next((len(vector) for vector in self._vectors.values() if vector is not None), 0)
        if not width and texts:  # the first texts are the names of a graph
            raise BadInput(f"has no word of names such as {texts[0]!r}. Use vectors in their language", file=self._file)
        vectors = [np.zeros(width, np.float32) if row is None else row for row in rows]
        return unit_rows(np.stack(vectors)).astype(np.float32) if vectors else np.zeros((0, width), np.float32)

    def _vector(self, form: str) -> FloatArray | None:
        vector = self._vectors.get(form)
        return vector if vector is not None else self._vectors.get(form.lower())

    def look_up(self, texts: Iterable[str]) -> None:
        """Find the new words of texts in one pass over the file."""
        self._look_up(map(split_words, texts))

    def _look_up(self, words_of_texts: Iterable[Sequence[str]]) -> None:
        new_forms = {form for words in words_of_texts for form in _forms(words) if form not in self._vectors}
        if not new_forms:
            return
        self._vectors |= dict.fromkeys(new_forms)
        is_binary = self._file.name.removesuffix(".gz").endswith(".bin")
        read_vectors = _read_binary_vectors if is_binary else _read_text_vectors
        self._vectors.update(read_vectors(self._file, new_forms))


def _forms(words: Sequence[str]) -> Iterator[str]:
    """The words and their phrase, as they are and in lower case."""
    for form in (*words, "_".join(words)):
        yield form
        yield form.lower()


def _read_text_vectors(file: Path, words: set[str]) -> Iterator[tuple[str, FloatArray]]:
    width = 0
    for line, text in text_lines(file, "vectors as text"):
        word, *numbers = text.rstrip().split(" ")
        if line == 1 and len(numbers) == 1:
            continue
        width = width or len(numbers)
        if len(numbers) < width:
            raise BadInput(
                f"{len(numbers)} numbers, expected {width} as in the first line", file=file, line=line, field=word
            )
        word = " ".join([word, *numbers[: len(numbers) - width]])  # GloVe has a few words with spaces
        if word in words:
            try:
                yield word, np.array(numbers[-width:], dtype=np.float32)
            except ValueError as error:
                raise BadInput(f"not a vector of numbers ({error})", file=file, line=line, field=word) from error


def _read_binary_vectors(file: Path, words: set[str]) -> Iterator[tuple[str, FloatArray]]:
    with open_bytes(file) as stream:
        header = stream.readline().split()
        if len(header) != 2 or not all(number.isdigit() for number in header):
            raise BadInput(
                "must begin with the number of words and the number of dimensions, as word2vec's binary files do",
                file=file,
                line=1,
            )
        count, width = map(int, header)
        for number in range(count):
            name = bytearray()
            while (letter := stream.read(1)) not in (b" ", b""):
                name += letter
            content = stream.read(4 * width)
            if len(content) < 4 * width:
                raise BadInput(f"ends within word {number + 1:,} of {count:,}. Download the file again", file=file)
            word = name.decode("utf-8", "replace").strip()
            if word in words:
                yield word, np.frombuffer(content, dtype="<f4").astype(np.float32)
