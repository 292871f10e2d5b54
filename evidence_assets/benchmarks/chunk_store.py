"""Cached chunks of a corpus: one Parquet file of ``chunks`` rows per file group, named by a hash of its inputs.

Each row group belongs to one shard. An update writes only missing files: it resumes after a kill and rechunks only
edited groups. At most ``ROWS_PER_GROUP`` rows per shard are in memory.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.benchmarks.corpora import FileGroup
from evidence_assets.benchmarks.json_streams import MAX_ERRORS, raise_errors
from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.benchmarks.records import Document, UniqueIds
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_id, shard_of
from evidence_assets.lake.mirror import delete_path
from evidence_assets.lake.schemas import TABLES
from evidence_assets.models.protocols import Encoder
from evidence_assets.text.chunking import split_chunks

CHUNKING_VERSION = "3"
MAX_TOKENS = 512
"""Maximum tokens of a chunk, even if the encoder accepts more."""


def chunk_rows(document: Document, encoder: Encoder, max_tokens: int) -> Iterator[dict[str, Any]]:
    limit = min(max_tokens, MAX_TOKENS, encoder.max_tokens)
    version = content_id("document", document.doc_id, document.title, document.text)
    for ordinal, chunk in enumerate(split_chunks(document.text, encoder.count_tokens, limit)):
        text = document.text[chunk.start : chunk.end]
        yield {
            "chunk_id": content_id("chunk", document.doc_id, ordinal, chunk.start, document.title, text),
            "doc_id": document.doc_id,
            "title": document.title,
            "ordinal": ordinal,
            "text": text,
            "char_start": chunk.start,
            "char_end": chunk.end,
            "n_tokens": chunk.n_tokens,
            "sentence_offsets": [{"start": a - chunk.start, "end": b - chunk.start} for a, b in chunk.sentences],
            "source": document.source,
            "source_version": version,
        }


ROWS_PER_GROUP = 512
"""Rows of one shard per row group."""
ReportProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class ChunkStore:
    """The chunk files of one corpus, in one folder."""

    folder: Path

    def update(
        self, groups: Sequence[FileGroup], encoder: Encoder, model: str, limit: int, shards: int, report: ReportProgress
    ) -> int:
        """Chunk new and edited file groups, delete stale files; returns the number of files written.

        ``report`` receives the bytes done and the total after each group. The error at the end is about up to ten
        groups; the chunks of the others are kept for the next update.
        """
        manifest = self._build_manifest(groups, model, limit, shards)
        paths = self._chunk_files(manifest)
        total_bytes = sum(size for _, size, _ in manifest["files"].values())
        bytes_done = n_written = 0
        errors: list[BadInput] = []
        for group, path in zip(groups, paths, strict=True):
            if not path.exists():
                try:
                    _write_chunks(path, group.read(), encoder, limit, shards)
                    n_written += 1
                except BadInput as error:
                    errors.append(error)
                    if len(errors) == MAX_ERRORS:
                        break
            bytes_done += sum(file.stat().st_size for file in group.files)
            report(bytes_done, total_bytes)
        raise_errors(errors)
        if not any(pq.read_metadata(path).num_rows for path in paths):
            raise BadInput("the corpus has no documents: its files are empty", file=groups[0].folder)
        self._replace_manifest(manifest, groups)
        return n_written

    def _replace_manifest(self, manifest: dict[str, Any], groups: Sequence[FileGroup]) -> None:
        """Store the manifest of complete chunk files, and delete stale ones; a duplicate document id is an error."""
        previous = self._read_manifest()
        paths = self._chunk_files(manifest)
        if manifest["keys"] != previous["keys"] and len(groups) > 1:
            _check_ids(paths, groups)
        if manifest != previous:
            with replacing_file(self.folder / "parts.json") as temporary:
                temporary.write_text(json.dumps(manifest))
        for path in {*self.folder.glob("*.parquet")}.difference(paths):
            delete_path(path)

    def is_current(self, groups: Sequence[FileGroup], model: str, limit: int, shards: int) -> bool:
        """Whether the chunks are those of these files, this model and these limits."""
        return self._build_manifest(groups, model, limit, shards) == self._read_manifest()

    @property
    def documents(self) -> int:
        """Number of documents; each has one first chunk."""
        return sum(_read_first_chunks(file, "ordinal").num_rows for file in self._chunk_files(self._read_manifest()))

    def read_shard(self, shard: int) -> pa.Table:
        """The chunks of one shard; row groups of other shards are skipped."""
        schema = TABLES["chunks"].arrow
        tables = [schema.empty_table()]
        for file in self._chunk_files(self._read_manifest()):
            table = pq.read_table(
                file, columns=schema.names, filters=[("shard", "==", shard)], page_checksum_verification=True
            )
            tables.append(table.replace_schema_metadata(None))
        return pa.concat_tables(tables)

    def _chunk_files(self, manifest: dict[str, Any]) -> list[Path]:
        return [self.folder / f"{key}.parquet" for key in manifest["keys"]]

    def _read_manifest(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.folder / "parts.json").read_text()))
        except (FileNotFoundError, ValueError):
            return {"keys": [], "files": {}}

    def _build_manifest(self, groups: Sequence[FileGroup], model: str, limit: int, shards: int) -> dict[str, Any]:
        """The key of each group's chunk file; and modification time, size and content hash of each document file.

        A file is rehashed if time or size changed.
        """
        previous = self._read_manifest()["files"]
        files: dict[str, list[Any]] = {}
        keys = []
        for group in groups:
            contents = []
            for path in group.files:
                name = path.relative_to(group.folder).as_posix()
                status = path.stat()
                entry = previous.get(name, [])
                if entry[:2] != [status.st_mtime_ns, status.st_size]:
                    entry = [status.st_mtime_ns, status.st_size, file_id(path)]
                files[name] = entry
                contents.append((name, entry[-1]))
            reader = [group.reader_version] if group.reader_version else []
            keys.append(content_id("chunk file", CHUNKING_VERSION, *reader, model, limit, shards, contents))
        return {"keys": keys, "files": files}


def _check_ids(paths: Sequence[Path], groups: Sequence[FileGroup]) -> None:
    """Reject an id that occurs in two groups; within a group, reading rejects it."""
    ids = UniqueIds("doc_id")
    for path, group in zip(paths, groups, strict=True):
        for chunk in _read_first_chunks(path, "doc_id", "source").to_pylist():
            ids.add(chunk["doc_id"], Row({}, group.folder / chunk["source"]))


def _read_first_chunks(path: Path, *columns: str) -> pa.Table:
    """The first chunk of every document of a chunk file."""
    return pq.read_table(path, columns=list(columns), filters=[("ordinal", "==", 0)])


def _write_chunks(path: Path, documents: Iterator[Document], encoder: Encoder, limit: int, shards: int) -> None:
    schema = TABLES["chunks"].arrow.append(pa.field("shard", pa.int32()))
    pending: dict[int, list[dict[str, Any]]] = defaultdict(list)
    with (
        replacing_file(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for document in documents:
            shard = shard_of(content_id("document", document.doc_id), shards)
            for row in chunk_rows(document, encoder, limit):
                pending[shard].append(row | {"shard": shard})
                if len(pending[shard]) == ROWS_PER_GROUP:
                    writer.write_table(pa.Table.from_pylist(pending.pop(shard), schema=schema))
        for shard in sorted(pending):
            writer.write_table(pa.Table.from_pylist(pending[shard], schema=schema))
