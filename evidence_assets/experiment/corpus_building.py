"""Building a corpus from documents: chunks, vectors, index and token store, without Dagster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence_assets import profiles
from evidence_assets.benchmarks.chunk_store import ChunkStore
from evidence_assets.benchmarks.corpora import FileGroup
from evidence_assets.experiment.evidence.sources import record_encoder
from evidence_assets.experiment.rows import batches
from evidence_assets.experiment.stage import LogFunction, ProgressReporter, StageContext, StageOutput, discard_message
from evidence_assets.experiment.variants import variants
from evidence_assets.graphs.graph_store import encode_texts
from evidence_assets.lake.array_files import open_description, release_memory
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.lineage import DERIVED, GENERATED
from evidence_assets.lake.rows import build_table
from evidence_assets.lake.store import Lake, asset_folder
from evidence_assets.models.protocols import FloatArray, LocalEncoder
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.retrieval import corpus as rows
from evidence_assets.retrieval import index_building, token_store
from evidence_assets.retrieval.corpus_files import hash_texts, write_corpus_files
from evidence_assets.retrieval.embedding import Encode, embed
from evidence_assets.retrieval.token_cache import TEXTS_PER_SEGMENT, TokenCache, token_cache_folder
from evidence_assets.retrieval.vector_index import IndexMeta

MAX_CHUNKS_WITH_TOKENS = 2048
"""Largest corpus whose tokens are cached while its chunks are encoded: up to 200 MB of the embedded encoder."""


def open_chunks(lake: Lake, name: str) -> ChunkStore:
    return ChunkStore(lake.folder(f"cache/{asset_folder(f'corpus/{name}/chunks')}"))


def update_chunks(
    lake: Lake, name: str, groups: Sequence[FileGroup], inform: LogFunction = discard_message
) -> tuple[ChunkStore, int]:
    """Chunk new and changed file groups; return the chunks of all groups, and the number of groups chunked."""
    profile = profiles.load()
    model = get_encoder(profile.encoder)
    store = open_chunks(lake, name)
    with lake.lock(f"corpus/{name}/parts"):
        count = store.update(
            groups,
            model,
            model_key(model),
            profile.chunking.max_tokens,
            profile.shards.corpus,
            ProgressReporter("bytes cut into chunks", inform),
        )
    return store, count


def build_chunks(context: StageContext, name: str, groups: Sequence[FileGroup]) -> StageOutput:
    """Chunks of one shard; the first shard to run chunks the changed files of all shards."""
    store, count = update_chunks(context.lake, name, groups, context.inform)
    table = store.read_shard(context.shard)
    documents = len(table.column("doc_id").unique())
    tokens = pc.sum(table.column("n_tokens")).as_py() or 0
    return StageOutput(table, metadata={"documents": documents, "tokens": tokens, "portions_cut": count})


def build_embeddings(context: StageContext, name: str) -> StageOutput:
    """One vector per chunk of one shard; a chunk longer than the encoder's limit is encoded in pieces."""
    model = get_encoder(context.profile.encoder)
    inner = model.inner  # the outer encoder's sentence cache should keep questions, not chunks
    columns = ["chunk_id", "doc_id", "text", "n_tokens", "source"]
    texts = context.lake.read("chunks", f"corpus/{name}/chunks", context.partition, columns).sort("chunk_id")
    pending: list[pa.Table] = []

    def checkpoint(table: pa.Table) -> None:
        pending.append(table)
        if context.blocks.is_due():
            context.blocks.store({"chunk_embeddings": pa.concat_tables(pending)})
            pending.clear()

    table, reused = embed(
        texts,
        context.previous_rows(),
        partial(encode_texts, inner) if context.encoder else _chunk_encoder(context.lake, name, len(texts)),
        model_key(model),
        model.dimensions,
        checkpoint,
        context.progress("chunks encoded"),
    )
    ids = table.column("chunk_id").to_pylist()
    lineage = [_edges(ids, DERIVED, "chunk", ids)]
    if key := record_encoder(context):
        lineage.append(_edges(ids, GENERATED, "model", [key] * len(ids)))
    return StageOutput(table, pa.concat_tables(lineage), {"model": model_key(model)}, reused)


def _chunk_encoder(lake: Lake, name: str, chunks: int) -> Encode:
    """Encodes chunks; the tokens of a small corpus are cached, so that ranking need not encode it once more."""
    profile = profiles.load()
    model = get_encoder(profile.encoder)
    inner = cast(LocalEncoder, model.inner)
    if chunks > MAX_CHUNKS_WITH_TOKENS or model is not get_encoder(profile.token_encoder):
        return inner.encode_sentences
    cache = TokenCache(token_cache_folder(lake, name), inner, max_bytes=profile.retrieval.token_cache_bytes)

    def encode(texts: Sequence[str]) -> FloatArray:
        vectors = []
        for segment in batches(texts, TEXTS_PER_SEGMENT):
            pooled, tokens = inner.encode_with_tokens(segment)
            vectors.append(pooled)
            with suppress(BadInput):  # values above float16: only ranking by tokens cannot use this encoder
                cache.add(hash_texts(segment).tolist(), tokens)
        return np.concatenate(vectors)

    return encode


def _edges(ids: list[str], relation: str, kind: str, parents: list[str]) -> pa.Table:
    """Lineage edges of vectors, one parent per vector."""
    constants = {"child_kind": "chunk_embedding", "relation": relation, "parent_kind": kind}
    columns = {"child_id": ids, "parent_id": parents, "parent_version": parents}
    return build_table("lineage_edges", {**columns, **{name: [value] * len(ids) for name, value in constants.items()}})


def largest_pool() -> int:
    """The most chunks that a search requests: R of the profile or of a loaded variant."""
    sizes = [variant.parameters.get("R") for variant in variants() if variant.is_loaded]
    return max([profiles.load().retrieval.R, *(size for size in sizes if isinstance(size, int))])


def build_index(lake: Lake, name: str, inform: LogFunction = discard_message, encoder: str = "") -> IndexMeta:
    """Write the corpus files and the index over the vectors of this encoder; empty for the first."""
    settings = profiles.load()
    partitions = rows.embedded_shards(lake, name, encoder)
    vectors = rows.embeddings_key(name, encoder)
    models = [lake.read("chunk_embeddings", vectors, p, ["model_id"])["model_id"][:1] for p in partitions]
    with replacing_folder(lake.index_folder(rows.index_key(name, encoder))) as folder:
        write_corpus_files(folder, rows.read_shards(lake, name, encoder))
        release_memory()
        return index_building.write_index(
            folder,
            built_from=rows.corpus_version(lake, name, encoder),
            model_id=next((model[0] for model in models if len(model)), ""),
            memory=settings.index.bytes,
            kind=settings.index.kind,
            neighbours=largest_pool(),
            progress=ProgressReporter("vectors in the index", inform),
        )


def build_token_store(lake: Lake, name: str) -> token_store.StoreMeta:
    """Build the token store over all shards; return its metadata."""
    model = get_encoder(profiles.load().token_encoder).inner
    folder = lake.index_folder(f"corpus/{name}/token_store")
    texts = rows.read_chunk_texts(lake, name)
    return token_store.build_store(folder, texts, model, model_key(model), rows.chunks_version(lake, name))


def is_built(lake: Lake, name: str, groups: Sequence[FileGroup]) -> bool:
    """Whether chunks, index and token store are those of these files."""
    profile = profiles.load()
    model = model_key(get_encoder(profile.encoder))
    if not open_chunks(lake, name).is_current(groups, model, profile.chunking.max_tokens, profile.shards.corpus):
        return False
    version = token_store.source_version(rows.chunks_version(lake, name), model_key(get_encoder(profile.token_encoder)))
    try:
        rows.open_corpus(lake, name)
        open_description(lake.index_folder(f"corpus/{name}/token_store") / "meta.json", token_store.VERSION, version)
    except StaleInput:
        return False
    return True


def build_corpus(lake: Lake, name: str, groups: Sequence[FileGroup], inform: LogFunction) -> dict[str, object]:
    """Build chunks, vectors, index and token store; return the numbers of chunks and of reused chunks."""
    base = f"corpus/{name}"
    reused = 0
    count = 0
    for shard in range(profiles.load().shards.corpus):
        partition = str(shard)
        context = StageContext(lake, "chunks", f"{base}/chunks", partition, inform)
        inform("cutting documents into chunks")
        lake.write(context.asset, partition, {"chunks": build_chunks(context, name, groups).rows})
        context = StageContext(lake, "chunk_embeddings", f"{base}/embeddings", partition, inform)
        inform("encoding chunks")
        output = build_embeddings(context, name)
        assert output.lineage is not None
        lake.write(context.asset, partition, {"chunk_embeddings": output.rows, "lineage_edges": output.lineage})
        reused += output.reused or 0
        count += len(output.rows)
    inform("building the index")
    build_index(lake, name, inform)
    inform("building the token store")
    build_token_store(lake, name)
    return {"chunks": count, "reused": reused}
