"""Component for a corpus: chunks of documents, their vectors, index and token store."""

from pathlib import Path
from typing import Any

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.partitions import (
    ALL_PARTITIONS,
    corpus_partitions,
    encoder_options,
    list_encoders,
    with_encoder,
)
from evidence_assets.assets.raw_files import raw_assets
from evidence_assets.assets.table_asset import depends_on, files_asset, table_asset, table_check
from evidence_assets.benchmarks import chunk_store
from evidence_assets.benchmarks.corpora import FileGroup, group_files
from evidence_assets.benchmarks.declared_benchmarks import RawInput, check_name
from evidence_assets.benchmarks.readers import check_passages, read_passages
from evidence_assets.experiment import corpus_building
from evidence_assets.experiment.stage import LogFunction, StageContext, StageOutput
from evidence_assets.lake.store import Lake
from evidence_assets.retrieval import bm25, corpus_files, token_store, vector_index
from evidence_assets.retrieval.corpus import embeddings_key, find_invalid_vectors, index_key


class Corpus(RawInput, dg.Component, dg.Resolvable):
    """``corpus/<name>/chunks``, ``embeddings``, ``index`` and ``token_store`` of a folder below ``raw``.

    The folder has Parquet shards, JSON lines or texts (Markdown, HTML, PDF), or the files of a dataset whose passages
    are the documents. Each further encoder of a loaded variant adds its own vectors and index.
    """

    name: str
    folder: str
    documents: str = "folder"
    """``folder`` for any files, or the name of a dataset whose passages are the documents."""
    split: str = ""
    """Split of the dataset whose passages are read."""

    def file_groups(self, folder: Path) -> list[FileGroup]:
        """Its files in groups, each with a reader of its documents."""
        if self.documents == "folder":
            return group_files(folder)
        files = tuple(sorted(path for path in folder.rglob("*") if path.is_file()))
        return [FileGroup(folder, files, lambda: read_passages(self.documents, folder, self.split))]

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        check_name(self.name, "corpus")
        if self.documents != "folder":
            check_passages(self.documents)
        if not self.is_in_profile():
            return dg.Definitions()
        source, raw = raw_assets(self, f"raw/corpora/{self.name}", [self.folder])
        chunks = self._chunks(source)
        encoders = list_encoders(index_key(self.name))
        vectors = [self._embeddings(encoder) for encoder in encoders]
        indexes = [self._index(encoder) for encoder in encoders]
        return dg.Definitions(
            assets=[*raw, chunks, *vectors, *indexes, self._token_store()],
            asset_checks=[table_check(chunks), *(table_check(asset, find_invalid_vectors) for asset in vectors)],
        )

    @property
    def _chunks_key(self) -> str:
        return f"corpus/{self.name}/chunks"

    def _chunks(self, source: str) -> dg.AssetsDefinition:
        def make(context: StageContext) -> StageOutput:
            groups = self.file_groups(context.lake.raw_path(self.folder))
            return corpus_building.build_chunks(context, self.name, groups)

        return table_asset(
            self._chunks_key,
            "chunks",
            make,
            group=f"corpus_{self.name}",
            deps=[source],
            partitions=corpus_partitions(),
            pool="gpu",
            description=f"Chunks of the documents of {self.name}: whole sentences, within the encoder's limit.",
            code_version=f"{chunk_store.CHUNKING_VERSION}:{profiles.load().chunking.max_tokens}",
        )

    def _token_store(self) -> dg.AssetsDefinition:
        def make(lake: Lake, log: LogFunction) -> tuple[str, dict[str, Any]]:
            meta = corpus_building.build_token_store(lake, self.name)
            metadata = {name: getattr(meta, name) for name in ("chunks", "tokens", "dimensions", "model_id")}
            return meta.built_from, metadata

        return files_asset(
            f"corpus/{self.name}/token_store",
            make,
            group=f"corpus_{self.name}",
            code_version=f"{token_store.VERSION}.{bm25.VERSION}",
            description=f"BM25 statistics of the tokens of {self.name}.",
            kinds=("numpy",),
            deps=[depends_on(self._chunks_key, ALL_PARTITIONS)],
            pool="gpu",
        )

    def _embeddings(self, encoder: str) -> dg.AssetsDefinition:
        """Vectors of one encoder; of the profile's first without a name."""
        description = f"One normalised vector for each chunk of {self.name}"
        return table_asset(
            embeddings_key(self.name, encoder),
            "chunk_embeddings",
            lambda context: corpus_building.build_embeddings(with_encoder(context, encoder), self.name),
            deps=[self._chunks_key],
            partitions=corpus_partitions(),
            kinds=("parquet", "pytorch"),
            **encoder_options(encoder, f"corpus_{self.name}", "1", description),
        )

    def _index(self, encoder: str) -> dg.AssetsDefinition:
        """Index over the vectors of one encoder; of the profile's first without a name."""

        def make(lake: Lake, log: LogFunction) -> tuple[str, dict[str, Any]]:
            meta = corpus_building.build_index(lake, self.name, log, encoder)
            return meta.built_from, meta.metadata

        vectors_key = embeddings_key(self.name, encoder)
        version = f"{vector_index.VERSION}.{corpus_files.VERSION}.{bm25.VERSION}.{corpus_building.largest_pool()}"
        description = f"FAISS index, BM25 index and chunk positions of {self.name}"
        return files_asset(
            index_key(self.name, encoder),
            make,
            kinds=("faiss",),
            deps=[depends_on(self._chunks_key, ALL_PARTITIONS), depends_on(vectors_key, ALL_PARTITIONS)],
            **encoder_options(encoder, f"corpus_{self.name}", version, description),
        )
