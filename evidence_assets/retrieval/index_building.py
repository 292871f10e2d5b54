"""Builds FAISS indexes within a memory limit, from a file of vectors that is read in blocks.

An index is trained on a sample and filled block by block; its recall is measured against exact search.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval.vector_index import (
    INDEX,
    META,
    VERSION,
    IndexMeta,
    IntArray,
    copy_to_card,
    faiss,
    search_index,
)

MAX_FLAT_VECTORS = 200_000
"""Maximum vectors of a flat index, which takes a few hundredths of a second per search."""
VECTORS_PER_BLOCK = 1 << 12
ID_BYTES = 8
MIN_POINTS_PER_LIST = 39
"""Minimum training vectors per list; FAISS warns below this number."""
SAMPLE_SHARE = 0.4
"""Maximum size of the training sample, as a share of the finished index."""
RECALL_QUERIES = 200
RECALL_AT = (10, 100)
MIN_SAMPLE = 10_000
"""Minimum training vectors, if the file has as many."""
MIN_RECALL_SHARE = 0.99
"""Minimum recall of searching some lists, as a share of the recall of searching all."""


class VectorFile:
    """Vectors in an ``.npy`` file, read in blocks, because mapped pages count as memory of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n, self.d = self._map().shape

    def _map(self) -> np.memmap[Any, Any]:
        mapped: np.memmap[Any, Any] = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return mapped

    def blocks(self) -> Iterator[FloatArray]:
        mapped = self._map()
        with self.path.open("rb") as handle:
            handle.seek(mapped.offset)
            while len(block := np.fromfile(handle, mapped.dtype, VECTORS_PER_BLOCK * self.d)):
                yield block.astype(np.float32).reshape(-1, self.d)

    def sample(self, count: int, seed: int) -> FloatArray:
        """A random sample of at most ``count`` vectors, in their order."""
        positions = np.sort(np.random.default_rng(seed).choice(self.n, size=min(count, self.n), replace=False))
        return np.asarray(self._map()[positions], np.float32)


def code_sizes(d: int) -> dict[str, int]:
    """Bytes of each code of a vector with ``d`` dimensions, the most exact first."""
    divisors = [m for m in range(d // 2, 0, -1) if d % m == 0]
    return {"sqfp16": 2 * d, "sq8": d, **{f"pq{m}": m for m in divisors}}


def choose_kind(n: int, d: int, memory: int, max_flat: int = MAX_FLAT_VECTORS) -> str:
    """The most exact kind of index of ``n`` vectors within ``memory`` bytes; raises BadInput if none fits."""
    if n <= max_flat and 2 * d * n <= memory:
        return "flat"
    for code, size in code_sizes(d).items():
        if index_bytes(n, d, code) <= memory:
            return f"ivf{count_lists(n, d, size)},{code}"
    raise BadInput(
        f"no index of {n:,} vectors fits into {memory / 1e6:,.0f} MB; the smallest needs "
        f"{index_bytes(n, d, 'pq1') / 1e6:,.0f} MB: raise index.memory in the profile"
    )


def count_lists(n: int, d: int, code_bytes: int) -> int:
    """Number of lists: a power of two near 4 √n, limited by the size of the training sample."""
    sample = max(SAMPLE_SHARE * n * (code_bytes + ID_BYTES) / (4 * d), MIN_SAMPLE)
    limit = min(4 * np.sqrt(n), sample / MIN_POINTS_PER_LIST, n / MIN_POINTS_PER_LIST)
    return int(2 ** np.floor(np.log2(max(2, limit))))


def index_bytes(n: int, d: int, code: str) -> int:
    """Bytes of codes and ids of all vectors, the centroids, and the tables of a product quantiser."""
    size = code_sizes(d)[code]
    tables = 256 * d * 4 if code.startswith("pq") else 0
    return n * (size + ID_BYTES) + count_lists(n, d, size) * d * 4 + tables


def write_index(
    folder: Path,
    *,
    built_from: str,
    model_id: str,
    memory: int = 8_000_000_000,
    kind: str = "auto",
    neighbours: int = 100,
    progress: Callable[[int, int], None] = lambda count, total: None,
) -> IndexMeta:
    """Write the index of ``vectors.npy`` to the same ``folder``.

    ``memory``: Maximum bytes of the index.
    ``kind``: ``flat`` is exact; ``ivf`` searches some lists of the most exact codes that fit; ``auto`` chooses by size.
    ``neighbours``: Neighbours per search; the number of searched lists is tuned for it.
    ``progress``: Called with the numbers of indexed and of all vectors.
    """
    vectors = VectorFile(folder / "vectors.npy")
    n = vectors.n
    d = max(1, vectors.d)
    max_flat = MAX_FLAT_VECTORS if kind == "auto" else 0
    index_kind = "flat" if kind == "flat" or not n else choose_kind(n, d, memory, max_flat)
    index = _build_index(vectors, index_kind, d, progress)
    nprobe, recall = (0, {}) if index_kind == "flat" else _tune_nprobe(index, vectors, neighbours)
    faiss().write_index(index, str(folder / INDEX))
    size = (folder / INDEX).stat().st_size
    meta = IndexMeta(built_from, model_id, index_kind, n, vectors.d, size, memory, nprobe, recall)
    (folder / META).write_text(json.dumps({"version": VERSION, **asdict(meta)}, indent=1) + "\n")
    return meta


def _build_index(vectors: VectorFile, kind: str, d: int, progress: Callable[[int, int], None]) -> Any:
    """Train an index and add all vectors."""
    library = faiss()
    if kind == "flat":
        index = library.IndexScalarQuantizer(d, library.ScalarQuantizer.QT_fp16, library.METRIC_INNER_PRODUCT)
    else:
        index = _train_lists(vectors, kind, d)
    for block in vectors.blocks():
        index.add(block)
        progress(index.ntotal, vectors.n)
    return index


def _train_lists(vectors: VectorFile, kind: str, d: int) -> Any:
    """An empty index of lists, trained on a sample, with the memory that its vectors need."""
    library = faiss()
    lists, _, code = kind.removeprefix("ivf").partition(",")
    factory = {"sqfp16": "SQfp16", "sq8": "SQ8"}.get(code, f"PQ{code.removeprefix('pq')}x8")
    index = library.index_factory(d, f"IVF{lists},{factory}", library.METRIC_INNER_PRODUCT)
    index.cp.seed = 0
    if hasattr(index, "pq"):
        index.do_polysemous_training = False  # it reorders codes for a Hamming search that is not used
    if (card_index := copy_to_card(library.IndexFlatIP(d))) is not None:
        index.clustering_index = card_index
    sample = SAMPLE_SHARE * vectors.n * (code_sizes(d)[code] + ID_BYTES) / (4 * d)
    index.train(vectors.sample(int(max(sample, MIN_POINTS_PER_LIST * int(lists), MIN_SAMPLE)), seed=0))
    # Reserve the size of each list; lists that grow take up to twice the memory.
    counts = np.zeros(index.nlist, np.int64)
    for block in vectors.blocks():
        counts += np.bincount(index.quantizer.assign(block, 1).ravel(), minlength=index.nlist)
    for number, count in enumerate(counts.tolist()):
        index.invlists.resize(number, count)
        index.invlists.resize(number, 0)
    return index


def _tune_nprobe(index: Any, vectors: VectorFile, neighbours: int) -> tuple[int, dict[str, float]]:
    """Number of lists to search, tuned on every second of some points, and recall at each k on the others.

    A chunk is its own nearest neighbour. A point between two chunks is near both, as a question is near its answers.
    """
    from faiss.contrib.exhaustive_search import knn_ground_truth

    sample = vectors.sample(RECALL_QUERIES, seed=1)
    queries = unit_rows(sample + np.roll(sample, 1, axis=0))
    depths = sorted({min(k, vectors.n) for k in (*RECALL_AT, neighbours)})
    _, nearest = knn_ground_truth(queries, vectors.blocks(), depths[-1], faiss().METRIC_INNER_PRODUCT, ngpu=0)
    tuning = partial(_recall, index, queries[::2], nearest[::2, : min(neighbours, vectors.n)])
    target_recall = MIN_RECALL_SHARE * tuning(index.nlist)
    nprobe = 1
    while nprobe < index.nlist and tuning(nprobe) < target_recall:
        nprobe *= 2
    nprobe = min(nprobe, index.nlist)
    return nprobe, {str(k): round(_recall(index, queries[1::2], nearest[1::2, :k], nprobe), 4) for k in depths}


def _recall(index: Any, queries: FloatArray, nearest: IntArray, nprobe: int) -> float:
    """Share of the nearest vectors (queries × k) that a search of ``nprobe`` lists finds."""
    _, positions = search_index(index, queries, nearest.shape[1], nprobe)
    hits = sum(len(set(a) & set(b)) for a, b in zip(positions.tolist(), nearest.tolist(), strict=True))
    return hits / nearest.size
