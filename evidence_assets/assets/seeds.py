"""Seed files as assets: the folder, and the seeds of each relation, with one partition per file.

A file with errors is reported and keeps its partition and rows; deleting a file deletes them.
"""

import json
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, cast

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.automation import (
    DATA_VERSION,
    AssetPartition,
    find_planned,
    last_materialization,
    last_version,
    request_input_run,
)
from evidence_assets.assets.raw_files import raw_asset
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.table_asset import OWNER, check_result, table_asset, table_check
from evidence_assets.experiment.stage import StageContext, StageOutput
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake
from evidence_assets.systems.kbloom.rows import build_seed_rows
from evidence_assets.systems.kbloom.scores import load_references
from evidence_assets.systems.kbloom.seeds import (
    Relation,
    collection_folder,
    find_suspect_seeds,
    list_seed_files,
    merged_collections,
    read_seed_folder,
)

RELATIONS = dg.DynamicPartitionsDefinition(name="relations")
SEEDS = dg.AssetKey(["knowledge", "seeds"])
SEED_FOLDER = dg.AssetKey(["raw", "seeds"])
MAX_RELATIONS = 64
"""Maximum relations per lake: merged assets read all, and Dagster tracks staleness only below 100 partitions."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_COPIED_NAMES_FILE = ".placed.json"
_RELATION_TABLES = ("relation_seeds", "prompts", "candidate_tuples")
"""Tables that are partitioned by relation, inputs first; triples are, too, in the assets of harvests."""


@dataclass(frozen=True)
class SeedFiles:
    """Valid relations by partition, errors of the other files, and the partitions of all files."""

    relations: dict[str, Relation]
    errors: tuple[BadInput, ...]
    present: tuple[str, ...]

    @property
    def state(self) -> str:
        """Changes when a file is added or deleted, or when an error changes."""
        return content_id(self.present, [str(error) for error in self.errors])


def read_seeds(lake: Lake) -> SeedFiles:
    """Copy new seed files of the sample and the collections to the lake, then read all seed files."""
    harvesting = profiles.load().harvesting
    seeds_folder = lake.raw_path("seeds")
    seeds_folder.mkdir(parents=True, exist_ok=True)
    if harvesting.is_of_sample:
        _copy_new_files(lake.raw_path("sample/seeds"), seeds_folder, harvesting.sample_relations)
    for collection in harvesting.relations:
        packaged = collection_folder(collection)
        _copy_new_files(packaged, seeds_folder, [path.stem for path in list_seed_files(packaged)])
    folder_contents = read_seed_folder(seeds_folder)
    errors = list(folder_contents.errors)
    relations: dict[str, Relation] = {}
    for relation in folder_contents.relations:
        path = folder_contents.files[relation.id]
        if not _NAME.fullmatch(path.stem):
            errors.append(BadInput("rename the file: only letters, digits, '_', '-', '+' and '.' are valid", file=path))
        elif len(relations) == MAX_RELATIONS:
            errors.append(BadInput(f"a lake can have at most {MAX_RELATIONS} relations: use another lake", file=path))
        else:
            relations[path.stem] = relation
    present = {path.stem for path in list_seed_files(seeds_folder)}
    return SeedFiles(relations, tuple(errors), tuple(sorted(present)))


def _copy_new_files(source: Path, target: Path, names: Iterable[str]) -> None:
    """Copy each file once in the lake's lifetime, so that the user's edits and deletions stay."""
    state = target / _COPIED_NAMES_FILE
    copied_names = set(json.loads(state.read_text())) if state.exists() else set()
    new = [name for name in names if name not in copied_names and (source / f"{name}.yaml").exists()]
    if not new:
        return
    for name in new:
        if not (target / f"{name}.yaml").exists():
            with replacing_file(target / f"{name}.yaml") as temporary:
                shutil.copyfile(source / f"{name}.yaml", temporary)
    with replacing_file(state) as temporary:
        temporary.write_text(json.dumps(sorted(copied_names | set(new)), indent=1) + "\n")


def sync_partitions(files: SeedFiles, lake: Lake, instance: dg.DagsterInstance) -> list[str]:
    """Add partitions of new files, and delete those of deleted files with their rows; returns the latter.

    Each asset with such rows reports a retired materialization, so that a restored file is harvested again.
    """
    name = str(RELATIONS.name)
    if new := sorted(set(files.relations) - set(instance.get_dynamic_partitions(name))):
        instance.add_dynamic_partitions(name, new)
    retired_partitions = find_retired_partitions(files, lake, instance)
    for asset in _list_relation_assets(lake):
        key = dg.AssetKey(asset.split("/"))
        for partition in retired_partitions:
            for table in TABLES:
                lake.delete(table, asset, partition)
            if instance.get_latest_data_version_record(key, partition_key=partition) is not None:
                instance.report_runless_asset_event(
                    dg.AssetMaterialization(
                        key,
                        partition=partition,
                        description="Retired: its seed file was deleted.",
                        tags={DATA_VERSION: "retired"},
                    )
                )
    for partition in retired_partitions:
        instance.delete_dynamic_partition(name, partition)
    return retired_partitions


def _list_relation_assets(lake: Lake) -> list[str]:
    """The assets with rows by relation, inputs first: assets retired later must not look stale because of them."""
    assets = sorted(lake.assets())
    by_table = [asset for name in _RELATION_TABLES for table, asset in assets if table == name]
    harvests = [asset for table, asset in assets if table == "triples" and asset.endswith("/harvest")]
    return list(dict.fromkeys([*by_table, *harvests]))


def find_retired_partitions(files: SeedFiles, lake: Lake, instance: dg.DagsterInstance) -> list[str]:
    """Partitions, registered or with rows, whose file was deleted."""
    partitions = set(instance.get_dynamic_partitions(str(RELATIONS.name)))
    partitions |= {path.stem for table in _RELATION_TABLES for path in lake.files(table)}
    return sorted(partitions - set(files.present))


def request_seed_runs(
    repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, lake: Lake
) -> tuple[list[dg.RunRequest], list[str]]:
    """Run requests for relations that changed since their last materialization, and partitions to add.

    Requests nothing for a change whose run, backfill or command is unfinished.
    """
    files = read_seeds(lake)
    is_planned = find_planned(repository.asset_graph, instance)
    run_requests: list[dg.RunRequest] = []
    for partition, relation in sorted(files.relations.items()):
        version, event = last_version(instance, SEEDS, partition)
        if version != relation.seed_hash and not is_planned(AssetPartition(SEEDS, partition)):
            run_requests += request_input_run(instance, SEEDS, partition, f"{relation.seed_hash}:{event}")
    last, event = last_materialization(instance, SEED_FOLDER)
    if (files.present or event) and not is_planned(AssetPartition(SEED_FOLDER, None)):
        retired = find_retired_partitions(files, lake, instance)
        state = last.metadata.get("state") if last else None
        if retired or state is None or state.value != files.state:
            run_requests += request_input_run(
                instance, SEED_FOLDER, None, f"{files.state}:{content_id(retired)}:{event}"
            )
    existing_partitions = set(instance.get_dynamic_partitions(str(RELATIONS.name)))
    return run_requests, sorted(set(files.relations) - existing_partitions)


@dg.asset(
    key=SEED_FOLDER,
    description="Folder of seed files, one file per relation.",
    group_name="raw",
    owners=[OWNER],
    kinds={"yaml"},
    code_version="1",
    deps=[["raw", "sample"]],
)
def seed_folder(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[Any]:
    opened_lake = lake.open()
    files = read_seeds(opened_lake)
    retired_partitions = sync_partitions(files, opened_lake, context.instance)
    return dg.MaterializeResult(
        # Hashes names, not contents: a change to one file must not make the others stale.
        data_version=dg.DataVersion(content_id(files.present)),
        metadata={
            "state": files.state,
            "relations": len(files.relations),
            "retired": ", ".join(retired_partitions) or "none",
        },
    )


@dg.asset_check(
    asset=SEED_FOLDER, name="seed_files", description="Every seed file is valid; errors name file, line and field."
)
def seed_files_check(lake: LakeResource) -> dg.AssetCheckResult:
    return check_result(read_seeds(lake.open()).errors, dg.AssetCheckSeverity.ERROR)


@dg.asset_check(asset=SEED_FOLDER, name="seed_pairs", description="No seed repeats or contradicts another of its file.")
def seed_pairs_check(lake: LakeResource) -> dg.AssetCheckResult:
    problems = find_suspect_seeds(read_seed_folder(lake.open().raw_path("seeds")))
    return check_result(problems, dg.AssetCheckSeverity.WARN)


def _build_seeds(context: StageContext) -> StageOutput:
    files = read_seeds(context.lake)
    if context.partition in files.relations:
        relation = files.relations[context.partition]
        return StageOutput(build_seed_rows(relation), version=relation.seed_hash)
    for error in files.errors:
        if error.file is not None and str(error.file).rpartition("/")[2].rpartition(".")[0] == context.partition:
            raise error
    raise dg.Failure(f"raw/seeds/{context.partition}.yaml does not exist: restore the file", allow_retries=False)


def _harvested_collections() -> set[str]:
    """Collections of all variants, and those that loaded variants name themselves."""
    loaded = (variant for variant in variants_of("kbloom") if variant.is_loaded)
    named = (cast(Sequence[str], variant.parameters.get("collections", ())) for variant in loaded)
    return {*merged_collections(), *chain.from_iterable(named)}


class Seeds(dg.Component, dg.Model, dg.Resolvable):
    """``raw/seeds`` and ``relation_seeds``, with the sensors and the schedule that re-materialize stale assets."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        # These modules import this one.
        from evidence_assets.assets.change_sensors import follow_apart, follow_data
        from evidence_assets.assets.reextraction import build_schedule

        seeds = table_asset(
            "/".join(SEEDS.path),
            "relation_seeds",
            _build_seeds,
            description="Prompt and seed pairs of each relation, from its file.",
            group="seeds",
            code_version="1",
            partitions=RELATIONS,
            kinds=("parquet", "yaml"),
        )
        harvested = _harvested_collections()
        reference_files = [
            raw_asset(reference.key, list(reference.paths), reference.contents)
            for reference in load_references().values()
            if reference.collection in harvested
        ]
        return dg.Definitions(
            assets=[seed_folder, seeds, *reference_files],
            asset_checks=[seed_files_check, seed_pairs_check, table_check(seeds)],
            sensors=[follow_data, follow_apart],
            schedules=[build_schedule()],
        )
