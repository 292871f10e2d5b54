"""Write the pages of measurements, each from its template and the result files of benches.

    python -m bench.write_measured

Templates, ``bench/*_page.md``, have headings and explanations. A line ``<!-- results: NAME … [| COLUMN …] -->`` becomes
the rows of these files in ``bench/results``, by all columns of the first file or by those named, and a line about each
command, with the hours of a language model whose tokens are counted. Rows of several files start with the name of their
file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from bench.result_files import TOKENS, Results

TEMPLATE = Path(__file__).with_name("measured_page.md")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "measured.md"
LOCAL_TEMPLATE = TEMPLATE.with_name("local_page.md")
LOCAL_PAGE = PAGE.with_name("with-a-real-model.md")
SIZE_TEMPLATE = TEMPLATE.with_name("size_page.md")
PAGE_OF_TEMPLATE = {TEMPLATE: PAGE, LOCAL_TEMPLATE: LOCAL_PAGE, SIZE_TEMPLATE: PAGE.with_name("at-size.md")}
"""The page of each template."""
READ_PER_HOUR, WRITTEN_PER_HOUR = 100 * 3600, 29 * 3600
"""Tokens by llama.cpp on two idle processors, of Qwen2.5-Coder-1.5B-Instruct in 4 bits."""
MARK = re.compile(r"^<!-- results: ([^|\n]+?)(?: \| ([^\n]+?))? -->$", re.MULTILINE)


def write_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_source(results: Results) -> str:
    """Command, revision, day and machine of results."""
    return f"`{results.command}`, {results.revision}, {results.date}, {results.machine}"


def count_hours(results: Results) -> float:
    """Hours of a language model for the tokens of all rows, as if no two rows shared a reply."""
    if TOKENS not in results.columns:
        return 0.0
    column = results.columns.index(TOKENS)
    pairs = [row[column].replace(",", "").split() for row in results.rows if row[column]]
    return sum(int(read) / READ_PER_HOUR + int(written) / WRITTEN_PER_HOUR for read, written in pairs)


def write_sources(all_results: Sequence[Results]) -> str:
    """A line about each command, with the hours of its language model."""
    hours_by_source: defaultdict[str, float] = defaultdict(float)
    for results in all_results:
        hours_by_source[write_source(results)] += count_hours(results)
    return "\n".join(
        f"{source}, {hours:.2g} hours of the model." if hours else f"{source}."
        for source, hours in hours_by_source.items()
    )


def choose_columns(all_columns: Sequence[str], column_names: str | None) -> list[str]:
    """The columns that a mark names, separated by commas; a name may have a comma itself."""
    chosen = []
    while column_names:
        matches = [column for column in all_columns if f"{column_names}, ".startswith(f"{column}, ") and column]
        if not matches:
            raise SystemExit(f"no column starts {column_names!r}; there are {list(all_columns)}")
        chosen.append(max(matches, key=len))
        column_names = column_names[len(chosen[-1]) + 2 :]
    return chosen or list(all_columns)


def write_section(names: Sequence[str], column_names: str | None) -> str:
    """The table of these results, and the sources of their figures."""
    all_results = {name: Results.read(name) for name in names}
    all_columns = dict.fromkeys(column for results in all_results.values() for column in results.columns)
    shown_columns = choose_columns(list(all_columns), column_names)
    rows = []
    for name, results in all_results.items():
        for row in results.rows:
            cells = dict(zip(results.columns, row, strict=True))
            label = [name] if len(names) > 1 else []
            rows.append([*label, *(cells.get(column, "") for column in shown_columns)])
    heads = [*(["results"] if len(names) > 1 else []), *shown_columns]
    return f"{write_table(heads, rows)}\n\n{write_sources(list(all_results.values()))}"


def write_page(template: Path = TEMPLATE) -> str:
    """The page of a template that belongs to the result files."""

    def replace(match: re.Match[str]) -> str:
        return write_section(match[1].split(), match[2])

    return MARK.sub(replace, template.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for template, page in PAGE_OF_TEMPLATE.items():
        page.write_text(write_page(template), encoding="utf-8")
