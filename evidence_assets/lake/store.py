"""Layout of a lake, and atomic reads and writes of its partitions."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.lake.atomic import is_abandoned, mirror_of, replacing_file
from evidence_assets.lake.errors import LakeVersionError
from evidence_assets.lake.input_files import check_raw_name, lake_url
from evidence_assets.lake.mirror import child_names, delete_path, fetch_folder, fetch_path, file_stamps, local_root
from evidence_assets.lake.rows import Rows, prepare_rows, read_rows, version_of, write_rows
from evidence_assets.lake.schemas import TABLES

if TYPE_CHECKING:
    import polars as pl

FORMAT_VERSION = 1
"""The format version that this program reads and writes; ``format.json`` records that of a lake."""
WRITTEN_TABLES = b"evidence.together"
"""Metadata key of a file: the tables that were written together, each with the content hash of its rows."""
BLOCKS_FOLDER = ".blocks"
"""Folder of checkpoints of unfinished partitions."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")

Stamp: TypeAlias = tuple[tuple[Path, tuple[int, int]], ...]
"""Path, modification time and size of files."""


def _check_name(name: str, kind: str) -> str:
    """Return a name that is safe as a file name."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{kind} {name!r} must have only letters, digits, '_', '.', '+' and '-'")
    return name


def asset_folder(asset: str) -> str:
    """Folder name of an asset key such as ``evidence/bm25``."""
    return "asset=" + ".".join(_check_name(part, "asset key part") for part in asset.split("/"))


def _partition_file(partition: str) -> str:
    if not partition:
        return "all.parquet"
    return "/".join(_check_name(part, "partition") for part in partition.split("|")) + ".parquet"


def table_url(location: str | Path, table: str, asset: str, partition: str | None = None) -> str:
    """URL of an asset's folder in a table of the lake at a path or address, or of one partition's file."""
    folder = f"{lake_url(location)}/{table}/{asset_folder(asset)}"
    return folder if partition is None else f"{folder}/{_partition_file(partition)}"


class Lake:
    """A lake on disk, or at an address; cheap to open.

    ============================================ ==================================================
    format.json                                  format version and frozen settings
    <table>/asset=<key>/<partition>.parquet      one file per asset and partition
    history/run=<id>/<asset>@<partition>.parquet one file per run and partition
    raw/ indexes/ cache/                         inputs, indexes and token stores, completions
    .blocks/asset=<key>/<partition>/             checkpoints of an unfinished partition
    .<random>.tmp/                               rows of a running sort
    ============================================ ==================================================

    A table's schema may grow by a nullable column. Any other change of it or of this layout needs a new
    ``FORMAT_VERSION``.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = local_root(root)
        self.cache = self.root / "cache"
        """Folder of caches, which are not downloaded."""
        path = fetch_path(self.root / "format.json")
        try:
            content = json.loads(path.read_text())
            version = int(content["format"])
        except FileNotFoundError as error:
            remedy = (
                "add documents with `evidence add corpus NAME FOLDER`, build the sample with `evidence demo`, or set "
                "EVIDENCE_LAKE to another folder"
            )
            raise LakeVersionError(f"there is no lake at {self.address}: {remedy}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise LakeVersionError(f"{path} has no valid format version ({error}): restore it from a backup") from error
        if version != FORMAT_VERSION:
            is_newer = version > FORMAT_VERSION
            remedy = "upgrade evidence-assets" if is_newer else "rebuild the lake, or use an older release"
            raise LakeVersionError(
                f"the lake at {self.address} has format {version}, this program reads {FORMAT_VERSION}: {remedy}"
            )
        self.frozen: dict[str, Any] = content.get("frozen", {})

    @classmethod
    def create(cls, root: Path | str, **frozen: Any) -> Lake:
        """Open the lake at ``root``, or create it; ``frozen`` settings must never change."""
        path = fetch_path(local_root(root) / "format.json")
        if not path.exists():
            with replacing_file(path) as temporary:
                temporary.write_text(json.dumps({"format": FORMAT_VERSION, "frozen": frozen}, indent=1) + "\n")
        lake = cls(path.parent)
        for name, value in frozen.items():
            if lake.frozen.get(name, value) != value:
                raise LakeVersionError(
                    f"the lake at {lake.address} was created with {name} = {lake.frozen[name]}; this profile has "
                    f"{value}: use the profile that created it, or another folder (EVIDENCE_LAKE)"
                )
        return lake

    @property
    def address(self) -> str:
        """Path or URL of the lake."""
        mirror = mirror_of(self.root)
        return str(self.root) if mirror is None else mirror.address

    def raw_path(self, name: str) -> Path:
        """A file or folder below ``raw``; a name that leads out of it raises BadInput."""
        return fetch_folder(fetch_path(self.root / "raw" / check_raw_name(name)))

    def fetch_raw(self, *names: str) -> Path:
        """Download these inputs, and return the folder of all inputs."""
        for name in names:
            self.raw_path(name)
        return self.root / "raw"

    def folder(self, name: str) -> Path:
        """A folder of the lake with all files below it."""
        return fetch_folder(self.root / name)

    def index_folder(self, asset: str) -> Path:
        """Folder of an index or of another asset with files instead of rows."""
        return fetch_path(self.root / "indexes" / asset_folder(asset))

    def blocks_folder(self, asset: str, partition: str = "") -> Path:
        """Folder of the checkpoints of an unfinished partition; see ``lake.blocks``."""
        return self.root / BLOCKS_FOLDER / asset_folder(asset) / _partition_file(partition).removesuffix(".parquet")

    def path(self, table: str, asset: str, partition: str = "") -> Path:
        """File of an asset's partition; it may not exist."""
        return fetch_path(self._path(table, asset, partition))

    def _path(self, table: str, asset: str, partition: str) -> Path:
        if table not in TABLES:
            raise KeyError(f"unknown table {table!r}; the tables are {', '.join(TABLES)}")
        return self.root / table / asset_folder(asset) / _partition_file(partition)

    def partitions(self, table: str, asset: str) -> list[str]:
        """Names of an asset's partitions (of multi-partitions the last dimension), without downloading."""
        return [path.stem for path in file_stamps(self.root / table / asset_folder(asset)) if path.suffix == ".parquet"]

    def files(self, table: str, asset: str | None = None) -> list[Path]:
        """All partition files of a table, or of one asset in it, in a stable order."""
        folder = self.root / table if asset is None else self.root / table / asset_folder(asset)
        return sorted(fetch_folder(folder).rglob("*.parquet"))

    def assets(self) -> list[tuple[str, str]]:
        """Every (table, asset) that has a folder, orphans included."""
        return [
            (table, name.removeprefix("asset=").replace(".", "/"))
            for table in [*TABLES, "indexes", "cache"]
            for name in child_names(self.root / table)
            if name.startswith("asset=")
        ]

    def stamp(self, *assets: tuple[str, str]) -> Stamp:
        """Stamp of the files of these assets, which are pairs of a table (or ``indexes``) and an asset key."""
        folders = [self.root / table / asset_folder(asset) for table, asset in assets]
        return tuple(item for folder in folders for item in file_stamps(folder).items())

    def read(
        self, table: str, asset: str | None = None, partition: str | None = None, columns: list[str] | None = None
    ) -> pl.DataFrame:
        """Rows of a table: of all assets, of one asset, or of one partition; a missing file has no rows."""
        declared = TABLES[table].arrow
        schema = pa.schema([declared.field(name) for name in columns or declared.names])
        if asset is not None and partition is not None:
            files = [self.path(table, asset, partition)]
        else:
            files = self.files(table, asset)
        rows = []
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                rows.append(read_rows(path, schema))
        import polars as pl

        return pl.DataFrame(pa.concat_tables(rows) if rows else schema.empty_table())

    def scan(self, table: str, asset: str | None = None) -> pl.LazyFrame:
        """Scan the rows that ``read`` reads, without reading all columns and rows into memory."""
        import polars as pl

        schema = pl.Schema(TABLES[table].arrow)
        files = self.files(table, asset)
        if not files:
            return pl.LazyFrame(schema=schema)
        return pl.scan_parquet(files, schema=schema, missing_columns="insert", extra_columns="ignore", glob=False)

    def stored_version(self, table: str, asset: str, partition: str = "") -> str:
        """The version of a partition's rows, from its footer; empty if the partition does not exist."""
        tables = _written_tables(self._path(table, asset, partition))
        return tables[table] if tables else ""

    def is_complete(self, table: str, asset: str, partition: str = "") -> bool:
        """Whether all files that were written together with these rows exist and are from the same write."""
        tables = _written_tables(self._path(table, asset, partition))
        return bool(tables) and all(_written_tables(self._path(t, asset, partition)) == tables for t in tables)

    @contextlib.contextmanager
    def lock(self, asset: str, partition: str = "") -> Iterator[None]:
        """Hold the write lock of an asset's partition; the system releases it if the process dies."""
        folder = self.root / ".locks" / asset_folder(asset)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _partition_file(partition).replace("/", "@")).open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def write(self, asset: str, partition: str, tables: Mapping[str, Rows]) -> dict[str, str]:
        """Replace an asset's partition in one or more tables: all temporary files first, then all renames.

        Returns the version of each table. Each file records the versions of all, so that ``is_complete`` detects a kill
        between two renames.
        """
        prepared = {table: prepare_rows(table, rows) for table, rows in tables.items()}
        versions = {table: version_of(rows) for table, rows in sorted(prepared.items())}
        metadata = {WRITTEN_TABLES: json.dumps(versions).encode()}
        with self.lock(asset, partition), contextlib.ExitStack() as stack:
            paths = {table: self.path(table, asset, partition) for table in prepared}
            for table, path in paths.items():
                rows = prepared[table].replace_schema_metadata(metadata)
                write_rows(table, rows, stack.enter_context(replacing_file(path)))
        delete_path(self.blocks_folder(asset, partition))  # only after all renames
        return versions

    def record_history(self, run_id: str, asset: str, partition: str, rows: Rows) -> None:
        """Record a run's rows of one partition, replacing those that the same run recorded before."""
        name = asset_folder(asset).removeprefix("asset=") + "@" + _partition_file(partition).replace("/", "@")
        path = self.root / "history" / f"run={_check_name(run_id, 'run id')}" / name
        with self.lock(f"history/{run_id}"), replacing_file(path) as temporary:
            write_rows("history", prepare_rows("history", rows), temporary)

    def delete(self, table: str, asset: str, partition: str | None = None) -> None:
        """Delete an asset's folder, or one partition of it."""
        folder = self.root / table / asset_folder(asset)
        delete_path(folder if partition is None else self._path(table, asset, partition))


def _written_tables(path: Path) -> dict[str, str]:
    """Versions of the tables that were written together, by name, from a file's footer; empty if there is no file.

    The rest of the file is not downloaded.
    """
    mirror = mirror_of(path)
    source = mirror.open_reader(path) if mirror else path.open("rb") if path.exists() else None
    if source is None:
        return {}
    with contextlib.closing(source) as handle:
        handle.seek(-8, os.SEEK_END)
        handle.seek(-8 - int.from_bytes(handle.read(4), "little"), os.SEEK_END)
        footer = pq.ParquetFile(pa.BufferReader(b"PAR1" + bytes(handle.read())))
    return dict(json.loads(footer.schema_arrow.metadata[WRITTEN_TABLES]))


def find_orphans(lake: Lake, assets: Collection[str]) -> list[tuple[Path, int]]:
    """Folders of assets that are not in ``assets``, and abandoned and old files, each with its size in bytes."""
    folders = [lake.root / table / asset_folder(asset) for table, asset in lake.assets()]
    folders += [lake.root / BLOCKS_FOLDER / name for name in child_names(lake.root / BLOCKS_FOLDER)]
    asset_folders = {asset_folder(asset) for asset in assets}
    orphans = [folder for folder in folders if folder.name not in asset_folders]
    corpora = {asset.split("/")[1] for asset in assets if asset.startswith("corpus/")}
    orphans += [folder for folder in (lake.cache / "tokens").glob("*") if folder.name not in corpora]
    orphans += [path for corpus in corpora for path in _find_old_means(lake, corpus)]
    orphans += [path for path in find_abandoned_files(lake) if not set(orphans) & set(path.parents)]
    sizes = {}
    for path in orphans:
        file_sizes = [path.stat().st_size] if path.is_file() else [size for _, size in file_stamps(path).values()]
        sizes[path] = sum(file_sizes)
    return sorted(sizes.items())


def _find_old_means(lake: Lake, corpus: str) -> list[Path]:
    """Files of chunks' mean points for another token store than the corpus has; none that a process is writing.

    Without a token store all are kept. A process that has opened a file can read it after it is deleted.
    """
    folder = lake.cache / "tokens" / corpus
    files = [path for path in folder.glob("*") if path.suffix in (".npy", ".part")]
    if not files or not (description := lake.index_folder(f"corpus/{corpus}/token_store") / "meta.json").exists():
        return []
    built_from = json.loads(description.read_text())["built_from"]
    return [path for path in files if not path.name.startswith(f"{built_from}-") and is_abandoned(path)]


def find_abandoned_files(lake: Lake) -> list[Path]:
    """Temporary files and folders of killed writers, without the only version of a folder."""
    # Not `rglob`, which fails if a folder vanishes meanwhile.
    names = (Path(parent) / name for parent, folders, files in os.walk(lake.root) for name in (*folders, *files))
    paths = [path for path in names if path.match(".*.tmp") or _is_replaced(path) if is_abandoned(path)]
    return [path for path in paths if not set(paths) & set(path.parents)]


def _is_replaced(path: Path) -> bool:
    """Whether a path is the previous version of a folder that exists: ``.index.old`` of ``index``."""
    name = path.name.removeprefix(".").removesuffix(".old").removesuffix(".fetched")
    return path.match(".*.old") and path.with_name(name).exists()


def delete_abandoned_files(lake: Lake) -> None:
    """Delete temporary files of killed writers, except those of raw files, whose writers replace them."""
    delete_orphans([(path, 0) for path in find_abandoned_files(lake) if not path.is_relative_to(lake.root / "raw")])


def delete_orphans(paths: Collection[tuple[Path, int]]) -> None:
    """Delete the paths that ``find_orphans`` returned."""
    for path, _ in paths:
        delete_path(path)
