"""Texts that stand for nodes and edges: search over them, and encoding only what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import evidence_assets.lake.blocks
from evidence_assets.experiment.stage import StageContext
from evidence_assets.graphs import passages as graph_passages
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.passages import fact_passages, node_passages, passage_lineage, passage_table
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import FloatArray
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.systems.four_step_focus.test_system import BASE, NAMES
from evidence_assets_tests.systems.small_models import WordEncoder


def passages(graph: KnowledgeGraph, previous: pl.DataFrame | None = None) -> tuple[pl.DataFrame, int, WordEncoder]:
    encoder = WordEncoder()
    before = as_stored("kg_passages", []) if previous is None else previous
    table, reused = passage_table(node_passages(graph, encoder), before, encoder, "words@1")
    rows = as_stored("kg_passages", table)
    assert len(passage_lineage(table)) == rows.height
    return rows, reused, encoder


def test_only_changed_texts_are_encoded_again() -> None:
    before, _, _ = passages(BASE)
    documents = pl.Series([*BASE.documents[:6], "Gout is old."])
    changed = replace(BASE, node_column=lambda name: documents if name == "document" else BASE.node_column(name))
    after, reused, encoder = passages(changed, before)
    assert reused == before.height - 1
    assert encoder.encoded_texts == ["gout (disease): Gout is old."]
    fresh, _, _ = passages(changed)
    assert after.equals(fresh)


def test_vectors_encoded_before_a_fault_are_reused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(graph_passages, "TEXTS_PER_BLOCK", 3)
    monkeypatch.setattr(evidence_assets.lake.blocks, "BLOCK_SECONDS", 0.0)
    step = StageContext(
        Lake.create(tmp_path, question_shards=1, corpus_shards=1), "kg_passages", "knowledge/base/passages"
    )
    full, _, _ = passages(BASE)

    class Breaks(WordEncoder):
        def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
            if len(self.encoded_texts) >= 6:
                raise OSError("the card fell off the bus")
            return super().encode_sentences(texts)

    encoder = Breaks()
    with pytest.raises(OSError, match="fell off"):
        passage_table(node_passages(BASE, encoder), step.previous_rows(), encoder, "words@1", step.blocks)
    after, reused, rerun = passages(BASE, step.previous_rows())
    assert after.equals(full)
    assert reused == 6 and not set(rerun.encoded_texts) & set(encoder.encoded_texts)


def test_passages_of_a_graph_are_names_and_sentences() -> None:
    output = list(fact_passages(BASE))
    assert [p.text for p in output[:7]] == list(NAMES)
    assert {p.text for p in output[7:]} >= {"aspirin treats fever"}
    assert {p.owner_id for p in output[7:]} == set(BASE.edge_ids)
