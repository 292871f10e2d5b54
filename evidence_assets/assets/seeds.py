"""Seed files as assets: the folder, the seeds of each relation, and the weekly look at all."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.following import follow_apart, follow_data
from evidence_assets.assets.raw_files import raw_asset
from evidence_assets.assets.relations import FOLDER, RELATIONS, SEEDS, look, settle
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.table_asset import OWNER, sound_check, table_asset
from evidence_assets.experiment.stage import StageContext, StageOutput
from evidence_assets.lake.ids import content_id
from evidence_assets.systems.kbloom.references import references
from evidence_assets.systems.kbloom.rows import seed_rows

WEEKLY = "30 3 * * 1"


@dg.asset(
    key=FOLDER,
    description="The folder of seed files, one relation each: which are there, and what is wrong with any.",
    group_name="raw",
    owners=[OWNER],
    kinds={"yaml"},
    code_version="1",
    deps=[["raw", "sample"]],
)
def seed_folder(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[Any]:
    opened = lake.open()
    files = look(opened)
    gone = settle(files, opened, context.instance)
    rows = [f"| {name} | {r.collection} | {len(r.pairs)} | {r.seed_hash[:12]} |" for name, r in files.relations.items()]
    return dg.MaterializeResult(
        # which files are there, not what they say: a change of one must not touch the others
        data_version=dg.DataVersion(content_id(files.present)),
        metadata={
            "state": files.state,
            "relations": len(files.relations),
            "retired": ", ".join(gone) or "none",
            "files": dg.MetadataValue.md(
                "\n".join(["| file | collection | pairs | hash |", "|---|---|---|---|", *rows])
            ),
        },
    )


@dg.asset_check(
    asset=FOLDER,
    name="seed_files",
    description="Every seed file can be read; what cannot is named by file, line and field.",
)
def seed_files_check(lake: LakeResource) -> dg.AssetCheckResult:
    files = look(lake.open())
    wrong = [str(error) for error in files.errors]
    return dg.AssetCheckResult(
        passed=not wrong,
        metadata={"relations": len(files.relations), "wrong": dg.MetadataValue.md("\n".join(wrong) or "nothing")},
    )


def _make_seeds(step: StageContext) -> StageOutput:
    files = look(step.lake)
    if step.partition in files.relations:
        relation = files.relations[step.partition]
        return StageOutput(
            seed_rows(relation), metadata={"collection": relation.collection}, version=relation.seed_hash
        )
    for error in files.errors:
        if error.file is not None and str(error.file).rpartition("/")[2].rpartition(".")[0] == step.partition:
            raise error
    raise dg.Failure(f"there is no seed file {step.partition}.yaml (any more)", allow_retries=False)


@dg.schedule(
    name="weekly",
    # A job has one kind of partitions: passages have those of a corpus.
    target=dg.AssetSelection.assets(FOLDER, SEEDS)
    | dg.AssetSelection.key_prefixes(["knowledge"]) - dg.AssetSelection.key_substring("/passages"),
    cron_schedule=WEEKLY,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Looks at every seed file and every harvest again; what is unchanged is taken over.",
)
def weekly(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
    moment = context.scheduled_execution_time.isoformat()
    yield dg.RunRequest(run_key=f"{moment}:folder", asset_selection=[FOLDER])
    graph = context.repository_def.asset_graph
    by_relation = [key for key in graph.materializable_asset_keys if graph.get(key).partitions_def == RELATIONS]
    for partition in context.instance.get_dynamic_partitions(str(RELATIONS.name)):
        yield dg.RunRequest(run_key=f"{moment}:{partition}", partition_key=partition, asset_selection=by_relation)


class Seeds(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``raw/seeds`` and ``relation_seeds``, and follows what changes, their folder included."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        seeds = table_asset(
            "/".join(SEEDS.path),
            "relation_seeds",
            _make_seeds,
            description="Prompt and seed pairs of each relation, as its file states them; its version is their content.",
            group="seeds",
            code_version="1",
            partitions=RELATIONS,
            kinds=("parquet", "yaml"),
        )
        merged = profiles.load().harvesting.collections
        compared = [
            raw_asset(one.key, list(one.paths), one.holds) for one in references().values() if one.collection in merged
        ]
        return dg.Definitions(
            assets=[seed_folder, seeds, *compared],
            asset_checks=[seed_files_check, sound_check(seeds)],
            sensors=[follow_data, follow_apart],
            schedules=[weekly],
        )
