"""STaRK's published vectors: read as tensors alone, and searched as STaRK does, compared with a plain loop."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from evidence_assets.benchmarks.declared_benchmarks import benchmarks, declarations
from evidence_assets.lake.errors import BadInput
from evidence_assets_tests.benchmarks.official.contract import write_files
from tools import stark_vectors
from tools.stark_vectors import app, find_nearest, read_vectors


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Raw folder of a lake with two questions of STaRK's PRIME in the test split, and one in another."""
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    monkeypatch.setenv("EVIDENCE_PROFILE", "paper")
    declarations.cache_clear()
    benchmarks.cache_clear()
    rows = "".join(f"{number},Which is {number}?,[{number}]\n" for number in range(3))
    files = {"stark_qa.csv": f"id,query,answer_ids\n{rows}", "split/test.index": "2\n0\n"}
    write_files(tmp_path / "data_lake/raw/stark/prime", files)
    return tmp_path / "data_lake" / "raw"


def save(folder: Path, queries: object, nodes: object) -> Path:
    """The files of emb_download.py."""
    for name, content in (("query/query_emb_dict.pt", queries), ("doc/candidate_emb_dict.pt", nodes)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        torch.save(content, folder / name)
    return folder


def test_the_nearest_nodes_are_those_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, ids in any order and ties make no difference; there are ties, as the numbers are small."""
    monkeypatch.setattr(stark_vectors, "NODES_PER_BLOCK", 7)
    generator = np.random.default_rng(5)
    ids = generator.permutation(40).tolist()
    nodes = {number: torch.tensor(generator.integers(-2, 3, 4), dtype=torch.float16) for number in ids}
    queries = generator.integers(-2, 3, (5, 4)).astype(np.float32)
    for query, nearest in zip(queries, find_nearest(nodes, queries, 9).tolist(), strict=True):
        scores = {number: float(query @ vector.float().numpy()) for number, vector in nodes.items()}
        assert [scores[number] for number in nearest] == sorted(scores.values(), reverse=True)[:9]
        assert nearest == sorted(set(nearest), key=lambda number: (-scores[number], number))
    assert find_nearest(nodes, queries, 99).shape == (5, 40)


def test_rankings_of_the_published_vectors_are_recorded_answers(raw: Path, tmp_path: Path) -> None:
    nodes = {5: torch.tensor([0.0, 1.0]), 12: torch.tensor([1.0, 0.0]), 7: torch.tensor([0.6, 0.6])}
    queries = {0: torch.tensor([[1.0, 0.1]]), 1: torch.zeros(2), 2: torch.tensor([0.1, 1.0])}
    result = CliRunner().invoke(app, [str(save(tmp_path / "emb", queries, nodes)), "stark_prime_synth"])
    assert result.exit_code == 0 and "3 nodes and 2 questions of 2 numbers: about" in result.output, result.output
    file = raw / "recorded/stark_prime_synth/vss@text-embedding-ada-002.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == [
        {"id": "2", "ranked": ["stark_prime:5", "stark_prime:7", "stark_prime:12"]},
        {"id": "0", "ranked": ["stark_prime:12", "stark_prime:7", "stark_prime:5"]},
    ]
    copied = {file.stem: np.load(file).tolist() for file in raw.glob("vectors/stark_prime_synth/*/*.npy")}
    assert copied["question_ids"] == [0, 1, 2] and copied["question"][1] == [0, 0]
    assert copied["node_ids"] == [5, 7, 12] and copied["node"][0] == [0, 1]


class Program:
    """Pickled as a call that writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.target,)


@pytest.mark.parametrize("is_zipped", [True, False])
def test_nothing_in_a_file_is_run(tmp_path: Path, is_zipped: bool) -> None:
    file = tmp_path / "query_emb_dict.pt"
    torch.save({0: Program(tmp_path / "run")}, file, _use_new_zipfile_serialization=is_zipped)
    with pytest.raises(BadInput, match="no file of tensors that can be read without running it"):
        read_vectors(file)
    assert not (tmp_path / "run").exists()


def test_an_old_file_of_tensors_is_read(tmp_path: Path) -> None:
    torch.save({3: torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert read_vectors(tmp_path / "old.pt")[3].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({1: torch.ones(2), 2: torch.ones(3)}, "x.pt: 2: has 3 numbers, the first vector 2"),
        ({"../x": torch.ones(2)}, "expected numbers as ids, and vectors"),
        ({1: torch.ones(2, dtype=torch.int64)}, "x.pt: 1: expected numbers as ids, and vectors"),
        ([torch.ones(2)], "expected a dictionary of vectors by id"),
    ],
)
def test_other_contents_are_named(tmp_path: Path, content: object, message: str) -> None:
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(BadInput, match=message):
        read_vectors(tmp_path / "x.pt")


def test_missing_vectors_and_files_are_named(raw: Path, tmp_path: Path) -> None:
    def output(*arguments: str) -> str:
        return " ".join(CliRunner().invoke(app, list(arguments)).output.split())

    torch.save({0: torch.ones(2)}, tmp_path / "damaged.pt")
    (tmp_path / "damaged.pt").write_bytes((tmp_path / "damaged.pt").read_bytes()[:300])
    with pytest.raises(BadInput, match=r"damaged\.pt"):
        read_vectors(tmp_path / "damaged.pt")
    assert "holds no file query_emb_dict.pt" in output(str(tmp_path), "stark_prime_synth")
    folder = save(tmp_path / "emb", {0: torch.ones(2)}, {0: torch.ones(3)})
    assert "has no vector of the question 2 of stark_prime_synth" in output(str(folder), "stark_prime_synth")
    save(folder, {0: torch.ones(2), 2: torch.ones(2)}, {0: torch.ones(3)})
    assert "has 3 numbers a vector, query_emb_dict.pt 2" in output(str(folder), "stark_prime_synth")
    assert "did you mean 'stark_prime_synth'" in output(str(folder), "stark_prime_syn")
    assert "no searches of a knowledge base 'webqsp'" in output(str(folder), "webqsp")
