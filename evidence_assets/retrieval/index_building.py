"""Builds vector indexes within a stated memory, from vectors in a file that is read in blocks.

An index is trained on a sample, filled block by block, and its recall measured against an exact search.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
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
    faiss,
    search,
)

FLAT_UP_TO = 200_000
"""Vectors that are searched one by one in a few hundredths of a second."""
BLOCK = 1 << 12
ID_BYTES = 8
POINTS_A_LIST = 39
"""Vectors of the sample that a list is trained on at least; FAISS warns below."""
SAMPLE_SHARE = 0.4
"""Bytes of the sample that an index is trained on, as a share of those of the finished index."""
QUERIES = 200
RECALL_AT = (10, 100)
LEAST_SAMPLE = 10_000
"""Vectors that an index is trained on at least, where there are so many."""
GOOD_ENOUGH = 0.99
"""Share of what searching all lists finds that searching some must find."""


class VectorFile:
    """Vectors in an ``.npy`` file, read in blocks: mapped pages would count as memory of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        self.n, self.d = (int(size) for size in mapped.shape)
        self._dtype, self._start = mapped.dtype, int(mapped.offset)

    def blocks(self, size: int = BLOCK) -> Iterator[FloatArray]:
        with self.path.open("rb") as handle:
            handle.seek(self._start)
            for start in range(0, self.n, size):
                count = min(size, self.n - start) * self.d
                yield np.fromfile(handle, self._dtype, count).astype(np.float32).reshape(-1, self.d)

    def some(self, count: int, seed: int) -> FloatArray:
        """So many random vectors, at most all, in their order."""
        picks = np.sort(np.random.default_rng(seed).choice(self.n, size=min(count, self.n), replace=False))
        found = np.empty((len(picks), self.d), np.float32)
        size = self.d * self._dtype.itemsize
        with self.path.open("rb") as handle:
            for row, pick in enumerate(picks.tolist()):
                handle.seek(self._start + pick * size)
                found[row] = np.frombuffer(handle.read(size), self._dtype)
        return found


def code_sizes(d: int) -> dict[str, int]:
    """Codes of a vector of ``d`` dimensions and their bytes, the most exact first."""
    divisors = [m for m in range(d // 2, 0, -1) if d % m == 0]
    return {"sqfp16": 2 * d, "sq8": d, **{f"pq{m}": m for m in divisors}}


def kind_for(n: int, d: int, memory: int, flat_up_to: int = FLAT_UP_TO) -> str:
    """The most exact kind of index of ``n`` vectors that fits into so many bytes.

    Raises BadInput where none does.
    """
    if n <= flat_up_to and 2 * d * n <= memory:
        return "flat"
    for code, size in code_sizes(d).items():
        if finished_bytes(n, d, code) <= memory:
            return f"ivf{lists_for(n, d, size)},{code}"
    raise BadInput(
        f"no index of {n:,} vectors fits into {memory / 1e6:,.0f} MB; the smallest takes "
        f"{finished_bytes(n, d, 'pq1') / 1e6:,.0f} MB: state more under index.memory in the profile"
    )


def lists_for(n: int, d: int, code_bytes: int) -> int:
    """A power of two near 4 √n; fewer where a sample that trains so many would outgrow the index itself."""
    sample = max(SAMPLE_SHARE * n * (code_bytes + ID_BYTES) / (4 * d), LEAST_SAMPLE)
    return int(2 ** np.floor(np.log2(max(2, min(4 * np.sqrt(n), sample / POINTS_A_LIST, n / POINTS_A_LIST)))))


def finished_bytes(n: int, d: int, code: str) -> int:
    """Codes and ids of all vectors, the middles of the lists, and the tables of a product quantiser."""
    size = code_sizes(d)[code]
    tables = 256 * d * 4 if code.startswith("pq") else 0
    return n * (size + ID_BYTES) + lists_for(n, d, size) * d * 4 + tables


def write(
    folder: Path,
    *,
    built_from: str,
    model_id: str,
    memory: int = 8_000_000_000,
    kind: str = "auto",
    at: int = 100,
    queries: FloatArray | None = None,
    heard: Callable[[int, int], None] = lambda done, total: None,
) -> IndexMeta:
    """Write the index of ``vectors.npy`` in ``folder`` beside it.

    ``memory``: Bytes that the index may take.
    ``kind``: ``flat`` is exact; ``ivf`` searches some lists of the most exact codes that fit; ``auto`` chooses by size.
    ``at``: Neighbours that retrieval asks for, by which the number of lists is chosen.
    ``queries``: Vectors of questions, of unit length; points between vectors of the file where there are none.
    ``heard``: Progress: how many vectors are in the index, of how many.
    """
    vectors = VectorFile(folder / "vectors.npy")
    n, d = vectors.n, max(1, vectors.d)
    chosen = "flat" if kind == "flat" or not n else kind_for(n, d, memory, FLAT_UP_TO if kind == "auto" else 0)
    index = _filled(vectors, chosen, d, heard)
    nprobe, recall, told = 0, dict[str, float](), ""
    if chosen != "flat":
        asked, told = _queries(vectors, queries)
        nprobe, recall = _measured(index, vectors, asked, at)
    faiss().write_index(index, str(folder / INDEX))
    size = (folder / INDEX).stat().st_size
    code = 2 * d if chosen == "flat" else code_sizes(d)[chosen.partition(",")[2]]
    meta = IndexMeta(built_from, model_id, chosen, n, vectors.d, code, size, memory, nprobe, recall, told)
    (folder / META).write_text(json.dumps({"version": VERSION, **asdict(meta)}, indent=1) + "\n")
    return meta


def _filled(vectors: VectorFile, kind: str, d: int, heard: Callable[[int, int], None]) -> Any:
    """The index with all vectors in it."""
    library = faiss()
    if kind == "flat":
        index = library.IndexScalarQuantizer(d, library.ScalarQuantizer.QT_fp16, library.METRIC_INNER_PRODUCT)
        _add(index, vectors, heard)
        return index
    lists, _, code = kind.removeprefix("ivf").partition(",")
    factory = {"sqfp16": "SQfp16", "sq8": "SQ8"}.get(code, f"PQ{code.removeprefix('pq')}x8")
    index = library.index_factory(d, f"IVF{lists},{factory}", library.METRIC_INNER_PRODUCT)
    index.cp.seed = 0
    if hasattr(index, "pq"):
        index.do_polysemous_training = False  # which numbers the codes anew for a search by bits that nobody asks for
    if getattr(library, "get_num_gpus", int)():
        index.clustering_index = library.index_cpu_to_all_gpus(library.IndexFlatIP(d))
    sample = SAMPLE_SHARE * vectors.n * (code_sizes(d)[code] + ID_BYTES) / (4 * d)
    index.train(vectors.some(int(max(sample, POINTS_A_LIST * int(lists), LEAST_SAMPLE)), seed=0))
    _reserve(index, vectors)
    _add(index, vectors, heard)
    return index


def _add(index: Any, vectors: VectorFile, heard: Callable[[int, int], None]) -> None:
    for block in vectors.blocks():
        index.add(block)
        heard(index.ntotal, vectors.n)


def _reserve(index: Any, vectors: VectorFile) -> None:
    """Give each list room for its vectors: lists that grow take up to twice as much."""
    counts = np.zeros(index.nlist, np.int64)
    for block in vectors.blocks():
        counts += np.bincount(index.quantizer.assign(block, 1).ravel(), minlength=index.nlist)
    for number, count in enumerate(counts.tolist()):
        index.invlists.resize(number, count)
        index.invlists.resize(number, 0)


def _queries(vectors: VectorFile, asked: FloatArray | None) -> tuple[FloatArray, str]:
    if asked is not None and len(asked) >= 2:
        picks = np.random.default_rng(0).permutation(len(asked))[:QUERIES]
        return np.ascontiguousarray(asked[np.sort(picks)], np.float32), f"{len(picks)} questions"
    some = vectors.some(QUERIES, seed=1) if vectors.n else np.zeros((0, max(1, vectors.d)), np.float32)
    # A vector of the corpus would find itself; halfway to another it is near both, as a question is to its answers.
    return unit_rows(some + np.roll(some, 1, axis=0)), f"{len(some)} points halfway between two chunks"


def _measured(index: Any, vectors: VectorFile, queries: FloatArray, at: int) -> tuple[int, dict[str, float]]:
    """Lists to search, chosen on every second query, and the recall at each k on the others."""
    from faiss.contrib.exhaustive_search import knn_ground_truth

    sizes = sorted({min(k, vectors.n) for k in (*RECALL_AT, at)})
    most = min(at, vectors.n)
    _, nearest = knn_ground_truth(queries, vectors.blocks(), sizes[-1], faiss().METRIC_INNER_PRODUCT, ngpu=0)
    lists = int(index.nlist)

    def recall(rows: Sequence[int], k: int, nprobe: int) -> float:
        _, found = search(index, queries[rows], k, nprobe)
        hits = sum(len(set(f) & set(e)) for f, e in zip(found.tolist(), nearest[rows, :k].tolist(), strict=True))
        return hits / (len(rows) * k)

    choosing, reporting = list(range(0, len(queries), 2)), list(range(1, len(queries), 2))
    wanted = GOOD_ENOUGH * recall(choosing, most, lists)
    nprobe = 1
    while nprobe < lists and recall(choosing, most, nprobe) < wanted:
        nprobe *= 2
    nprobe = min(nprobe, lists)
    return nprobe, {str(k): round(recall(reporting, k, nprobe), 4) for k in sizes}
