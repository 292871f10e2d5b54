"""FAISS indexes on disk: built by size, remembering what they were built from, refused when that has changed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import StaleInput

FloatArray = npt.NDArray[np.float32]

VERSION = "1"
FLAT_UP_TO = 200_000
HNSW_UP_TO = 2_000_000
RECALL_QUERIES = 200
RECALL_AT = 10


@dataclass(frozen=True)
class IndexMeta:
    """What an index is and what it was built from."""

    built_from: str
    """Content hash of the vectors, in order."""
    model_id: str
    kind: str
    vectors: int
    dimensions: int
    recall: float
    """Share of the ten nearest that it finds, against flat search over a sample of its own vectors."""


def kind_for(vectors: int) -> str:
    """Flat is exact and fast enough for small corpora; a graph next; compressed lists for what does not fit."""
    if vectors <= FLAT_UP_TO:
        return "flat"
    return "hnsw" if vectors <= HNSW_UP_TO else "ivfpq"


def _faiss() -> Any:
    import faiss

    return faiss


def _on_gpu(index: Any) -> Any:
    faiss = _faiss()
    if getattr(faiss, "get_num_gpus", lambda: 0)() > 0 and hasattr(faiss, "index_cpu_to_all_gpus"):
        return faiss.index_cpu_to_all_gpus(index)
    return index


def _make(vectors: FloatArray, kind: str) -> Any:
    faiss = _faiss()
    n, d = vectors.shape
    if kind == "flat":
        index = faiss.IndexFlatIP(d)
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(d, 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 200
        index.hnsw.efSearch = 256
    elif kind == "ivfpq":
        lists = int(2 ** np.ceil(np.log2(max(4 * np.sqrt(n), 16))))
        codes = max(m for m in (96, 64, 48, 32, 16, 8, 4, 2, 1) if d % m == 0)
        index = faiss.index_factory(d, f"IVF{lists},PQ{codes}x8", faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = 0
        sample = np.random.default_rng(0).choice(n, size=min(n, 64 * lists), replace=False)
        index.train(vectors[np.sort(sample)])
        index.nprobe = max(16, lists // 32)
    else:
        raise ValueError(f"there is no index kind {kind!r}: flat, hnsw or ivfpq")
    for start in range(0, n, 1 << 16):
        index.add(vectors[start : start + (1 << 16)])
    return index


def build(folder: Path, vectors: FloatArray, *, built_from: str, model_id: str, kind: str = "auto") -> IndexMeta:
    """Build the index of ``vectors`` (in their order) into ``folder``, replacing what is there, and measure its recall."""
    with replacing_folder(folder) as temporary:
        return write(temporary, vectors, built_from=built_from, model_id=model_id, kind=kind)


def write(folder: Path, vectors: FloatArray, *, built_from: str, model_id: str, kind: str = "auto") -> IndexMeta:
    """Write the index of ``vectors`` beside whatever lies in ``folder``."""
    n = len(vectors)
    dimensions = int(vectors.shape[1]) if vectors.ndim == 2 else 0
    chosen = kind_for(n) if kind == "auto" else kind
    faiss = _faiss()
    index = _make(vectors, chosen) if n else faiss.IndexFlatIP(max(1, dimensions))
    recall = 1.0
    if n and chosen != "flat":
        picks = np.sort(np.random.default_rng(0).choice(n, size=min(n, RECALL_QUERIES), replace=False))
        found = index.search(vectors[picks], RECALL_AT)[1]
        exact = _make(vectors, "flat").search(vectors[picks], RECALL_AT)[1]
        hits = sum(len(set(a) & set(b)) for a, b in zip(found.tolist(), exact.tolist(), strict=True))
        recall = hits / exact.size
    meta = IndexMeta(built_from, model_id, chosen, n, dimensions, recall)
    faiss.write_index(index, str(folder / "index.faiss"))
    (folder / "meta.json").write_text(json.dumps(asdict(meta), indent=1) + "\n")
    return meta


class VectorIndex:
    """An index opened for searching."""

    def __init__(self, folder: Path, *, expected: str) -> None:
        path = folder / "meta.json"
        if not path.exists():
            raise StaleInput(f"there is no index at {folder}: materialize the asset that builds it")
        self.meta = IndexMeta(**json.loads(path.read_text()))
        if self.meta.built_from != expected:
            raise StaleInput(
                f"the index at {folder} was built from other vectors than the lake holds now: materialize it again"
            )
        self._index = _on_gpu(_faiss().read_index(str(folder / "index.faiss")))

    def search(self, queries: FloatArray, k: int) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Inner products and positions of the ``k`` nearest, fewer where the index holds fewer; ties by position."""
        k = min(k, self.meta.vectors)
        if k == 0 or not len(queries):
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        scores, positions = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), k)
        order = np.lexsort((positions, -scores))
        return np.take_along_axis(scores, order, 1), np.take_along_axis(positions, order, 1)
