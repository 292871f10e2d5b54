"""Raw inputs: assets that hash the user's files, and the packaged sample data."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.table_asset import files_asset
from evidence_assets.benchmarks import declared_benchmarks
from evidence_assets.experiment.stage import LogFunction
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.lake.input_files import check_raw_name
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.presets import is_enabled


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

    Materialize it after changing them; downstream assets become stale only if the content differs. ``contents``
    describes the expected files in errors; ``optional_paths`` count if they exist.
    """

    def hash_files(lake: Lake, log: LogFunction) -> tuple[str, dict[str, Any]]:
        files: list[Path] = []
        present_paths = [name for name in optional_paths if lake.raw_path(name).exists()]
        for name in (*raw_paths, *present_paths):
            path = lake.raw_path(name)
            if not path.exists():
                expected = f" ({contents})" if contents else ""
                raise BadInput(f"does not exist: put the file or folder there{expected}", file=path)
            files += [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        return _describe_files(lake.root / "raw", files)

    description = f"Raw input: {', '.join(raw_paths)} below the lake's raw folder; its data version is a content hash."
    return files_asset(key, hash_files, description=description, group="raw", code_version="1", kinds=("file",))


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
