"""Raw inputs: an asset that looks at a user's files and knows when they have changed; and the sample world, copied."""

import shutil
from importlib import resources
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from evidence_assets import profiles
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.table_asset import OWNER, files_asset
from evidence_assets.benchmarks import declared
from evidence_assets.benchmarks.homes import NETWORK_VARIABLE, allowed
from evidence_assets.experiment.stage import Say
from evidence_assets.experiment.variants import is_loaded
from evidence_assets.lake.atomic import mirror_of, replacing_file
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.lake.input_files import stays_below
from evidence_assets.lake.store import Lake


def raw_assets(
    stated: declared.FromRaw, key: str, below_raw: list[str], wanted: str = ""
) -> tuple[str, list[dg.AssetsDefinition]]:
    """Key of the raw asset that the declared files belong to, and that asset where it is its own.

    Raises BadInput where a declaration leads out of the lake's ``raw`` folder.
    """
    for name in below_raw:
        stays_below(name, key)
    if stated.source:
        return stated.source, []
    return key, [raw_asset(key, below_raw, wanted or stated.holds, stated.hub)]


class RawFiles(declared.RawFiles, dg.Component, dg.Resolvable):
    """Makes ``raw/<name>``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        _, made = raw_assets(self, f"raw/{self.name}", list(self.paths))
        return dg.Definitions(assets=made if self.runs_in() and is_loaded(self.presets) else [])


def raw_asset(key: str, below_raw: list[str], wanted: str = "", hub: str = "") -> dg.AssetsDefinition:
    """An asset whose data version is the content of files or folders below the lake's ``raw``; ``wanted`` describes
    those that are missing, unless they may be fetched from ``hub``.

    Materialize it after changing them: what was made of them is then stale, and nothing is where they are the same.
    """

    def look(lake: Lake, say: Say) -> tuple[str, dict[str, Any]]:
        folder = lake.root / "raw"
        files: list[Path] = []
        for name in below_raw:
            place = lake.raw_place(name)
            if not place.exists() and hub and allowed():
                fetch(hub, place)
            if not place.exists():
                asked = f"; it should hold {wanted}" if wanted else ""
                asked += f"; with {NETWORK_VARIABLE}=1 it is fetched from {hub} on the Hugging Face hub" if hub else ""
                raise BadInput(f"is not there: put the file or folder in this place{asked}", file=place)
            files += [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
        version = content_id([(str(path.relative_to(folder)), file_id(path)) for path in files])
        return version, {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}

    said = f"Raw input: {', '.join(below_raw)} below the lake's raw folder, known by its content."
    return files_asset(key, look, description=said, group="raw", code_version="1", kinds=("file",))


def fetch(hub: str, place: Path) -> None:
    """Put a folder of a dataset on the hub into ``place``, whole or not at all; what an earlier try fetched is kept."""
    from huggingface_hub import snapshot_download

    owner, name, inner = hub.split("/", 2)
    partial = place.with_name(f".{place.name}.partial")
    try:
        snapshot_download(f"{owner}/{name}", repo_type="dataset", allow_patterns=f"{inner}/*", local_dir=partial)
    except OSError as error:
        raise BadInput(f"{hub} could not be fetched from the Hugging Face hub: {error}", file=place) from error
    if not (partial / inner).is_dir():
        raise BadInput(f"{hub} holds no files on the Hugging Face hub", file=place)
    if mirror := mirror_of(place):
        mirror.put(partial / inner, place)
    (partial / inner).rename(place)
    shutil.rmtree(partial)


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
