"""Array files, written in blocks and opened memory-mapped; searches in sorted arrays."""

from __future__ import annotations

import ctypes
import io
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evidence_assets.lake.errors import StaleInput

Array = npt.NDArray[Any]
T = TypeVar("T")


def _write_header(file: BinaryIO, array_type: np.dtype[Any], shape: tuple[int, ...]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(array_type), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)  # leaves room for the first axis to grow


class ArrayWriter:
    """An ``.npy`` file that grows by rows. Unlike a memory map, it raises an exception on a full disk."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, row: tuple[int, ...] = ()) -> None:
        self._dtype = np.dtype(dtype)
        self._row = row
        self.rows = 0
        self._file = path.open("w+b")
        _write_header(self._file, self._dtype, (0, *row))

    def add(self, rows: npt.ArrayLike) -> None:
        block = np.ascontiguousarray(rows, dtype=self._dtype)
        if block.shape[1:] != self._row:
            raise ValueError(f"rows have shape {block.shape[1:]}; the file has rows of shape {self._row}")
        self._file.write(block.data)
        self.rows += len(block)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        """Write the number of rows into the header unless an exception was raised, and close the file."""
        with self._file:
            if kind is None:
                self._file.seek(0)
                _write_header(self._file, self._dtype, (self.rows, *self._row))


def continue_array(file: BinaryIO, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> int:
    """Write the header of an ``.npy`` file that is open for appending, if it has none; returns its complete rows.

    A row that a killed process has cut is dropped.
    """
    array_type = np.dtype(dtype)
    header = io.BytesIO()
    _write_header(header, array_type, shape)
    start = header.tell()
    row_bytes = array_type.itemsize * math.prod(shape[1:])
    n_bytes = file.seek(0, os.SEEK_END) - start
    n_rows = max(0, n_bytes) // row_bytes
    if n_bytes < 0:
        file.truncate(0)
        file.write(header.getvalue())
    file.truncate(start + n_rows * row_bytes)
    return n_rows


def create_array(path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """A new memory-mapped ``.npy`` file of zeros.

    Its disk space is reserved, so that a full disk raises an exception here: a later write would end the process.
    """
    array_type = np.dtype(dtype)
    n_bytes = array_type.itemsize * math.prod(shape)
    with path.open("wb") as file:
        _write_header(file, array_type, shape)
        file.flush()
        if n_bytes and hasattr(os, "posix_fallocate"):  # macOS has none
            os.posix_fallocate(file.fileno(), file.tell(), n_bytes)
        else:
            file.truncate(file.tell() + n_bytes)
    return np.lib.format.open_memmap(path, mode="r+")


def open_asset_file(path: Path, load: Callable[[Path], T], remedy: str = "materialize its asset") -> T:
    """Load an asset's file; raises StaleInput if it is missing, truncated or damaged."""
    try:
        return load(path)
    except FileNotFoundError as error:
        raise StaleInput(f"{path} is missing: {remedy}") from error
    except (ValueError, EOFError) as error:  # numpy, json and pyarrow raise these for bytes that they cannot read
        raise StaleInput(f"{path} is truncated or damaged ({error}): {remedy} again") from error


def open_description(path: Path, version: str, built_from: str) -> dict[str, Any]:
    """Description of an asset's files; raises StaleInput if another release or other inputs built them."""
    description = open_json(path)
    if description.pop("version", "") != version or description.get("built_from", built_from) != built_from:
        raise StaleInput(f"{path.parent} was built by another release or from older inputs: materialize it again")
    return description


def open_array(path: Path) -> Array:
    """A memory-mapped array."""
    # A plain array, because slicing a ``memmap`` takes ten times as long.
    return open_asset_file(path, lambda path: np.asarray(np.load(path, mmap_mode="r", allow_pickle=False)))


def open_batches(path: Path) -> list[pa.RecordBatch]:
    """The memory-mapped batches of an Arrow file."""
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    return [reader.get_batch(number) for number in range(reader.num_record_batches)]


def sorted_unique(values: Array) -> Array:
    """The distinct values of an array of numbers, ascending; ``np.unique`` takes ten times as long."""
    ascending = np.sort(values)
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return ascending[first]


def find_key_positions(ascending: Array, keys: Array) -> npt.NDArray[np.int64]:
    """Position of each key in an ascending array; −1 for absent keys."""
    positions = np.searchsorted(ascending, keys)
    is_present = positions < len(ascending)
    is_present[is_present] = ascending[positions[is_present]] == keys[is_present]
    return np.where(is_present, positions, -1)


def open_json(path: Path) -> dict[str, Any]:
    """A small JSON file."""
    return open_asset_file(path, lambda path: dict(json.loads(path.read_text(encoding="utf-8"))))


def release_memory() -> None:
    """Return freed memory to the operating system; Arrow and the C library keep it otherwise."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
