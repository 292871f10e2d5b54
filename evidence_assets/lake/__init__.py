"""The lake: table schemas, identifiers, the atomic Parquet store, the DuckDB catalogue and the questions asked of it."""
