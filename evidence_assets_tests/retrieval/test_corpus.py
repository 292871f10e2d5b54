"""A corpus opened from a lake: its shards in order, shared by threads, refused where it is older than what it was made
from.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from evidence_assets.experiment import corpus_building
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.lineage import edge
from evidence_assets.lake.rows import build_table
from evidence_assets.lake.store import Lake
from evidence_assets.retrieval.corpus import chunks_version, open_corpus, read_chunk_texts
from evidence_assets_tests.lake_rows import chunk

SHARDS = {"0": ["d", "b"], "2": ["c"], "10": ["a", "e"]}


def write(lake: Lake, shard: str, ids: list[str], text: str = "Text of", *, embedded: bool = True) -> None:
    """Chunks of a shard, out of order, with vectors that follow from their ids."""
    rows = [chunk(n, f"{text} {i}.", chunk_id=i, sentence_offsets=[{"start": 0, "end": 9}]) for n, i in enumerate(ids)]
    lake.write("corpus/c/chunks", shard, {"chunks": build_table("chunks", rows)})
    if embedded:
        vectors = np.random.default_rng([ord(i) for i in ids]).normal(size=(len(ids), 4))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        embeddings = [
            {"chunk_id": i, "vector": v, "model_id": "m", "input_hash": f"{text}{i}"}
            for i, v in zip(ids, vectors.astype(np.float32).tolist(), strict=True)
        ]
        lineage = [edge("chunk_embedding", i, "was_derived_from", "chunk", i, i) for i in ids]
        lake.write("corpus/c/embeddings", shard, {"chunk_embeddings": embeddings, "lineage_edges": lineage})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    for shard, ids in SHARDS.items():
        write(lake, shard, ids)
    corpus_building.build_index(lake, "c")
    return lake


def test_chunks_are_counted_shard_by_shard_and_by_their_ids_within(lake: Lake) -> None:
    corpus = open_corpus(lake, "c")
    assert corpus.ids(range(len(corpus))) == ["b", "d", "c", "a", "e"]
    assert [text for block in read_chunk_texts(lake, "c") for text in block] == corpus.texts(range(5))
    scores, positions = corpus.index.search(corpus.vectors.astype(np.float32), 1)
    assert positions[:, 0].tolist() == [0, 1, 2, 3, 4] and scores[:, 0] == pytest.approx(1, abs=1e-2)


def test_an_index_older_than_chunks_or_vectors_is_refused_and_one_that_was_moved_is_not(lake: Lake) -> None:
    copy = Path(shutil.copytree(lake.root, lake.root.parent / "moved"))
    assert open_corpus(Lake(copy), "c").version == open_corpus(lake, "c").version
    before = chunks_version(lake, "c")
    write(lake, "2", ["c"])  # the same rows
    assert chunks_version(lake, "c") == before
    open_corpus(lake, "c")
    write(lake, "2", ["c"], "Words of")
    with pytest.raises(StaleInput, match="materialize it again"):
        open_corpus(lake, "c")
    corpus_building.build_index(lake, "c")
    assert open_corpus(lake, "c").texts([2]) == ["Words of c."]
    write(lake, "2", ["f"], embedded=False)
    with pytest.raises(StaleInput, match="materialize it again"):
        open_corpus(lake, "c")
    with pytest.raises(StaleInput, match="does not match the chunks in the lake: materialize the embeddings"):
        corpus_building.build_index(lake, "c")
