"""Text corpora, streamed document by document.

- Parquet: columns ``id``, ``title``, ``text`` (the shards of ``wikimedia/wikipedia``, 20231101.en).
- JSON lines (``.jsonl``, ``.jsonl.gz``): ``doc_id``, ``text``, and optionally ``title`` and ``url``.
- ``.txt``, ``.md``, ``.html``, ``.pdf``: one document a file, called by its path; the last two need the extra
  ``documents``.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.benchmarks.checks import SeenIds, some
from evidence_assets.benchmarks.json_streams import jsonl
from evidence_assets.benchmarks.line_streams import Row, read_text
from evidence_assets.benchmarks.records import Document
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import require_file

PAGES = (".html", ".htm", ".pdf")
SHARDS = (".parquet", ".jsonl", ".jsonl.gz")
TEXTS = (".txt", ".md", ".markdown", *PAGES)
PARQUET_ROWS = 256
ACCEPTED = ", ".join(SHARDS + TEXTS)
COLUMNS = ["id", "title", "text"]
BUNDLES = 256
"""Maximum portions of a folder of texts: a file for each of a hundred thousand notes would be slow to open."""
_UNSEEN = ("script", "style", "noscript", "template", "svg", "nav", "head")
_BLOCKS = re.compile(
    "p|div|section|article|main|header|footer|aside|h[1-6]|li|dt|dd|tr|table|blockquote|pre|figcaption|caption|br|hr"
)
_BLOCK_END = re.compile(r"\s*\n\s*\n\s*")


@dataclass(frozen=True)
class Portion:
    """Files that are read together, and again only when one of them changes: a shard, or a bundle of texts."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    read: Callable[[], Iterator[Document]]


def corpus_files(folder: Path) -> list[Path]:
    """The files of a corpus in the order in which they are read; hidden ones (``.name``) are none.

    A folder holds either shards or texts: a README beside shards would otherwise pass for an article.
    """
    if not folder.is_dir():
        raise BadInput(f"there is no such folder; put {ACCEPTED} files there", file=folder)
    files = sorted(
        (path for path in folder.rglob("*") if path.is_file() and not _hidden(path, folder)),
        key=lambda path: path.relative_to(folder).as_posix(),
    )
    if not files:
        raise BadInput(f"the corpus is empty; put {ACCEPTED} files there", file=folder)
    for path in files:
        if not path.name.lower().endswith(SHARDS + TEXTS):
            raise BadInput(f"is no corpus file; accepted are {ACCEPTED}; move other files away", file=path)
    texts = [path for path in files if path.name.lower().endswith(TEXTS)]
    if texts and len(texts) < len(files):
        raise BadInput(
            "lies among shards: a corpus folder holds either shards (Parquet, JSON lines) or texts; move one kind away",
            file=texts[0],
        )
    return files


def read_documents(folder: Path) -> Iterator[Document]:
    """The documents of every file below ``folder``, in the order of their paths; no id may come twice."""
    documents = _documents(corpus_files(folder), folder)
    return some(documents, lambda: BadInput("the corpus is empty: its files hold no document", file=folder))


def portions(folder: Path) -> list[Portion]:
    """The files of a corpus as they are read, each shard for itself, texts in at most ``BUNDLES`` bundles.

    Which bundle a text belongs to follows from its path alone, so that one more text changes no other bundle.
    """
    bundles: dict[str, list[Path]] = defaultdict(list)
    for path in corpus_files(folder):
        below = path.relative_to(folder).as_posix()
        if path.name.lower().endswith(TEXTS):
            number = int.from_bytes(hashlib.blake2b(below.encode(errors="surrogatepass"), digest_size=4).digest())
            below = f"texts {number % BUNDLES}"
        bundles[below].append(path)
    return [Portion(name, folder, tuple(own), partial(_documents, own, folder)) for name, own in bundles.items()]


def _documents(files: Sequence[Path], folder: Path) -> Iterator[Document]:
    seen = SeenIds("doc_id")
    for path in files:
        for row, document in _reader(path)(path, path.relative_to(folder).as_posix()):
            if not document.text.strip():
                raise row.bad("is empty: there is nothing in it to cite", "text")
            seen.add(document.doc_id, row)
            yield document


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _reader(path: Path) -> Callable[[Path, str], Iterator[tuple[Row, Document]]]:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return _parquet_documents
    return _jsonl_documents if name.endswith(SHARDS) else _text_document


def _jsonl_documents(path: Path, source: str) -> Iterator[tuple[Row, Document]]:
    for row in jsonl(path):
        row.only(("doc_id", "title", "text", "url"))
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
            names = file.schema_arrow.names
            for field in COLUMNS:
                if field not in names:
                    raise BadInput(f"the shard lacks this column (found: {', '.join(names)})", file=path, field=field)
            for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=COLUMNS):
                for cells in zip(*(batch[field] for field in COLUMNS), strict=True):
                    line += 1
                    doc_id, title, text = (_string(*cell, path, line) for cell in zip(cells, COLUMNS, strict=True))
                    yield Row({}, path, line), Document(doc_id, title, text, source)
    except (pa.ArrowInvalid, OSError) as broken:
        raise BadInput(f"not a whole Parquet file after row {line} ({broken})", file=path) from broken


def _string(cell: pa.Scalar, field: str, path: Path, line: int) -> str:
    try:
        value = cell.as_py()
    except UnicodeDecodeError as error:
        raise BadInput(f"byte {error.start + 1} is not UTF-8", file=path, line=line, field=field) from error
    if not isinstance(value, str | int):
        raise BadInput(f"{value!r} is not a text", file=path, line=line, field=field)
    return str(value)


def read_page(path: Path) -> tuple[str, str]:
    """Title and text of an HTML page or a PDF; its name is the title where it states none.

    Raises BadInput where it cannot be read, or a library for it is missing.
    """
    require_file(path)
    title, text = _pdf(path) if path.suffix.lower() == ".pdf" else _html(path)
    text = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return " ".join(title.split()) or path.stem, text


def _library(name: str, package: str, path: Path) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise BadInput(
            f"is read by {package}, which is not installed: pip install 'evidence-assets[documents]'", file=path
        ) from error


def _html(path: Path) -> tuple[str, str]:
    """Title and visible text of a page; an empty line sets blocks apart, where a sentence then ends."""
    page = _library("bs4", "beautifulsoup4", path).BeautifulSoup(path.read_bytes(), "html.parser")
    title = page.title.get_text() if page.title else ""
    for tag in page.find_all(_UNSEEN):
        tag.decompose()
    for tag in page.find_all(lambda tag: _BLOCKS.fullmatch(tag.name)):
        tag.insert_before("\n\n")
        tag.insert_after("\n\n")
    for tag in page.find_all(("td", "th")):
        tag.insert_after(" ")
    blocks = (" ".join(block.split()) for block in _BLOCK_END.split(page.get_text()))
    return title, "\n\n".join(block for block in blocks if block)


def _pdf(path: Path) -> tuple[str, str]:
    library = _library("pypdf", "pypdf", path)
    try:
        reader = library.PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise BadInput("is locked by a password: save it without one", file=path)
        text = "\n\n".join(page.extract_text() for page in reader.pages)
        title = str((reader.metadata or {}).get("/Title") or "")
    except (library.errors.PyPdfError, ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"is damaged or no PDF ({error})", file=path) from error
    if not text.strip():
        raise BadInput("holds pictures and no text: recognise the text of a scan first (OCR)", file=path)
    return title, text
