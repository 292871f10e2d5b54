"""Bad raw input, met by the real assets: each has a defined result, with file, line and field where there is one."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets.corpus import Corpus
from evidence_assets.assets.resources import LakeResource
from evidence_assets.benchmarks.declared_benchmarks import Benchmark
from evidence_assets.benchmarks.readers import read_benchmark_tables
from evidence_assets.benchmarks.records import table_rows
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.systems.baselines.system import CellSelector, score_cells_by_bm25
from evidence_assets_tests.assets.small_worlds import materialize


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    return LakeResource(root=str(tmp_path / "data_lake")).open()


def chunk(lake: Lake) -> dg.ExecuteInProcessResult:
    """Materialize the chunks of the corpus ``mine``."""
    loaded = dg.build_defs_for_component(Corpus(name="mine", folder="mine"))
    return materialize(lake, loaded, "corpus/mine/chunks", partition_key="0")


def put(lake: Lake, name: str, content: bytes) -> Path:
    path = lake.raw / "mine" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (".keep", b"", "the corpus is empty"),
        ("a.jsonl", line(doc_id="1", text="One.") + line(doc_id="1", text="Two."), r"a\.jsonl:2.*doc_id"),
        ("a.jsonl", line(doc_id="1", text="One.") + b'{"doc_id": "2", "text": "\xff"}\n', r"a\.jsonl:2"),
    ],
)
def test_a_corpus_that_cannot_be_read_says_where(lake: Lake, name: str, content: bytes, says: str) -> None:
    put(lake, name, content)
    with pytest.raises(BadInput, match=says):
        chunk(lake)
    assert lake.files("chunks") == [], "nothing may be half loaded"


def test_a_long_article_loses_nothing_and_no_chunk_is_too_long(lake: Lake) -> None:
    text = " ".join(f"Sentence number {i} says that {i * 7} follows." for i in range(6000)) + " " + "x" * 20_000
    put(lake, "long.txt", text.encode())
    assert chunk(lake).success
    chunks = lake.read("chunks").sort("ordinal")
    assert chunks["n_tokens"].to_numpy().max() <= 128
    assert "".join(chunks["text"].to_list()).replace(" ", "") == text.replace(" ", "")
    assert all(text[a:b] == t for a, b, t in chunks.select("char_start", "char_end", "text").iter_rows())


def benchmark(lake: Lake, questions: bytes, tables: bytes = b"") -> Benchmark:
    put(lake, "questions.jsonl", questions)
    put(lake, "tables.jsonl", tables)
    return Benchmark(
        name="mine", task="table_qa" if tables else "mcqa", path="mine/questions.jsonl", tables="mine/tables.jsonl"
    )


def test_a_table_without_rows_is_kept_and_gives_no_evidence(lake: Lake) -> None:
    declared = benchmark(
        lake,
        line(source_id="1", text="Which?", task="table_qa", options=["a", "b"], gold=0, table_id="empty"),
        line(table_id="empty", caption="Nothing", header=["name", "size"], rows=[]),
    )
    tables = list(read_benchmark_tables(lake, declared))
    (row,) = table_rows(tables)
    assert row["n_rows"] == 0 and row["cells"] == []
    question = Question("q", "mine", "table_qa", "Which?", ("a", "b"), "empty")
    selector = CellSelector({"empty": (tables[0], "v")}, score_cells_by_bm25, 5, "bm25")
    assert selector.select([question]) == [[]]


def test_a_corpus_of_a_dataset_without_passages_is_refused_when_it_is_loaded() -> None:
    with pytest.raises(BadInput, match=r"brings no passages; known: .*hotpotqa"):
        dg.build_defs_for_component(Corpus(name="mine", folder="mine", documents="csqa"))
    with pytest.raises(BadInput, match="did you mean 'hotpotqa'"):
        dg.build_defs_for_component(Corpus(name="mine", folder="mine", documents="hotpot"))
