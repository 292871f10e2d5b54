"""Validates rows against their table's schema, and sorts, hashes, writes and reads them as Parquet.

A column of more than two gigabytes has the type large_string in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evidence_assets.lake.errors import SchemaMismatch
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.schemas import TABLES, TableSchema

if TYPE_CHECKING:  # a trace reads no Polars frame
    import polars as pl

ROW_GROUP_SIZE = 65_536
SMALL_ROW_GROUPS = {"lineage_edges": 2_048, **dict.fromkeys(("evidence", "chains", "predictions", "citations"), 8_192)}
"""Rows per group in tables that are read by a few ids at a time."""
DICTIONARY_COLUMNS = ("child_kind", "relation", "parent_kind", "rank")
"""Columns of the lineage that are written with a dictionary; the others are ids."""
BLOOM_FILTER_COLUMNS = {"evidence": ("source_id",)}
"""Columns with a Bloom filter in addition to the row id, by which dependent rows are found."""
BLOOM_FILTER_ERROR_RATE = 0.01
"""False positive rate: the share of row groups without an id that are read for it."""
LARGE_STRING = pa.large_string()
MAX_STRING_BYTES = 2**31 - 1  # of one array of the type string


@dataclass(frozen=True)
class PreparedRows:
    """Rows as `prepare_rows` returns them, which are not prepared again."""

    rows: pa.Table

    def __len__(self) -> int:
        return len(self.rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)


Rows: TypeAlias = "pl.DataFrame | pa.Table | list[dict[str, Any]] | PreparedRows"


def _mismatch(schema: TableSchema, message: str) -> SchemaMismatch:
    return SchemaMismatch(f"table {schema.name}: {message}")


def build_table(table: str, rows: list[dict[str, Any]] | Mapping[str, Any]) -> pa.Table:
    """Build a table with the declared columns and types from rows or columns; raises SchemaMismatch."""
    schema = TABLES[table]
    if isinstance(rows, list):
        names = {name for row in rows for name in row}
        columns = {name: [row.get(name) for row in rows] for name in schema.names}
    else:
        names = set(rows)
        n_rows = len(next(iter(rows.values())))
        columns = {field.name: rows.get(field.name, pa.nulls(n_rows, field.type)) for field in schema.arrow}
    unknown_columns = sorted(names - set(schema.names))
    if unknown_columns:
        raise _mismatch(schema, f"unknown column {unknown_columns[0]!r}")
    try:
        return pa.table(columns, _nullable(schema.arrow))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise _mismatch(schema, str(error)) from error


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def prepare_rows(table: str, rows: Rows) -> pa.Table:
    """Validate rows, cast them to the declared types, and sort them by the table's key.

    Raises SchemaMismatch if a required column is missing, a column is unknown or has another type, a required value is
    null, a number is not finite, or a key is duplicate.
    """
    schema = TABLES[table]
    if isinstance(rows, PreparedRows):
        return rows.rows
    if isinstance(rows, list):
        rows = build_table(table, rows)
    names = rows.column_names if isinstance(rows, pa.Table) else list(rows.columns)
    missing_columns = [c.name for c in schema.arrow if c.name not in names and not c.nullable]
    unknown_columns = [name for name in names if name not in schema.names]
    if missing_columns or unknown_columns:
        raise _mismatch(schema, f"missing columns: {missing_columns}, unknown columns: {unknown_columns}")
    # Column by column, so that memory has a second copy of one column instead of the table.
    keys, order = _sort_keys(schema, pa.table({name: _typed_column(schema, rows, names, name) for name in schema.key}))
    columns = {}
    for name in schema.names:
        column = keys.column(name) if name in schema.key else _typed_column(schema, rows, names, name).take(order)
        columns[name] = column.combine_chunks()
    fields = [field.with_type(columns[field.name].type) for field in schema.arrow]
    return pa.table(columns, pa.schema(fields, schema.arrow.metadata))


def _sort_keys(schema: TableSchema, keys: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Sorted keys, with their positions before; raises SchemaMismatch if a key occurs twice."""
    # Also for sorted rows: `take` gives each column the same memory layout, so that its file has the same bytes.
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in schema.key])
    keys = keys.take(order)
    is_same = pa.scalar(True)
    for column in keys.columns:
        before = column.slice(0, max(0, len(column) - 1))
        after = column.slice(1)
        equal = pc.or_(pc.fill_null(pc.equal(before, after), False), pc.and_(pc.is_null(before), pc.is_null(after)))
        is_same = pc.and_(is_same, equal)
    position = pc.index(is_same, True).as_py()
    if position >= 0:
        duplicate = keys.slice(position, 1).to_pylist()[0]
        raise _mismatch(schema, f"the key {'/'.join(schema.key)} occurs twice: {duplicate}")
    return keys, order


def _typed_column(schema: TableSchema, rows: pa.Table | pl.DataFrame, names: list[str], name: str) -> pa.ChunkedArray:
    """A column with its declared type; all null if the rows do not have it."""
    declared = schema.arrow.field(name)
    if name not in names:
        return pa.chunked_array([pa.nulls(len(rows), declared.type)])
    try:
        column = (rows if isinstance(rows, pa.Table) else rows.select([name]).to_arrow()).column(name)
        is_large = declared.type == pa.string() and column.nbytes > MAX_STRING_BYTES
        values = column.cast(LARGE_STRING if is_large else declared.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError) as error:
        raise _mismatch(schema, f"column {name}: {error}") from error
    if not declared.nullable and values.null_count:
        raise _mismatch(schema, f"column {name} is null in {values.null_count} rows")
    if pa.types.is_floating(declared.type) and pc.all(pc.is_finite(values)).as_py() is False:
        raise _mismatch(schema, f"column {name} has a value that is not a finite number")
    return values


def _slices(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    """Rows in blocks of ``size``, each with one memory layout and without large strings; at least one block."""
    for first in range(0, max(1, rows.num_rows), size):
        block = rows.slice(first, size).combine_chunks()
        for position, field in enumerate(block.schema):
            if field.type == LARGE_STRING:
                # Copied, because a slice keeps the offsets of the whole array, which may overflow.
                column = block.column(position).take(pa.array(np.arange(block.num_rows))).cast(pa.string())
                block = block.set_column(position, field.with_type(pa.string()), column)
        yield block


def version_of(rows: pa.Table) -> str:
    """Content hash of prepared rows without all-null columns, so that a schema may grow."""
    rows = rows.select([name for name in rows.column_names if rows[name].null_count < rows.num_rows])
    digest = hashlib.blake2b(digest_size=16)
    for block in _slices(rows, ROW_GROUP_SIZE):
        for name, column in zip(block.column_names, block.columns, strict=True):
            digest.update(f"{name} {column.type} ".encode())
            _hash_values(column.combine_chunks(), digest)
    return content_id(rows.num_rows, digest.hexdigest())


def _hash_values(values: pa.Array, digest: hashlib.blake2b) -> None:
    """Add an array's logical values to a hash, independent of its memory layout."""
    if values.null_count:
        digest.update(b"null" + np.packbits(values.is_null().to_numpy(zero_copy_only=False)).tobytes())
    if pa.types.is_struct(values.type):
        for field in values.flatten():
            _hash_values(field, digest)
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
    """The bytes of numbers or booleans, with 0 for null."""
    filled = values.fill_null(False if pa.types.is_boolean(values.type) else 0) if values.null_count else values
    return bytes(np.ascontiguousarray(filled.to_numpy(zero_copy_only=False)).data)


def read_rows(path: Path, schema: pa.Schema) -> pa.Table:
    """Read the columns of ``schema`` from a file; columns that are newer than the file are null."""
    # Libraries open a path twice, and a writer may replace the file in between.
    with path.open("rb") as handle:
        return _with_schema(pq.ParquetFile(handle).read(columns=schema.names), schema, path)


def row_blocks(path: Path, schema: pa.Schema, size: int) -> Iterator[pa.Table]:
    """Read like ``read_rows``, in blocks of ``size`` rows."""
    with path.open("rb") as handle:
        for batch in pq.ParquetFile(handle).iter_batches(size, columns=schema.names):
            yield _with_schema(pa.Table.from_batches([batch]), schema, path)


def _with_schema(rows: pa.Table, schema: pa.Schema, path: Path) -> pa.Table:
    """Rows of a file with exactly the columns of this schema, all nullable."""
    for field in schema:
        if field.name not in rows.column_names:
            if not field.nullable:
                raise SchemaMismatch(
                    f"{path} has no column {field.name}: another release wrote it; materialize its asset again"
                )
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(_nullable(schema))


def write_rows(table: str, rows: pa.Table, path: Path) -> None:
    """Write rows as Parquet, with Bloom filters on ids, because min/max statistics of hashes prune little."""
    group_size = SMALL_ROW_GROUPS.get(table, ROW_GROUP_SIZE)
    bloom_filter = {"ndv": max(1, min(group_size, rows.num_rows)), "fpp": BLOOM_FILTER_ERROR_RATE}
    with pq.ParquetWriter(
        path,
        next(_slices(rows.slice(0, 0), group_size)).schema,
        compression="zstd",
        use_dictionary=list(DICTIONARY_COLUMNS) if table == "lineage_edges" else True,
        bloom_filter_options=dict.fromkeys((TABLES[table].row_id, *BLOOM_FILTER_COLUMNS.get(table, ())), bloom_filter),
    ) as writer:
        for block in _slices(rows, group_size):
            writer.write_table(block, row_group_size=group_size)
