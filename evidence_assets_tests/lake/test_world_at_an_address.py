"""The sample world in an S3 store equals a local one, byte by byte, and another machine can read it."""

import json
from pathlib import Path

import pytest

from evidence_assets.lake.mirror import Mirror
from evidence_assets.lake.schemas import TABLES
from evidence_assets_tests.conftest import World, new_world, run_python
from evidence_assets_tests.lake.stores import faulty_proxy, new_bucket, s3_environment, s3_server


@pytest.mark.long
def test_a_benchmark_run_in_a_store_over_a_faulty_network_equals_a_local_run(
    made_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server() as server, faulty_proxy(server) as proxy:
        address = new_bucket(server)
        worlds = [new_world(tmp_path / name) for name in ("one", "other")]

        def run(world: World, *command: str) -> str:
            locations = {"EVIDENCE_LAKE": address, "EVIDENCE_CACHE": str(world.root / "cache")}
            variables = world.environment | s3_environment(proxy.address) | locations
            return run_python("-m", "evidence_assets.cli", *command, timeout=600, env=variables)

        proxy.failures += ["503", "", "", "reset", "", "cut"] * 15
        run(worlds[0], "run", "sample_tables")
        assert proxy.failed == 45
        for name, value in s3_environment(server).items():
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
        sql = "SELECT prediction_id FROM predictions ORDER BY 1 LIMIT 1"
        [row] = json.loads(run(worlds[1], "query", sql, "--format", "json"))
        assert row["prediction_id"] in run(worlds[1], "trace", row["prediction_id"], "--json")
        assert not (worlds[0].root / "data_lake").exists() and any((worlds[1].root / "cache").iterdir())
