"""The atomic store: which file is whose, and how writing survives a killed process."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.lake.atomic import mirror_of, replacing_file
from evidence_assets.lake.errors import LakeVersionError
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.input_files import check_raw_name
from evidence_assets.lake.mirror import (
    child_names,
    delete_path,
    fetch_folder,
    fetch_path,
    file_sizes,
    local_root,
    object_stamp,
)
from evidence_assets.lake.rows import Rows, prepare_rows, read_rows, version_of, write_rows
from evidence_assets.lake.schemas import TABLES

FORMAT_VERSION = 1
"""What a lake's ``format.json`` must say for this program to read and write it."""
WRITTEN_TABLES = b"evidence.together"
"""Metadata of a file: the tables that were written in one, each with the content hash of its rows."""
BLOCKS_FOLDER = ".blocks"
"""Folder of what partitions are made of that are not written yet."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")

Stamp: TypeAlias = tuple[tuple[str, int, int], ...]
"""Path, time of change and size of files."""


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


@dataclass(frozen=True)
class WriteResult:
    """What a write left behind."""

    path: Path
    rows: int
    bytes: int
    changed: bool
    """Whether the file's bytes differ from what was there before."""


class Lake:
    """A lake on disk, or at an address; cheap to open.

    ============================================ ==================================================
    format.json                                  format version and frozen settings
    <table>/asset=<key>/<partition>.parquet      one file an asset and partition
    history/run=<id>/<asset>@<partition>.parquet appended, never rewritten
    raw/ indexes/ cache/                         inputs, indexes and token stores, completions
    .blocks/asset=<key>/<partition>/             rows of a partition that is being made
    ============================================ ==================================================

    A table's schema may grow by a nullable column; any other change of it, or of this layout, raises ``FORMAT``.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = local_root(root)
        self._check_format()

    @classmethod
    def create(cls, root: Path | str, **frozen: Any) -> Lake:
        """Open the lake at ``root``, making it where there is none; ``frozen`` settings may never change."""
        root = local_root(root)
        root.mkdir(parents=True, exist_ok=True)
        path = fetch_path(root / "format.json")
        if not path.exists():
            with replacing_file(path) as temporary:
                temporary.write_text(json.dumps({"format": FORMAT_VERSION, "frozen": frozen}, indent=1) + "\n")
        lake = cls(root)
        for name, value in frozen.items():
            if name in lake.frozen and lake.frozen[name] != value:
                raise LakeVersionError(
                    f"the lake at {lake.address} was made with {name} = {lake.frozen[name]}, this profile says "
                    f"{value}; use the profile it was made with, or another folder (EVIDENCE_LAKE)"
                )
        return lake

    def _check_format(self) -> None:
        path = fetch_path(self.root / "format.json")
        try:
            stated = json.loads(path.read_text())
            version = int(stated["format"])
        except FileNotFoundError as error:
            remedy = "make one with `evidence demo`, or name another by EVIDENCE_LAKE"
            raise LakeVersionError(f"there is no lake at {self.address}: {remedy}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise LakeVersionError(f"{path} does not say the lake's format: {error}") from error
        if version != FORMAT_VERSION:
            remedy = (
                "upgrade evidence-assets"
                if version > FORMAT_VERSION
                else "make the lake anew, or use the older release"
            )
            raise LakeVersionError(
                f"the lake at {self.address} has format {version}, this program reads {FORMAT_VERSION}: {remedy}"
            )
        self.frozen: dict[str, Any] = stated.get("frozen", {})

    @property
    def address(self) -> str:
        """Where the lake is, as people name it."""
        mirror = mirror_of(self.root)
        return str(self.root) if mirror is None else mirror.address

    def uri(self, path: Path) -> str:
        """Where a file of the lake is, for other programs."""
        mirror = mirror_of(path)
        return path.resolve().as_uri() if mirror is None else f"{mirror.address}/{mirror.object_name(path)}"

    @property
    def raw(self) -> Path:
        """Folder of all inputs."""
        return fetch_folder(self.root / "raw")

    def raw_path(self, name: str) -> Path:
        """A file or folder below ``raw``; a name that leads out of it is refused."""
        return fetch_folder(fetch_path(self.root / "raw" / check_raw_name(name)))

    def fetch_raw(self, *names: str) -> Path:
        """Folder of the inputs, with at least these of them."""
        for name in names:
            self.raw_path(name)
        return self.root / "raw"

    @property
    def cache(self) -> Path:
        """Folder of what may be lost; nothing of it is fetched here."""
        return self.root / "cache"

    def folder(self, name: str) -> Path:
        """A folder of the lake with all that lies below it."""
        return fetch_folder(self.root / name)

    def index_folder(self, asset: str) -> Path:
        """Folder of an index or of another asset that is files and not rows."""
        return fetch_path(self.root / "indexes" / asset_folder(asset))

    def blocks_folder(self, asset: str, partition: str = "") -> Path:
        """Folder of what is made of a partition that is not written yet; see ``lake.blocks``."""
        return fetch_folder(self._blocks(asset, partition))

    def _blocks(self, asset: str, partition: str) -> Path:
        return self.root / BLOCKS_FOLDER / asset_folder(asset) / _partition_file(partition).removesuffix(".parquet")

    def path(self, table: str, asset: str, partition: str = "") -> Path:
        """File of one asset's partition; it need not exist."""
        return fetch_path(self._path(table, asset, partition))

    def _path(self, table: str, asset: str, partition: str) -> Path:
        if table not in TABLES:
            raise KeyError(f"there is no table {table!r}; the tables are {', '.join(TABLES)}")
        return self.root / table / asset_folder(asset) / _partition_file(partition)

    def partitions(self, table: str, asset: str) -> list[str]:
        """Last parts of the names of an asset's partitions; none is fetched."""
        return [path.stem for path in file_sizes(self.root / table / asset_folder(asset)) if path.suffix == ".parquet"]

    def has_partition(self, table: str, asset: str, partition: str = "") -> bool:
        """Whether an asset's partition is there; it is not fetched."""
        return _end(self._path(table, asset, partition)) is not None

    def files(self, table: str, asset: str | None = None) -> list[Path]:
        """Every partition file of a table, or of one asset in it, in a stable order."""
        folder = self.root / table
        if asset is not None:
            folder = folder / asset_folder(asset)
        fetch_folder(folder)
        return sorted(folder.rglob("*.parquet")) if folder.is_dir() else []

    def assets(self) -> list[tuple[str, str]]:
        """Every (table, asset) that has a folder, orphans included."""
        return [
            (table, asset_of_folder(name))
            for table in [*TABLES, "indexes", "cache"]
            for name in child_names(self.root / table)
            if name.startswith("asset=")
        ]

    def stamp(self, *assets: tuple[str, str]) -> Stamp:
        """What changes whenever a file of these assets does, each given as its table, or ``indexes``, and its key."""
        files = []
        mirror = mirror_of(self.root)
        for table, asset in assets:
            folder = self.root / table / asset_folder(asset)
            if mirror is not None:
                files += [(s["path"], object_stamp(s), s["size"]) for s in mirror.list_objects(folder)]
                continue
            for path in sorted(path for path in folder.rglob("[!.]*") if path.is_file()):
                status = path.stat()
                files.append((str(path), status.st_mtime_ns, status.st_size))
        return tuple(files)

    def read(
        self, table: str, asset: str | None = None, partition: str | None = None, columns: list[str] | None = None
    ) -> pl.DataFrame:
        """Rows of a table: of all its assets, of one, or of one partition; an absent file has no rows."""
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

    def stored_version(self, table: str, asset: str, partition: str = "") -> str:
        """The version of a partition's rows, read from its footer; empty where there is none.

        A file of an older release states none; its version is the hash of the footer.
        """
        end = _end(self._path(table, asset, partition))
        if end is None:
            return ""
        mark = _mark(end)
        return str(json.loads(mark)[table]) if mark is not None else hashlib.blake2b(end, digest_size=16).hexdigest()

    def is_complete(self, table: str, asset: str, partition: str = "") -> bool:
        """Whether everything that was written with these rows is there, and of the same writing."""

        end = _end(self._path(table, asset, partition))
        if end is None or (mark := _mark(end)) is None:
            return end is not None
        ends = [_end(self._path(other, asset, partition)) for other in json.loads(mark)]
        return all(other is not None and _mark(other) == mark for other in ends)

    @contextlib.contextmanager
    def lock(self, asset: str, partition: str = "") -> Iterator[None]:
        """Wait for, then hold, the right to write one asset's partition; the system frees it if the process dies."""
        folder = self.root / ".locks" / asset_folder(asset)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _partition_file(partition).replace("/", "@")).open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def write(self, asset: str, partition: str, tables: Mapping[str, Rows]) -> dict[str, WriteResult]:
        """Replace one asset's partition in one or more tables: all temporary files first, then all renames.

        Files are marked with the versions of all of them, so that ``is_complete`` notices a kill between two renames.
        """
        prepared = {table: prepare_rows(table, rows) for table, rows in tables.items()}
        versions = {table: version_of(rows) for table, rows in sorted(prepared.items())}
        mark = {WRITTEN_TABLES: json.dumps(versions).encode()}
        prepared = {table: rows.replace_schema_metadata(mark) for table, rows in prepared.items()}
        with self.lock(asset, partition), contextlib.ExitStack() as stack:
            written = {}
            for table, rows in prepared.items():
                path = self.path(table, asset, partition)
                before = file_id(path) if path.exists() else ""
                temporary = stack.enter_context(replacing_file(path))
                write_rows(table, rows, temporary)
                size = temporary.stat().st_size
                written[table] = WriteResult(path, rows.num_rows, size, file_id(temporary) != before)
        if mirror := mirror_of(self.root):
            mirror.ensure_consistent([one.path for one in written.values()])
        delete_path(self._blocks(asset, partition))  # only now are the files in their places
        return written

    def record_history(self, run_id: str, asset: str, partition: str, rows: Rows) -> None:
        """Append what a run made of one partition, in place of what the same run wrote of it before."""
        name = asset_folder(asset).removeprefix("asset=") + "@" + _partition_file(partition).replace("/", "@")
        path = self.root / "history" / f"run={_safe(run_id, 'run id')}" / name
        with self.lock(f"history/{run_id}"), replacing_file(path) as temporary:
            write_rows("history", prepare_rows("history", rows), temporary)

    def delete(self, table: str, asset: str, partition: str | None = None) -> None:
        """Remove an asset's folder, or one partition of it."""
        if partition is not None:
            delete_path(self._path(table, asset, partition))
        else:
            delete_path(self.root / table / asset_folder(asset))


def _end(path: Path) -> bytes | None:
    """The footer of a Parquet file; of a lake in an object store only that is downloaded."""
    mirror = mirror_of(path)
    opened = mirror.open_reader(path) if mirror else path.open("rb") if path.exists() else None
    if opened is None:
        return None
    with contextlib.closing(opened) as handle:
        handle.seek(-8, os.SEEK_END)
        handle.seek(-8 - int.from_bytes(handle.read(4), "little"), os.SEEK_END)
        return bytes(handle.read())


def _mark(end: bytes) -> bytes | None:
    """What a file says of the files that were written with it; None where it was alone, or of an older release."""
    file = pq.ParquetFile(pa.BufferReader(b"PAR1" + end))
    return (file.schema_arrow.metadata or {}).get(WRITTEN_TABLES)
