"""How long a trace of one prediction takes in a large lake, beside scanning the views for every step.

A lake is generated, one partition after another in bounded memory: each prediction has four chains, each chain five
rows of evidence, each of them a chunk. Then random predictions are traced both ways, interleaved, and must give the
same rows.

    python -m bench.platform.trace --predictions 100000
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from bench.measuring import make_parser, resident, timed
from evidence_assets.lake import connect, lineage
from evidence_assets.lake.catalogue import create_views
from evidence_assets.lake.lineage import DERIVED, USED
from evidence_assets.lake.schemas import KINDS, TABLES
from evidence_assets.lake.store import Lake

OPTIONS, PER_CHAIN, CHUNKS = 4, 5, 100_000
TEXT = "Evidence of about the length of a sentence or two, as it is picked from a chunk for one option of a question. "


def ids(rng: np.random.Generator, n: int) -> pa.Array:
    """Random ids, as content hashes are."""
    offsets = np.arange(n + 1, dtype=np.int32) * 32
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(rng.bytes(16 * n).hex().encode()))


def make_table(table: str, n: int, **columns: object) -> pa.Table:
    """Rows of a table: the columns given, the rest constant."""
    arrays = []
    for column in TABLES[table].arrow:
        value = columns.get(column.name)
        if value is None:
            empty: object = "" if column.type == pa.string() else [] if pa.types.is_list(column.type) else False
            value = pa.array([None if column.nullable else empty]).cast(column.type).take(pa.array(np.zeros(n, int)))
        elif not isinstance(value, pa.Array | pa.ChunkedArray):
            value = pa.array([value]).take(pa.array(np.zeros(n, int)))
        arrays.append(value.cast(column.type))
    return pa.table(arrays, schema=TABLES[table].arrow)


def edges(child: str, children: pa.Array, relation: str, parent: str, parents: pa.Array) -> pa.Table:
    """One lineage edge a pair."""
    return make_table(
        "lineage_edges",
        len(children),
        child_kind=child,
        child_id=children,
        relation=relation,
        parent_kind=parent,
        parent_id=parents,
        parent_version=parents,
    )


def repeat(array: pa.Array, times: int) -> pa.Array:
    return array.take(pa.array(np.repeat(np.arange(len(array)), times)))


def generate(lake: Lake, predictions: int, per_partition: int) -> None:
    """Fill the lake; partitions that are there already are kept."""
    rng = np.random.default_rng(0)
    chunks = ids(rng, CHUNKS)
    doc_ids = pa.array([f"d{i:06d}" for i in range(CHUNKS)])
    if not lake.files("chunks"):
        rows = make_table("chunks", CHUNKS, chunk_id=chunks, doc_id=doc_ids, text=TEXT)
        lake.write("corpus/c/chunks", "0", {"chunks": rows})
    for shard, start in enumerate(range(0, predictions, per_partition)):
        n, partition = min(per_partition, predictions - start), f"b{shard // 8}|{shard % 8}"
        if lake.path("predictions", "predictions/mcqa/s", partition).exists():
            continue
        rng = np.random.default_rng(shard + 1)
        question, prediction, chain = ids(rng, n), ids(rng, n), ids(rng, n * OPTIONS)
        n_evidence = n * OPTIONS * PER_CHAIN
        evidence, source = ids(rng, n_evidence), chunks.take(pa.array(rng.integers(0, CHUNKS, n_evidence)))
        labels = pa.array(np.tile(np.array(list("ABCD")), n))
        ranks = pa.array(np.tile(np.arange(1, PER_CHAIN + 1), n * OPTIONS))
        of_chain, of_evidence = repeat(question, OPTIONS), repeat(question, OPTIONS * PER_CHAIN)
        lake.write(
            "questions/mcqa", partition, {"questions": make_table("questions", n, question_id=question, text=TEXT)}
        )
        rows = make_table(
            "evidence",
            n_evidence,
            evidence_id=evidence,
            question_id=of_evidence,
            option=repeat(labels, PER_CHAIN),
            kind="chunk",
            source_kind="chunk",
            source_id=source,
            text=TEXT,
            rank=ranks,
            score=pa.array(rng.random(n_evidence)),
            content_hash=ids(rng, n_evidence),
            input_hash=of_evidence,
        )
        used_edges = edges("evidence", evidence, USED, "question", of_evidence)
        derived = edges("evidence", evidence, DERIVED, "chunk", source)
        lake.write(
            "evidence/mcqa/s", partition, {"evidence": rows, "lineage_edges": pa.concat_tables([used_edges, derived])}
        )
        rows = make_table("chains", n * OPTIONS, chain_id=chain, question_id=of_chain, hypothesis=labels)
        question_edges = edges("chain", chain, USED, "question", of_chain)
        evidence_edges = edges("chain", repeat(chain, PER_CHAIN), USED, "evidence", evidence)
        lake.write(
            "chains/mcqa/s",
            partition,
            {"chains": rows, "lineage_edges": pa.concat_tables([question_edges, evidence_edges])},
        )
        rows = make_table(
            "predictions", n, prediction_id=prediction, question_id=question, answer="A", status="answered"
        )
        question_edges = edges("prediction", prediction, USED, "question", question)
        chain_edges = edges("prediction", repeat(prediction, OPTIONS), USED, "chain", chain)
        lake.write(
            "predictions/mcqa/s",
            partition,
            {"predictions": rows, "lineage_edges": pa.concat_tables([question_edges, chain_edges])},
        )


def scan_parents(connection: duckdb.DuckDBPyConnection, identifier: str) -> dict[str, list[str]]:
    """The baseline: every step asks the whole view for the parents of the rows found last."""
    row_keys: dict[tuple[str, str], None] = {}
    frontier = [identifier]
    while frontier:
        rows = connection.execute(
            "SELECT DISTINCT parent_kind, parent_id FROM lineage_edges WHERE child_id IN (SELECT unnest($ids))",
            {"ids": frontier},
        ).fetchall()
        frontier = [row[1] for row in rows if (row[0], row[1]) not in row_keys]
        row_keys |= {(row[0], row[1]): None for row in rows}
    by_kind: dict[str, list[str]] = {}
    for kind, row_id in sorted(row_keys):
        by_kind.setdefault(kind, []).append(row_id)
    return by_kind


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--predictions", type=int, default=100_000)
    parser.add_argument("--per-partition", type=int, default=20_000)
    parser.add_argument("--traces", type=int, default=7)
    parser.add_argument(
        "--folder", type=Path, help="Where to make the lake, and keep it; used again where it is there."
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = (arguments.folder or Path(temporary)) / "data_lake"
        lake = Lake.create(root)
        _, seconds = timed(generate, lake, arguments.predictions, arguments.per_partition)
        peak = resident("VmHWM") / 1024
        print(f"generated in {seconds:.0f} s, peak memory {peak:.2f} GiB")
        for table in ("questions", "evidence", "chains", "predictions", "lineage_edges"):
            files = lake.files(table)
            size = sum(path.stat().st_size for path in files)
            with connect(root) as connection:
                rows = connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            print(f"{table:14} {rows:>12,} rows {size:>14,} bytes {size / rows:7.1f} a row, {len(files)} files")
        with connect(root) as connection:
            sampled = [
                r[0]
                for r in connection.execute(
                    "SELECT prediction_id FROM predictions USING SAMPLE reservoir(64 ROWS) REPEATABLE (1)"
                ).fetchall()
            ]
        our_seconds, base, opening, cpu = [], [], [], []
        for identifier in sampled[: arguments.traces + 1]:
            before = time.process_time()
            connection, seconds = timed(connect, root, lazy=True)
            opening.append(seconds)
            tree, seconds = timed(lineage.trace, connection, identifier)
            cpu.append(time.process_time() - before)
            our_seconds.append(seconds + opening[-1])
            create_views(connection, "lineage_edges")
            rows, seconds = timed(scan_parents, connection, identifier)
            base.append(seconds)
            row_ids = lineage.distinct_ids(tree)
            assert {kind: ids for kind, ids in row_ids.items() if kind in KINDS} == rows, identifier
            assert len(row_ids["document"]) == len(row_ids["chunk"])
            assert len(rows["evidence"]) == OPTIONS * PER_CHAIN
            connection.close()
    ms = [1000 * statistics.median(values[1:]) for values in (our_seconds, base, opening, cpu)]
    print(
        f"trace of one prediction, the lake opened for it, median of {arguments.traces}: {ms[0]:.0f} ms "
        f"(worst {1000 * max(our_seconds[1:]):.0f} ms), {ms[3]:.0f} ms of CPU"
    )
    print(f"of these {ms[2]:.0f} ms to open the lake; scanning the views {ms[1]:.0f} ms; ratio {ms[1] / ms[0]:.1f}")


if __name__ == "__main__":
    main()
