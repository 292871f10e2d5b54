"""What variants reach on a benchmark: their assets are materialized with Dagster, their scores printed side by side.

    python bench/measure_variants.py sample_mcqa uscrake uscrake_published bm25
    python bench/measure_variants.py hotpotqa_100 bm25 cosine uscrake --world bench/worlds/hotpotqa.yaml

Everything is in a temporary folder, or in ``--lake``, where a later call finds its corpora, graphs and evidence again.
Presets need not be opted in. Graphs are built without harvested triples unless ``--harvest`` is given. ``--split dev``
asks the half that settings are chosen on. A world is YAML: its first document links folders and files of
EVIDENCE_DEV_DATA, or collections that ``retrieval_collections.py`` writes, into the lake's ``raw``, the others declare
corpora, graphs and benchmarks as ``evidence_assets/defs`` does, or state ``variants`` of a ``system`` as its
``variants.yaml`` does.

Printed are the metrics of each variant with their 95 % intervals, questions a minute, the difference of the first
variant to each other with its paired bootstrap interval (of every metric where passages are retrieved, else of accuracy
with McNemar's test), and the share of the time that went by
outside assets: checks, the writing of rows, and Dagster's own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parent.parent
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


def materialized(benchmark: str, variants: list[str], harvest: bool) -> Iterator[tuple[list[str], float, float]]:
    """Make the scores of the variants with all upstream; yields a run's assets, its seconds, and those in assets."""
    import dagster as dg

    from evidence_assets.benchmarks.declared_benchmarks import benchmarks
    from evidence_assets.cli.run_selection import RunSelection, batches
    from evidence_assets.definitions import defs

    if benchmark not in benchmarks():
        raise SystemExit(f"there is no benchmark {benchmark!r}; there are {', '.join(benchmarks())}")
    loaded = defs()
    graph, job = loaded.resolve_asset_graph(), loaded.resolve_implicit_global_asset_job_def()
    scores = [dg.AssetKey(["scores", benchmarks()[benchmark].family, name]) for name in variants]
    if missing := [key for key in scores if not graph.has(key)]:
        raise SystemExit(f"there is no asset {'/'.join(missing[0].path)}")

    def by_relation(key: dg.AssetKey) -> bool:
        return isinstance(graph.get(key).partitions_def, dg.DynamicPartitionsDefinition)

    needed_stages, waiting = set(), scores
    while waiting:
        key = waiting.pop()
        harvested = by_relation(key) or any(by_relation(parent) for parent in graph.get(key).parent_keys)
        if key not in needed_stages and graph.get(key).is_executable and (harvest or not harvested):
            needed_stages.add(key)
            waiting += graph.get(key).parent_keys
    with dg.DagsterInstance.get() as instance:
        for keys in batches(graph, RunSelection(frozenset(needed_stages))):
            definition = graph.get(keys[0]).partitions_def
            partitions = (
                [None] if definition is None else definition.get_partition_keys(dynamic_partitions_store=instance)
            )
            partitions = [p for p in partitions if p and p.split("|")[0] == benchmark] or partitions
            for partition in partitions:
                started = time.monotonic()
                result = job.execute_in_process(
                    instance=instance,
                    asset_selection=keys,
                    partition_key=partition,
                    run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                )
                took = time.monotonic() - started
                materializations = [
                    e.step_materialization_data.materialization for e in result.get_asset_materialization_events()
                ]
                seconds = [float(str(m.metadata["seconds"].value)) for m in materializations if "seconds" in m.metadata]
                yield ["/".join(m.asset_key.path) for m in materializations], took, sum(seconds)


def paired(connection: Any, first: str, second: str, benchmark: str) -> dict[str, Any]:
    """Each metric of the variant ``first`` less that of ``second``, with the paired bootstrap interval over questions.

    The questions are those that the stored evidence was selected for; nothing is selected again.
    """
    from evidence_assets.experiment.scores.metrics import paired_bootstrap
    from evidence_assets.experiment.scores.retrieval_scores import passage_values

    of = {"benchmark": benchmark}
    questions = connection.execute(
        "SELECT question_id, gold_evidence FROM questions WHERE benchmark = $benchmark ORDER BY question_id", of
    ).pl()
    sql = """
        SELECT question_id, rank, option, source_kind, source_id, doc_id FROM evidence
        LEFT JOIN (SELECT DISTINCT chunk_id, doc_id FROM chunks) ON chunk_id = source_id
        WHERE benchmark = $benchmark AND asset = $asset
    """
    values = []
    for name in (first, second):
        rows = connection.execute(sql, of | {"asset": f"evidence/retrieval/{name}"}).pl()
        document_of = dict(rows.select("source_id", "doc_id").drop_nulls().iter_rows())
        values.append(passage_values(questions.to_dicts(), rows, document_of))
    return {metric: paired_bootstrap(first_values, values[1][metric]) for metric, first_values in values[0].items()}


def print_scores(benchmark: str, variants: list[str], metrics: list[str], markdown: Path | None) -> None:
    """Print the scores of the variants, and the first against each other; write them as a Markdown table, too."""
    from rich.console import Console
    from rich.table import Table

    from evidence_assets.benchmarks.declared_benchmarks import benchmarks
    from evidence_assets.experiment.scores.comparison import compare
    from evidence_assets.lake.catalogue import connect

    out, family = Console(width=200, highlight=False), benchmarks()[benchmark].family
    with connect(Path(os.environ["EVIDENCE_LAKE"])) as connection:
        rows = connection.execute(
            "SELECT asset, metric, value, low, high, n FROM scores WHERE scope_id = $benchmark AND value IS NOT NULL",
            {"benchmark": benchmark},
        ).fetchall()
        cells_by_metric: dict[tuple[str, str], tuple[Any, ...]] = {
            (asset, metric): rest for asset, metric, *rest in rows
        }
        named = sorted(
            {metric for _, metric in cells_by_metric if any(fnmatch(metric, pattern) for pattern in metrics)}
        )
        table = Table("variant", *named, "n", title=benchmark)
        lines = [f"| variant | {' | '.join(named)} | n |", f"|{'---|' * (len(named) + 2)}"]
        for name in variants:
            asset = f"scores/{family}/{name}"
            cells = [cells_by_metric.get((asset, metric)) for metric in named]
            values = [f"{c[0]:.3f}" + ("" if c[1] is None else f" ({c[1]:.3f}–{c[2]:.3f})") if c else "" for c in cells]
            question_count = str(max((c[3] for c in cells if c), default=""))
            table.add_row(name, *values, question_count)
            lines.append(f"| `{name}` | {' | '.join(values)} | {question_count} |")
        out.print(table)
        if markdown:
            markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for other in variants[1:]:
            if family == "retrieval":
                differences = paired(connection, variants[0], other, benchmark)
                out.print(
                    f"{variants[0]} − {other}:",
                    ", ".join(
                        f"{m} {differences[m].value:+.3f} ({differences[m].low:+.3f} to {differences[m].high:+.3f})"
                        for m in named
                        if m in differences
                    ),
                )
                continue
            for row in compare(connection, f"{family}/{variants[0]}", f"{family}/{other}", benchmark):
                d = row.difference
                out.print(
                    f"{variants[0]} − {other}: {d.value:+.3f} ({d.low:+.3f} to {d.high:+.3f}), only the first right "
                    f"{row.only_a}, only the second {row.only_b}, McNemar p {row.p_value:.3g}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark")
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--world", type=Path, help="YAML of data and declarations")
    parser.add_argument("--lake", type=Path, help="a folder to keep everything in")
    parser.add_argument("--markdown", type=Path, help="a file to write the table to")
    parser.add_argument("--split")
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--harvest", action="store_true")
    parser.add_argument("--metrics", default=METRICS, help="names or patterns, with commas between")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, lake_root = Path(folder), (options.lake or Path(folder)).resolve()
        links = project(root, options.world, options.benchmark, options.split)
        from retrieval_collections import COLLECTIONS, write

        os.environ |= {
            "EVIDENCE_LAKE": str(lake_root / "lake"),
            "DAGSTER_HOME": str(lake_root),
            "EVIDENCE_PRESETS": "all",
        }
        if options.profile:
            os.environ["EVIDENCE_PROFILE"] = str(options.profile.resolve())
        for source, place in links.items():
            target = lake_root / "lake" / "raw" / place
            source_path = Path(os.environ["EVIDENCE_DEV_DATA"]) / source
            if source in COLLECTIONS and not target.exists():
                write(source, source_path.parent, target)
            elif source_path.is_dir() and not target.exists():
                shutil.copytree(source_path, target)
            elif source_path.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source_path, target)
        shutil.copy(REPOSITORY / "dagster.yaml", lake_root)
        wall = inside = 0.0
        for assets, took, seconds in materialized(options.benchmark, options.variants, options.harvest):
            wall, inside = wall + took, inside + seconds
            print(f"{wall:6.0f} s  {', '.join(assets)}", file=sys.stderr)
        print_scores(options.benchmark, options.variants, options.metrics.split(","), options.markdown)
        print(f"{wall:.0f} s, of which {1 - inside / wall:.1%} outside assets")


if __name__ == "__main__":
    main()
