"""Raw inputs: the files of the sample world, copied into the lake."""

from importlib import resources
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from evidence_assets import profiles
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.table_asset import OWNER
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.ids import content_id, file_id

VERSION = "1"


@dg.asset(
    key=["raw", "sample"],
    description="The sample world: articles, tables, questions, graphs and seeds, written from this project's facts.",
    group_name="raw",
    owners=[OWNER],
    kinds={"python"},
    code_version=VERSION,
)
def raw_sample(lake: LakeResource) -> dg.MaterializeResult[Any]:
    folder = lake.open().raw_place("sample")
    names = copy_sample(profiles.load().sample, folder)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(content_id([(name, file_id(folder / name)) for name in names])),
        metadata={
            "files": len(names),
            "bytes": sum((folder / name).stat().st_size for name in names),
            "rows": dg.MetadataValue.json({name: _rows(folder / name) for name in names}),
        },
    )


def copy_sample(size: str, folder: Path) -> list[str]:
    """Copy the packaged files of this size, each whole or not at all; returns their names in order.

    Other files in the folder stay.
    """
    with resources.as_file(resources.files("evidence_assets") / "sample" / size) as packaged:
        names = sorted(path.relative_to(packaged).as_posix() for path in packaged.rglob("*") if path.is_file())
        for name in names:
            with replacing_file(folder / name) as temporary:
                temporary.write_bytes((packaged / name).read_bytes())
    return names


def _rows(file: Path) -> int:
    """Pairs of a seed file, lines of any other."""
    text = file.read_text(encoding="utf-8")
    return len(yaml.safe_load(text)["pairs"]) if file.suffix == ".yaml" else text.count("\n")


class Sample(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``raw/sample``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return dg.Definitions(assets=[raw_sample])
