"""Export of the explorer's pages as files that need no server: ``evidence explore --export FOLDER``."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from evidence_assets.explorer import MAX_EXPORTED_PAGES
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.pages import STATIC
from evidence_assets.explorer.site import PAGES, Site
from evidence_assets.lake.atomic import raise_if_disk_full
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id

MARKER = ".evidence-export"
"""File of an exported folder, locked during an export."""
PARTIAL = ".partial"
"""A page that is being written."""
_LINK = re.compile(r'(href|src)="(/[^"]*)"')
"""A link to a page or file of the explorer; quotes in text are escaped, so only markup matches."""
_PAGE_FILE = re.compile(rf"pages/[0-9a-f]{{32}}\.html|({'|'.join(filter(None, PAGES))})\.html")
"""Names of the files of pages, except the first."""


@dataclass(frozen=True)
class Address:
    """Address of a page: its path and query; two addresses of the same page are equal."""

    path: str
    query: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> str:
        """The page's file below the folder.

        Names of questions and rows are data: their pages are named by a hash, in lower case.
        """
        if self.path == "/":
            return "index.html"
        if self.path[1:] in PAGES and not self.query:
            return f"{self.path[1:]}.html"
        return f"pages/{content_id(self.path, self.query)}.html"


HOME = Address("/")
FIRST_PAGES = {("page", "1"), ("related", "1")}
"""Fields that lead to the same page as none."""


def parse_link(target: str) -> tuple[Address, str]:
    """The page and the fragment of a link.

    All variants of a question are on one page, where the fragment selects the variant.

    >>> parse_link("/question/q1?variant=mcqa%2Fbm25")
    (Address(path='/question/q1', query=()), 'mcqa/bm25')
    >>> parse_link("/questions?page=1#main")
    (Address(path='/questions', query=()), 'main')
    """
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query))
    fragment = parts.fragment
    if parts.path.startswith("/question/"):
        variant = query.pop("variant", "")
        fragment = fragment or quote(variant)
    fields = sorted((name, value) for name, value in query.items() if (name, value) not in FIRST_PAGES)
    return Address(parts.path, tuple(fields)), fragment


@dataclass
class Export:
    """An export into a folder, with the addresses of its pages in the order in which links lead to them."""

    folder: Path
    max_pages: int
    pages: list[Address] = field(default_factory=lambda: [HOME])
    left_out: set[Address] = field(default_factory=set)
    n_bytes: int = 0

    def __post_init__(self) -> None:
        self._addresses = set(self.pages)

    def rewrite_links(self, html: str, page: Address) -> str:
        """The page with relative links to files; new pages are added, or beyond ``max_pages`` left out."""
        to_folder = "../" if "/" in page.file else ""

        def rewrite(match: re.Match[str]) -> str:
            target = unescape(match[2])
            if target.startswith("/static/"):
                return f'{match[1]}="{to_folder}{escape(target[1:])}"'
            address, fragment = parse_link(target)
            if address not in self._addresses:
                if len(self.pages) == self.max_pages:
                    self.left_out.add(address)
                    return 'role="link" aria-disabled="true"'
                self._addresses.add(address)
                self.pages.append(address)
            end = f"#{escape(fragment)}" if fragment else ""
            return f'{match[1]}="{to_folder}{address.file}{end}"'

        return _LINK.sub(rewrite, html)

    def write(self, name: str, content: bytes) -> None:
        """Write a file, unless it has this content already; a killed export leaves no incomplete file."""
        path = self.folder / name
        self.n_bytes += len(content)
        if path.exists() and path.read_bytes() == content:
            return
        path.parent.mkdir(exist_ok=True)
        partial = self.folder / PARTIAL
        partial.write_bytes(content)
        partial.replace(path)

    def delete_old_pages(self) -> None:
        """Delete the pages of earlier exports that this export does not have."""
        names = {address.file for address in self.pages}
        for path in [*self.folder.glob("*.html"), *self.folder.glob("pages/*.html")]:
            name = path.relative_to(self.folder).as_posix()
            if name not in names and _PAGE_FILE.fullmatch(name):
                path.unlink()


def export_pages(
    root: Path, folder: Path, max_pages: int = MAX_EXPORTED_PAGES, log: Callable[[int, int], None] | None = None
) -> Export:
    """Write the first page of a lake and the pages that links lead to, nearest first.

    ``log``: Receives the numbers of written pages and of pages that are known so far, after each page.
    """
    reader = LakeReader(root)
    site = Site(reader, static=True)
    export = Export(folder, max_pages)
    with _locked_folder(folder, reader.root), reader.opened():
        for path in sorted(STATIC.iterdir()):
            export.write(f"static/{path.name}", path.read_bytes())
        first = b""
        for number, address in enumerate(export.pages, 1):  # which grows with the links of each page
            _, html = site.reply_from(reader, address.path, dict(address.query))
            content = export.rewrite_links(html, address).encode()
            if address == HOME:
                first = content
            else:
                export.write(address.file, content)
            if log is not None:
                log(number, len(export.pages))
        export.write(HOME.file, first)  # last: its links lead to all other pages
        export.delete_old_pages()
    return export


@contextmanager
def _locked_folder(folder: Path, lake: Path) -> Iterator[None]:
    """Create or reuse the folder of an export; another export into it must wait."""
    if folder.resolve().is_relative_to(lake):
        raise BadInput("is in the lake, which the explorer only reads: choose a folder outside", file=folder)
    if folder.exists() and not folder.is_dir():
        raise BadInput("is a file: choose another folder", file=folder)
    marker = folder / MARKER
    if folder.exists() and not marker.exists() and any(folder.iterdir()):
        raise BadInput("has other files: choose a new or empty folder, or one of an earlier export", file=folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with marker.open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError as error:
        raise BadInput("another export writes to it: wait until it ends", file=folder) from error
    except OSError as error:
        raise_if_disk_full(error, folder)
        raise
