"""A collection in BEIR's layout, from its files to the scores of what a method finds in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets import partitions
from evidence_assets.assets import questions as question_assets
from evidence_assets.assets.corpus import Corpus
from evidence_assets.assets.resources import LakeIOManager, LakeResource
from evidence_assets.assets.system import variant_defs
from evidence_assets.benchmarks import declared as benchmark
from evidence_assets.benchmarks.declared import Benchmark
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.store import Lake

DOCUMENTS = {"d1": "Quinine treats malaria.", "d2": "Sand becomes glass.", "d3": "Bees make honey.", "d4": "Owls hunt."}
CACHES = (benchmark.benchmarks, partitions.benchmark_partitions, partitions.question_partitions)


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Benchmark]:
    made = Benchmark(name="mini", task="retrieval", reader="beir", path="mini", corpus="mini")
    monkeypatch.setattr(benchmark, "declared", lambda folder=None: {"mini": made})
    for cache in CACHES:
        cache.cache_clear()
    yield made
    monkeypatch.undo()
    for cache in CACHES:
        cache.cache_clear()


def test_gold_documents_are_found_and_counted(declared: Benchmark, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "data_lake", question_shards=1, corpus_shards=1)
    folder = lake.raw / "mini"
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": name, "title": "", "text": text} for name, text in DOCUMENTS.items()]
    asked = [{"_id": "q1", "text": "What treats malaria?"}, {"_id": "q2", "text": "What do bees and owls do?"}]
    for name, rows in (("corpus", corpus), ("queries", asked)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t2\nq2\td4\t1\nq2\td2\t0\n"
    (folder / "qrels" / "test.tsv").write_text(judged)

    loaded = [
        Corpus(name="mini", folder="mini", documents="beir", source="raw/benchmarks/mini"),
        question_assets.Questions(),
    ]
    variant = Variant(system="baselines", family="retrieval", name="bm25", method="bm25", parameters={"k": 3})
    parts = [component.build_defs(None) for component in loaded] + [variant_defs(variant)]  # type: ignore[arg-type]
    assets = [a for made in parts for a in made.assets or [] if isinstance(a, dg.AssetsDefinition)]
    resource = LakeResource(root=str(lake.root))

    def make(partition: str | None, *keys: str) -> None:
        dg.materialize(
            assets,
            selection=[dg.AssetKey(key.split("/")) for key in keys],
            partition_key=partition,
            resources={"lake": resource, "lake_io": LakeIOManager(lake=resource)},
        )

    make("0", "corpus/mini/chunks", "corpus/mini/embeddings")
    make(None, "corpus/mini/index")
    make("mini|0", "questions/retrieval", "evidence/retrieval/bm25")
    make("mini", "scores/retrieval/bm25")
    assert {row["doc_id"] for row in lake.read("chunks").to_dicts()} == set(DOCUMENTS)
    scores = {row["metric"]: (row["value"], row["n"]) for row in lake.read("scores").to_dicts()}
    assert scores["recall@2"] == scores["ndcg@10"] == scores["mrr"] == scores["hit@1"] == (1.0, 2)
    assert "evidence_recall" not in scores, "no gold sentence is named"
