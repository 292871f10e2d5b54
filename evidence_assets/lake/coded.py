"""Columns of a table that are held shorter than they lie in the lake: forty million edges would take 5 GB as texts.

A text, or a list of texts, may be a code with a dictionary, and an id, which is declared as 32 digits, its 16 bytes;
texts that no one array can hold are held with wider offsets. They are written out block by block where rows are
hashed and written, so that nothing that lies in the lake shows how they were held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from evidence_assets.lake.ids import canonical

ID, LONG = pa.binary(16), pa.large_string()
MOST = 2**31 - 1
"""Bytes of the texts that an array of the declared type can hold."""
IDS_AT_ONCE = 1 << 18
"""Contents whose ids are Python objects at a time."""
_DIGITS = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)


def coded(values: pl.Series) -> pa.DictionaryArray:
    """Texts, of which none is empty, as codes with a dictionary."""
    enum = values if values.dtype == pl.Enum else values.cast(pl.Enum(values.unique(maintain_order=True)))
    array = enum.to_arrow()
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), array.dictionary.cast(pa.string()))


def content_ids(kind: str, *columns: pa.DictionaryArray) -> pa.FixedSizeBinaryArray:
    """What ``lake.ids.content_id`` gives for the content ``(kind, a, b, …)`` of each row, as 16 bytes.

    Each value is brought into its canonical form once, however many rows hold it.
    """
    said: list[list[bytes]] = []
    for column in columns:
        same = (of for of, other in zip(said, columns, strict=False) if other.dictionary.equals(column.dictionary))
        said.append(next(same, []) or [canonical(value) for value in column.dictionary.to_pylist()])
    codes = [column.indices.to_numpy() for column in columns]
    start, hashed = canonical(kind), hashlib.blake2b
    ids = np.empty(len(codes[0]), "V16")
    for first in range(0, len(ids), IDS_AT_ONCE):
        some = slice(first, first + IDS_AT_ONCE)
        rows = zip(
            *(map(of.__getitem__, each[some].tolist()) for of, each in zip(said, codes, strict=True)), strict=True
        )
        digests = [hashed(b"[%b]" % b",".join((start, *row)), digest_size=16).digest() for row in rows]
        ids[some] = np.frombuffer(b"".join(digests), "V16")
    return pa.FixedSizeBinaryArray.from_buffers(ID, len(ids), [None, pa.py_buffer(ids)])


def held(values: pa.ChunkedArray, declared: pa.Field) -> pa.ChunkedArray:
    """A column as it is declared, or as it is held until it is written out."""
    if _is_coded(values, declared):
        return values
    if declared.type == pa.string() and values.nbytes > MOST and pc.sum(pc.binary_length(values)).as_py() > MOST:
        return values.cast(LONG)
    return values.cast(declared.type)


def _is_coded(values: pa.ChunkedArray, declared: pa.Field) -> bool:
    """Whether values stand for the declared ones and may stay as they are held: what `blocks` writes out as if it
    were whole.

    None may be empty; of lists all must be the same one.
    """
    if values.null_count:
        return False
    if pa.types.is_dictionary(values.type) and values.type.value_type == declared.type:
        said = [chunk.dictionary for chunk in values.chunks]
        if declared.type == pa.string():
            return all(pc.min(pc.binary_length(texts)).as_py() != 0 and not texts.null_count for texts in said)
        return len(said) == 1 and len(said[0]) == 1 and not said[0].null_count
    return bool(values.type == ID and declared.type == pa.string())


def plain(rows: pa.Table) -> pa.Table:
    """Rows with all codes and bytes of ids written out."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            written, type_ = [chunk.dictionary_decode() for chunk in rows.column(place).chunks], field.type.value_type
        elif field.type == LONG:
            written, type_ = [_short(chunk) for chunk in rows.column(place).chunks], pa.string()
        elif field.type == ID:
            written, type_ = [_digits(chunk) for chunk in rows.column(place).chunks], pa.string()
        else:
            continue
        rows = rows.set_column(place, field.with_type(type_), pa.chunked_array(written, type_))
    return rows


def plain_schema(rows: pa.Table) -> pa.Schema:
    """The schema of rows once they are written out."""
    return plain(rows.slice(0, 0)).schema


def blocks(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    """Rows as they lie in the lake, so many at a time."""
    for first in range(0, max(1, rows.num_rows), size):
        yield plain(rows.slice(first, size))


def _short(texts: pa.LargeStringArray) -> pa.StringArray:
    """Texts that an array of the declared type holds; copied, as a slice keeps the offsets of all and they may not
    fit."""
    return texts.take(pa.array(np.arange(len(texts)))).cast(pa.string())


def _digits(ids: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Ids of 16 bytes, none of them empty, in hexadecimal digits."""
    ends = pa.py_buffer(np.arange(0, 32 * len(ids) + 1, 32, dtype=np.int32))
    return pa.StringArray.from_buffers(len(ids), ends, pa.py_buffer(_DIGITS[_bytes(ids)]))


def _bytes(ids: pa.FixedSizeBinaryArray) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(ids.buffers()[1] or b"", np.uint8)[16 * ids.offset : 16 * (ids.offset + len(ids))]


def order_of(ids: pa.ChunkedArray) -> pa.Array:
    """The places of ids of 16 bytes in their order: by the first half as a number, which hardly ever ties."""
    halves = np.concatenate([np.zeros(0, np.uint8), *map(_bytes, ids.chunks)]).view(">u8")
    first = halves[::2].astype(np.uint64)
    order = np.argsort(first)
    first = first[order]
    if (first[1:] == first[:-1]).any():
        order = np.lexsort((halves[1::2], halves[::2]))
    return pa.array(order)
