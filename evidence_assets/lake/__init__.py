"""The lake: table schemas, ids, atomic Parquet files, SQL with DuckDB, and lineage queries."""

from evidence_assets.lake.catalogue import connect, find_lake, table
from evidence_assets.lake.graph_data import graph

__all__ = ["connect", "find_lake", "graph", "table"]
