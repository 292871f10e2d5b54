"""The corpus of `bench.retrieval.scale` on a cluster of processes: a Ray head with two workers of one core each.

    EVIDENCE_DEV_DATA=<folder> python -m bench.retrieval.scale --folder FOLDER
    EVIDENCE_DEV_DATA=<folder> python -m bench.retrieval.scale_on_ray --folder FOLDER [--size 1000000]

The documents of the first command are put into the store's ``raw`` as a user would put them, a backfill of the corpus
makes its chunks, vectors, index and token statistics, and the Parquet files are compared with those in the folder.
The extras are those of `tools.cluster`. The processes of the cluster load their definitions from this module, so that
they know the vectors of the sentences.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from obstore.store import S3Store

from bench.retrieval.scale import NAME, SHARDS, use
from evidence_assets.definitions import defs as defs  # read by the cluster's processes
from tools.cluster import backfill, compared, log_seconds, run_backfill
from tools.cluster_processes import REPOSITORY, Cluster

SENTENCES = "SCALE_FOLDER"
"""Variable of the cluster's processes: the folder with the sentences' vectors."""
PARTITIONED, WHOLE = ("chunks", "embeddings"), ("index", "token_store")

if SENTENCES in os.environ:
    use(Path(os.environ[SENTENCES]))


def put(environment: dict[str, str], documents: Path) -> None:
    """Upload the documents and the corpus' declaration."""
    declaration = f"type: evidence_assets.assets.corpus.Corpus\nattributes: {{name: {NAME}, folder: corpora/{NAME}}}\n"
    store = S3Store(
        "lake",
        prefix="main",
        endpoint=environment["AWS_ENDPOINT_URL"],
        region=environment["AWS_REGION"],
        access_key_id=environment["AWS_ACCESS_KEY_ID"],
        secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True},
    )
    store.put(f"declarations/corpus/{NAME}/defs.yaml", declaration.encode())
    for path in documents.iterdir():
        store.put(f"raw/corpora/{NAME}/{path.name}", path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="folder of bench.retrieval.scale")
    parser.add_argument("--size", type=int, default=1_000_000)
    options = parser.parse_args()
    folder = options.folder.resolve()
    os.environ |= {
        SENTENCES: str(folder),
        "EVIDENCE_PROFILE": str(folder / "scale.yaml"),
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
    }
    (folder / str(options.size) / "cluster").mkdir()
    cluster = Cluster(folder / str(options.size) / "cluster", module="bench.retrieval.scale_on_ray")
    try:
        cluster.postgres()
        cluster.start_store()
        with log_seconds("the documents are in the store"):
            put(cluster.environment, folder / str(options.size) / "source")
        cluster.start_all()
        shards = {"partitions": {"ranges": [{"start": str(shard), "end": str(shard)} for shard in range(SHARDS)]}}
        assets: list[dict[str, Any]] = [{"assetKey": {"path": ["raw", "corpora", NAME]}}]
        assets += [{"assetKey": {"path": ["corpus", NAME, stage]}} | shards for stage in PARTITIONED]
        assets += [{"assetKey": {"path": ["corpus", NAME, stage]}} for stage in WHOLE]
        with log_seconds("backfilled"):
            state = run_backfill(cluster, backfill(cluster, assets, "first"), lambda running: None)
        return compared(cluster, folder / str(options.size) / "lake") if state == "COMPLETED_SUCCESS" else 1
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
