"""What can be deleted from a lake: folders of assets that are no more, and what killed writers left."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from evidence_assets.lake.store import Lake, asset_folder


def _size(path: Path) -> int:
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) if path.is_dir() else path.stat().st_size


def orphans(lake: Lake, assets: Collection[str]) -> list[tuple[Path, int]]:
    """Folders whose asset is not among ``assets``, and temporary files, each with its size in bytes.

    Run it while nothing is being materialized: a temporary file may belong to a run under way.
    """
    alive = {asset_folder(asset) for asset in assets}
    found = [
        lake.root / table / asset_folder(asset) for table, asset in lake.assets() if asset_folder(asset) not in alive
    ]
    inside = set(found)
    temporary = [p for p in lake.root.rglob(".*.tmp") if not inside & set(p.parents)]
    return [(path, _size(path)) for path in sorted(found + temporary)]


def collect(found: Collection[tuple[Path, int]]) -> None:
    """Delete what ``orphans`` found."""
    for path, _ in found:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
