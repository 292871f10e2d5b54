"""Finds and deletes orphans: folders of removed assets, and temporary files of killed writers."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from evidence_assets.lake.atomic import is_abandoned
from evidence_assets.lake.mirror import child_names, delete_path, file_sizes
from evidence_assets.lake.store import BLOCKS_FOLDER, Lake, asset_folder


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(file_sizes(path).values())


def find_orphans(lake: Lake, assets: Collection[str]) -> list[tuple[Path, int]]:
    """Folders of assets that are not in ``assets``, and abandoned files, each with its size in bytes."""
    current = {asset_folder(asset) for asset in assets}
    folders = [folder for t, a in lake.assets() if (folder := lake.root / t / asset_folder(a)).name not in current]
    folders += [lake.root / BLOCKS_FOLDER / n for n in child_names(lake.root / BLOCKS_FOLDER) if n not in current]
    corpora = {asset.split("/")[1] for asset in assets if asset.startswith("corpus/")}
    folders += [folder for folder in (lake.cache / "tokens").glob("*") if folder.name not in corpora]
    leftovers = [path for path in find_abandoned_files(lake) if not set(folders) & set(path.parents)]
    return sorted((path, _size(path)) for path in folders + leftovers)


def find_abandoned_files(lake: Lake) -> list[Path]:
    """Temporary files and folders of killed writers."""
    paths = [path for pattern in (".*.tmp", ".*.old") for path in lake.root.rglob(pattern) if is_abandoned(path)]
    return [path for path in paths if not set(paths) & set(path.parents)]


def delete_abandoned_files(lake: Lake) -> None:
    """Delete temporary files of killed writers, except those of raw files, whose writers replace them."""
    delete_orphans([(path, 0) for path in find_abandoned_files(lake) if not path.is_relative_to(lake.root / "raw")])


def delete_orphans(paths: Collection[tuple[Path, int]]) -> None:
    """Delete the paths that ``find_orphans`` returned."""
    for path, _ in paths:
        delete_path(path)
