"""Two tiny encoders rank the same chunks, each in separate assets."""

from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

from evidence_assets import profiles
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.lake import connect
from evidence_assets.lake.lineage import impact, trace
from evidence_assets.lake.store import Lake
from evidence_assets.models.registry import get_encoder
from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world
from evidence_assets_tests.models.tiny import make_encoder

pytestmark = pytest.mark.long
PARTITION = "sample_mcqa|0"
TABLES = ("evidence", "chains", "predictions", "citations")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    folder = tmp_path_factory.mktemp("two")
    # The second reads less than the chunks are cut to for the first.
    encoders = ", ".join(
        f"tiny_{letter}: {{name: '{make_encoder(folder / letter, seed, positions)}'}}"
        for letter, seed, positions in (("a", 1, 128), ("b", 5, 104))
    )
    lines = ["name: two", "presets: [encoders]", f"encoders: {{{encoders}}}"]
    with small_world(folder / "world", lines) as keys:
        keys.make("raw/sample")
        keys.make("questions/mcqa", partition=PARTITION)
        keys.make("corpus/sample/chunks", "corpus/sample/embeddings", partition="0")
        keys.make("corpus/sample/index")
        keys.make(*(f"{table}/mcqa/cosine" for table in TABLES), partition=PARTITION)
        yield keys


def _files(lake: Lake) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for asset in ("corpus.sample", "mcqa.cosine")
        for path in lake.root.rglob(f"asset=*{asset}*/**/*.parquet")
        if "tiny_b" not in str(path)
    }


def test_the_second_encoder_has_only_the_assets_that_loaded_variants_read(world: SmallWorld) -> None:
    keys = {key.to_user_string() for key in world.graph.materializable_asset_keys}
    second_keys = {
        key for key in keys if key.startswith(("corpus/", "knowledge/", "subgraphs/")) and key.endswith("/tiny_b")
    }
    assert second_keys == {
        f"{key}/tiny_b"
        for key in (
            "corpus/sample/embeddings",
            "corpus/sample/index",
            "knowledge/sample/node_vectors",
            "knowledge/sample/passages",
            "knowledge/sample_skb/passages",
            "knowledge/sample_skb/passage_index",
            "subgraphs/mcqa",
        )
    }
    assert "tiny_a" not in " ".join(keys), "the first one's keys are as they were"
    vectors = world.graph.get(
        next(k for k in world.graph.materializable_asset_keys if k.path[-2:] == ["index", "tiny_b"])
    )
    assert "model/tiny_b" in vectors.tags and vectors.group_name == "corpus_sample_tiny_b"


def test_the_second_encoder_ranks_differently_and_overwrites_nothing(world: SmallWorld) -> None:
    before = _files(world.lake)
    world.make("corpus/sample/embeddings/tiny_b", partition="0")
    world.make("corpus/sample/index/tiny_b")
    world.make(*(f"{table}/mcqa/cosine/tiny_b" for table in TABLES), partition=PARTITION)
    assert before and _files(world.lake) == before
    first, second = (world.rows("evidence", f"evidence/mcqa/cosine{e}") for e in ("", "/tiny_b"))
    assert set(first["question_id"]) == set(second["question_id"]) and set(second["selector"]) == {"cosine@tiny_b"}
    assert not set(first["evidence_id"]) & set(second["evidence_id"])
    columns = ["question_id", "option", "rank", "source_id"]
    assert first.select(columns).join(second.select(columns), on=columns).height < 0.9 * first.height
    best = second.sort("evidence_id").row(0, named=True)
    (question,) = build_questions(
        world.rows("questions", "questions/mcqa").filter(pl.col("question_id") == best["question_id"])
    )
    model = get_encoder(profiles.load().with_models({"encoder": "tiny_b"}).encoder)
    query = model.encode_sentences([question.query(dict(question.hypotheses)[best["option"]])])[0]
    embeddings = world.rows("chunk_embeddings", "corpus/sample/embeddings/tiny_b")
    vector = embeddings.filter(pl.col("chunk_id") == best["source_id"])["vector"][0].to_numpy().astype(np.float32)
    assert best["score"] == pytest.approx(float(vector @ query), abs=1e-3), "its vectors are compared with each other"


def test_lineage_leads_to_the_encoder_and_its_revision_and_back(world: SmallWorld) -> None:
    evidence = world.rows("evidence", "evidence/mcqa/cosine/tiny_b")
    (model,) = set(world.rows("models", "evidence/mcqa/cosine/tiny_b")["model_id"])
    with connect(world.lake.root) as connection:
        parents = {(node.kind, node.id) for node in trace(connection, evidence["evidence_id"][0]).next}
        nodes = [impact(connection, model)]
        for node in nodes:
            nodes += node.next
    assert ("model", model) in parents
    assert {"evidence", "chunk_embedding", "prediction"} <= {node.kind for node in nodes}
