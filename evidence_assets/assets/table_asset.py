"""Table assets: keys, metadata, previews, data versions, row reuse and the check ``sound``.

A component passes the function that returns rows; this module adds what Dagster needs.
"""

import base64
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NotRequired, TypedDict, Unpack

import dagster as dg
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.assets.planning import pace_metadata
from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.run_liveness import history_id, raise_interruptions
from evidence_assets.experiment.stage import LogFunction, StageContext, StageOutput
from evidence_assets.lake.catalogue import connect, lake_location
from evidence_assets.lake.errors import TemporarilyUnavailable
from evidence_assets.lake.lineage import find_dangling_edges, history_rows
from evidence_assets.lake.rows import PreparedRows, Rows, prepare_rows
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake, table_url
from evidence_assets.reasoning.model_calls import usage_metadata

OWNER = "team:evidence"
PREVIEW_ROWS = 5
MAX_RETRIES = 3
"""Retries of a step whose model is unavailable."""
FIRST_RETRY_DELAY_S = 30.0
"""Seconds before the first retry; the delay doubles each time."""
READ_ATTEMPTS = 3
"""Attempts of a check to read a lake in which another process replaces files."""
FAIL_FAST_TAG = "evidence/at_once"
"""Tag of runs started at a terminal: they fail immediately instead of retrying."""
PREVIEW_WIDTH = 160
HISTORY_TABLES = {"evidence", "chains", "predictions", "triples", "scores"}
"""Tables with a row history for `evidence diff`; chunks and vectors are too large."""
MAX_HISTORY_ROWS = 1_000_000
"""Maximum rows of a partition with a history; a larger one would take gigabytes of memory."""


def _format_preview_cell(value: Any) -> str:
    text = " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
    return text if len(text) <= PREVIEW_WIDTH else text[: PREVIEW_WIDTH - 1] + "…"


def preview_rows(rows: pa.Table) -> dg.MetadataValue:  # type: ignore[type-arg]
    """The first rows as a Markdown table, with escaped and shortened cells."""
    names = [name for name in rows.column_names if name != "vector"]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in rows.slice(0, PREVIEW_ROWS).to_pylist():
        lines.append("| " + " | ".join(_format_preview_cell(row[name]) for name in names) + " |")
    return dg.MetadataValue.md("\n".join(lines))


def picture_metadata(pictures: Mapping[str, str]) -> dict[str, dg.MetadataValue]:  # type: ignore[type-arg]
    """SVG pictures by name as Markdown, which the Dagster UI shows."""
    encoded = {name: base64.b64encode(picture.encode()).decode() for name, picture in pictures.items()}
    return {name: dg.MetadataValue.md(f"![{name}](data:image/svg+xml;base64,{data})") for name, data in encoded.items()}


def column_schema(table: str) -> dg.TableSchema:
    """The table's declared columns for Dagster."""
    return dg.TableSchema(
        [
            dg.TableColumn(
                c.name, str(c.type), c.metadata[b"description"].decode(), dg.TableColumnConstraints(nullable=c.nullable)
            )
            for c in TABLES[table].arrow
        ]
    )


class CommonOptions(TypedDict):
    """Options of every asset."""

    description: str
    group: str
    code_version: str
    pool: NotRequired[str | None]
    tags: NotRequired[Mapping[str, str]]


class AssetOptions(CommonOptions, total=False):
    deps: Iterable[dg.AssetDep | str]
    partitions: dg.PartitionsDefinition | None  # type: ignore[type-arg]
    kinds: Sequence[str]


def _asset(key: str, options: AssetOptions, **arguments: Any) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """The decorator ``dg.asset`` with these options."""
    decorator: Callable[[Callable[..., Any]], dg.AssetsDefinition] = dg.asset(
        key=key.split("/"),
        description=options["description"],
        group_name=options["group"],
        owners=[OWNER],
        kinds=set(options.get("kinds", ("parquet",))),
        code_version=options["code_version"],
        deps=[depends_on(d) if isinstance(d, str) else d for d in options.get("deps", ())],
        partitions_def=options.get("partitions"),
        tags=dict(options.get("tags", {})),
        pool=options.get("pool"),
        **arguments,
    )
    return decorator


def table_asset(
    key: str, table: str, make: Callable[[StageContext], StageOutput], **options: Unpack[AssetOptions]
) -> dg.AssetsDefinition:
    """An asset whose rows of ``table`` come from calling ``make`` once per partition.

    The data version is the rows' content hash, so that unchanged rows leave downstream assets fresh.
    """
    folder = dg.MetadataValue.url(table_url(lake_location(), table, key))
    metadata = {"table": table, "dagster/column_schema": column_schema(table), "dagster/uri": folder}

    @_asset(key, options, metadata=metadata)
    def materialize(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[Any]:
        start = time.monotonic()
        stage_context = StageContext(
            lake.open(), table, key, _partition_of(context), context.log.info, context.log.warning
        )
        output = _compute(make, stage_context, context)
        rows = prepare_rows(table, output.rows)
        output.rows = PreparedRows(rows)  # frees the unprepared rows
        metadata = _describe_output(output, rows, time.monotonic() - start)
        previous_version = stage_context.lake.stored_version(table, key, stage_context.partition)
        version = stage_context.lake.write(key, stage_context.partition, _output_tables(output, stage_context))[table]
        metadata |= usage_metadata(model.usage for model in stage_context.language_models)
        metadata["file_changed"] = version != previous_version
        url = table_url(stage_context.lake.address, table, key, stage_context.partition)
        metadata["dagster/uri"] = dg.MetadataValue.url(url)
        if table in HISTORY_TABLES and rows.num_rows <= MAX_HISTORY_ROWS:
            _record_history(history_id(context.run), stage_context, rows)
        metadata |= output.metadata
        return dg.MaterializeResult(data_version=dg.DataVersion(output.version or version), metadata=metadata)

    return materialize


def _partition_of(context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> str:
    return str(context.partition_key) if context.has_partition_key else ""


def _compute(
    make: Callable[[StageContext], StageOutput], stage_context: StageContext, context: dg.AssetExecutionContext
) -> StageOutput:
    """The output of ``make``; a temporary failure is retried, except in runs that fail fast."""
    try:
        with raise_interruptions():
            return make(stage_context)
    except TemporarilyUnavailable as error:
        if context.retry_number >= MAX_RETRIES or FAIL_FAST_TAG in context.run.tags:
            raise
        delay = FIRST_RETRY_DELAY_S * 2**context.retry_number
        context.log.warning(f"{error}; retrying in {delay:.0f} s")
        raise dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=delay) from error


def _record_history(run_id: str, context: StageContext, rows: pa.Table) -> None:
    history = history_rows(context.table, rows, run_id, context.asset, context.partition)
    context.lake.record_history(run_id, context.asset, context.partition, history)


def _output_tables(output: StageOutput, stage_context: StageContext) -> dict[str, Rows]:
    """The rows to write, by table: those of the output, their lineage and the models that they come from."""
    tables = {stage_context.table: output.rows, **output.other_tables}
    models: list[dict[str, Any]] = [
        *stage_context.encoder_rows,
        *(model.row for model in stage_context.language_models),
    ]
    if models:
        tables["models"] = list({row["model_id"]: row for row in models}.values())
    if output.lineage is not None:
        tables["lineage_edges"] = output.lineage
    return tables


def _describe_output(output: StageOutput, rows: pa.Table, seconds: float) -> dict[str, Any]:
    """Metadata: pictures, the first rows, their number, how many were reused, and the time."""
    metadata: dict[str, Any] = {**picture_metadata(output.pictures), "preview": preview_rows(rows)}
    metadata["seconds"] = round(seconds, 2)
    if output.reused is not None:
        metadata |= {"rows_reused": output.reused, "rows_computed": rows.num_rows - output.reused}
        metadata |= pace_metadata(rows, output.reused, seconds)
    return metadata | {"dagster/row_count": rows.num_rows}


def files_asset(
    key: str,
    make: Callable[[Lake, LogFunction], tuple[str, Mapping[str, Any]]],
    metadata: Mapping[str, Any] | None = None,
    **options: Unpack[AssetOptions],
) -> dg.AssetsDefinition:
    """An asset of files, not rows: ``make`` returns the data version and metadata of a materialization."""

    @_asset(key, options, metadata=metadata)
    def materialize(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[Any]:
        with raise_interruptions():
            version, facts = make(lake.open(), context.log.info)
        return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=facts)

    return materialize


def depends_on(key: str, mapping: dg.PartitionMapping | None = None) -> dg.AssetDep:
    """A dependency on the asset with this key, written with slashes."""
    return dg.AssetDep(key.split("/"), partition_mapping=mapping)


def table_check(
    asset: dg.AssetsDefinition,
    row_check: Callable[[pl.DataFrame], list[str]] | None = None,
    warning_check: Callable[[pl.DataFrame], list[str]] | None = None,
) -> dg.AssetChecksDefinition:
    """The blocking check ``sound`` of every table asset: every lineage parent exists with the recorded version.

    ``row_check`` returns further problems. The problems of ``warning_check`` are the check ``complete``, which does not
    block. The schema and the order of rows are checked when they are written.
    """
    key = asset.key
    name = "/".join(key.path)
    table = str(asset.metadata_by_key[key]["table"])
    specs = _check_specs(asset, table)
    if warning_check is None:
        del specs[1]

    @dg.multi_asset_check(name=f"{key.to_python_identifier()}_sound", specs=specs)
    def check_table(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
        opened_lake = lake.open()
        partition = _partition_of(context)
        path = opened_lake.path(table, name, partition)
        n_rows = pq.read_metadata(path).num_rows if path.exists() else 0
        problems = [] if path.exists() else ["the partition's file does not exist"]
        problems += _find_broken_edges(opened_lake, name, partition)
        if row_check is not None:
            problems += row_check(opened_lake.read(table, name, partition))
        yield check_result(problems, dg.AssetCheckSeverity.ERROR, "sound", rows=n_rows)
        if warning_check is not None:
            warnings = warning_check(opened_lake.read(table, name, partition))
            yield check_result(warnings, dg.AssetCheckSeverity.WARN, "complete", rows=n_rows)

    return check_table


def _check_specs(asset: dg.AssetsDefinition, table: str) -> list[dg.AssetCheckSpec]:
    build_spec = partial(dg.AssetCheckSpec, asset=asset.key, partitions_def=asset.partitions_def)
    sound = f"The rows of {table} are valid: their lineage parents exist and are unchanged."
    complete = f"The rows of {table} lack little of what they are computed from."
    return [build_spec("sound", description=sound, blocking=True), build_spec("complete", description=complete)]


def check_result(
    problems: Sequence[object], severity: dg.AssetCheckSeverity, name: str | None = None, **metadata: int
) -> dg.AssetCheckResult:
    """The result of a check that found these problems."""
    text = dg.MetadataValue.md("\n".join(map(str, problems)) or "none")
    return dg.AssetCheckResult(
        passed=not problems, check_name=name, severity=severity, metadata={**metadata, "problems": text}
    )


@lru_cache(maxsize=1)
def _open_lake(root: Path) -> duckdb.DuckDBPyConnection:
    """A connection for all checks of a process: opening one takes as long as a check."""
    return connect(root, lazy=True, memory=None)


def _find_broken_edges(lake: Lake, asset: str, partition: str) -> list[str]:
    """The first five lineage edges of a partition whose parent is missing or has another version."""
    path = lake.path("lineage_edges", asset, partition)
    if not path.exists():
        return []
    with raise_interruptions():
        edges = _read_dangling_edges(lake, path)
    return [
        f"{edge['child_kind']} {edge['child_id']} depends on {edge['parent_kind']} {edge['parent_id']}, which "
        + ("has changed since" if edge["present"] else "does not exist")
        for edge in edges[:5]
    ]


def _read_dangling_edges(lake: Lake, lineage: Path) -> list[dict[str, Any]]:
    for _ in range(READ_ATTEMPTS - 1):
        with suppress(duckdb.Error):
            return find_dangling_edges(_open_lake(lake.root), lineage)
        _open_lake.cache_clear()
    return find_dangling_edges(_open_lake(lake.root), lineage)
