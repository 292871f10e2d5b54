"""The resources that assets ask for: the lake, and the IO manager that joins Dagster to it."""

from __future__ import annotations

from typing import Any

import dagster as dg
import polars as pl

from evidence_assets import profiles
from evidence_assets.assets.placing import executor
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.lineage import history_rows
from evidence_assets.lake.store import Lake

# Tables whose rows a later reader compares between runs; vectors and chunks are too many and say nothing to a person.
HISTORY_TABLES = {"evidence", "chains", "predictions", "triples", "scores"}


class LakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The lake: a folder, found as the command line finds it where none is named."""

    root: str = ""

    def open(self) -> Lake:
        """The lake, made where there is none, with this profile's shard counts frozen into it."""
        shards = profiles.load().shards
        return Lake.create(self.root or find_lake(), question_shards=shards.questions, corpus_shards=shards.corpus)


def asset_name(key: dg.AssetKey) -> str:
    """Asset key as the lake writes it."""
    return "/".join(key.path)


class LakeIOManager(dg.ConfigurableIOManager):
    """Writes what an asset hands over as rows of the table that its metadata names; reads it back as Polars frames.

    An asset hands over one prepared Arrow table, or a mapping of table names to them where lineage belongs to it.
    """

    lake: LakeResource

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        table = self._table(context)
        tables = obj if isinstance(obj, dict) else {table: obj}
        asset = asset_name(context.asset_key)
        partition = context.asset_partition_key if context.has_asset_partitions else ""
        lake = self.lake.open()
        written = lake.write(asset, partition, tables)
        if table in HISTORY_TABLES:
            rows = history_rows(table, tables[table], context.run_id, asset, partition)
            lake.record_history(context.run_id, asset, partition, rows)
        main = written[table]
        context.add_output_metadata(
            {
                "dagster/row_count": main.rows,
                "dagster/uri": lake.uri(main.path),
                "bytes": main.bytes,
                "file_changed": main.changed,
            }
        )

    def load_input(self, context: dg.InputContext) -> pl.DataFrame:
        upstream = context.upstream_output
        assert upstream is not None
        lake, asset, table = self.lake.open(), asset_name(context.asset_key), self._table(upstream)
        if not context.has_asset_partitions:
            return lake.read(table, asset)
        return pl.concat([lake.read(table, asset, key) for key in context.asset_partition_keys])

    @staticmethod
    def _table(context: dg.OutputContext) -> str:
        metadata = context.definition_metadata
        if "table" not in metadata:
            raise dg.DagsterInvariantViolationError(
                f"asset {context.asset_key.to_user_string()} goes to the lake but its metadata does not say to which "
                'table: add metadata={"table": "<name>"}'
            )
        return str(metadata["table"])


class Resources(dg.Component, dg.Model, dg.Resolvable):
    """The lake and its IO manager, and what carries steps out."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        lake = LakeResource()
        return dg.Definitions(resources={"lake": lake, "lake_io": LakeIOManager(lake=lake)}, executor=executor())
