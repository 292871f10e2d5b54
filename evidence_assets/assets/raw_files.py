"""Raw inputs: assets that hash the user's files, and the packaged sample data."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.automation import AssetPartition, find_planned, last_materialization, request_input_run
from evidence_assets.assets.table_asset import files_asset
from evidence_assets.benchmarks import declared_benchmarks
from evidence_assets.experiment.stage import LogFunction
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.lake.input_files import check_raw_name
from evidence_assets.lake.mirror import file_stamps
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.presets import is_enabled

RAW_PATHS = "raw_paths"
"""Metadata of a raw asset: its files and folders below ``raw``."""
STATE = "state"
"""Metadata of its materializations: changes when a file is written, added or deleted."""


def raw_assets(
    declaration: declared_benchmarks.RawInput,
    key: str,
    raw_paths: list[str],
    contents: str = "",
    optional_paths: Sequence[str] = (),
) -> tuple[str, list[dg.AssetsDefinition]]:
    """Key of the raw asset for declared files, and a list with that asset; empty if another declaration defines it.

    Raises BadInput if a path leads out of the lake's ``raw`` folder.
    """
    for name in (*raw_paths, *optional_paths):
        check_raw_name(name, key)
    if declaration.source:
        return declaration.source, []
    return key, [raw_asset(key, raw_paths, contents or declaration.contents, optional_paths)]


class RawFiles(declared_benchmarks.RawFiles, dg.Component, dg.Resolvable):
    """``raw/<name>``: files in the lake's raw folder."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        _, assets = raw_assets(self, f"raw/{self.name}", list(self.paths))
        return dg.Definitions(assets=assets if self.is_in_profile() and is_enabled(self.presets) else [])


def raw_asset(
    key: str, raw_paths: list[str], contents: str = "", optional_paths: Sequence[str] = ()
) -> dg.AssetsDefinition:
    """An asset whose data version is the hash of files or folders in the lake's raw folder.

    The sensors materialize it after changes; downstream assets become stale only if the content differs. ``contents``
    describes the expected files in errors; ``optional_paths`` count if they exist.
    """
    all_paths = [*raw_paths, *optional_paths]

    def hash_files(lake: Lake, log: LogFunction) -> tuple[str, dict[str, Any]]:
        state = describe_state(lake, all_paths)  # first, so that an edit during the hashing is noticed afterwards
        files: list[Path] = []
        present_paths = [name for name in optional_paths if lake.raw_path(name).exists()]
        for name in (*raw_paths, *present_paths):
            path = lake.raw_path(name)
            if not path.exists():
                expected = f" ({contents})" if contents else ""
                raise BadInput(f"does not exist: put the file or folder there{expected}", file=path)
            files += (
                [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file() and _counts(p, path))
            )
        version, facts = _describe_files(lake.root / "raw", files)
        return version, facts | {STATE: state}

    description = f"Raw input: {', '.join(raw_paths)} below the lake's raw folder; its data version is a content hash."
    return files_asset(
        key, hash_files, {RAW_PATHS: all_paths}, description=description, group="raw", code_version="1", kinds=("file",)
    )


def _counts(path: Path, folder: Path) -> bool:
    """Whether a file below a folder is not hidden, as an editor's or a version control's files are."""
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)


def raw_paths_by_asset(repository: dg.RepositoryDefinition) -> dict[dg.AssetKey, list[str]]:
    """Files and folders below ``raw`` of each raw asset of the user's files."""
    graph = repository.asset_graph
    paths = {key: graph.get(key).metadata.get(RAW_PATHS) for key in sorted(graph.get_all_asset_keys())}
    return {key: list(value) for key, value in paths.items() if value}


def stamp_raw_files(lake: Lake, raw_paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Modification time in ns and size in bytes of each file, by its name below ``raw``; reads no content."""
    folder = lake.root / "raw"
    stamps: dict[str, tuple[int, int]] = {}
    for name in raw_paths:
        path = folder / check_raw_name(name)
        below = file_stamps(path.parent if path.is_file() else path)
        stamps |= {p.relative_to(folder).as_posix(): stamp for p, stamp in below.items() if p.is_relative_to(path)}
    return stamps


def describe_state(lake: Lake, raw_paths: Sequence[str]) -> str:
    """Changes when a file is written, added or deleted."""
    return content_id(sorted(stamp_raw_files(lake, raw_paths).items()))


def request_raw_runs(
    repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, lake: Lake
) -> list[dg.RunRequest]:
    """Run requests for raw assets whose files were written, added or deleted since their last materialization.

    Requests nothing for an asset that was never materialized, or that an unfinished backfill or command will be.
    """
    is_planned = find_planned(repository.asset_graph, instance)
    requests: list[dg.RunRequest] = []
    for key, raw_paths in raw_paths_by_asset(repository).items():
        last, event = last_materialization(instance, key)
        if last is None or is_planned(AssetPartition(key, None)):
            continue
        state = describe_state(lake, raw_paths)
        last_state = last.metadata.get(STATE)
        if last_state is None or last_state.value != state:
            requests += request_input_run(instance, key, None, f"{key.to_user_string()}:{state}:{event}")
    return requests


def _describe_files(folder: Path, files: list[Path]) -> tuple[str, dict[str, Any]]:
    """Content hash of files below a folder, and their number and bytes."""
    version = content_id([(str(path.relative_to(folder)), file_id(path)) for path in files])
    return version, {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}


def copy_sample(size: str, folder: Path) -> list[str]:
    """Copy the packaged files of this size atomically; returns their sorted names. Other files are left unchanged."""
    with resources.as_file(resources.files("evidence_assets") / "sample" / size) as packaged:
        names = sorted(path.relative_to(packaged).as_posix() for path in packaged.rglob("*") if path.is_file())
        for name in names:
            with replacing_file(folder / name) as temporary:
                temporary.write_bytes((packaged / name).read_bytes())
    return names


class Sample(dg.Component, dg.Model, dg.Resolvable):
    """``raw/sample``: the packaged sample data."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        def copy_files(lake: Lake, log: LogFunction) -> tuple[str, dict[str, Any]]:
            folder = lake.raw_path("sample")
            return _describe_files(folder, [folder / name for name in copy_sample(profiles.load().sample, folder)])

        description = "The sample world: articles, tables, questions, graphs and seeds, generated from our facts."
        sample = files_asset(
            "raw/sample", copy_files, description=description, group="raw", code_version="1", kinds=("python",)
        )
        return dg.Definitions(assets=[sample])
