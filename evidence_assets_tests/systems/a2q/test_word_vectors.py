"""Word vectors from files, and errors in such files."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from evidence_assets.lake.errors import BadInput
from evidence_assets.systems.a2q.word_vectors import WordVectors

LINES = {"ice_cream": (0, 0, 2), "ice": (1, 0, 0), "cold": (0, 3, 0), "Paris": (1, 1, 0)}


def write_text_vectors(folder: Path, header: str = "4 3\n") -> Path:
    path = folder / "vectors.txt.gz"
    content = header + "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in LINES.items())
    path.write_bytes(gzip.compress(content.encode()))
    return path


def write_binary_vectors(folder: Path) -> Path:
    path = folder / "vectors.bin"
    rows = (f"{word} ".encode() + np.array(numbers, "<f4").tobytes() + b"\n" for word, numbers in LINES.items())
    path.write_bytes(b"4 3\n" + b"".join(rows))
    return path


@pytest.mark.parametrize("write", [write_text_vectors, write_binary_vectors])
def test_a_text_is_its_phrase_or_the_mean_of_its_words(tmp_path: Path, write: object) -> None:
    vectors = WordVectors(write(tmp_path))  # type: ignore[operator]
    encoded = vectors.encode_sentences(["Ice cream", "ice, cold!", "Paris", "nothing known", "cold"])
    expected = np.array([[0, 0, 1], [1, 3, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]], float)
    expected /= np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(encoded, expected, atol=1e-6)
    np.testing.assert_allclose(vectors.encode_sentences(["cold ice"])[0], expected[1], atol=1e-6)
    assert vectors.model_id == "vectors" and vectors.revision
    assert WordVectors(write_text_vectors(tmp_path, header="")).encode_sentences(["ice"]).tolist() == [[1, 0, 0]]


def test_errors_name_a_short_line_a_truncated_file_and_a_file_of_other_words(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("ice 1 2 3\ncold 1 2\n")
    with pytest.raises(BadInput, match="2 numbers, expected 3") as caught:
        WordVectors(path).encode_sentences(["ice"])
    assert (caught.value.line, caught.value.field) == (2, "cold")
    truncated = write_binary_vectors(tmp_path)
    truncated.write_bytes(truncated.read_bytes()[:-4])
    with pytest.raises(BadInput, match="ends within word 4 of 4"):
        WordVectors(truncated).encode_sentences(["ice"])
    with pytest.raises(BadInput, match=r"vectors\.txt\.gz: has no word of names such as 'bee'"):
        WordVectors(write_text_vectors(tmp_path)).encode_sentences(["bee", "ant"])
