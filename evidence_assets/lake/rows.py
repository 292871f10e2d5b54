"""Rows and the Parquet files that they are in: checked against their table's schema, sorted, hashed, written and read.

In memory texts may be dictionary codes and ids 16 bytes: as texts forty million edges would take 5 GB.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evidence_assets.lake.errors import SchemaMismatch
from evidence_assets.lake.ids import canonical_bytes, content_id
from evidence_assets.lake.schemas import TABLES, TableSchema

ROW_GROUP_SIZE = 65_536
SMALL_ROW_GROUPS = {"lineage_edges": 2_048, **dict.fromkeys(("evidence", "chains", "predictions", "citations"), 8_192)}
"""Rows a group in tables of which a few ids at a time are read."""
DICTIONARY_COLUMNS = ("child_kind", "relation", "parent_kind", "rank")
"""Columns of the lineage that a dictionary shortens; the others are ids."""
BLOOM_FILTER_COLUMNS = {"evidence": ("source_id",)}
"""Columns besides the row's own id by which rows are looked up: what rests on a source."""
BLOOM_FILTER_ERROR_RATE = 0.01
"""Share of the row groups that are read in vain for an id that they do not hold."""
ID_TYPE, LARGE_STRING = pa.binary(16), pa.large_string()
MAX_STRING_BYTES = 2**31 - 1  # of the texts that an array of the declared type can hold
ID_BATCH_SIZE = 1 << 18
"""Rows whose ids are Python objects at a time."""
Rows: TypeAlias = pl.DataFrame | pa.Table | list[dict[str, Any]]


def _mismatch(schema: TableSchema, message: str) -> SchemaMismatch:
    return SchemaMismatch(f"table {schema.name}: {message}")


def build_table(table: str, rows: list[dict[str, Any]] | Mapping[str, Any]) -> pa.Table:
    """Rows, or values by column, as a table of the declared columns and types; raises SchemaMismatch."""
    schema = TABLES[table]
    names = set(rows) if isinstance(rows, Mapping) else {name for row in rows for name in row}
    unknown = sorted(names - set(schema.names))
    if unknown:
        raise _mismatch(schema, f"has no column {unknown[0]!r}")
    columns: Mapping[str, Any] = (
        rows if isinstance(rows, Mapping) else {name: [row.get(name) for row in rows] for name in schema.names}
    )
    types = {column.name: column.type for column in schema.columns}
    try:
        arrays = {
            name: values if isinstance(values, pa.Array) else pa.array(values, type=types[name])
            for name, values in columns.items()
        }
        return _with_columns(pa.table(arrays), schema.arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise _mismatch(schema, str(error)) from error


def prepare_rows(table: str, rows: Rows) -> pa.Table:
    """Rows as they will lie in the lake: the declared columns and types, sorted by the table's key.

    Columns of an Arrow table that are dictionary codes or bytes of ids stay so.

    Raises SchemaMismatch where a required column is missing, a column is unknown or of another type, a required value
    is null, a number is not a number, or a key occurs twice.
    """
    schema = TABLES[table]
    if isinstance(rows, list):
        rows = build_table(table, rows)
    names = list(rows.columns) if isinstance(rows, pl.DataFrame) else rows.column_names
    missing = [c.name for c in schema.columns if c.name not in names and not c.nullable]
    unknown = [name for name in names if name not in schema.names]
    if missing or unknown:
        raise _mismatch(schema, f"lacks columns {missing}, has unknown columns {unknown}")
    # One column after another, so that memory holds one of them twice and not the table.
    keys = pa.table({name: _declared(schema, rows, names, name) for name in schema.key})
    # Rows in order are sorted, too: a column that was taken is written with the same bytes, however it came to be.
    if keys.column(0).type != ID_TYPE:
        keys = decode_columns(keys)
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in schema.key])
    keys = keys.take(order)
    if (place := pc.index(_same(keys), True).as_py()) >= 0:
        twice = decode_columns(keys.slice(place, 1)).to_pylist()[0]
        raise _mismatch(schema, f"the key {'/'.join(schema.key)} occurs twice: {twice}")
    columns = []
    for name in schema.names:
        column = keys.column(name) if name in schema.key else _declared(schema, rows, names, name).take(order)
        columns.append(column.combine_chunks())
    fields = [field.with_type(column.type) for field, column in zip(schema.arrow, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, schema.arrow.metadata))


def _same(keys: pa.Table) -> pa.ChunkedArray:
    """Of each row but the first, whether it says the same as the one before."""
    same = pa.scalar(True)
    for column in keys.columns:
        one, other = column.slice(0, max(0, len(column) - 1)), column.slice(1)
        equal = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(pc.is_null(one), pc.is_null(other)))
        same = pc.and_(same, equal)
    return same


def _declared(schema: TableSchema, rows: pa.Table | pl.DataFrame, names: list[str], name: str) -> pa.ChunkedArray:
    """A column of rows as it is declared; empty in each where they have none."""
    declared = schema.arrow.field(name)
    if name not in names:
        return pa.chunked_array([pa.nulls(len(rows), declared.type)])
    try:
        column = (rows.select([name]).to_arrow() if isinstance(rows, pl.DataFrame) else rows).column(name)
        values = _held(column, declared.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError) as error:
        raise _mismatch(schema, f"column {name}: {error}") from error
    if not declared.nullable and values.null_count:
        raise _mismatch(schema, f"column {name} is empty in {values.null_count} rows")
    if pa.types.is_floating(declared.type) and pc.all(pc.is_finite(values)).as_py() is False:
        raise _mismatch(schema, f"column {name} holds a value that is not a finite number")
    return values


def _held(values: pa.ChunkedArray, declared: pa.DataType) -> pa.ChunkedArray:
    """A column as declared, or as it is held until it is written: codes, bytes of ids, texts that no array can hold."""
    if pa.types.is_dictionary(values.type) and values.type.value_type == declared:
        return values
    if declared == pa.string() and values.type == ID_TYPE:
        return values
    return values.cast(LARGE_STRING if declared == pa.string() and values.nbytes > MAX_STRING_BYTES else declared)


def decode_columns(rows: pa.Table) -> pa.Table:
    """Rows with dictionary codes and bytes of ids as texts."""
    for place, field in enumerate(rows.schema):
        column = rows.column(place)
        if pa.types.is_dictionary(field.type):
            type_ = field.type.value_type
            column = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], type_)
        elif field.type == LARGE_STRING:
            # Copied, because a slice keeps the offsets of the whole, which may not fit.
            type_, column = pa.string(), column.take(pa.array(np.arange(len(column)))).cast(pa.string())
        elif field.type == ID_TYPE:
            digits = pl.Series(column, dtype=pl.Binary).bin.encode("hex")
            type_, column = pa.string(), digits.to_arrow().cast(pa.string())
        else:
            continue
        rows = rows.set_column(place, field.with_type(type_), column)
    return rows


def _blocks(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    """Rows as they are written, so many at a time."""
    for first in range(0, max(1, rows.num_rows), size):
        yield decode_columns(rows.slice(first, size))


def dictionary_encode(values: pl.Series) -> pa.DictionaryArray:
    """Texts as codes with a dictionary."""
    enum = values if values.dtype == pl.Enum else values.cast(pl.Enum(values.unique(maintain_order=True)))
    array = enum.to_arrow()
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), array.dictionary.cast(pa.string()))


def content_ids(kind: str, *columns: pa.DictionaryArray) -> pa.FixedSizeBinaryArray:
    """``content_id(kind, a, b, …)`` of each row, as 16 bytes; each value is brought into canonical form once."""
    values = [[canonical_bytes(value) for value in column.dictionary.to_pylist()] for column in columns]
    codes = [column.indices.to_numpy() for column in columns]
    start, ids = canonical_bytes(kind), np.empty(len(codes[0]), "V16")
    for first in range(0, len(ids), ID_BATCH_SIZE):
        block = slice(first, first + ID_BATCH_SIZE)
        parts = [map(of.__getitem__, code[block].tolist()) for of, code in zip(values, codes, strict=True)]
        contents = (b"[%b]" % b",".join((start, *row)) for row in zip(*parts, strict=True))
        digests = [hashlib.blake2b(content, digest_size=16).digest() for content in contents]
        ids[block] = np.frombuffer(b"".join(digests), "V16")
    return pa.FixedSizeBinaryArray.from_buffers(ID_TYPE, len(ids), [None, pa.py_buffer(ids)])


def _with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of this schema and no others; those that they lack are empty, as any may be here."""
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field.with_nullable(True), pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(pa.schema([field.with_nullable(True) for field in schema]))


def version_of(rows: pa.Table) -> str:
    """Content hash of prepared rows; columns that are empty in every row do not count, so that a schema may grow."""
    rows = rows.select([name for name in rows.column_names if rows[name].null_count < rows.num_rows])
    digest = hashlib.blake2b(digest_size=16)
    for block in _blocks(rows, ROW_GROUP_SIZE):
        for name, column in zip(block.column_names, block.columns, strict=True):
            digest.update(f"{name} {column.type} ".encode())
            _hash_values(column.combine_chunks(), digest)
    return content_id(rows.num_rows, digest.hexdigest())


def _hash_values(values: pa.Array, digest: hashlib.blake2b) -> None:
    """Add the values to a hash, whatever is beside them, or under nulls, in memory."""
    if values.null_count:
        digest.update(b"null" + np.packbits(values.is_null().to_numpy(zero_copy_only=False)).tobytes())
    if pa.types.is_struct(values.type):
        for part in values.flatten():
            _hash_values(part, digest)
    elif pa.types.is_list(values.type):
        digest.update(_numbers(pc.list_value_length(values)))
        _hash_values(pc.list_flatten(values), digest)
    elif pa.types.is_string(values.type):
        texts = values.fill_null("")
        digest.update(_numbers(pc.binary_length(texts)))
        digest.update(pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "")[0].as_buffer())
    else:
        digest.update(_numbers(values))


def _numbers(values: pa.Array) -> bytes:
    """The bytes of numbers or flags, with 0 for null."""
    filled = values.fill_null(False if pa.types.is_boolean(values.type) else 0) if values.null_count else values
    return bytes(np.ascontiguousarray(filled.to_numpy(zero_copy_only=False)).data)


def read_rows(path: Path, wanted: pa.Schema) -> pa.Table:
    """The wanted columns of a file, empty where it was written before a column was declared."""
    # Libraries that take a path open it twice, and a writer may replace the file in between.
    with path.open("rb") as handle:
        return _wanted(pq.ParquetFile(handle).read(columns=wanted.names), wanted, path)


def row_blocks(path: Path, wanted: pa.Schema, size: int) -> Iterator[pa.Table]:
    """What ``read_rows`` gives, so many rows at a time."""
    with path.open("rb") as handle:
        for batch in pq.ParquetFile(handle).iter_batches(size, columns=wanted.names):
            yield _wanted(pa.Table.from_batches([batch]), wanted, path)


def _wanted(rows: pa.Table, wanted: pa.Schema, path: Path) -> pa.Table:
    missing = [field.name for field in wanted if field.name not in rows.column_names and not field.nullable]
    if missing:
        raise SchemaMismatch(f"{path} lacks the column {missing[0]}: another release wrote it; make its asset again")
    return _with_columns(rows, wanted)


def check_row_order(table: str, path: Path) -> tuple[int, bool]:
    """Rows of a file, and whether they are in the order of their key; raises SchemaMismatch where `prepare` does."""
    schema, rows, ordered, last = TABLES[table].arrow, 0, True, list[pa.Table]()
    for block in row_blocks(path, schema, ROW_GROUP_SIZE):
        rows += block.num_rows
        together = pa.concat_tables([*last, block])
        ordered &= prepare_rows(table, together).equals(together.cast(schema))
        last = [block.slice(block.num_rows - 1)]
    return rows, ordered


def write_rows(table: str, rows: pa.Table, path: Path) -> None:
    """Rows as Parquet, with a Bloom filter a row group on the ids that they are looked up by: ranges of hashes say
    little."""
    group = SMALL_ROW_GROUPS.get(table, ROW_GROUP_SIZE)
    each = {"ndv": max(1, min(group, rows.num_rows)), "fpp": BLOOM_FILTER_ERROR_RATE}
    with pq.ParquetWriter(
        path,
        decode_columns(rows.slice(0, 0)).schema,
        compression="zstd",
        use_dictionary=list(DICTIONARY_COLUMNS) if table == "lineage_edges" else True,
        bloom_filter_options=dict.fromkeys((TABLES[table].row_id, *BLOOM_FILTER_COLUMNS.get(table, ())), each),
    ) as writer:
        for block in _blocks(rows, group):
            writer.write_table(block, row_group_size=group)
