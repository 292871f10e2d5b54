"""Vectors that Attention2Query compares other than a text encoder's: of words, from a user's file, and of a graph's
nodes.

Belongs here: where such vectors come from, and what they make of a text. All are normalised; a text of which nothing is
known is a zero, which is near to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import svds

from evidence_assets.benchmarks.reading import open_bytes, text_lines
from evidence_assets.graphs.arrays import GraphArrays
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import file_id
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.vectors import unit_rows
from evidence_assets.text.words import words_of

STEPS = 5
"""Steps of a random walk that are told of a node."""


class TextVectors(Protocol):
    """What Attention2Query asks of an encoder."""

    @property
    def model_id(self) -> str: ...
    @property
    def revision(self) -> str: ...
    def sentences(self, texts: Sequence[str]) -> FloatArray: ...


class WordVectors:
    """Vectors of words in a file, of which only those that are asked for are kept.

    A text that the file knows as a whole, its words joined by underscores, has that vector (ConceptNet Numberbatch and
    word2vec name phrases so), any other the mean of its words'.

    ``file``: ``word number number …`` a line, perhaps after a line of two counts, or, where it is named ``.bin``,
        word2vec's binary form; either may be packed (``.gz``).
    """

    def __init__(self, file: Path) -> None:
        self._file, self._known = file, dict[str, FloatArray | None]()
        self.model_id, self.revision = file.name.partition(".")[0], file_id(file)

    def sentences(self, texts: Sequence[str]) -> FloatArray:
        spelt = [words_of(text) for text in texts]
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
        for word, vector in _binary(self._file, new) if packed.endswith(".bin") else _lines(self._file, new):
            self._known[word] = vector


def _lines(file: Path, wanted: set[str]) -> Iterator[tuple[str, FloatArray]]:
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


def _binary(file: Path, wanted: set[str]) -> Iterator[tuple[str, FloatArray]]:
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


class WalkVectors:
    """Vectors of a graph's nodes by random walks from them; a text has the mean of the nodes that it names."""

    def __init__(self, graph: KnowledgeGraph, dimensions: int = 64) -> None:
        self._graph, self.nodes = graph, walk_vectors(graph.arrays, dimensions)
        self.model_id, self.revision = "random_walks", f"{graph.version}:{dimensions}:{STEPS}"

    def sentences(self, texts: Sequence[str]) -> FloatArray:
        rows = np.zeros((len(texts), self.nodes.shape[1]), np.float32)
        for row, text in enumerate(texts):
            named = [node for span in self._graph.linker.find_spans(text) for node in span.link.nodes]
            if named:
                rows[row] = self.nodes[named].mean(axis=0)
        return unit_rows(rows).astype(np.float32)


def walk_vectors(graph: GraphArrays, dimensions: int) -> FloatArray:
    """A normalised row a node: left singular vectors of ``log(1 + vol · W D⁻¹)``, each scaled by the root of its value.

    W = 1/T · Σ_t P^t is where a walk of at most T = ``STEPS`` steps is met, P = D⁻¹ A the walk on the graph without
    directions, D the degrees and vol their sum (the matrix of DeepWalk, after Qiu et al. 2018). Of each row of P^t the
    hundred likeliest places are kept, so that it stays sparse. Nodes without an edge are zeros.
    """
    n = graph.n_nodes
    if n < 3 or not len(graph.heads):
        return np.zeros((n, dimensions), np.float32)
    ends = np.concatenate([graph.heads, graph.tails]), np.concatenate([graph.tails, graph.heads])
    adjacent = sparse.csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
    degrees = np.asarray(adjacent.sum(axis=1)).ravel()
    inverse = sparse.dia_array((np.divide(1, degrees, where=degrees > 0, out=np.zeros(n))[None, :], 0), shape=(n, n))
    step = (inverse @ adjacent).tocsr()
    reached, met = step, step.copy()
    for _ in range(STEPS - 1):
        reached = _thinned((reached @ step).tocsr(), 100)
        met = met + reached
    told = (degrees.sum() / STEPS * met @ inverse).tocsr()
    told.data = np.log1p(told.data)
    rank = min(dimensions, n - 1)
    left, values, _ = svds(told, k=rank, v0=np.full(n, 1 / np.sqrt(n)))
    made = np.zeros((n, dimensions), np.float32)
    made[:, :rank] = left * np.sqrt(values)
    return unit_rows(made).astype(np.float32)


def _thinned(rows: sparse.csr_array, most: int) -> sparse.csr_array:
    """The largest values of each row, equal ones by column."""
    kept: list[npt.NDArray[np.intp]] = []
    for start, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        order = np.lexsort((rows.indices[start:end], -rows.data[start:end]))[:most]
        kept.append(np.sort(order) + start)
    places = np.concatenate(kept) if kept else np.zeros(0, np.intp)
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in kept])])
    return sparse.csr_array((rows.data[places], rows.indices[places], offsets), shape=rows.shape)
