"""The atomic Parquet store: what is written, where, and how it survives a killed process.

Layout below the lake's root::

    format.json                                   format version and frozen settings
    <table>/asset=<key>/<partition>.parquet       one file an asset and partition
    history/run=<id>/<asset>@<partition>.parquet  appended, never rewritten
    raw/ indexes/ cache/                          inputs, vector indexes and token stores, completions
    .blocks/asset=<key>/<partition>/              rows of a partition that is being made

Every asset writes alone into its own folders. A file is written under a temporary name, flushed to disk and renamed:
a reader sees the old file or the new one. Writers of one asset and partition take turns behind a lock, so whatever
temporary file a writer finds was left by a killed one and is removed.

A table's schema may grow by a nullable column: what was written before has it empty for every reader, and the format
stays. Any other change of a schema, or of this layout, raises ``FORMAT``; a lake of another format is refused.

A lake at an address such as ``s3://bucket/prefix`` has the same layout there. Its root here is a folder that holds what this
machine has asked for; every door below brings that up to date first, see ``lake.fetching``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.coded import ID, blocks, held, order_of, plain, plain_schema
from evidence_assets.lake.errors import LakeVersionError, SchemaMismatch
from evidence_assets.lake.fetching import (
    below,
    children,
    exists,
    fetched,
    fetched_below,
    local_root,
    mirror_of,
    removed,
)
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.lake.input_files import stays_below
from evidence_assets.lake.schemas import TABLES, TableSchema

FORMAT = 1
"""What a lake's ``format.json`` must say for this program to read and write it."""
ROW_GROUP = 65_536
SMALL_GROUPS = {"lineage_edges": 2_048, **dict.fromkeys(("evidence", "chains", "predictions", "citations"), 8_192)}
"""Rows a group in tables of which a few ids at a time are read: the smaller the group, the less is read for each."""
FEW_VALUES = ("child_kind", "relation", "parent_kind", "rank")
"""Columns of the lineage with few distinct values, which a dictionary shortens; the others are ids."""
LOOKED_UP = {"evidence": ("source_id",)}
"""Columns besides the row's own id by which rows are looked up: what rests on a source."""
FALSE_POSITIVES = 0.01
"""Share of the row groups that are read in vain for an id that they do not hold."""
TOGETHER = b"evidence.together"
"""Metadata of a file: the tables that were written in one, each with the content hash of its rows."""
BLOCKS = ".blocks"
"""Folder of what partitions are made of that are not written yet."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")

Rows: TypeAlias = pl.DataFrame | pa.Table | list[dict[str, Any]]
Stamp: TypeAlias = tuple[tuple[str, int, int], ...]
"""Path, time of change and size of files: what tells, without reading them, whether they are still the same."""


def _safe(name: str, what: str) -> str:
    """The name itself, which leads out of no folder."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{what} {name!r} may hold only letters, digits, '_', '.', '+' and '-'")
    return name


def asset_folder(asset: str) -> str:
    """Folder name of an asset key such as ``evidence/bm25``."""
    return "asset=" + ".".join(_safe(part, "asset key part") for part in asset.split("/"))


def asset_of_folder(folder: str) -> str:
    """The asset key that ``asset_folder`` made a folder name of."""
    return folder.removeprefix("asset=").replace(".", "/")


def _partition_file(partition: str) -> str:
    if not partition:
        return "all.parquet"
    return "/".join(_safe(part, "partition") for part in partition.split("|")) + ".parquet"


def _mismatch(schema: TableSchema, message: str) -> SchemaMismatch:
    return SchemaMismatch(f"table {schema.name}: {message}")


def typed(table: str, rows: list[dict[str, Any]] | Mapping[str, Any]) -> pa.Table:
    """Rows, or values by column, as a table of the declared columns and types, much smaller than as dictionaries.

    Raises SchemaMismatch where a column is unknown or a value of another type.
    """
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


def prepare(table: str, rows: Rows) -> pa.Table:
    """Rows as they will lie in the lake: the declared columns and types, sorted by the table's key.

    Columns of an Arrow table that are held as codes, see ``lake.coded``, stay so.

    Raises SchemaMismatch where a required column is missing, a column is unknown or of another type, a required value
    is null, a number is not a number, or a key occurs twice.
    """
    schema = TABLES[table]
    if isinstance(rows, list):
        rows = typed(table, rows)
    names = list(rows.columns) if isinstance(rows, pl.DataFrame) else rows.column_names
    missing = [c.name for c in schema.columns if c.name not in names and not c.nullable]
    unknown = [name for name in names if name not in schema.names]
    if missing or unknown:
        raise _mismatch(schema, f"lacks columns {missing}, has unknown columns {unknown}")
    # One column after another, so that memory holds one of them twice and not the table.
    keys = pa.table({name: _declared(schema, rows, names, name) for name in schema.key})
    # Rows in order are sorted, too: a column that was taken is written with the same bytes, however it came to be.
    if keys.num_columns == 1 and keys.column(0).type == ID:
        order = order_of(keys.column(0))
    else:
        keys = plain(keys)
        order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in schema.key])
    keys = keys.take(order)
    if (place := pc.index(_same(keys), True).as_py()) >= 0:
        twice = plain(keys.slice(place, 1)).to_pylist()[0]
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
        values = held(
            (rows.select([name]).to_arrow() if isinstance(rows, pl.DataFrame) else rows).column(name), declared
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError) as error:
        raise _mismatch(schema, f"column {name}: {error}") from error
    if not declared.nullable and values.null_count:
        raise _mismatch(schema, f"column {name} is empty in {values.null_count} rows")
    if pa.types.is_floating(declared.type) and pc.all(pc.is_finite(values)).as_py() is False:
        raise _mismatch(schema, f"column {name} holds a value that is not a finite number")
    return values


def _with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of this schema and no others; those that they lack are empty, as any may be here."""
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field.with_nullable(True), pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(pa.schema([field.with_nullable(True) for field in schema]))


def version_of(rows: pa.Table) -> str:
    """Content hash of prepared rows: equal rows, equal hash.

    Columns that are empty in every row do not count, so that a column added to the schema changes the hash of no rows
    that say nothing in it, and what was made from them stays fresh.
    """
    rows = rows.select([name for name in rows.column_names if rows[name].null_count < rows.num_rows])
    sink = _Hashing()
    rows = rows.replace_schema_metadata(None)
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), plain_schema(rows)) as stream:
        for block in blocks(rows, ROW_GROUP):
            stream.write_table(block, max_chunksize=ROW_GROUP)
    return content_id(rows.num_rows, sink.digest.hexdigest())


class _Hashing(io.RawIOBase):
    """A file of which nothing is kept but the hash of what is written to it."""

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)


@dataclass(frozen=True)
class Written:
    """What a write left behind."""

    path: Path
    rows: int
    bytes: int
    changed: bool
    """Whether the file's bytes differ from what was there before."""


class Lake:
    """A lake on disk, or at an address; cheap to open, safe to open many times."""

    def __init__(self, root: Path | str) -> None:
        self.root = local_root(root)
        self._check_format()

    @classmethod
    def create(cls, root: Path | str, **frozen: Any) -> Lake:
        """Open the lake at ``root``, making it where there is none.

        ``frozen`` are settings that may not change during a lake's life, such as shard counts.
        """
        root = local_root(root)
        root.mkdir(parents=True, exist_ok=True)
        path = fetched(root / "format.json")
        if not path.exists():
            stated = json.dumps({"format": FORMAT, "frozen": frozen}, indent=1) + "\n"
            if mirror := mirror_of(path):
                mirror.create(path, stated.encode())
            else:
                with replacing_file(path) as temporary:
                    temporary.write_text(stated)
        lake = cls(root)
        for name, value in frozen.items():
            if name in lake.frozen and lake.frozen[name] != value:
                raise LakeVersionError(
                    f"the lake at {lake.address} was made with {name} = {lake.frozen[name]}, this profile says {value}; "
                    "use the profile it was made with, or another folder (EVIDENCE_LAKE)"
                )
        return lake

    def _check_format(self) -> None:
        path = fetched(self.root / "format.json")
        if not path.exists():
            raise LakeVersionError(
                f"there is no lake at {self.address}: make one with `evidence demo`, or name another by EVIDENCE_LAKE"
            )
        try:
            stated = json.loads(path.read_text())
            version = int(stated["format"])
        except (ValueError, KeyError, TypeError) as error:
            raise LakeVersionError(f"{path} does not say the lake's format: {error}") from error
        if version != FORMAT:
            remedy = "upgrade evidence-assets" if version > FORMAT else "make the lake anew, or use the older release"
            raise LakeVersionError(
                f"the lake at {self.address} has format {version}, this program reads {FORMAT}: {remedy}"
            )
        self.frozen: dict[str, Any] = stated.get("frozen", {})

    # Places ---------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Where the lake is, as people name it."""
        mirror = mirror_of(self.root)
        return str(self.root) if mirror is None else mirror.store.address

    def uri(self, path: Path) -> str:
        """Where a file of the lake is, for other programs."""
        mirror = mirror_of(path)
        return path.resolve().as_uri() if mirror is None else f"{mirror.store.address}/{mirror.name(path)}"

    @property
    def raw(self) -> Path:
        """Folder of the inputs, with all of them."""
        return fetched_below(self.root / "raw")

    def raw_place(self, name: str) -> Path:
        """A file or folder below ``raw``, and no more than that; a name that leads out of it is refused."""
        return fetched_below(fetched(self.root / "raw" / stays_below(name)))

    def raw_with(self, *names: str) -> Path:
        """Folder of the inputs, with these of them at the least."""
        for name in names:
            self.raw_place(name)
        return self.root / "raw"

    @property
    def cache(self) -> Path:
        """Folder of what may be lost; nothing of it is fetched here."""
        return self.root / "cache"

    def folder(self, name: str) -> Path:
        """A folder of the lake with all that lies below it."""
        return fetched_below(self.root / name)

    def index_folder(self, asset: str) -> Path:
        """Folder of an index or of another asset that is files and not rows."""
        return fetched(self.root / "indexes" / asset_folder(asset))

    def blocks_folder(self, asset: str, partition: str = "") -> Path:
        """Folder of what is made of a partition that is not written yet; see ``lake.blocks``."""
        return fetched_below(self._blocks(asset, partition))

    def _blocks(self, asset: str, partition: str) -> Path:
        return self.root / BLOCKS / asset_folder(asset) / _partition_file(partition).removesuffix(".parquet")

    def path(self, table: str, asset: str, partition: str = "") -> Path:
        """File of one asset's partition; it need not exist."""
        return fetched(self._path(table, asset, partition))

    def _path(self, table: str, asset: str, partition: str) -> Path:
        if table not in TABLES:
            raise KeyError(f"there is no table {table!r}; the tables are {', '.join(TABLES)}")
        return self.root / table / asset_folder(asset) / _partition_file(partition)

    def partitions(self, table: str, asset: str) -> list[str]:
        """Last parts of the names of an asset's partitions; none is fetched."""
        return [path.stem for path in below(self.root / table / asset_folder(asset)) if path.suffix == ".parquet"]

    def has(self, table: str, asset: str, partition: str = "") -> bool:
        """Whether an asset's partition is there; it is not fetched."""
        return exists(self._path(table, asset, partition))

    def files(self, table: str, asset: str | None = None) -> list[Path]:
        """Every partition file of a table, or of one asset in it, in a stable order."""
        folder = self.root / table
        if asset is not None:
            folder = folder / asset_folder(asset)
        fetched_below(folder)
        return sorted(folder.rglob("*.parquet")) if folder.is_dir() else []

    def assets(self) -> list[tuple[str, str]]:
        """Every (table, asset) that has a folder, whether or not anything still makes it."""
        return [
            (table, asset_of_folder(name))
            for table in [*TABLES, "indexes", "cache"]
            for name in children(self.root / table)
            if name.startswith("asset=")
        ]

    def stamp(self, *assets: tuple[str, str]) -> Stamp:
        """What changes whenever a file of these assets does, each given as its table, or ``indexes``, and its key.

        For caches within a process: what was opened under a stamp is what lies there as long as the stamp is the same.
        """
        files = []
        mirror = mirror_of(self.root)
        for table, asset in assets:
            folder = self.root / table / asset_folder(asset)
            if mirror is not None:
                files += mirror.stamp(folder)
                continue
            for path in sorted(path for path in folder.rglob("[!.]*") if path.is_file()):
                status = path.stat()
                files.append((str(path), status.st_mtime_ns, status.st_size))
        return tuple(files)

    # Reading --------------------------------------------------------------------------------------------------

    def read(
        self, table: str, asset: str | None = None, partition: str | None = None, columns: list[str] | None = None
    ) -> pl.DataFrame:
        """Rows of a table: of all its assets, of one asset, or of one partition of it; an absent file has no rows."""
        declared = TABLES[table].arrow
        wanted = pa.schema([declared.field(name) for name in columns or declared.names])
        if asset is not None and partition is not None:
            files = [self.path(table, asset, partition)]
        else:
            files = self.files(table, asset)
        rows = []
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                rows.append(read_rows(path, wanted))
        frame = pl.from_arrow(pa.concat_tables(rows) if rows else wanted.empty_table())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def written_version(self, table: str, asset: str, partition: str = "") -> str:
        """What the writer of a partition said of its rows, told without reading them; empty where there is none.

        Of a file whose writer said nothing it is the hash of its footer: sizes, places and ranges of its columns.
        """
        end = _end(self._path(table, asset, partition))
        if end is None:
            return ""
        mark = _mark(end)
        return str(json.loads(mark)[table]) if mark is not None else hashlib.blake2b(end, digest_size=16).hexdigest()

    def is_whole(self, table: str, asset: str, partition: str = "") -> bool:
        """Whether everything that was written with these rows is there, and of the same writing."""

        def marked(table: str) -> tuple[bool, bytes | None]:
            end = _end(self._path(table, asset, partition))
            return end is not None, None if end is None else _mark(end)

        there, mark = marked(table)
        return there and (mark is None or all(marked(other)[1] == mark for other in json.loads(mark)))

    # Writing --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def lock(self, asset: str, partition: str = "") -> Iterator[None]:
        """Wait for, then hold, the right to write one asset's partition; the system frees it if the process dies."""
        folder = self.root / ".locks" / asset_folder(asset)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _partition_file(partition).replace("/", "@")).open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def write(self, asset: str, partition: str, tables: Mapping[str, Rows]) -> dict[str, Written]:
        """Replace one asset's partition in one or more tables: all temporary files first, then all renames.

        Files are marked with what each of them says, so that ``is_whole`` can tell when a process was killed between two
        renames, or a person removed one, and ``written_version`` what lies there.
        """
        prepared = {table: prepare(table, rows) for table, rows in tables.items()}
        versions = {table: version_of(rows) for table, rows in sorted(prepared.items())}
        mark = {TOGETHER: json.dumps(versions).encode()}
        prepared = {table: rows.replace_schema_metadata(mark) for table, rows in prepared.items()}
        with self.lock(asset, partition), contextlib.ExitStack() as stack:
            written = {}
            for table, rows in prepared.items():
                path = self.path(table, asset, partition)
                before = file_id(path) if path.exists() else ""
                temporary = stack.enter_context(replacing_file(path))
                write_rows(table, rows, temporary)
                size = temporary.stat().st_size
                written[table] = Written(path, rows.num_rows, size, file_id(temporary) != before)
        if mirror := mirror_of(self.root):
            mirror.settle([one.path for one in written.values()])
        removed(self._blocks(asset, partition))  # only now are the files in their places
        return written

    def record_history(self, run_id: str, asset: str, partition: str, rows: Rows) -> None:
        """Append what a run made of one partition, in place of what the same run wrote of it before."""
        name = asset_folder(asset).removeprefix("asset=") + "@" + _partition_file(partition).replace("/", "@")
        path = self.root / "history" / f"run={_safe(run_id, 'run id')}" / name
        with self.lock(f"history/{run_id}"), replacing_file(path) as temporary:
            write_rows("history", prepare("history", rows), temporary)

    def delete(self, table: str, asset: str, partition: str | None = None) -> None:
        """Remove an asset's folder, or one partition of it."""
        if partition is not None:
            removed(self._path(table, asset, partition))
            return
        removed(self.root / table / asset_folder(asset))


def read_rows(path: Path, wanted: pa.Schema) -> pa.Table:
    """The wanted columns of a file, empty where it was written before a column was declared."""
    # Opened once and read from that handle: libraries that take a path open it twice, and a writer may put another file
    # in its place in between.
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


def count_in_order(table: str, path: Path) -> tuple[int, bool]:
    """Rows of a file, and whether they lie in the order of their key; memory holds a block of them.

    Raises SchemaMismatch where ``prepare`` refuses them.
    """
    schema, rows, ordered, last = TABLES[table].arrow, 0, True, list[pa.Table]()
    for block in row_blocks(path, schema, ROW_GROUP):
        rows += block.num_rows
        together = pa.concat_tables([*last, block])
        ordered &= prepare(table, together).equals(together.cast(schema))
        last = [block.slice(block.num_rows - 1)]
    return rows, ordered


def _end(path: Path) -> bytes | None:
    """The end of a Parquet file, which says what lies where; of a lake that is kept elsewhere it alone is asked for."""
    mirror = mirror_of(path)
    if mirror is not None:
        return mirror.last(path, lambda end: 8 + int.from_bytes(end[-8:-4], "little"))
    try:
        with path.open("rb") as handle:
            handle.seek(-8, os.SEEK_END)
            handle.seek(-8 - int.from_bytes(handle.read(4), "little"), os.SEEK_END)
            return handle.read()
    except FileNotFoundError:
        return None


def _mark(end: bytes) -> bytes | None:
    """What a file says of the files that were written with it; None where it was alone, or of an older release."""
    file = pq.ParquetFile(pa.BufferReader(b"PAR1" + end))
    return (file.schema_arrow.metadata or {}).get(TOGETHER)


def write_rows(table: str, rows: pa.Table, path: Path) -> None:
    """Rows as Parquet, with a Bloom filter a row group on the ids that they are looked up by.

    Ids are hashes, so the ranges of row groups say little where rows are sorted by something else; the filter tells that a
    group does not hold an id without reading it.
    """
    group = SMALL_GROUPS.get(table, ROW_GROUP)
    each = {"ndv": max(1, min(group, rows.num_rows)), "fpp": FALSE_POSITIVES}
    with pq.ParquetWriter(
        path,
        plain_schema(rows),
        compression="zstd",
        use_dictionary=list(FEW_VALUES) if table == "lineage_edges" else True,
        bloom_filter_options=dict.fromkeys((TABLES[table].row_id, *LOOKED_UP.get(table, ())), each),
    ) as writer:
        for block in blocks(rows, group):
            writer.write_table(block, row_group_size=group)
