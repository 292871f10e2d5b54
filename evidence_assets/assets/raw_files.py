"""Raw inputs: an asset that looks at a user's files and knows when they have changed; and the sample world, copied."""

from importlib import resources
from pathlib import Path
from typing import Any

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.table_asset import files_asset
from evidence_assets.benchmarks import declared_benchmarks
from evidence_assets.experiment.stage import Say
from evidence_assets.experiment.variants import is_loaded
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.lake.input_files import check_raw_name
from evidence_assets.lake.store import Lake


def raw_assets(
    stated: declared_benchmarks.FromRaw, key: str, below_raw: list[str], wanted: str = ""
) -> tuple[str, list[dg.AssetsDefinition]]:
    """Key of the raw asset that the declared files belong to, and that asset where it is its own.

    Raises BadInput where a declaration leads out of the lake's ``raw`` folder.
    """
    for name in below_raw:
        check_raw_name(name, key)
    if stated.source:
        return stated.source, []
    return key, [raw_asset(key, below_raw, wanted or stated.holds)]


class RawFiles(declared_benchmarks.RawFiles, dg.Component, dg.Resolvable):
    """Makes ``raw/<name>``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        _, made = raw_assets(self, f"raw/{self.name}", list(self.paths))
        return dg.Definitions(assets=made if self.runs_in() and is_loaded(self.presets) else [])


def raw_asset(key: str, below_raw: list[str], wanted: str = "") -> dg.AssetsDefinition:
    """An asset whose data version is the content of files or folders below the lake's ``raw``; ``wanted`` describes
    them where they are missing.

    Materialize it after changing them: what was made of them is then stale, and nothing is where they are the same.
    """

    def look(lake: Lake, say: Say) -> tuple[str, dict[str, Any]]:
        folder = lake.root / "raw"
        files: list[Path] = []
        for name in below_raw:
            place = lake.raw_path(name)
            if not place.exists():
                expected = f"; it should hold {wanted}" if wanted else ""
                raise BadInput(f"is not there: put the file or folder in this place{expected}", file=place)
            files += [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
        version = content_id([(str(path.relative_to(folder)), file_id(path)) for path in files])
        return version, {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}

    said = f"Raw input: {', '.join(below_raw)} below the lake's raw folder, known by its content."
    return files_asset(key, look, description=said, group="raw", code_version="1", kinds=("file",))


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


class Sample(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``raw/sample``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        def copy(lake: Lake, say: Say) -> tuple[str, dict[str, Any]]:
            folder = lake.raw_path("sample")
            names = copy_sample(profiles.load().sample, folder)
            version = content_id([(name, file_id(folder / name)) for name in names])
            return version, {"files": len(names), "bytes": sum((folder / name).stat().st_size for name in names)}

        about = "The sample world: articles, tables, questions, graphs and seeds, written from this project's facts."
        sample = files_asset("raw/sample", copy, description=about, group="raw", code_version="1", kinds=("python",))
        return dg.Definitions(assets=[sample])
