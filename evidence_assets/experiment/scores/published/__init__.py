"""The figures printed in the documents whose systems are implemented here: numbers to compare with, none of ours.

``results.csv`` holds one printed number a row, as printed, with the table it stands in. What is contradicted by
another printed number or by public data keeps its value and says so in its note (``erratum: …``); arithmetic that does
not close begins ``check: …``; where another number is printed for the same thing the note begins ``alt: …``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evidence_assets.benchmarks.reading import Row, headed_rows

FILE = Path(__file__).with_name("results.csv")
SOURCES = {
    "thesis": "Vo Thien Trung: Towards Evidence-Based Reasoning via Unsupervised Knowledge Extraction and Semantic "
    "Retrieval. Doctoral dissertation, Japan Advanced Institute of Science and Technology, March 2026. "
    "https://hdl.handle.net/10119/20590",
    "4stepfocus": "Boer, Koch and Kramer: Harnessing the Power of Semi-Structured Knowledge and LLMs with Triplet-"
    "Based Prefiltering for Question Answering",
    "a2q": "Chaudhary, Rajabi, Kafaie and Milios: Fact retrieval from knowledge graphs through semantic and contextual "
    "attention. Expert Systems With Applications",
    "kaping-background": "Ho Nguyen Ngoc Bao and Nguyen Viet Phuong: Development of an LLM-Based Academic Affairs QA "
    "System Using Context-Enabled Knowledge Graph. Ho Chi Minh City University of Technology, June 2024",
}
SCALES = ("percent", "fraction", "count", "minutes", "hours", "score")
COLUMNS = (
    "document",
    "table",
    "benchmark",
    "part",
    "system",
    "variant",
    "model",
    "metric",
    "label",
    "value",
    "std",
    "scale",
    "reproduced",
    "ours",
    "note",
)


@dataclass(frozen=True)
class Figure:
    """One printed number.

    ``part`` is the part of the benchmark that it is printed for, as ``benchmarks.declared`` names subsets but for the
    seed, which no document prints; empty for the whole split. ``variant`` is an ablation, a setting or a stage, two of them joined by ``;``; ``label`` a class, a comparator or
    a qualifier such as ``min``; ``ours`` marks the document's own method, ``reproduced`` a baseline that it ran
    itself. Empty strings stand for what the document does not state.
    """

    document: str
    table: str
    benchmark: str
    part: str
    system: str
    variant: str
    model: str
    metric: str
    label: str
    value: float
    printed: str
    std: float | None
    scale: str
    reproduced: bool
    ours: bool
    note: str

    @property
    def erratum(self) -> bool:
        """Whether the number is contradicted by another printed number or by public data."""
        return "erratum:" in self.note

    @property
    def scope(self) -> str:
        """The benchmark with its part: ``tabmcq.first150``."""
        return ".".join(filter(None, (self.benchmark, self.part)))

    @property
    def key(self) -> tuple[str, str, str, str, str, str]:
        """What it is printed for: the same in every table that prints it, if with another value."""
        return self.scope, self.system, self.variant, self.model, self.metric, self.label

    @property
    def source(self) -> str:
        """Where it stands, as a score row cites it: ``thesis, Table 3.3``."""
        return f"{self.document}, {self.table if self.table.startswith(('text', 'Fig')) else f'Table {self.table}'}"

    @property
    def fraction(self) -> float:
        """The value with percents as fractions, as our scores are."""
        return self.value / 100 if self.scale == "percent" else self.value


@cache
def figures() -> tuple[Figure, ...]:
    """All printed numbers, in the order of their documents and tables."""
    return tuple(_figure(row) for row in headed_rows(FILE, COLUMNS))


def published(
    scope: str, system: str, variant: str = "", model: str = "", metric: str = "accuracy", label: str = ""
) -> Figure | None:
    """The number printed for this benchmark or part of one that a score is compared with; None if none is.

    >>> published("scitab", "ucret", "full", "llama-3.3-70b").value
    60.88
    """
    return next(iter(by_key().get((scope, system, variant, model, metric, label), ())), None)


@cache
def models_printed(scope: str, system: str) -> frozenset[str]:
    """The models that numbers of a system on a benchmark or part are printed for; the empty text where one is not named."""
    return frozenset(f.model for f in figures() if (f.scope, f.system) == (scope, system))


@cache
def scopes_printed(benchmark: str, system: str) -> tuple[str, ...]:
    """The benchmark and those parts of it that numbers of a system are printed for, the whole first."""
    return tuple(sorted({f.scope for f in figures() if (f.benchmark, f.system) == (benchmark, system)}))


@cache
def by_key() -> dict[tuple[str, ...], list[Figure]]:
    """Every number by what it is printed for, the one to compare with first.

    Numbers that are no errata come first, tables before figures and prose, a value as published before another
    document's re-run of it; else the order of the documents.
    """
    found: dict[tuple[str, ...], list[Figure]] = defaultdict(list)
    for figure in figures():
        found[figure.key].append(figure)
    for group in found.values():
        group.sort(key=lambda figure: (figure.erratum, figure.table.startswith(("text", "Fig")), figure.reproduced))
    return dict(found)


_SWAPPED = {("novelty", "count"): "diversity", ("diversity", "percent"): "novelty"}
"""Columns that stand under each other's heads in print, as their notes say: a count of entities, and a share of new ones."""

_UNSTATED = {("a2q", "6"): "csqa"}
"""What a table that names no benchmark is compared on, as its notes say that none is stated."""


def _figure(row: Row) -> Figure:
    texts = {field: row.text(field, blank=True) for field in COLUMNS}
    for field, known in (("document", SOURCES), ("scale", SCALES)):
        if texts[field] not in known:
            raise row.bad(f"{texts[field]!r} is not one of {', '.join(known)}", field)
    if "printed under head" in texts["note"]:
        texts["metric"] = _SWAPPED[texts["metric"], texts["scale"]]
    if "not stated" in texts["note"]:
        texts["benchmark"] = texts["benchmark"] or _UNSTATED.get((texts["document"], texts["table"]), "")
    return Figure(
        **{field: texts[field] for field in COLUMNS[:9]},
        value=_number(row, "value"),
        printed=texts["value"],
        std=_number(row, "std") if texts["std"] else None,
        scale=texts["scale"],
        reproduced=_flag(row, "reproduced"),
        ours=_flag(row, "ours"),
        note=texts["note"],
    )  # type: ignore[arg-type]


def _number(row: Row, field: str) -> float:
    try:
        return float(row.text(field))
    except ValueError as error:
        raise row.bad(f"{row.values[field]!r} is not a number", field) from error


def _flag(row: Row, field: str) -> bool:
    if row.text(field) not in ("true", "false"):
        raise row.bad(f"{row.values[field]!r} is neither true nor false", field)
    return row.text(field) == "true"
