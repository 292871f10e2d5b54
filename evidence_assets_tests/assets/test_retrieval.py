"""A collection in BEIR's layout, from its files to the scores of what a method finds in it."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from bench.measure_variants import paired
from evidence_assets.assets import benchmark as question_assets
from evidence_assets.assets.corpus import Corpus
from evidence_assets.assets.system import variant_defs
from evidence_assets.benchmarks import declared as benchmark
from evidence_assets.benchmarks.declared import Benchmark
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.store import Lake
from evidence_assets_tests.assets.small_worlds import materialize

DOCUMENTS = {"d1": "Quinine treats malaria.", "d2": "Sand becomes glass.", "d3": "Bees make honey.", "d4": "Owls hunt."}
QUERIES = [{"_id": "q1", "text": "What treats malaria?"}, {"_id": "q2", "text": "What do bees and owls do?"}]


@pytest.fixture
def declared(other_settings: pytest.MonkeyPatch) -> Benchmark:
    made = Benchmark(name="mini", task="retrieval", reader="beir", path="mini", corpus="mini")
    other_settings.setattr(benchmark, "declared", lambda folder=None: {"mini": made})
    return made


class Collection:
    """The collection in a lake of its own, and the assets of some variants."""

    def __init__(self, root: Path, documents: dict[str, str], variants: list[Variant]) -> None:
        self.lake = Lake.create(root / "data_lake", question_shards=1, corpus_shards=1)
        folder = self.lake.raw / "mini"
        (folder / "qrels").mkdir(parents=True)
        corpus = [{"_id": name, "title": "", "text": text} for name, text in documents.items()]
        for name, rows in (("corpus", corpus), ("queries", QUERIES)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        judged = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t2\nq2\td4\t1\nq2\td2\t0\n"
        (folder / "qrels" / "test.tsv").write_text(judged)
        loaded = [
            Corpus(name="mini", folder="mini", documents="beir", source="raw/benchmarks/mini"),
            question_assets.Questions(),
        ]
        parts = [component.build_defs(None) for component in loaded]  # type: ignore[arg-type]
        self._defined = dg.Definitions.merge(*parts, *map(variant_defs, variants))
        self.make("0", "corpus/mini/chunks", "corpus/mini/embeddings")
        self.make(None, "corpus/mini/index", "corpus/mini/token_store")
        self.make("mini|0", "questions/retrieval", *(f"evidence/retrieval/{v.name}" for v in variants))
        self.make("mini", *(f"scores/retrieval/{v.name}" for v in variants))

    def make(self, partition: str | None, *keys: str) -> None:
        materialize(self.lake, self._defined, *keys, partition_key=partition)


def test_each_ground_cost_is_served_with_its_own_ranking(declared: Benchmark, tmp_path: Path) -> None:
    """What is stored, and so scored, is the order of the cost, not that of a judge that reads after it."""
    stated = {"parts": "chunks", "grain": "chunk", "titles": False, "k": 9, "judge": 1}
    costs = ("jsd", "cosine")
    variants = [
        Variant(system="uscrake", family="retrieval", name=cost, parameters={**stated, "cost": cost}) for cost in costs
    ]
    documents = DOCUMENTS | {
        "d5": "Bees visit an owl.",
        "d6": "Malaria is a disease of the blood.",
        "d7": "What do owls do at night?",
    }
    world = Collection(tmp_path, documents, variants)
    orders = {}
    for cost in costs:
        rows = world.lake.read("evidence", f"evidence/retrieval/{cost}").sort("question_id", "rank")
        reasons = [json.loads(why) for why in rows["why"]]
        assert [why["chunk_rank"] for why in reasons] == rows["rank"].to_list()
        assert [why["chunk_score"] for why in reasons] == pytest.approx(rows["score"].to_list(), abs=1e-8)
        orders[cost] = rows["source_id"].to_list()
    assert sorted(orders["jsd"]) == sorted(orders["cosine"]) and orders["jsd"] != orders["cosine"]
    with connect(world.lake.root) as connection:
        found = paired(connection, "jsd", "cosine", "mini")
    scores = {(row["selector"], row["metric"]): row["value"] for row in world.lake.read("scores").to_dicts()}
    for metric in ("recall@2", "mrr", "ndcg@10"):
        first, second = (scores[cost, metric] for cost in costs)
        assert found[metric].value == pytest.approx(first - second)
        assert found[metric].low <= found[metric].value <= found[metric].high
