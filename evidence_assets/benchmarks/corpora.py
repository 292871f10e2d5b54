"""Readers of text corpora, document by document.

- Parquet: columns ``id``, ``title``, ``text`` (the shards of ``wikimedia/wikipedia``, 20231101.en).
- JSON lines (``.jsonl``, ``.jsonl.gz``): ``doc_id``, ``text``, and optionally ``title`` and ``url``.
- ``.txt``, ``.md``, ``.html``, ``.pdf``: one document per file, whose id is its path. HTML and PDF need the extra
  ``documents``. Each row of a table in Markdown or HTML is a statement.

CSV and TSV files are no documents: :mod:`.table_files` reads them.
"""

from __future__ import annotations

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

from evidence_assets.benchmarks.json_streams import parse_jsonl
from evidence_assets.benchmarks.line_streams import Row, read_text
from evidence_assets.benchmarks.page_tables import find_html_tables, state_markdown_tables
from evidence_assets.benchmarks.records import Document, UniqueIds, require_items
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, shard_of
from evidence_assets.lake.input_files import require_file

PAGE_SUFFIXES = (".html", ".htm", ".pdf")
SHARD_SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz")
TEXT_SUFFIXES = (".txt", ".md", ".markdown", *PAGE_SUFFIXES)
DELIMITED_SUFFIXES = (".csv", ".tsv")
"""Files that are tables."""
TEXT_VERSION = "3"
"""Raise it whenever the title or the text of the same text file may differ."""
MAX_TITLE = 60
"""Characters of a first line that is a title."""
ROWS_PER_BATCH = 256
ACCEPTED_FILES = (
    f"{', '.join(SHARD_SUFFIXES + TEXT_SUFFIXES)} files; {' and '.join(DELIMITED_SUFFIXES)} files are read as tables"
)
PARQUET_COLUMNS = ["id", "title", "text"]
MAX_BUNDLES = 256
"""Maximum groups of text files in a folder. With one chunk file for each text, 100,000 notes would be slow to open."""
_HIDDEN_TAGS = ("script", "style", "noscript", "template", "svg", "nav", "head")
_BLOCK_TAGS = re.compile(
    "p|div|section|article|main|header|footer|aside|h[1-6]|li|dt|dd|tr|table|blockquote|pre|figcaption|caption|br|hr"
)
_BLOCK_END = re.compile(r"\s*\n\s*\n\s*")


DocumentsWithRows = Iterator[tuple[Row, Document]]


@dataclass(frozen=True)
class FileGroup:
    """Files that are read together and reread when one of them changes: a shard, or a bundle of texts."""

    folder: Path
    files: tuple[Path, ...]
    read: Callable[[], Iterator[Document]]
    reader_version: str = ""
    """Version of the reader of texts; empty for shards."""


def corpus_files(folder: Path, others: list[Path] | None = None) -> list[Path]:
    """List the files of a corpus in reading order, without hidden ones (``.name``) and those of a lake in the folder.

    ``others``: Collects the files that are empty or no documents; without it, they are an error, except tables.

    Shards and texts may not be mixed: otherwise a README among shards would be read as an article.
    """
    if not folder.is_dir():
        problem = "this is a file; name a folder" if folder.exists() else "this folder does not exist; create it"
        raise BadInput(f"{problem} with {ACCEPTED_FILES}", file=folder)
    files = []
    texts = []
    for path in list_files(folder):
        name = path.name.lower()
        is_text = name.endswith(TEXT_SUFFIXES)
        is_document = is_text or name.endswith(SHARD_SUFFIXES)
        if others is None and name.endswith(DELIMITED_SUFFIXES):
            continue
        if others is None and not is_document:
            raise BadInput(f"is not a corpus file; move it away. Use {ACCEPTED_FILES}", file=path)
        if others is not None and (not is_document or (is_text and _is_blank(path))):
            others.append(path)
            continue
        files.append(path)
        if is_text:
            texts.append(path)
    if not files:
        raise BadInput(f"the corpus is empty; add {ACCEPTED_FILES}", file=folder)
    if texts and len(texts) < len(files):
        message = "is a text in a folder with Parquet or JSON lines; put texts and such records into two corpora"
        raise BadInput(message, file=texts[0])
    return files


def has_documents(folder: Path) -> bool:
    """Whether a folder has files other than tables that may be documents, or no tables at all."""
    names = [path.name.lower() for path in list_files(folder)]
    has_tables = any(name.endswith(DELIMITED_SUFFIXES) for name in names)
    return not has_tables or any(name.endswith(TEXT_SUFFIXES + SHARD_SUFFIXES) for name in names)


def list_files(folder: Path) -> list[Path]:
    """All files below a folder by relative path, without hidden ones and those of a lake."""
    lakes = {path.parent for path in folder.rglob("format.json") if _is_lake(path)}
    paths = (path for path in folder.rglob("*") if path.is_file() and lakes.isdisjoint(path.parents))
    by_name = {path.relative_to(folder).as_posix(): path for path in paths}
    return [by_name[name] for name in sorted(by_name) if "/." not in f"/{name}"]


def read_documents(folder: Path) -> Iterator[Document]:
    """Read the documents of every file below ``folder``, in the order of paths; a duplicate id is an error."""
    documents = _read_files(corpus_files(folder), folder)
    return require_items(documents, lambda: BadInput("the corpus has no documents: its files are empty", file=folder))


def group_files(folder: Path, files: Sequence[Path] | None = None) -> list[FileGroup]:
    """Group the files of a corpus, by default all: each shard alone, texts in at most ``MAX_BUNDLES`` bundles.

    A hash of its path decides the bundle of a text, so a new text changes only its own bundle.
    """
    bundles: dict[str, list[Path]] = defaultdict(list)
    for path in corpus_files(folder) if files is None else files:
        name = path.relative_to(folder).as_posix()
        is_text = name.lower().endswith(TEXT_SUFFIXES)
        bundles[f"texts {shard_of(content_id(name), MAX_BUNDLES)}" if is_text else name].append(path)
    return [_group_paths(folder, paths) for paths in bundles.values()]


def _group_paths(folder: Path, paths: Sequence[Path]) -> FileGroup:
    is_text = paths[0].name.lower().endswith(TEXT_SUFFIXES)
    return FileGroup(
        folder, tuple(paths), partial(_read_files, paths, folder), reader_version=TEXT_VERSION if is_text else ""
    )


def find_unreadable_texts(folder: Path, files: Sequence[Path]) -> dict[Path, BadInput]:
    """The reason why each of these text files cannot be read, such as a scanned PDF; shards are not checked."""
    errors = {}
    for path in files:
        if path.name.lower().endswith(TEXT_SUFFIXES):
            try:
                list(_read_files([path], folder))
            except BadInput as error:
                errors[path] = error
    return errors


def _read_files(files: Sequence[Path], folder: Path) -> Iterator[Document]:
    ids = UniqueIds("doc_id")
    for path in files:
        name = path.relative_to(folder).as_posix()
        read: Callable[[Path, str], DocumentsWithRows] = _read_text_document
        if name.lower().endswith(SHARD_SUFFIXES):
            read = _read_parquet if name.lower().endswith(".parquet") else _read_jsonl
        for row, document in read(path, name):
            if not document.text.strip():
                raise row.error("is empty; remove the document or add its text", "text")
            ids.add(document.doc_id, row)
            yield document


def _is_blank(path: Path) -> bool:
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        return not any(map(str.strip, lines))


def _is_lake(description: Path) -> bool:
    """Whether a file describes a lake; files of other programs may have its name."""
    return '"frozen"' in description.read_text(encoding="utf-8", errors="replace")


def _read_jsonl(path: Path, source: str) -> DocumentsWithRows:
    def parse(row: Row) -> tuple[Row, Document]:
        row.check_field_names(("doc_id", "title", "text", "url"))
        return row, Document(row.label("doc_id"), row.text_or_none("title") or "", row.text("text"), source)

    return parse_jsonl(path, parse)


def _read_text_document(path: Path, source: str) -> DocumentsWithRows:
    if source.lower().endswith(PAGE_SUFFIXES):
        yield Row({}, path), Document(source, *read_page(path), source)
        return
    text = read_text(path)
    title = _find_title(text, is_plain=source.lower().endswith(".txt")) or path.stem
    if not source.lower().endswith(".txt"):
        text = state_markdown_tables(text)
    yield Row({}, path), Document(source, title, text, source)


def _find_title(text: str, *, is_plain: bool) -> str:
    """The heading on the first line; of plain text a short line above an empty one that ends no sentence."""
    first_line, _, rest = text.lstrip().partition("\n")
    if not is_plain:
        return first_line[2:].strip().rstrip("#").strip() if first_line.startswith("# ") else ""
    title = first_line.strip("#=-* \t")
    is_apart = not rest.partition("\n")[0].strip("=-~ \t") and bool(rest.strip())
    return title if is_apart and len(title) <= MAX_TITLE and not title.endswith((".", "!", "?", ",", ";")) else ""


def _read_parquet(path: Path, source: str) -> DocumentsWithRows:
    number = 0
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20, page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            for field in PARQUET_COLUMNS:
                if field not in names:
                    message = f"the shard has no such column; its columns are {', '.join(names)}"
                    raise BadInput(message, file=path, field=field)
            for batch in file.iter_batches(batch_size=ROWS_PER_BATCH, columns=PARQUET_COLUMNS):
                for values in batch.to_pylist():
                    number += 1
                    row = Row(values, path, number)
                    doc_id = row.label("id")
                    title = row.text("title", blank=True)
                    text = row.text("text", blank=True)
                    yield row, Document(doc_id, title, text, source)
    except UnicodeDecodeError as error:
        raise BadInput("contains text that is not UTF-8", file=path, line=number + 1) from error
    except (pa.ArrowInvalid, OSError) as error:
        message = f"the Parquet file is damaged after row {number} ({error}); download it again"
        raise BadInput(message, file=path) from error


def read_page(path: Path) -> tuple[str, str]:
    """Read title and text of an HTML page or a PDF; without a title, that is the first h1 or the file's name.

    Raises BadInput if the file cannot be read or a library is missing.
    """
    require_file(path)
    if path.suffix.lower() == ".pdf":
        title, pages = _read_pdf(path)
        text = "\n\n".join(pages)
    else:
        title, text = _read_html(path)
    return " ".join(title.split()) or path.stem, _as_utf8(text)


def _as_utf8(text: str) -> str:
    """The text without zeros, and with ``?`` for characters that UTF-8 cannot encode."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def read_pages(path: Path) -> list[str]:
    """Read the text of a document: each page of a PDF, all of another file."""
    suffix = path.suffix.lower()
    if suffix not in TEXT_SUFFIXES:
        raise BadInput(f"is no document; use {', '.join(TEXT_SUFFIXES)}", file=path)
    if suffix == ".pdf":
        require_file(path)
        return [_as_utf8(page) for page in _read_pdf(path)[1]]
    return [read_page(path)[1] if suffix in PAGE_SUFFIXES else read_text(path)]


def _import_library(name: str, package: str, path: Path) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise BadInput(f"needs the package {package}: pip install 'evidence-assets[documents]'", file=path) from error


def parse_page(path: Path) -> Any:
    """Parse an HTML page; raises BadInput if the library is missing."""
    require_file(path)
    return _import_library("bs4", "beautifulsoup4", path).BeautifulSoup(path.read_bytes(), "html.parser")


def _read_html(path: Path) -> tuple[str, str]:
    """Read title and visible text of a page; empty lines separate blocks, so sentences end there."""
    page = parse_page(path)
    title = page.title.get_text() if page.title else ""
    for tag in page.find_all(_HIDDEN_TAGS):
        tag.decompose()
    if not title.strip() and (heading := page.find("h1")):
        title = heading.get_text(" ")
    for tag, table in find_html_tables(page):
        caption = tag.find("caption")
        labels = [caption.get_text(" ") if caption else "", table.title]
        lines = [*filter(None, labels), *table.statements]
        tag.replace_with("\n\n" + "\n\n".join(lines) + "\n\n")
    for tag in page.find_all(lambda tag: _BLOCK_TAGS.fullmatch(tag.name)):
        tag.insert_before("\n\n")
        tag.insert_after("\n\n")
    for tag in page.find_all(("td", "th")):
        tag.insert_after(" ")
    blocks = (" ".join(block.split()) for block in _BLOCK_END.split(page.get_text()))
    return title, "\n\n".join(block for block in blocks if block)


def _read_pdf(path: Path) -> tuple[str, list[str]]:
    """Title and pages."""
    library = _import_library("pypdf", "pypdf", path)
    try:
        reader = library.PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise BadInput("is protected by a password; save it without one", file=path)
        pages = [page.extract_text() for page in reader.pages]
        title = str((reader.metadata or {}).get("/Title") or "")
    except (library.errors.DependencyError, NotImplementedError) as error:  # another kind of protection or compression
        raise BadInput(f"cannot be read ({error}): save it without protection", file=path) from error
    except (library.errors.PyPdfError, ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"is damaged or not a PDF ({error}); export or download it again", file=path) from error
    if not any(map(str.strip, pages)):
        raise BadInput("contains images and no text; run text recognition (OCR) first", file=path)
    return title, pages
