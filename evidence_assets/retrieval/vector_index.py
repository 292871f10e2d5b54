"""FAISS indexes on disk: their metadata, and search."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.array_files import open_asset_file, open_description
from evidence_assets.lake.errors import StaleInput
from evidence_assets.models.cards import hold_card
from evidence_assets.models.protocols import FloatArray

IntArray = npt.NDArray[np.int64]

VERSION = "3"
INDEX = "index.faiss"
META = "meta.json"
MAX_CARD_SEARCH = 2048
"""Neighbours, and lists, that FAISS searches on a card at most; the processor searches more."""


@dataclass(frozen=True)
class IndexMeta:
    """Metadata of an index.

    ``built_from``: Version of the inputs (``retrieval.corpus.corpus_version``).
    ``kind``: ``flat`` is exact over the float16 vectors; ``ivf<lists>,<codes>`` searches ``nprobe`` lists of codes.
    ``bytes``, ``memory``: Size and maximum size of the index.
    ``recall``: Recall at each k against exact search, for points halfway between two chunks.
    """

    built_from: str
    model_id: str
    kind: str
    vectors: int
    dimensions: int
    bytes: int
    memory: int
    nprobe: int = 0
    recall: dict[str, float] = field(default_factory=dict)

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the materialization."""
        recalls = {f"recall_at_{k}": share for k, share in self.recall.items()}
        return {name: value for name, value in asdict(self).items() if name not in ("built_from", "recall")} | recalls


def faiss() -> Any:
    """The FAISS library, imported on demand."""
    import faiss

    return faiss


def read_index(path: Path) -> Any:
    """Open a memory-mapped index; raises StaleInput if the file is missing or truncated."""
    library = faiss()

    def open_mapped(path: Path) -> Any:
        try:
            return library.read_index(str(path), library.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise ValueError(str(error).rpartition("failed: ")[2]) from error

    if not path.exists():
        raise StaleInput(f"{path} is missing: materialize the index again")
    return open_asset_file(path, open_mapped, "materialize the index")


def copy_to_card(index: Any) -> Any:
    """The index on this process's card; None with a FAISS for processors, or without a card.

    A card also rounds the queries of a flat index to 16 bits, so scores differ slightly from the processor's.
    """
    library = faiss()
    if not getattr(library, "get_num_gpus", int)() or (card := hold_card()) is None:
        return None
    return library.index_cpu_to_gpu(library.StandardGpuResources(), card, index)


class VectorIndex:
    """An opened index that threads can share; on a card where FAISS can search there."""

    def __init__(self, folder: Path, *, expected: str) -> None:
        metadata = open_description(folder / META, VERSION, expected)
        self.meta = IndexMeta(**metadata)
        self._index = read_index(folder / INDEX)
        self._card_lock = Lock()  # an index on a card serves one thread at a time

    @cached_property
    def _card_index(self) -> Any:
        return copy_to_card(self._index)

    def __len__(self) -> int:
        return self.meta.vectors

    def _check_length(self, queries: FloatArray) -> None:
        """Raise StaleInput for vectors of another length than the index has."""
        if queries.shape[1] != self.meta.dimensions:
            raise StaleInput(
                f"the index has vectors of {self.meta.dimensions} numbers, and {self.meta.model_id} now returns "
                f"{queries.shape[1]}: another model is served under this name. Materialize embeddings and index again"
            )

    def search(self, queries: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """Inner products and positions of the ``k`` nearest vectors (or all), ties by position."""
        k = min(k, self.meta.vectors)
        if k == 0 or not len(queries):
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        self._check_length(queries)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        nprobe = self.meta.nprobe
        scores, positions = self._search(queries, k, nprobe)
        incomplete = np.flatnonzero((positions < 0).any(axis=1))
        while nprobe and len(incomplete):  # the searched lists have fewer than k vectors
            nprobe *= 4
            scores[incomplete], positions[incomplete] = self._search(queries[incomplete], k, nprobe)
            incomplete = incomplete[(positions[incomplete] < 0).any(axis=1)]
        order = np.lexsort((positions, -scores))
        return np.take_along_axis(scores, order, 1), np.take_along_axis(positions, order, 1)

    def _search(self, queries: FloatArray, k: int, nprobe: int) -> tuple[FloatArray, IntArray]:
        """Search on the card, or on the processor without one or beyond FAISS's limits."""
        if max(k, nprobe) <= MAX_CARD_SEARCH:
            with self._card_lock:
                if self._card_index is not None:
                    return search_index(self._card_index, queries, k, nprobe)
        return search_index(self._index, queries, k, nprobe)


def search_index(index: Any, queries: FloatArray, k: int, nprobe: int) -> tuple[FloatArray, IntArray]:
    """FAISS's scores and positions; −1 if the searched lists have fewer than ``k`` vectors."""
    parameters = faiss().SearchParametersIVF(nprobe=nprobe) if nprobe else None
    scores, positions = index.search(queries, k, params=parameters)
    return scores, positions
