"""The sample world in an S3 store is the one in a folder, byte by byte, and another machine reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evidence_assets.lake.mirror import Mirror
from evidence_assets.lake.schemas import TABLES
from evidence_assets_tests.conftest import World, new_world
from evidence_assets_tests.lake.stores import failing, new_bucket, reached_by, s3_server


@pytest.mark.long
def test_a_benchmark_made_at_an_address_by_a_failing_network_equals_the_one_made_in_a_folder(
    made_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server() as server, failing(server) as door:
        address = new_bucket(server)
        worlds = [new_world(tmp_path / name) for name in ("one", "other")]

        def run(world: World, *command: str) -> str:
            places = {"EVIDENCE_LAKE": address, "EVIDENCE_CACHE": str(world.root / "cache")}
            done = subprocess.run(
                [sys.executable, "-m", "evidence_assets.cli", *command],
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
                env=os.environ | world.environment | reached_by(door.address) | places,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        door.failures += ["503", "", "", "reset", "", "cut"] * 15
        run(worlds[0], "run", "sample_tables")
        assert door.failed == 45
        for name, value in reached_by(server).items():
            monkeypatch.setenv(name, value)
        mirror, local = Mirror(address, tmp_path / "mirror"), made_world.root / "data_lake"
        for table in TABLES:
            mirror.fetch_folder(mirror.root / table)
        compared = 0
        for path in mirror.root.rglob("*.parquet"):
            name = path.relative_to(mirror.root)
            if name.parts[0] in TABLES and name.parts[0] != "history":
                assert path.read_bytes() == (local / name).read_bytes(), name
                compared += 1
        assert compared > 20
        asked = "SELECT prediction_id FROM predictions ORDER BY 1 LIMIT 1"
        [row] = json.loads(run(worlds[1], "query", asked, "--format", "json"))
        assert row["prediction_id"] in run(worlds[1], "trace", row["prediction_id"], "--json")
        assert not (worlds[0].root / "data_lake").exists() and any((worlds[1].root / "cache").iterdir())
