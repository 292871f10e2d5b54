"""The lake: table schemas, identifiers, the atomic Parquet store, the DuckDB catalogue and what is asked of it."""
