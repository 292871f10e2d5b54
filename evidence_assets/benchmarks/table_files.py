"""Tables of files: CSV, TSV and Parquet have one, Markdown and HTML documents as many as they contain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from evidence_assets.benchmarks.corpora import DELIMITED_SUFFIXES, list_files, parse_page
from evidence_assets.benchmarks.line_streams import read_text
from evidence_assets.benchmarks.page_tables import find_html_tables, find_markdown_tables
from evidence_assets.benchmarks.records import Table
from evidence_assets.benchmarks.user_benchmark import read_table_file
from evidence_assets.lake.errors import BadInput

MARKDOWN_SUFFIXES = (".md", ".markdown")
HTML_SUFFIXES = (".html", ".htm")


def read_tables_of(path: Path, name: str = "") -> list[Table]:
    """The tables of a file, called ``name``, by default its own; raises BadInput if it has none or is unreadable."""
    name = name or path.name
    if not path.name.lower().endswith(MARKDOWN_SUFFIXES + HTML_SUFFIXES):
        return [replace(read_table_file(path), table_id=name)]
    tables = _read_page_tables(path, name)
    if not tables:
        raise BadInput("has no table: it needs a header and rows of two or more columns", file=path)
    return tables


def read_folder_tables(folder: Path, report: Callable[[BadInput], None]) -> Iterator[Table]:
    """The tables of all files below a folder, by path; unreadable files are reported, and the others read."""
    for path in list_files(folder):
        name = path.relative_to(folder).as_posix()
        try:
            if path.name.lower().endswith(DELIMITED_SUFFIXES):
                yield from read_tables_of(path, name)
            elif path.name.lower().endswith(MARKDOWN_SUFFIXES + HTML_SUFFIXES):
                yield from _read_page_tables(path, name)
        except BadInput as error:
            report(error)


def _read_page_tables(path: Path, name: str) -> list[Table]:
    """The tables of a Markdown or HTML document; those of a document with several are numbered."""
    if path.name.lower().endswith(MARKDOWN_SUFFIXES):
        tables = find_markdown_tables(read_text(path))
    elif b"<table" not in path.read_bytes().lower():  # parsing takes 10 ms per page
        tables = []
    else:
        tables = [table for _, table in find_html_tables(parse_page(path))]
    names = [name] if len(tables) == 1 else [f"{name}, table {number}" for number in range(1, len(tables) + 1)]
    return [Table("own", each, t.caption, t.header, t.rows) for each, t in zip(names, tables, strict=True)]
