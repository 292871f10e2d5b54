"""Files of a graph: reused vectors, ignored folders of other rows, long texts encoded whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evidence_assets.graphs.graph_store import build_name_vectors, encode_texts
from evidence_assets.lake.errors import StaleInput
from evidence_assets_tests.graphs.small_graph import graph_of_rows, merged, small_graph
from evidence_assets_tests.systems.small_models import WordEncoder


def test_vectors_are_in_the_order_of_nodes_and_edges(tmp_path: Path) -> None:
    graph, encoder = small_graph(tmp_path), WordEncoder()
    names = encoder.encode_sentences(graph.names.to_list())
    for vectors in (graph.node_vectors, graph.passage_vectors("node")):
        np.testing.assert_allclose(vectors, names, atol=1e-6)
    sentences = [graph.sentence(edge) for edge in range(graph.arrays.n_edges)]
    np.testing.assert_allclose(graph.passage_vectors("edge"), encoder.encode_sentences(sentences), atol=1e-6)
    with pytest.raises(StaleInput, match="open it with an encoder"):
        _ = graph_of_rows("plain", *merged(tmp_path)).node_vectors


def test_vectors_of_unchanged_names_are_reused(tmp_path: Path) -> None:
    model = WordEncoder()
    aliases = pl.Series("aliases", [["b"], []], dtype=pl.List(pl.String))
    nodes = pl.DataFrame({"name": ["a", "c"]}).with_columns(aliases)
    assert build_name_vectors(tmp_path / "v", nodes, model, "m", "1", 10**9) == (3, 0)
    extra_args = nodes.with_columns(pl.Series("name", ["a", "d"]))
    assert build_name_vectors(tmp_path / "v", extra_args, model, "m", "2", 10**9) == (3, 2)
    assert model.encoded_texts == ["a", "c", "b", "d"]
    np.testing.assert_array_equal(
        np.load(tmp_path / "v" / "vectors.npy"), model.encode_sentences(["a", "d", "b"]).astype(np.float16)
    )
    assert build_name_vectors(tmp_path / "v", extra_args, model, "other model", "2", 10**9) == (3, 0)


def test_texts_longer_than_the_encoder_reads_are_the_mean_of_their_chunks() -> None:
    model = WordEncoder()
    long = " ".join(f"Sentence number {i} speaks of things." for i in range(40))
    short, full = encode_texts(model, ["One.", long])
    np.testing.assert_allclose(short, model.encode_sentences(["One."])[0], atol=1e-6)
    assert abs(np.linalg.norm(full) - 1) < 1e-5
    assert encode_texts(model, []).shape == (0, model.dimensions)
