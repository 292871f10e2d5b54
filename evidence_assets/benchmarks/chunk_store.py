"""Documents as rows of ``chunks``: every portion of a corpus becomes a part, a Parquet file named by its inputs.

Each row group is of one shard. A pass makes the parts that are absent: after a kill it goes on with the portion at
hand, after an edit it cuts the edited portion. Memory holds ``GROUP`` rows a shard, whatever the corpus's size.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evidence_assets.benchmarks.checks import UniqueIds
from evidence_assets.benchmarks.corpora import FileGroup
from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.benchmarks.records import Document
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_id, shard_of
from evidence_assets.lake.mirror import delete_path
from evidence_assets.lake.schemas import TABLES
from evidence_assets.models.protocols import Encoder
from evidence_assets.text.chunking import split_chunks

CHUNKING_VERSION = "1"
MAX_TOKENS = 512
"""No chunk is longer, whatever the encoder reads."""


def chunk_rows(documents: Iterable[Document], encoder: Encoder, max_tokens: int) -> Iterator[dict[str, Any]]:
    limit = min(max_tokens, MAX_TOKENS, encoder.max_tokens)
    for document in documents:
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
"""Rows of one shard that wait until they are written together."""
DOCUMENTS_PER_REPORT = 100
"""Documents between two calls of who hears of progress."""
METADATA_KEY = b"evidence.part"
"""Metadata of a part: the shard of each row group, and how many documents, chunks and tokens it holds."""
ReportProgress = Callable[[int, int], None]


@dataclass
class ChunkFileInfo:
    """What a part holds."""

    shards: list[int]
    """Of each row group, the shard that its rows belong to."""
    documents: int = 0
    chunks: int = 0
    tokens: int = 0


class ChunkStore:
    """The parts of a corpus below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def update(
        self,
        portions: Sequence[FileGroup],
        encoder: Encoder,
        made_by: str,
        max_tokens: int,
        shards: int,
        heard: ReportProgress,
    ) -> int:
        """Cut what has not been cut yet and forget what is no part of the corpus any more; returns how many were cut.

        ``heard`` is told how many bytes are done, of how many.
        """
        files = self._file_ids(portions)
        keys = [
            content_id(
                "part",
                CHUNKING_VERSION,
                made_by,
                max_tokens,
                shards,
                [(name, files[name][-1]) for name in _relative_names(p)],
            )
            for p in portions
        ]
        sizes = [sum(files[name][1] for name in _relative_names(portion)) for portion in portions]
        done = cut = 0
        for portion, key, size in zip(portions, keys, sizes, strict=True):
            if self.part(key) is None:

                def told(characters: int, before: int = done, size: int = size) -> None:
                    heard(before + min(characters, size), sum(sizes))

                _write_chunks(self._path(key), portion.read(), encoder, max_tokens, shards, told)
                cut += 1
            done += size
        if not sum(part.documents for part in map(self.part, keys) if part is not None):
            raise BadInput("the corpus is empty: its files hold no document", file=portions[0].folder)
        if keys != self._stated()["keys"] and len(keys) > 1:
            self._check_ids(keys, portions)
        stated = {"keys": keys, "files": files}
        if stated != self._stated():
            with replacing_file(self.folder / "parts.json") as temporary:
                temporary.write_text(json.dumps(stated))
        for path in set(self.folder.glob("*.parquet")) - {self._path(key) for key in keys}:
            delete_path(path)
        return cut

    def part(self, key: str) -> ChunkFileInfo | None:
        """What the part of this key holds, without reading its rows; None where it is absent or no whole file."""
        try:
            return _parse_metadata(pq.read_metadata(self._path(key)).metadata)
        except (FileNotFoundError, pa.ArrowInvalid):
            return None

    @property
    def documents(self) -> int:
        """How many documents the parts hold together."""
        return sum(part.documents for part in self._parts())

    @property
    def tokens(self) -> int:
        """How many tokens the chunks of all parts have."""
        return sum(part.tokens for part in self._parts())

    def _parts(self) -> list[ChunkFileInfo]:
        return [part for part in map(self.part, self._stated()["keys"]) if part is not None]

    def read_shard(self, shard: int) -> pa.Table:
        tables = [TABLES["chunks"].arrow.empty_table()]
        for key in self._stated()["keys"]:
            with pq.ParquetFile(self._path(key), page_checksum_verification=True) as file:
                groups = [n for n, of in enumerate(_parse_metadata(file.metadata.metadata).shards) if of == shard]
                if groups:
                    tables.append(file.read_row_groups(groups).replace_schema_metadata(None))
        return pa.concat_tables(tables)

    def _check_ids(self, keys: Sequence[str], portions: Sequence[FileGroup]) -> None:
        """Refuse an id that comes in two portions; within one it was refused when it was cut."""
        seen = UniqueIds("doc_id")
        for key, portion in zip(keys, portions, strict=True):
            with pq.ParquetFile(self._path(key)) as file:
                for batch in file.iter_batches(columns=["doc_id", "ordinal", "source"]):
                    first = batch.filter(pc.equal(batch["ordinal"], 0))
                    for doc_id, source in zip(first["doc_id"].to_pylist(), first["source"].to_pylist(), strict=True):
                        seen.add(doc_id, Row({}, portion.folder / source))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.parquet"

    def _stated(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.folder / "parts.json").read_text()))
        except (FileNotFoundError, ValueError):
            return {"keys": [], "files": {}}

    def _file_ids(self, portions: Sequence[FileGroup]) -> dict[str, list[Any]]:
        """Modification time, size and content hash of every file; hashed again where the first two changed."""
        before, found = self._stated()["files"], {}
        for portion in portions:
            for path, name in zip(portion.files, _relative_names(portion), strict=True):
                status = path.stat()
                known = before.get(name, [])
                same = known[:2] == [status.st_mtime_ns, status.st_size]
                found[name] = known if same else [status.st_mtime_ns, status.st_size, file_id(path)]
        return found


def _relative_names(portion: FileGroup) -> list[str]:
    return [path.relative_to(portion.folder).as_posix() for path in portion.files]


def _parse_metadata(metadata: dict[bytes, bytes]) -> ChunkFileInfo:
    return ChunkFileInfo(**json.loads(metadata[METADATA_KEY]))


def _write_chunks(
    path: Path,
    documents: Iterator[Document],
    encoder: Encoder,
    max_tokens: int,
    shards: int,
    heard: Callable[[int], None],
) -> None:
    schema, made, read = TABLES["chunks"].arrow, ChunkFileInfo([]), 0
    waiting: dict[int, list[dict[str, Any]]] = defaultdict(list)
    with (
        replacing_file(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer,
    ):

        def flush(shard: int) -> None:
            rows = waiting.pop(shard)
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            made.shards.append(shard)
            made.chunks += len(rows)
            made.tokens += sum(row["n_tokens"] for row in rows)

        for document in documents:
            shard = shard_of(content_id("document", document.doc_id), shards)
            for row in chunk_rows([document], encoder, max_tokens):
                waiting[shard].append(row)
                if len(waiting[shard]) == ROWS_PER_GROUP:
                    flush(shard)
            made.documents += 1
            read += len(document.text)
            if not made.documents % DOCUMENTS_PER_REPORT:
                heard(read)
        for shard in sorted(waiting):
            flush(shard)
        writer.add_key_value_metadata({METADATA_KEY: json.dumps(asdict(made))})
