"""The lake: table schemas, identifiers, the atomic Parquet store, the DuckDB catalogue and lineage queries."""

from evidence_assets.lake.catalogue import connect, find_lake, table

__all__ = ["connect", "find_lake", "table"]
