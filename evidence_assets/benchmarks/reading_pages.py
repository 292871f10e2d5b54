"""Text out of HTML pages and PDFs, by libraries that come with the extra ``documents``.

What a reader sees on a page is its text: scripts, styles and menus are none. Blocks (paragraphs, headings, cells, lines of a
list) are set apart by an empty line, where a sentence then ends.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import refuse_what_is_no_file

PAGES = (".html", ".htm", ".pdf")
_UNSEEN = ("script", "style", "noscript", "template", "svg", "nav", "head")
_BLOCKS = (
    "p",
    "div",
    "section",
    "article",
    "main",
    "header",
    "footer",
    "aside",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "li",
    "dt",
    "dd",
    "tr",
    "table",
    "blockquote",
    "pre",
    "figcaption",
    "caption",
    "br",
    "hr",
)
_CELLS = ("td", "th")
_BLOCK_END = re.compile(r"\s*\n\s*\n\s*")


def _library(name: str, package: str, path: Path) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise BadInput(
            f"is read by {package}, which is not installed: pip install 'evidence-assets[documents]'", file=path
        ) from error


def read_page(path: Path) -> tuple[str, str]:
    """Title and text of an HTML page or a PDF; its name is the title where it states none.

    Raises BadInput where it cannot be read, or a library for it is missing.
    """
    refuse_what_is_no_file(path)
    title, text = _pdf(path) if path.suffix.lower() == ".pdf" else _html(path)
    text = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return " ".join(title.split()) or path.stem, text


def _html(path: Path) -> tuple[str, str]:
    page = _library("bs4", "beautifulsoup4", path).BeautifulSoup(path.read_bytes(), "html.parser")
    title = page.title.get_text() if page.title else ""
    for tag in page.find_all(_UNSEEN):
        tag.decompose()
    for tag in page.find_all(_BLOCKS):
        tag.insert_before("\n\n")
        tag.insert_after("\n\n")
    for tag in page.find_all(_CELLS):
        tag.insert_after(" ")
    blocks = (" ".join(block.split()) for block in _BLOCK_END.split(page.get_text()))
    return title, "\n\n".join(block for block in blocks if block)


def _pdf(path: Path) -> tuple[str, str]:
    library = _library("pypdf", "pypdf", path)
    try:
        read = library.PdfReader(path)
        if read.is_encrypted and not read.decrypt(""):
            raise BadInput("is locked by a password: save it without one", file=path)
        text = "\n\n".join(page.extract_text() for page in read.pages)
        title = str((read.metadata or {}).get("/Title") or "")
    except (library.errors.PyPdfError, ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"is damaged or no PDF ({error})", file=path) from error
    if not text.strip():
        raise BadInput("holds pictures and no text: recognise the text of a scan first (OCR)", file=path)
    return title, text
