"""What variants reach on a benchmark: their assets are materialized with Dagster, their scores printed side by side.

    python -m bench.answers.measure_variants sample_mcqa uscrake uscrake_published bm25
    python -m bench.answers.measure_variants hotpotqa_100 bm25 cosine uscrake --world bench/worlds/hotpotqa.yaml

Everything is in a temporary folder, or in ``--lake``, where a later call finds its corpora, graphs and evidence again.
Presets need not be opted in. Graphs are built without harvested triples. ``--split dev`` asks the half that settings
are chosen on. A world is YAML: its first document links folders and files of EVIDENCE_DEV_DATA, or collections that
``retrieval_collections.py`` writes, into the lake's ``raw``, the others declare corpora, graphs and benchmarks as
``evidence_assets/defs`` does, or state ``variants`` of a ``system`` as its ``variants.yaml`` does.

Printed are the chosen metrics of each variant with their 95 % intervals, and what `evidence measure` prints: paired
differences of the first variant to each other, with ``--halves`` on the first half of the questions, on which settings
are chosen, and on the second. Where the benchmark is part of a lake, use `evidence measure` itself.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import yaml

from bench.dev_data import dev_data
from bench.measuring import make_parser
from bench.result_files import TOKENS, print_table, write_results

if TYPE_CHECKING:
    from evidence_assets.cli.measure import BenchmarkRows
    from evidence_assets.experiment.variants import Variant
    from evidence_assets.lake.store import Lake

REPOSITORY = Path(__file__).resolve().parents[2]
DIFFERENCE = "{}, first variant − this"
METRICS = "accuracy,hit@1,recall@2,recall@5,recall@10,mrr,ndcg@10,evidence_recall"


def project(root: Path, world: Path | None, benchmark: str, split: str | None) -> dict[str, str]:
    """Copy the package with the world's declarations beside its own; returns the folders to link into ``raw``."""
    package = root / "project" / "evidence_assets"
    shutil.copytree(REPOSITORY / "evidence_assets", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", root / "project")
    links, *documents = list(yaml.safe_load_all(world.read_text(encoding="utf-8"))) if world else [{}]
    if declared := [document for document in documents if "type" in document]:
        (package / "defs" / "benchmarks" / "world").mkdir()
        (package / "defs" / "benchmarks" / "world" / "defs.yaml").write_text(
            yaml.safe_dump_all(declared), encoding="utf-8"
        )
    for variant_document in [document for document in documents if "variants" in document]:
        with (package / "systems" / variant_document["system"] / "variants.yaml").open("a", encoding="utf-8") as file:
            file.write(yaml.safe_dump(variant_document["variants"]))
    if split:
        for path in (package / "defs").rglob("*.yaml"):
            documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
            benchmark_fields = [d["attributes"] for d in documents if d and d["type"].endswith(".Benchmark")]
            if chosen := [attributes for attributes in benchmark_fields if attributes["name"] == benchmark]:
                chosen[0]["split"] = split
                path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    sys.path.insert(0, str(root / "project"))
    return dict(links)


def materialize_scores(benchmark: str, names: list[str]) -> tuple[BenchmarkRows, dict[str, pl.DataFrame]]:
    """Make the scores of the variants with all that they need; returns the rows they are measured by, and recalls."""
    import dagster as dg

    from evidence_assets.assets.definitions import load_definitions
    from evidence_assets.assets.resources import LakeResource
    from evidence_assets.cli.materialize import print_report
    from evidence_assets.cli.measure import BenchmarkRows
    from evidence_assets.cli.run_selection import find_benchmark, select_assets, select_variants
    from evidence_assets.cli.runner import run_all

    declared = find_benchmark(benchmark)
    variants = select_variants(declared, names)
    graph = load_definitions().resolve_asset_graph()
    selection = select_assets(graph, declared, variants)
    keys = selection.keys or frozenset()

    def by_relation(key: dg.AssetKey) -> bool:
        return isinstance(graph.get(key).partitions_def, dg.DynamicPartitionsDefinition)

    harvested_keys = {key for key in keys if any(map(by_relation, (key, *graph.get(key).parent_keys)))}
    report = run_all(replace(selection, keys=keys - harvested_keys))
    print_report(report, "bench.answers.measure_variants")
    return BenchmarkRows.read(declared, variants), read_recalls(LakeResource().open(), benchmark, variants)


def read_recalls(lake: Lake, benchmark: str, variants: Sequence[Variant]) -> dict[str, pl.DataFrame]:
    """By label of a variant, the chains in which a model recalled its evidence; variants can share them."""
    from evidence_assets import systems
    from evidence_assets.experiment.stages import build_stages

    recalls = {}
    for variant in variants:
        stages = build_stages(systems.open_method(variant))
        inputs = {each.key for stage in stages if stage.table == "evidence" for each in stage.inputs}
        keys = sorted(key for key in inputs if key.startswith("chains/"))
        tables = [lake.read("chains", key) for key in keys]
        rows = pl.concat(tables) if tables else lake.read("chains").clear()
        recalls[variant.label] = rows.filter(pl.col("benchmark") == benchmark)
    return recalls


def differences_of(rows: BenchmarkRows, metric: str) -> dict[str, str]:
    """The paired difference of the first variant's metric to that of each other, by label."""
    from evidence_assets.experiment.scores.measurement import paired_differences, question_values
    from evidence_assets.experiment.stored_rows import QuestionRow, typed_rows

    family = rows.benchmark.family
    questions = typed_rows(rows.questions, QuestionRow)
    values = {label: question_values(family, questions, tables) for label, tables in rows.tables.items()}
    first, *others = values
    differences = {}
    for label in others:
        estimate = paired_differences(values[first], values[label])[metric]
        differences[label] = f"{estimate.value:+.3f} ({estimate.low:+.3f} to {estimate.high:+.3f})"
    return differences


def count_tokens(*tables: pl.DataFrame) -> str:
    """Tokens that a language model read and wrote for rows of predictions and chains."""
    rows = pl.concat([table.select("tokens_in", "tokens_out") for table in tables])
    return ", ".join(f"{int(rows[name].sum()):,}" for name in rows.columns)


def print_scores(
    rows: BenchmarkRows, tokens: Mapping[str, str], metrics: list[str], json_file: Path | None, *, with_model: bool
) -> None:
    """Print the chosen metrics of the variants; write them as a result file, too.

    ``with_model`` adds paired differences of the accuracy, or of the first metric of a search, and ``tokens``.
    """
    from evidence_assets.lake.catalogue import connect

    benchmark = rows.benchmark.name
    compared = metrics[0] if rows.benchmark.family == "search" else "accuracy"
    differences = differences_of(rows, compared) if with_model else {}
    with connect(Path(os.environ["EVIDENCE_LAKE"])) as connection:
        scores = connection.execute(
            "SELECT asset, metric, value, low, high, n FROM scores WHERE scope_id = $benchmark AND value IS NOT NULL",
            {"benchmark": benchmark},
        ).fetchall()
        cells_by_metric = {(asset, metric): (*figures,) for asset, metric, *figures in scores}
        named = sorted(
            {metric for _, metric in cells_by_metric if any(fnmatch(metric, pattern) for pattern in metrics)}
        )
        heads = ["variant", *named, *([DIFFERENCE.format(compared), TOKENS] if with_model else []), "n"]
        lines = []
        for name in rows.tables:
            asset = f"scores/{rows.benchmark.family}/{name.replace('@', '/')}"
            cells = [cells_by_metric.get((asset, metric)) for metric in named]
            values = [f"{c[0]:.3f}" + ("" if c[1] is None else f" ({c[1]:.3f}–{c[2]:.3f})") if c else "" for c in cells]
            question_count = str(max((c[3] for c in cells if c), default=""))
            of_model = [differences.get(name, ""), tokens[name]] if with_model else []
            lines.append([f"`{name}`", *values, *of_model, question_count])
        print_table(heads, lines, benchmark)
        if json_file:
            write_results(json_file, heads, lines)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("benchmark")
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--world", type=Path, help="YAML of data and declarations")
    parser.add_argument("--lake", type=Path, help="a folder to keep everything in")
    parser.add_argument("--json", type=Path, help="a file to write the results to")
    parser.add_argument("--split")
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--halves", action="store_true", help="print differences on both halves of the questions")
    parser.add_argument("--with-model", action="store_true", help="add paired differences, and tokens")
    parser.add_argument("--metrics", default=METRICS, help="names or patterns, with commas between")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, lake_root = Path(folder), (options.lake or Path(folder)).resolve()
        links = project(root, options.world, options.benchmark, options.split)
        from bench.retrieval.retrieval_collections import COLLECTIONS, QUESTIONS, write

        os.environ |= {
            "EVIDENCE_LAKE": str(lake_root / "lake"),
            "DAGSTER_HOME": str(lake_root),
            "EVIDENCE_PRESETS": "all",
        }
        if options.profile:
            os.environ["EVIDENCE_PROFILE"] = str(options.profile.resolve())
        for source, place in links.items():
            target = lake_root / "lake" / "raw" / place
            source_path = dev_data() / source
            if source in COLLECTIONS and not target.exists():
                write(source, source_path.parent, target)
            elif source in QUESTIONS and not target.exists():
                QUESTIONS[source](source_path.parent, target)
            elif source_path.is_dir() and not target.exists():
                shutil.copytree(source_path, target)
            elif source_path.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source_path, target)
        from evidence_assets.cli.console import report_errors
        from evidence_assets.cli.measure import print_measurements

        with report_errors():
            rows, recalls = materialize_scores(options.benchmark, options.variants)
        tokens = {
            name: count_tokens(tables.predictions, tables.chains, recalls[name]) for name, tables in rows.tables.items()
        }
        print_scores(rows, tokens, options.metrics.split(","), options.json, with_model=options.with_model)
        for half in ("first", "second") if options.halves else (None,):
            print_measurements(rows, half, with_baselines=False)


if __name__ == "__main__":
    main()
