"""What can be deleted from a lake: folders of assets that are no more, and what killed writers left."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from evidence_assets.lake.atomic import is_abandoned
from evidence_assets.lake.mirror import child_names, delete_path, file_sizes
from evidence_assets.lake.store import BLOCKS_FOLDER, Lake, asset_folder


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(file_sizes(path).values())


def find_orphans(lake: Lake, assets: Collection[str]) -> list[tuple[Path, int]]:
    """Folders whose asset is not among ``assets``, and what killed writers left, each with its size in bytes."""
    kept = {asset_folder(asset) for asset in assets}
    folders = [
        folder for table, asset in lake.assets() if (folder := lake.root / table / asset_folder(asset)).name not in kept
    ]
    folders += [lake.root / BLOCKS_FOLDER / name for name in child_names(lake.root / BLOCKS_FOLDER) if name not in kept]
    corpora = {asset.split("/")[1] for asset in assets if asset.startswith("corpus/")}
    folders += [folder for folder in (lake.cache / "tokens").glob("*") if folder.name not in corpora]
    left = [path for path in find_abandoned_files(lake) if not set(folders) & set(path.parents)]
    return sorted((path, _size(path)) for path in folders + left)


def find_abandoned_files(lake: Lake) -> list[Path]:
    """Temporary files and folders that nobody writes any more."""
    paths = [path for pattern in (".*.tmp", ".*.old") for path in lake.root.rglob(pattern) if is_abandoned(path)]
    return [path for path in paths if not set(paths) & set(path.parents)]


def delete_abandoned_files(lake: Lake) -> None:
    """Delete what killed writers left; raw files aside, whose writers replace their own."""
    delete_orphans([(path, 0) for path in find_abandoned_files(lake) if not path.is_relative_to(lake.root / "raw")])


def delete_orphans(paths: Collection[tuple[Path, int]]) -> None:
    """Delete what ``orphans`` found."""
    for path, _ in paths:
        delete_path(path)
