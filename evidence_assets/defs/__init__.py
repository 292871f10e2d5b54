"""Orchestration only: what Dagster loads. An asset body here reads tables, calls a system and writes a table."""
