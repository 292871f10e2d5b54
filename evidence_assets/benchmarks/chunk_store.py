"""Cached chunks of a corpus: one Parquet file of ``chunks`` rows per file group, named by a hash of its inputs.

Each row group belongs to one shard. An update writes only missing files: it resumes after a kill and rechunks only
edited groups. At most ``ROWS_PER_GROUP`` rows per shard are in memory.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
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


class ChunkStore:
    """The chunk files of one corpus, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def update(
        self, groups: Sequence[FileGroup], encoder: Encoder, model: str, limit: int, shards: int, report: ReportProgress
    ) -> int:
        """Chunk new and edited file groups, delete stale files; returns the number of files written.

        ``report`` receives the bytes done and the total after each group. The error at the end is about up to ten
        groups; the chunks of the others are kept for the next update.
        """
        manifest = self._build_manifest(groups, model, limit, shards)
        keys = manifest["keys"]
        files = manifest["files"]
        sizes = [sum(files[name][1] for name in _relative_names(group)) for group in groups]
        bytes_done = n_written = 0
        errors: list[BadInput] = []
        for group, key, size in zip(groups, keys, sizes, strict=True):
            if not self._path(key).exists():
                try:
                    _write_chunks(self._path(key), group.read(), encoder, limit, shards)
                    n_written += 1
                except BadInput as error:
                    errors.append(error)
                    if len(errors) == MAX_ERRORS:
                        break
            bytes_done += size
            report(bytes_done, sum(sizes))
        raise_errors(errors)
        if not any(pq.read_metadata(self._path(key)).num_rows for key in keys):
            raise BadInput("the corpus has no documents: its files are empty", file=groups[0].folder)
        if keys != self._read_manifest()["keys"] and len(keys) > 1:
            self._check_ids(keys, groups)
        if manifest != self._read_manifest():
            with replacing_file(self.folder / "parts.json") as temporary:
                temporary.write_text(json.dumps(manifest))
        for path in set(self.folder.glob("*.parquet")) - {self._path(key) for key in keys}:
            delete_path(path)
        return n_written

    def is_current(self, groups: Sequence[FileGroup], model: str, limit: int, shards: int) -> bool:
        """Whether the chunks are those of these files, this model and these limits."""
        return self._build_manifest(groups, model, limit, shards) == self._read_manifest()

    @property
    def documents(self) -> int:
        """Number of documents; each has one first chunk."""
        files = [self._path(key) for key in self._read_manifest()["keys"]]
        return sum(pq.read_table(file, filters=[("ordinal", "==", 0)], columns=["ordinal"]).num_rows for file in files)

    def read_shard(self, shard: int) -> pa.Table:
        """The chunks of one shard; row groups of other shards are skipped."""
        schema = TABLES["chunks"].arrow
        options: dict[str, Any] = {"columns": schema.names, "filters": [("shard", "==", shard)]}
        files = [self._path(key) for key in self._read_manifest()["keys"]]
        tables = (pq.read_table(file, page_checksum_verification=True, **options) for file in files)
        return pa.concat_tables([schema.empty_table(), *(table.replace_schema_metadata(None) for table in tables)])

    def _check_ids(self, keys: Sequence[str], groups: Sequence[FileGroup]) -> None:
        """Reject an id that occurs in two groups; within a group, reading rejects it."""
        ids = UniqueIds("doc_id")
        for key, group in zip(keys, groups, strict=True):
            first_chunks = pq.read_table(
                self._path(key), columns=["doc_id", "source"], filters=[("ordinal", "==", 0)]
            ).to_pydict()
            for doc_id, source in zip(first_chunks["doc_id"], first_chunks["source"], strict=True):
                ids.add(doc_id, Row({}, group.folder / source))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.parquet"

    def _read_manifest(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.folder / "parts.json").read_text()))
        except (FileNotFoundError, ValueError):
            return {"keys": [], "files": {}}

    def _build_manifest(self, groups: Sequence[FileGroup], model: str, limit: int, shards: int) -> dict[str, Any]:
        """The key of each group's chunk file, and the ids of the files."""
        files = self._file_ids(groups)
        contents = ([(name, files[name][-1]) for name in _relative_names(group)] for group in groups)
        keys = [content_id("chunk file", CHUNKING_VERSION, model, limit, shards, content) for content in contents]
        return {"keys": keys, "files": files}

    def _file_ids(self, groups: Sequence[FileGroup]) -> dict[str, list[Any]]:
        """Modification time, size and content hash of every file; a file is rehashed if time or size changed."""
        previous = self._read_manifest()["files"]
        current = {}
        for group in groups:
            for path, name in zip(group.files, _relative_names(group), strict=True):
                status = path.stat()
                entry = previous.get(name, [])
                is_unchanged = entry[:2] == [status.st_mtime_ns, status.st_size]
                current[name] = entry if is_unchanged else [status.st_mtime_ns, status.st_size, file_id(path)]
        return current


def _relative_names(group: FileGroup) -> list[str]:
    return [path.relative_to(group.folder).as_posix() for path in group.files]


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
