"""Dagster's databases in a run of the command line: they sync to disk at checkpoints only."""

from pathlib import Path

import sqlalchemy

from evidence_assets.assets.run_liveness import speed_up_databases


def test_databases_sync_at_checkpoints_only(tmp_path: Path) -> None:
    speed_up_databases()
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/runs.db")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1
