"""One pass over a corpus: every shard of it, what was done is not done again, and nothing grows with the corpus."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence_assets.benchmarks.chunk_store import ChunkStore, chunk_rows
from evidence_assets.benchmarks.corpora import group_files, read_documents
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.schemas import TABLES
from evidence_assets.models.protocols import Encoder


class Words:
    """Counts words as tokens and remembers what it was asked; an encoder as far as chunks need one."""

    model_id, revision, dimensions, max_tokens = "words", "1", 1, 512

    def __init__(self, stops_at: str = "no such word") -> None:
        self.encoded_texts: list[str] = []
        self.stops_at = stops_at

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        self.encoded_texts += texts
        if any(self.stops_at in text for text in texts):
            raise KeyboardInterrupt
        return [len(text.split()) for text in texts]


def write(folder: Path, files: int = 3, documents: int = 40) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(files):
        texts = [f"File {number} says {i} here. And ends it. " * (1 + i % 7) for i in range(documents)]
        rows = [{"doc_id": f"{number}-{i}", "title": f"T{i}", "text": text} for i, text in enumerate(texts)]
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def chunk_corpus(
    place: Path, folder: Path, encoder: Words | None = None, shards: int = 4, limit: int = 8
) -> ChunkStore:
    store, words = ChunkStore(place), cast(Encoder, encoder or Words())
    store.update(group_files(folder), words, "words@1", limit, shards, lambda completed, total: None)
    return store


def hashes(place: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.glob("*.parquet")}


def test_all_shards_together_are_the_chunks_of_all_documents(tmp_path: Path) -> None:
    folder = write(tmp_path / "raw")
    parts = chunk_corpus(tmp_path / "parts", folder)
    shards = [parts.read_shard(shard) for shard in range(4)]
    assert all(len(rows) for rows in shards)
    homes = [set(rows["doc_id"].to_pylist()) for rows in shards]
    assert sum(map(len, homes)) == len(set.union(*homes)) == 120, "a document is in one shard"
    key = [("doc_id", "ascending"), ("ordinal", "ascending")]
    expected = pa.Table.from_pylist(
        list(chunk_rows(read_documents(folder), Words(), 8)),  # type: ignore[arg-type]
        schema=TABLES["chunks"].arrow,
    )
    assert pa.concat_tables(shards).sort_by(key).equals(expected.sort_by(key))


def test_a_killed_pass_resumes_and_writes_the_same_bytes(tmp_path: Path) -> None:
    folder = write(tmp_path / "raw")
    chunk_corpus(tmp_path / "whole", folder)
    with pytest.raises(KeyboardInterrupt):
        chunk_corpus(tmp_path / "parts", folder, Words(stops_at="File 1 says 30"))
    kept_rows = hashes(tmp_path / "parts")
    assert len(kept_rows) == 1
    rerun = Words()
    chunk_corpus(tmp_path / "parts", folder, rerun)
    assert not any("File 0" in text for text in rerun.encoded_texts)
    assert (
        hashes(tmp_path / "parts") == hashes(tmp_path / "whole")
        and kept_rows.items() <= hashes(tmp_path / "parts").items()
    )


def test_an_edit_cuts_what_came_from_that_file_alone(tmp_path: Path) -> None:
    folder = write(tmp_path / "raw")
    chunk_corpus(tmp_path / "parts", folder)
    before = hashes(tmp_path / "parts")
    (folder / "1.jsonl").write_text('{"doc_id": "1-0", "text": "File 1 is another now."}\n')
    edited = Words()
    parts = chunk_corpus(tmp_path / "parts", folder, edited)
    assert {text.split()[1] for text in edited.encoded_texts} == {"1"}
    assert len(before.items() & hashes(tmp_path / "parts").items()) == 2 and len(hashes(tmp_path / "parts")) == 3
    assert sum(len(set(parts.read_shard(shard)["doc_id"].to_pylist())) for shard in range(4)) == 81
    unchanged = Words()
    chunk_corpus(tmp_path / "parts", folder, unchanged)
    assert unchanged.encoded_texts == []
    for name in before:
        path = tmp_path / "parts" / name
        if path.exists():
            path.write_bytes(path.read_bytes()[:-100])
    chunk_corpus(tmp_path / "parts", folder, unchanged)
    assert {text.split()[1] for text in unchanged.encoded_texts} == {"0", "2", "ends"}, "truncated files are rebuilt"


def test_an_id_in_two_files_is_refused_every_time(tmp_path: Path) -> None:
    folder = write(tmp_path / "raw")
    (folder / "b.jsonl").write_text('{"doc_id": "1-7", "text": "Is in two files."}\n')
    for _ in range(2):
        with pytest.raises(BadInput, match=r"b\.jsonl: doc_id: '1-7' occurs twice"):
            chunk_corpus(tmp_path / "parts", folder)


def test_the_error_names_a_damaged_shard(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    columns = {
        "id": [str(i) for i in range(3000)],
        "title": ["t"] * 3000,
        "text": [f"Number {i} is here." for i in range(3000)],
    }
    path = folder / "train-00000.parquet"
    pq.write_table(pa.table(columns), path, write_page_checksum=True, compression="none", row_group_size=1000)
    chunk_corpus(tmp_path / "parts", folder)
    before, full = hashes(tmp_path / "parts"), path.read_bytes()
    at = full.index(b"Number 2500")
    path.write_bytes(full[:at] + b"Numbel" + full[at + 6 :])
    with pytest.raises(BadInput, match=r"train-00000\.parquet: the Parquet file is damaged after row 1792 .*CRC"):
        chunk_corpus(tmp_path / "parts", folder)
    path.write_bytes(full[: len(full) // 2])
    with pytest.raises(BadInput, match=r"train-00000\.parquet: the Parquet file is damaged after row 0"):
        chunk_corpus(tmp_path / "parts", folder)
    assert hashes(tmp_path / "parts") == before
