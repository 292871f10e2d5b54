"""What every asset that makes rows has in common: keys, metadata, previews, data versions, reuse and its check.

A component gives the function that makes the rows; this module adds everything that Dagster needs.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Required, TypedDict, Unpack

import dagster as dg
import polars as pl
import pyarrow as pa

from evidence_assets.assets.planning import pace_metadata
from evidence_assets.assets.resources import LakeResource, asset_name, step_options
from evidence_assets.experiment.stage import Say, StageContext, StageOutput
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.errors import TemporarilyUnavailable
from evidence_assets.lake.lineage import find_dangling_edges, history_rows
from evidence_assets.lake.rows import check_row_order, decode_columns, prepare_rows, version_of
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.model_calls import Usage

OWNER = "team:evidence"
PREVIEW_ROWS = 5
MAX_RETRIES, FIRST_RETRY_DELAY_S = 3, 30.0
"""Retries of a step whose model may be there soon, and seconds before the first; doubled each time."""
FAIL_FAST_TAG = "evidence/at_once"
"""Tag of runs that somebody waits for at a terminal: they fail immediately instead of retrying."""
PREVIEW_WIDTH = 160
HISTORY_TABLES = {"evidence", "chains", "predictions", "triples", "scores"}
"""Tables whose rows a later reader compares between runs; vectors and chunks are too many and tell a person nothing."""


def _format_preview_cell(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    text = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
    return text if len(text) <= PREVIEW_WIDTH else text[: PREVIEW_WIDTH - 1] + "…"


def preview(rows: pa.Table) -> dg.MetadataValue:  # type: ignore[type-arg]
    """The first rows as a Markdown table; cell text is escaped and cut for display only."""
    names = [name for name in rows.column_names if name != "vector"]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in decode_columns(rows.slice(0, PREVIEW_ROWS)).to_pylist():
        lines.append("| " + " | ".join(_format_preview_cell(row[name]) for name in names) + " |")
    return dg.MetadataValue.md("\n".join(lines))


def column_schema(table: str) -> dg.TableSchema:
    """Dagster's view of a table's declared columns."""
    return dg.TableSchema(
        [
            dg.TableColumn(c.name, str(c.type), c.description, dg.TableColumnConstraints(nullable=c.nullable))
            for c in TABLES[table].columns
        ]
    )


class AssetOptions(TypedDict, total=False):
    """Options of an asset besides its key and its function."""

    description: Required[str]
    group: Required[str]
    code_version: Required[str]
    deps: Iterable[dg.AssetDep | str]
    partitions: dg.PartitionsDefinition | None  # type: ignore[type-arg]
    kinds: Sequence[str]
    pool: str | None
    hands_out: bool
    tags: Mapping[str, str]


def _asset(key: str, options: AssetOptions, **more: Any) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """``dg.asset`` with these options."""
    decorator: Callable[[Callable[..., Any]], dg.AssetsDefinition] = dg.asset(
        key=key.split("/"),
        description=options["description"],
        group_name=options["group"],
        owners=[OWNER],
        kinds=set(options.get("kinds", ("parquet",))),
        code_version=options["code_version"],
        deps=[dep(d) if isinstance(d, str) else d for d in options.get("deps", ())],
        partitions_def=options.get("partitions"),
        tags=dict(options.get("tags", {})),
        **step_options(options.get("pool"), hands_out=options.get("hands_out", False)),
        **more,
    )
    return decorator


def table_asset(
    key: str,
    table: str,
    make: Callable[[StageContext], StageOutput],
    **options: Unpack[AssetOptions],
) -> dg.AssetsDefinition:
    """An asset that makes rows of ``table`` by calling ``make`` once a partition.

    The data version is the content hash of the rows, so that the same rows leave everything downstream fresh.
    """

    metadata = {"table": table, "dagster/column_schema": column_schema(table)}

    @_asset(key, options, metadata=metadata)
    def materialize(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[Any]:
        started = time.monotonic()
        partition = str(context.partition_key) if context.has_partition_key else ""
        name = asset_name(context.asset_key)
        step = StageContext(lake.open(), table, name, partition, context.log.info, context.log.warning)
        try:
            output = make(step)
        except TemporarilyUnavailable as error:
            if context.retry_number >= MAX_RETRIES or FAIL_FAST_TAG in context.run.tags:
                raise
            wait = FIRST_RETRY_DELAY_S * 2**context.retry_number
            context.log.warning(f"{error}; tried again in {wait:.0f} s")
            raise dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=wait) from error
        rows = output.rows = prepare_rows(table, output.rows)  # what it was made of is let go
        tables = {table: rows, **{name: prepare_rows(name, beside) for name, beside in output.beside.items()}}
        if models := {row["model_id"]: row for row in (*step.encoded_by, *(model.row for model in step.asked))}:
            tables["models"] = prepare_rows("models", list(models.values()))
        if output.lineage is not None:
            tables["lineage_edges"] = prepare_rows("lineage_edges", output.lineage)
        elapsed = time.monotonic() - started
        numbers: dict[str, Any] = {"preview": preview(rows), "seconds": round(elapsed, 2)}
        if output.reused is not None:
            numbers |= {"rows_reused": output.reused, "rows_computed": rows.num_rows - output.reused}
            numbers |= pace_metadata(rows, output.reused, elapsed)
        numbers |= Usage.metadata(model.usage for model in step.asked)
        written = step.lake.write(step.asset, step.partition, tables)[table]
        if table in HISTORY_TABLES:
            history = history_rows(table, rows, context.run.run_id, step.asset, step.partition)
            step.lake.record_history(context.run.run_id, step.asset, step.partition, history)
        numbers |= {"dagster/row_count": written.rows, "dagster/uri": step.lake.uri(written.path)}
        numbers |= {"bytes": written.bytes, "file_changed": written.changed}
        return dg.MaterializeResult(
            data_version=dg.DataVersion(output.version or version_of(rows)), metadata={**numbers, **output.metadata}
        )

    return materialize


def files_asset(
    key: str, make: Callable[[Lake, Say], tuple[str, Mapping[str, Any]]], **options: Unpack[AssetOptions]
) -> dg.AssetsDefinition:
    """An asset that is files and not rows: ``make`` returns its data version and its metadata."""

    @_asset(key, options)
    def materialize(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[Any]:
        version, metadata = make(lake.open(), context.log.info)
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)

    return materialize


def dep(key: str, mapping: dg.PartitionMapping | None = None) -> dg.AssetDep:
    """A dependency on an asset by its key as text."""
    return dg.AssetDep(key.split("/"), partition_mapping=mapping)


def table_check(
    asset: dg.AssetsDefinition,
    extra: Callable[[pl.DataFrame], list[str]] | None = None,
    against: Callable[[pl.DataFrame, Lake], list[str]] | None = None,
) -> dg.AssetChecksDefinition:
    """The blocking check of every table asset: the stored file keeps the promises of its schema and lineage.

    It reads the file block by block: declared columns and types, unique keys, sorted rows, and no lineage parent that
    is absent or of another version. ``extra`` and ``against`` (the rest of the lake) return what else is wrong.
    """
    key = asset.key
    table = str(asset.metadata_by_key[key]["table"])

    @dg.asset_check(
        asset=key,
        name="sound",
        blocking=True,
        partitions_def=asset.partitions_def,
        **step_options(),
        description=f"Schema, unique keys and order of {table}; every lineage parent exists with the version used.",
    )
    def _sound(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> dg.AssetCheckResult:
        opened = lake.open()
        partition = str(context.partition_key) if context.has_partition_key else ""
        name = asset_name(key)
        path = opened.path(table, name, partition)
        number, ordered = check_row_order(table, path) if path.exists() else (0, True)
        wrong = [] if path.exists() else ["the partition's file is missing"]
        wrong += [] if ordered else ["rows are not sorted by their key"]
        lineage = opened.path("lineage_edges", name, partition)
        if lineage.exists():
            with connect(opened.root, lazy=True, memory=None) as connection:
                lost = find_dangling_edges(connection, lineage)
            wrong += [
                f"{edge['child_kind']} {edge['child_id']} rests on {edge['parent_kind']} {edge['parent_id']}, which "
                + ("has changed since" if edge["present"] else "does not exist")
                for edge in lost
            ][:5]
        if extra is not None or against is not None:
            rows = opened.read(table, name, partition)
            wrong += [*(extra(rows) if extra else []), *(against(rows, opened) if against else [])]
        return dg.AssetCheckResult(
            passed=not wrong,
            metadata={"rows": number, "wrong": dg.MetadataValue.md("\n".join(wrong) or "nothing")},
        )

    return _sound
