"""``evidence measure``: variants on a benchmark side by side, with paired differences and baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
import typer

from evidence_assets.benchmarks.declared_benchmarks import Benchmark
from evidence_assets.cli.console import out, print_table, report_errors
from evidence_assets.experiment.scores import measurement
from evidence_assets.experiment.scores.measurement import VariantTables
from evidence_assets.experiment.scores.metrics import Estimate, Half, halve
from evidence_assets.experiment.stored_rows import QuestionRow, typed_rows
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake

if TYPE_CHECKING:
    from evidence_assets.experiment.stage import Stage

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
def measure(
    benchmark: Annotated[str, typer.Argument(help="Name of a benchmark; `evidence add benchmark` adds your own.")],
    variant_names: Annotated[list[str], typer.Argument(metavar="VARIANTS...", help="Such as bm25 cosine bm25@model.")],
    with_baselines: Annotated[bool, typer.Option("--baselines", help="Add simple baselines.")] = False,
    half: Annotated[Half | None, typer.Option(help="Use one half of the questions, by a hash of their ids.")] = None,
) -> None:
    """Measure variants on a benchmark, with paired differences.

    Materializes what the variants need, then prints at most eight metrics with 95 % intervals, and the differences of
    the first variant to the others on the same questions. Choose settings on one half and report the other.
    """
    with report_errors():
        from evidence_assets.cli.run_selection import find_benchmark, select_assets, select_variants

        declared = find_benchmark(benchmark)
        if with_baselines and declared.family not in ("mcqa", "table"):
            raise BadInput(f"{benchmark} has no options to choose from: remove --baselines")
        variants = select_variants(declared, variant_names)
        from evidence_assets.assets.definitions import load_definitions
        from evidence_assets.cli.materialize import print_report
        from evidence_assets.cli.runner import run_all

        selection = select_assets(load_definitions().resolve_asset_graph(), declared, variants)
        report = run_all(selection, hides_reused=True)
        rows = BenchmarkRows.read(declared, variants)
        if rows.tables:
            print_measurements(rows, half, with_baselines)
    print_report(report, f"evidence measure {benchmark} {' '.join(variant_names)}")


@dataclass(frozen=True)
class BenchmarkRows:
    """Questions of a benchmark, and the rows of the variants that have scores, by label."""

    benchmark: Benchmark
    questions: pl.DataFrame
    tables: Mapping[str, VariantTables]

    @classmethod
    def read(cls, benchmark: Benchmark, variants: Sequence[Variant]) -> BenchmarkRows:
        from evidence_assets import systems
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.experiment.stages import build_stages

        lake = LakeResource().open()
        tables: dict[str, VariantTables] = {}
        for variant in variants:
            stages = {stage.table: stage for stage in build_stages(systems.open_method(variant))}
            if _read(lake, "scores", f"scores/{variant.key}", benchmark.name).height:
                tables[variant.label] = _read_tables(lake, stages, benchmark)
        questions = _read(lake, "questions", f"questions/{benchmark.family}", benchmark.name)
        return cls(benchmark, questions, tables)


def _read(lake: Lake, table: str, asset: str, benchmark: str) -> pl.DataFrame:
    """Rows of an asset in all partitions of a benchmark."""
    rows = lake.read(table, asset)
    column = next(name for name in ("benchmark", "scope_id", "question_id", "chain_id") if name in rows.columns)
    return rows.filter(pl.col(column) == benchmark) if column in ("benchmark", "scope_id") else rows


def _read_tables(lake: Lake, stages: Mapping[str, Stage], benchmark: Benchmark) -> VariantTables:
    inputs = {each.key.partition("/")[0]: each.key for each in stages["scores"].inputs}
    keys = {table: stage.key for table, stage in stages.items()} | inputs
    tables = {
        table: _read(lake, table, keys.get(table, table), benchmark.name)  # without a stage, no asset matches
        for table in ("predictions", "evidence", "citations", "chains")
    }
    documents: dict[str, str] = {}
    if benchmark.family == "retrieval":
        chunks = lake.scan("chunks", f"corpus/{benchmark.corpus}/chunks")
        selected = chunks.filter(pl.col("chunk_id").is_in(tables["evidence"]["source_id"].unique().to_list()))
        documents = dict(selected.select("chunk_id", "doc_id").collect(engine="streaming").iter_rows())
    return VariantTables(**tables, documents=documents)


def print_measurements(rows: BenchmarkRows, half: Half | None, with_baselines: bool) -> None:
    """Print metrics and paired differences of the variants."""
    family = rows.benchmark.family
    questions = halve(rows.questions, half)
    question_rows = typed_rows(questions, QuestionRow)
    metrics = {label: measurement.measure(family, questions, tables) for label, tables in rows.tables.items()}
    values = {label: measurement.question_values(family, question_rows, t) for label, t in rows.tables.items()}
    baselines = _measure_baselines(rows, half, question_rows) if with_baselines else {}
    metrics |= {name: {"accuracy": estimate} for name, (estimate, _) in baselines.items()}
    names = [name for name in measurement.METRICS[family] if any(name in each for each in metrics.values())]
    lines = [(label, *(_format(each.get(name)) for name in names)) for label, each in metrics.items()]
    title = f"{rows.benchmark.name}, {f'{half} half, ' if half else ''}n = {questions.height} questions"
    print_table(("variant", *names), lines, title=title)
    _print_differences(values, {name: hits for name, (_, hits) in baselines.items()})


def _measure_baselines(
    rows: BenchmarkRows, half: Half | None, questions: list[QuestionRow]
) -> dict[str, tuple[Estimate, list[float]]]:
    """Accuracy and correct answers of each baseline that answers a question."""
    other_half = typed_rows(halve(rows.questions, half, other=True), QuestionRow)
    answers = measurement.baseline_answers(questions, other_half)
    for label, tables in rows.tables.items():
        answers[f"nearest ({label})"] = measurement.nearest_answers(questions, tables.chains)
    return {
        f"baseline: {name}": measurement.count_correct(questions, labels)
        for name, labels in answers.items()
        if any(labels)
    }


def _print_differences(
    values: Mapping[str, Mapping[str, Sequence[float]]], baselines: Mapping[str, Sequence[float]]
) -> None:
    """Differences of the first variant to the others, and of each variant to the best baseline."""
    first, *others = values
    pairs = [(first, values[first], other, values[other]) for other in others]
    if baselines:
        best = max(baselines, key=lambda name: sum(baselines[name]))
        pairs += [(label, values[label], best, {"accuracy": baselines[best]}) for label in values]
    lines = [
        (f"{a} − {b}", metric, len(values_a[metric]), *_format_difference(difference))
        for a, values_a, b, values_b in pairs
        for metric, difference in measurement.paired_differences(values_a, values_b).items()
    ]
    if lines:
        print_table(("paired difference", "metric", "n", "value", "95 %", "better"), lines)
        out.print("better: the paired bootstrap interval excludes 0", style="dim")


def _format(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    interval: Any = estimate.low is not None and estimate.low == estimate.low
    return f"{estimate.value:.3f}" + (f" ({estimate.low:.3f}–{estimate.high:.3f})" if interval else "")


def _format_difference(difference: Estimate) -> tuple[str, str, str]:
    better = "first" if difference.value > 0 else "second"
    verdict = "undecided" if difference.low <= 0 <= difference.high else better
    return f"{difference.value:+.3f}", f"{difference.low:+.3f} – {difference.high:+.3f}", verdict
