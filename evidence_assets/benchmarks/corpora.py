"""Text corpora: Wikipedia's Parquet shards, JSON lines, and folders of plain text or Markdown.

Documents come one by one, so that a corpus may be of any size; only 8 bytes an id are kept, to notice doubles. Its files
come in portions, so that what is made of one is made again only when it changes.

- Parquet: columns ``id``, ``title``, ``text`` (the shards of ``wikimedia/wikipedia``, 20231101.en).
- JSON lines (``.jsonl``, ``.jsonl.gz``): ``doc_id``, ``text``, and if you like ``title`` and ``url``.
- ``.txt``, ``.md``, ``.html``, ``.pdf``: one document a file; its path below the folder is its id, a Markdown heading that
  opens it or the title that it states its title, else the file's name.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.benchmarks.checks import SeenIds, some
from evidence_assets.benchmarks.reading import BLOCK, Row, open_bytes, read_text
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.benchmarks.reading_pages import PAGES, read_page
from evidence_assets.benchmarks.records import Document
from evidence_assets.lake.errors import BadInput

SHARDS = (".parquet", ".jsonl", ".jsonl.gz")
TEXTS = (".txt", ".md", ".markdown", *PAGES)
PARQUET_ROWS = 256
FIELDS = ("doc_id", "title", "text", "url")
BUNDLES = 256
"""Portions that the texts of a folder make at most: a file for each of a hundred thousand notes would be slow to open."""


@dataclass(frozen=True)
class Portion:
    """Files whose documents are read together, and again only when one of them changes: a shard, or a bundle of texts."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    read: Callable[[], Iterator[Document]]


def corpus_files(folder: Path) -> list[Path]:
    """The files of a corpus in the order in which they are read; hidden ones (``.name``) are none.

    A folder holds either shards or texts: a README beside shards would otherwise pass for an article.
    """
    if not folder.is_dir():
        raise BadInput(f"there is no such folder; put {_accepted()} files there", file=folder)
    files = sorted(
        (path for path in folder.rglob("*") if path.is_file() and not _hidden(path, folder)),
        key=lambda path: path.relative_to(folder).as_posix(),
    )
    if not files:
        raise BadInput(f"the corpus is empty; put {_accepted()} files there", file=folder)
    for path in files:
        if not path.name.lower().endswith(SHARDS + TEXTS):
            raise BadInput(f"is no corpus file; accepted are {_accepted()}; move other files away", file=path)
    texts = [path for path in files if path.name.lower().endswith(TEXTS)]
    if texts and len(texts) < len(files):
        raise BadInput(
            "lies among shards: a corpus folder holds either shards (Parquet, JSON lines) or texts; move one kind away",
            file=texts[0],
        )
    return files


def read_documents(folder: Path) -> Iterator[Document]:
    """The documents of every file below ``folder``, in the order of their paths; no id may come twice."""
    found = _documents(corpus_files(folder), folder)
    return some(found, lambda: BadInput("the corpus is empty: its files hold no document", file=folder))


def portions(folder: Path) -> list[Portion]:
    """The files of a corpus as they are read, each shard for itself, texts in at most ``BUNDLES`` bundles.

    Which bundle a text belongs to follows from its path alone, so that one more text changes no other bundle. Within a
    portion no id may come twice; whoever puts portions together sees to it that none does in two of them.
    """
    bundles: dict[str, list[Path]] = defaultdict(list)
    for path in corpus_files(folder):
        below = path.relative_to(folder).as_posix()
        if path.name.lower().endswith(TEXTS):
            number = int.from_bytes(hashlib.blake2b(below.encode(errors="surrogatepass"), digest_size=4).digest())
            below = f"texts {number % BUNDLES}"
        bundles[below].append(path)
    return [Portion(name, folder, tuple(own), partial(_documents, own, folder)) for name, own in bundles.items()]


def documents_in(files: Sequence[Path]) -> int:
    """How many documents files hold: as Parquet says, one a text, and of JSON lines as many as lines like the first fill."""
    return sum(_rows_in(path) if path.name.lower().endswith(SHARDS) else 1 for path in files)


def _rows_in(path: Path) -> int:
    if path.name.lower().endswith(".parquet"):
        try:
            return int(pq.read_metadata(path).num_rows)
        except (pa.ArrowInvalid, OSError) as broken:
            raise BadInput(f"not a whole Parquet file ({broken})", file=path) from broken
    with open_bytes(path) as stream:
        start = stream.read(BLOCK)
    size = path.stat().st_size
    if path.suffix == ".gz":  # which ends with the size of what it holds, up to 4 GB
        with path.open("rb") as packed:
            packed.seek(-4, os.SEEK_END)
            size = max(len(start), int.from_bytes(packed.read(4), "little"))
    return round(max(1, start.count(b"\n")) * size / max(1, len(start)))


def _documents(files: Sequence[Path], folder: Path) -> Iterator[Document]:
    seen = SeenIds("doc_id")
    for path in files:
        for row, document in _reader(path)(path, path.relative_to(folder).as_posix()):
            if not document.text.strip():
                raise row.bad("is empty: there is nothing in it to cite", "text")
            seen.add(document.doc_id, Row({}, row.file, row.line))
            yield document
    seen.finish()


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _accepted() -> str:
    return ", ".join(SHARDS + TEXTS)


def _reader(path: Path) -> Callable[[Path, str], Iterator[tuple[Row, Document]]]:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return _parquet_documents
    return _jsonl_documents if name.endswith(SHARDS) else _text_document


def _jsonl_documents(path: Path, source: str) -> Iterator[tuple[Row, Document]]:
    for row in jsonl(path):
        row.only(FIELDS)
        title = row.text_or_none("title") or ""
        yield row, Document(row.label("doc_id"), title, row.text("text"), source)


def _text_document(path: Path, source: str) -> Iterator[tuple[Row, Document]]:
    if path.name.lower().endswith(PAGES):
        yield Row({}, path), Document(source, *read_page(path), source)
        return
    text = read_text(path)
    title = path.stem
    first = text.lstrip().partition("\n")[0]
    if not path.name.lower().endswith(".txt") and first.startswith("# "):
        title = first[2:].strip().rstrip("#").strip() or path.stem
    yield Row({}, path), Document(source, title, text, source)


def _parquet_documents(path: Path, source: str) -> Iterator[tuple[Row, Document]]:
    line = 0
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20, page_checksum_verification=True) as file:
            for field in ("id", "title", "text"):
                if field not in file.schema_arrow.names:
                    found = ", ".join(file.schema_arrow.names)
                    raise BadInput(f"the shard lacks this column (found: {found})", file=path, field=field)
            for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=["id", "title", "text"]):
                columns = [_strings(path, line, batch, field) for field in ("id", "title", "text")]
                for doc_id, title, text in zip(*columns, strict=True):
                    line += 1
                    yield Row({}, path, line), Document(doc_id, title, text, source)
    except (pa.ArrowInvalid, OSError) as broken:
        raise BadInput(f"not a whole Parquet file after row {line} ({broken})", file=path) from broken


def _strings(path: Path, before: int, batch: pa.RecordBatch, field: str) -> list[str]:
    column = batch.column(batch.schema.get_field_index(field))
    found: list[str] = []
    for offset, scalar in enumerate(column, 1):
        try:
            value = scalar.as_py()
        except UnicodeDecodeError as error:
            raise BadInput(
                f"byte {error.start + 1} is not UTF-8", file=path, line=before + offset, field=field
            ) from error
        if isinstance(value, int):
            value = str(value)
        if not isinstance(value, str):
            raise BadInput(f"{value!r} is not a text", file=path, line=before + offset, field=field)
        found.append(value)
    return found
