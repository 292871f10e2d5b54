"""Evidence and chains of questions about one large table: memory against rows kept as dictionaries, and their pace.

    python bench/bench_table_evidence.py [--questions 100]

The table has 1,200 rows. Both sides make the same rows of evidence and edges in a process of its own each, as the peak of
a process never falls: one a block at a time, the other all of them before the first is typed. Equal results are asserted. Then
the chains are written and their citations checked. Takes less than a minute; 400 questions take three.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Sequence

import numpy as np
import polars as pl

from evidence_assets.benchmarks.records import Table
from evidence_assets.experiment import rows as rows_of
from evidence_assets.experiment.chains import chain_rows, citation_rows
from evidence_assets.experiment.selection import Asked, evidence_rows
from evidence_assets.lake.store import Rows, prepare, version_of
from evidence_assets.reasoning.tables.solver import TableSolver
from evidence_assets.systems import settings_of
from evidence_assets.systems.ucret.selector import CollapsedTable

ROWS = 1_200


class NoEncoder:
    """All columns are kept, so that no vector is asked for."""

    model_id, revision, dimensions = "none", "0", 1

    def sentences(self, texts: Sequence[str]) -> np.ndarray:
        raise AssertionError("nothing is encoded here")


def world(questions: int) -> tuple[dict[str, tuple[Table, str]], list[Asked]]:
    """Animals with their weights, and what each weighs."""
    draw = np.random.default_rng(0)
    names = [f"{a} {b}{c}" for a in ("Red", "Grey", "Pygmy", "Marsh") for b in "bcdfghklmnprst" for c in
             ("ira", "oma", "una", "ale", "ito", "eno", "ussa", "ork", "ibex", "ant", "olt", "yra", "ekko", "ado",
              "unk", "erra", "ix", "ombo", "aya", "urro", "ima", "osa")][:ROWS]  # fmt: skip
    rows = [("A(n)", name, "weighs", str(draw.integers(1, 900)), "kilograms") for name in names]
    table = Table("t", "bench", "Weights of animals", ("", "Animal", "", "Weight", ""), tuple(rows))
    asked = []
    for i, k in enumerate(draw.integers(len(rows), size=questions)):
        options = (rows[k][3], *(rows[j][3] for j in draw.integers(len(rows), size=3)))
        asked.append(Asked(f"q{i:05d}", "bench", "table_qa", f"How much does a {rows[k][1]} weigh?", options, "t"))
    return {"t": (table, "v1")}, asked


def frame(table: str, rows: Rows) -> pl.DataFrame:
    found = pl.from_arrow(prepare(table, rows))
    assert isinstance(found, pl.DataFrame)
    return found


def made(questions: int, block: int, answer: multiprocessing.Queue[tuple[str, str, int, float]]) -> None:
    """Make the evidence with blocks of so many rows; tell its hash, and by how much the process has grown."""
    tables, asked = world(questions)
    selector = CollapsedTable("keep_all", tables, settings_of("table/keep_all"), NoEncoder())  # type: ignore[arg-type]
    rows_of.BLOCK = block
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = evidence_rows(selector, asked)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    versions = [
        version_of(prepare(name, part)) for name, part in (("evidence", rows.rows), ("lineage_edges", rows.lineage))
    ]
    answer.put((versions[0], versions[1], rows.rows.num_rows, grown))


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--questions", type=int, default=100)
    questions = reader.parse_args().questions
    context = multiprocessing.get_context("spawn")
    found = {}
    for name, block in (("all at once", 10**12), ("in blocks", rows_of.BLOCK)):
        answer = context.Queue()
        child = context.Process(target=made, args=(questions, block, answer))
        child.start()
        found[name] = answer.get()
        child.join()
    once, blocks = found["all at once"], found["in blocks"]
    assert once[:3] == blocks[:3], "both ways must make the same rows"
    print(
        f"{questions} questions, {once[2]:,} rows of evidence and their edges: grown by {blocks[3]:,.0f} MB in blocks, "
        f"{once[3]:,.0f} MB all at once: {once[3] / blocks[3]:.1f} times as much"
    )
    tables, asked = world(questions)
    selector = CollapsedTable("keep_all", tables, settings_of("table/keep_all"), NoEncoder())  # type: ignore[arg-type]
    evidence = frame("evidence", evidence_rows(selector, asked).rows)
    start = time.perf_counter()
    chains = chain_rows(TableSolver(), "keep_all", asked, evidence)
    middle = time.perf_counter()
    citations = citation_rows(frame("chains", chains.rows), evidence)
    end = time.perf_counter()
    assert citations.metadata["verified_share"] == 1.0
    print(
        f"chains: {questions / (middle - start):,.0f} questions a second, {1000 * (middle - start) / questions:.0f} ms each "
        f"for four options; citations: {len(citations.rows):,} checked in {end - middle:.1f} s"
    )


if __name__ == "__main__":
    main()
