"""BM25 and embedding cosine, over chunks and over cells."""

from __future__ import annotations

from typing import Any

from evidence_assets import profiles
from evidence_assets.assets.models_in_use import encoder
from evidence_assets.assets.selector_methods.method import Method, chunks_kept, corpus_of
from evidence_assets.assets.table_asset import Step
from evidence_assets.benchmarks.records import Table
from evidence_assets.benchmarks.rows import table_of
from evidence_assets.experiment.selection import Selector
from evidence_assets.systems.baselines import system as baselines


def chunks_in(step: Step) -> baselines.Chunks:
    """The chunks of the corpus that the partition's benchmark is answered from."""
    corpus = corpus_of(step)
    return baselines.Chunks(corpus.version, corpus.chunks["chunk_id"].to_list(), corpus.chunks["text"].to_list())


def _bm25(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    return baselines.Bm25Chunks(name, chunks_in(step), chunks_kept(parameters))


def _cosine(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    index = corpus_of(step).index
    return baselines.CosineChunks(
        name, chunks_in(step), index, encoder(profiles.load().encoder), chunks_kept(parameters)
    )


def tables_of(step: Step) -> dict[str, tuple[Table, str]]:
    """The tables of the partition's benchmark with their content hashes, by id."""
    rows = step.read("tables", "tables", step.benchmark)
    return {row["table_id"]: (table_of(row), row["content_hash"]) for row in rows.to_dicts()}


def _bm25_cells(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    return baselines.CellSelector(name, tables_of(step), baselines.bm25_cells, chunks_kept(parameters), "bm25")


def _cosine_cells(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    model = encoder(profiles.load().encoder)
    version = f"cosine:{model.model_id}:{model.revision}"
    return baselines.CellSelector(
        name, tables_of(step), baselines.cosine_cells(model), chunks_kept(parameters), version
    )


METHODS: dict[str, Method] = {
    "bm25": Method(_bm25, ("corpus",), ("k",), baselines.VERSION),
    "cosine": Method(_cosine, ("corpus",), ("k",), baselines.VERSION),
    "bm25_cells": Method(_bm25_cells, ("tables",), ("k",), baselines.VERSION),
    "cosine_cells": Method(_cosine_cells, ("tables",), ("k",), baselines.VERSION),
}
