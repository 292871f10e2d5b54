"""Vectors of words and of walks against their definitions, and what Attention2Query makes of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from evidence_assets.graphs.arrays import GraphArrays
from evidence_assets.lake.errors import BadInput
from evidence_assets.systems.a2q.embeddings import STEPS, WordVectors, walk_vectors

LINES = {"ice_cream": (0, 0, 2), "ice": (1, 0, 0), "cold": (0, 3, 0), "Paris": (1, 1, 0)}


def text(folder: Path, head: str = "4 3\n") -> Path:
    path = folder / "vectors.txt.gz"
    said = head + "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in LINES.items())
    path.write_bytes(gzip.compress(said.encode()))
    return path


def binary(folder: Path) -> Path:
    path = folder / "vectors.bin"
    rows = (f"{word} ".encode() + np.array(numbers, "<f4").tobytes() + b"\n" for word, numbers in LINES.items())
    path.write_bytes(b"4 3\n" + b"".join(rows))
    return path


@pytest.mark.parametrize("write", [text, binary])
def test_a_text_is_its_phrase_or_the_mean_of_its_words(tmp_path: Path, write: object) -> None:
    vectors = WordVectors(write(tmp_path))  # type: ignore[operator]
    found = vectors.sentences(["Ice cream", "ice, cold!", "Paris", "nothing known", "cold"])
    expected = np.array([[0, 0, 1], [1, 3, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]], float)
    expected /= np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(vectors.sentences(["cold ice"])[0], expected[1], atol=1e-6)
    assert vectors.model_id == "vectors" and vectors.revision
    assert WordVectors(text(tmp_path, head="")).sentences(["ice"]).tolist() == [[1, 0, 0]]


def test_a_short_line_and_a_cut_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("ice 1 2 3\ncold 1 2\n")
    with pytest.raises(BadInput, match="2 numbers, expected 3") as caught:
        WordVectors(path).sentences(["ice"])
    assert (caught.value.line, caught.value.field) == (2, "cold")
    cut = binary(tmp_path)
    cut.write_bytes(cut.read_bytes()[:-4])
    with pytest.raises(BadInput, match="ends within word 4 of 4"):
        WordVectors(cut).sentences(["ice"])


def arrays(n: int, edges: list[tuple[int, int]]) -> GraphArrays:
    heads, tails = (np.array(side, np.int32) for side in zip(*edges, strict=True))
    return GraphArrays.from_edges(n, heads, np.zeros(len(edges), np.int32), tails)


def test_vectors_of_walks_are_the_matrix_of_deepwalk_factored() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (5, 4), (6, 5)]
    found = walk_vectors(arrays(8, edges), 7)
    adjacent = np.zeros((8, 8))
    for a, b in edges:
        adjacent[a, b] += 1
        adjacent[b, a] += 1
    degrees = adjacent.sum(axis=1)
    inverse = np.diag([1 / d if d else 0 for d in degrees])
    step = inverse @ adjacent
    told = np.log1p(degrees.sum() / STEPS * sum(np.linalg.matrix_power(step, t) for t in range(1, STEPS + 1)) @ inverse)
    left, values, _ = np.linalg.svd(told)
    expected = left[:, :7] * np.sqrt(values[:7])
    expected /= np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-4)
    assert not found[7].any(), "a node without an edge is near to nothing"
    assert np.array_equal(found, walk_vectors(arrays(8, edges), 7))


def test_neighbours_are_nearer_than_strangers() -> None:
    rings = [(i, (i + 1) % 10) for i in range(10)] + [(10 + i, 10 + (i + 1) % 10) for i in range(10)] + [(0, 10)]
    found = walk_vectors(arrays(20, rings), 8)
    alike = found @ found.T
    assert alike[4, 5] > alike[4, 9] > alike[4, 15]
