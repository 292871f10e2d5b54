"""FAISS indexes on disk: what they are, what they were built from, and how they are searched, on GPU or CPU."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.array_files import open_asset_file, open_description
from evidence_assets.lake.errors import StaleInput
from evidence_assets.models.protocols import FloatArray

IntArray = npt.NDArray[np.int64]

VERSION = "2"
INDEX, META = "index.faiss", "meta.json"
MAX_GPU_NEIGHBOURS = 2048
"""Neighbours, and lists, that FAISS searches at most on a GPU."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexMeta:
    """What an index is and what it was built from (``retrieval.corpus.corpus_version``).

    ``kind``: ``flat`` is exact over the float16 vectors; ``ivf<lists>,<codes>`` searches ``nprobe`` lists of codes.
    ``bytes``, ``memory``: What the index takes, and was allowed to take; ``code_bytes`` those of a vector's code.
    ``recall``: Share of the k nearest that it finds, by k, against an exact search over the ``queries``.
    """

    built_from: str
    model_id: str
    kind: str
    vectors: int
    dimensions: int
    code_bytes: int
    bytes: int
    memory: int
    nprobe: int = 0
    recall: dict[str, float] = field(default_factory=dict)
    queries: str = ""

    @property
    def metadata(self) -> dict[str, Any]:
        """As metadata of a materialization."""
        recalls = {f"recall_at_{k}": share for k, share in self.recall.items()}
        return {name: value for name, value in asdict(self).items() if name not in ("built_from", "recall")} | recalls


def faiss() -> Any:
    """The library, imported when it is needed."""
    import faiss

    return faiss


def read_index(path: Path) -> Any:
    """An index from its file, memory-mapped; raises StaleInput where the file is absent or cut short."""
    library = faiss()

    def mapped(path: Path) -> Any:
        try:
            return library.read_index(str(path), library.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise ValueError(str(error).rpartition("failed: ")[2]) from error

    if not path.exists():
        raise StaleInput(f"{path} is missing: materialize the index again")
    return open_asset_file(path, mapped, "materialize the index")


def copy_to_gpu(library: Any, index: Any, kind: str) -> Any | None:
    """A copy of an inverted file on the GPU, with half-precision tables; None without a GPU that can search it."""
    if not kind.startswith("ivf") or not getattr(library, "get_num_gpus", int)():
        return None
    options = library.GpuClonerOptions()
    options.useFloat16 = True  # in full precision, tables for codes of 48 bytes exceed a GPU's shared memory
    try:
        return library.index_cpu_to_gpu(library.StandardGpuResources(), 0, index, options)
    except RuntimeError as reason:
        _LOG.warning(f"an index {kind} is searched on the CPU: {reason}")
        return None


class VectorIndex:
    """An index opened for searching, by any number of threads."""

    def __init__(self, folder: Path, *, expected: str) -> None:
        stated = open_description(folder / META, VERSION, expected)
        self.meta = IndexMeta(**stated)
        self._index = read_index(folder / INDEX)
        self._on_gpu = copy_to_gpu(faiss(), self._index, self.meta.kind)
        self._one_at_a_time = Lock()

    def __len__(self) -> int:
        return self.meta.vectors

    def search(self, queries: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """Inner products and positions of the ``k`` nearest, fewer where the index holds fewer; ties by position."""
        k = min(k, self.meta.vectors)
        if k == 0 or not len(queries):
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        nprobe = self.meta.nprobe
        if self._on_gpu is not None and max(k, nprobe) <= MAX_GPU_NEIGHBOURS:
            with self._one_at_a_time:
                scores, positions = search_index(self._on_gpu, queries, k, nprobe)
        else:
            scores, positions = search_index(self._index, queries, k, nprobe)
        lacking = np.flatnonzero((positions < 0).any(axis=1))
        while nprobe and len(lacking):  # the lists searched hold fewer than k: search more of them
            nprobe *= 4
            scores[lacking], positions[lacking] = search_index(self._index, queries[lacking], k, nprobe)
            lacking = lacking[(positions[lacking] < 0).any(axis=1)]
        order = np.lexsort((positions, -scores))
        return np.take_along_axis(scores, order, 1), np.take_along_axis(positions, order, 1)


def search_index(index: Any, queries: FloatArray, k: int, nprobe: int) -> tuple[FloatArray, IntArray]:
    """As FAISS finds them, −1 where so many lists hold fewer than ``k``."""
    parameters = faiss().SearchParametersIVF(nprobe=nprobe) if nprobe else None
    scores, positions = index.search(queries, k, params=parameters)
    return scores, positions
