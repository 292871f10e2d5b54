"""Raw inputs that a user puts into the lake: an asset that looks at them and knows when they have changed."""

from pathlib import Path
from typing import Any

import dagster as dg

from evidence_assets.components.table_asset import OWNER
from evidence_assets.defs.resources import LakeResource
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_id


def raw_asset(key: str, below_raw: list[str]) -> dg.AssetsDefinition:
    """An asset whose data version is the content of files or folders below the lake's ``raw``.

    Materialize it after changing them: what was made of them is then stale, and nothing is where they are the same.
    """

    @dg.asset(
        key=key.split("/"),
        description=f"Raw input: {', '.join(below_raw)} below the lake's raw folder, known by its content.",
        group_name="raw",
        owners=[OWNER],
        kinds={"file"},
        code_version="1",
    )
    def _raw(lake: LakeResource) -> dg.MaterializeResult[Any]:
        folder = lake.open().raw
        files: list[Path] = []
        for name in below_raw:
            place = folder / name
            if not place.exists():
                raise BadInput("is not there: put the file or folder in this place", file=place)
            files += [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
        version = content_id([(str(path.relative_to(folder)), file_id(path)) for path in files])
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={"files": len(files), "bytes": sum(path.stat().st_size for path in files)},
        )

    return _raw
