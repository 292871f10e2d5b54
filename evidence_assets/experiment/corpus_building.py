"""A corpus made of documents: chunks, vectors, index and token store, each by one function that knows no Dagster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evidence_assets import profiles
from evidence_assets.benchmarks.chunk_store import ChunkStore
from evidence_assets.benchmarks.corpora import FileGroup
from evidence_assets.benchmarks.declared_benchmarks import benchmarks
from evidence_assets.experiment.evidence.sources import record_encoder
from evidence_assets.experiment.stage import LogFunction, StageContext, StageOutput, discard_message, report_progress
from evidence_assets.graphs.graph_store import encode_texts
from evidence_assets.lake.array_files import release_memory
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.lineage import DERIVED, GENERATED
from evidence_assets.lake.rows import build_table
from evidence_assets.lake.store import Lake, asset_folder
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.profiles import ModelSettings
from evidence_assets.retrieval import corpus as rows
from evidence_assets.retrieval import index_building, token_store
from evidence_assets.retrieval.corpus_files import write_corpus_files
from evidence_assets.retrieval.embedding import BlockMap, embed
from evidence_assets.retrieval.token_cache import TextTokens
from evidence_assets.retrieval.vector_index import IndexMeta

TokenStorage = Literal["stored", "on_demand"]
MAX_STORED_BYTES = 2_000_000_000
"""Bytes of token vectors up to which a corpus keeps those of all its chunks."""
BYTES_PER_TOKEN_ROW = 21
"""Bytes of a token's row besides its vector, as measured."""


def open_parts(lake: Lake, name: str) -> ChunkStore:
    """The chunks of a corpus by portion."""
    return ChunkStore(lake.folder(f"cache/{asset_folder(f'corpus/{name}/chunks')}"))


def cut_into_chunks(
    lake: Lake, name: str, portions: Sequence[FileGroup], inform: LogFunction = discard_message
) -> tuple[ChunkStore, int]:
    """The chunks of all shards by portion, and how many portions were cut anew because they changed."""
    profile = profiles.load()
    model = get_encoder(profile.encoder)
    parts = open_parts(lake, name)
    with lake.lock(f"corpus/{name}/parts"):
        count = parts.update(
            portions,
            model,
            model_key(model),
            profile.chunking.max_tokens,
            profile.shards.corpus,
            report_progress("bytes cut into chunks", inform),
        )
    return parts, count


def choose_token_storage(parts: ChunkStore) -> TokenStorage:
    """Whether the token vectors of all chunks are kept, as of a small corpus, or made on demand."""
    dimensions = get_encoder(profiles.load().token_encoder).dimensions
    return "stored" if parts.tokens * (2 * dimensions + BYTES_PER_TOKEN_ROW) <= MAX_STORED_BYTES else "on_demand"


def build_chunks(step: StageContext, name: str, portions: Sequence[FileGroup]) -> StageOutput:
    """The chunks of the step's shard; the first shard that is made cuts what has changed, for all of them."""
    parts, count = cut_into_chunks(step.lake, name, portions, step.inform)
    table = parts.read_shard(step.shard)
    documents = len(table.column("doc_id").unique())
    tokens = pc.sum(table.column("n_tokens")).as_py() or 0
    return StageOutput(table, metadata={"documents": documents, "tokens": tokens, "portions_cut": count})


def build_embeddings(step: StageContext, name: str, over: BlockMap = map) -> StageOutput:
    """One vector a chunk of the step's shard; of a chunk that is too long for the encoder, its pieces are encoded."""
    settings = assign_gpu(step.profile.encoder, step.shard)
    model = get_encoder(settings)
    columns = ["chunk_id", "doc_id", "text", "n_tokens", "source"]
    texts = step.lake.read("chunks", f"corpus/{name}/chunks", step.partition, columns).sort("chunk_id")
    waiting: list[pa.Table] = []

    def keep(table: pa.Table, last: bool) -> None:
        waiting.append(table)
        if last or step.blocks.is_due():
            step.blocks.store({"chunk_embeddings": pa.concat_tables(waiting)})
            waiting.clear()

    table, reused = embed(
        texts,
        step.previous_rows(),
        model,
        model_key(model),
        keep,
        step.progress("chunks encoded"),
        partial(_vectors, settings, bool(step.encoder)),
        over,
    )
    ids = table.column("chunk_id").to_pylist()
    lineage = [_edges(ids, DERIVED, "chunk", ids)]
    if key := record_encoder(step):
        lineage.append(_edges(ids, GENERATED, "model", [key] * len(ids)))
    return StageOutput(table, pa.concat_tables(lineage), {"model": model_key(model)}, reused)


def _vectors(settings: ModelSettings, in_pieces: bool, texts: Sequence[str]) -> FloatArray:
    """Vectors of texts by the encoder of these settings, in whatever process."""
    # The inner one: what remembers sentences for those who ask would remember the last of the corpus instead.
    inner = get_encoder(settings).inner
    return encode_texts(inner, texts) if in_pieces else inner.encode_sentences(texts)


def _edges(ids: list[str], relation: str, kind: str, parents: list[str]) -> pa.Table:
    """Lineage of vectors, each of one parent."""
    same = {"child_kind": "chunk_embedding", "relation": relation, "parent_kind": kind}
    columns = {"child_id": ids, "parent_id": parents, "parent_version": parents}
    return build_table("lineage_edges", {**columns, **{name: [value] * len(ids) for name, value in same.items()}})


def assign_gpu(settings: ModelSettings, shard: int) -> ModelSettings:
    """The settings of a model that works on a shard: where there are several cards, shards take turns on them."""
    import torch

    count = torch.cuda.device_count()
    if settings.device != "auto" or count < 2:
        return settings
    return settings.model_copy(update={"device": f"cuda:{shard % count}"})


def build_index(lake: Lake, name: str, inform: LogFunction = discard_message, of: str = "") -> IndexMeta:
    """Write the files that answers read, with the index over all shards of the vectors of the encoder ``of``."""
    settings = profiles.load()
    partitions, vectors = rows.embedded_shards(lake, name, of), rows.embeddings_key(name, of)
    models = [lake.read("chunk_embeddings", vectors, p, ["model_id"])["model_id"][:1] for p in partitions]
    with replacing_folder(lake.index_folder(rows.index_key(name, of))) as folder:
        count = write_corpus_files(folder, rows.read_shards(lake, name, of))
        release_memory()
        return index_building.write_index(
            folder,
            built_from=rows.corpus_version(lake, name, of),
            model_id=next((model[0] for model in models if len(model)), ""),
            memory=settings.index.bytes,
            kind=settings.index.kind,
            neighbours=settings.retrieval.R,
            queries=_questions(lake, name, of) if count > index_building.MAX_FLAT_VECTORS else None,
            progress=report_progress("vectors in the index", inform),
        )


def _questions(lake: Lake, name: str, of: str) -> npt.NDArray[np.float32] | None:
    """Vectors of some questions that are asked of the corpus; None where the lake holds none."""
    texts: list[str] = []
    for benchmark in benchmarks().values():
        if benchmark.corpus == name:
            asked = lake.read(
                "questions", f"questions/{benchmark.family}", columns=["benchmark", "question_id", "text"]
            )
            own = asked.filter(asked["benchmark"] == benchmark.name).sort("question_id")
            texts += own["text"][: index_building.RECALL_QUERIES].to_list()
    profile = profiles.load().with_models({"encoder": of} if of else {})
    return get_encoder(profile.encoder).encode_sentences(texts[: index_building.RECALL_QUERIES]) if texts else None


def build_token_store(
    lake: Lake, name: str, kept: TokenStorage, over: BlockMap = map
) -> tuple[token_store.StoreMeta, int]:
    """The token store over all shards, and how many chunks were taken over."""
    settings = profiles.load().token_encoder
    model = get_encoder(settings).inner
    place, texts = lake.index_folder(f"corpus/{name}/token_store"), rows.read_chunk_texts(lake, name)
    version = rows.chunks_version(lake, name)
    return token_store.build_store(
        place,
        texts,
        model,
        model_key(model),
        version,
        vectors=kept == "stored",
        encode=partial(_tokens, settings),
        map_blocks=over,
    )


def _tokens(settings: ModelSettings, texts: Sequence[str]) -> list[TextTokens]:
    """Tokens of texts by the encoder of these settings, in whatever process."""
    return token_store.encode_block(get_encoder(settings).inner, texts)


def build_corpus(
    lake: Lake, name: str, portions: Sequence[FileGroup], inform: LogFunction, tokens: TokenStorage = "stored"
) -> dict[str, Any]:
    """All of a corpus, in order; returns how many chunks there are and how many were taken over unchanged."""
    base, reused, count = f"corpus/{name}", 0, 0
    for shard in range(profiles.load().shards.corpus):
        partition = str(shard)
        step = StageContext(lake, "chunks", f"{base}/chunks", partition, inform)
        inform("cutting documents into chunks")
        lake.write(step.asset, partition, {"chunks": build_chunks(step, name, portions).rows})
        step = StageContext(lake, "chunk_embeddings", f"{base}/embeddings", partition, inform)
        inform("encoding chunks")
        made = build_embeddings(step, name)
        assert made.lineage is not None
        lake.write(step.asset, partition, {"chunk_embeddings": made.rows, "lineage_edges": made.lineage})
        reused += made.reused or 0
        count += len(made.rows)
    inform("building the index")
    build_index(lake, name, inform)
    inform("keeping the vectors of tokens")
    build_token_store(lake, name, tokens)
    return {"chunks": count, "reused": reused}
