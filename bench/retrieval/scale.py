"""A corpus from 20,000 to a million chunks: seconds, bytes and memory of every stage, and of answering from it.

    EVIDENCE_DEV_DATA=<folder> python -m bench.retrieval.scale [--sizes 20000 200000 1000000] [--folder FOLDER]

Documents are real sentences put together anew (`recombined`), cut, encoded, indexed and answered from by the functions
that the assets call. Their vectors are known already, so that the row "embeddings" is the cost of keeping and reading
vectors. Each stage is a process of its own. "Own memory" is the greatest resident set without mapped files; "with
files" counts the pages that were mapped as well, which the system takes back where memory is short. A second run on the
same folder makes nothing again that is there.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.dev_data import hotpotqa_rows
from bench.measuring import disk, in_new_process, make_parser, measured
from bench.retrieval.recombined import Recombined, questions, write_documents
from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.experiment import corpus_building
from evidence_assets.experiment.ad_hoc_questions import QuestionSource
from evidence_assets.experiment.stage import StageContext, StageOutput
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.store import Lake
from evidence_assets.models import registry
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval import index_building
from evidence_assets.retrieval.corpus import open_corpus
from evidence_assets.systems.uscrake.system import Uscrake

NAME = "scale"
POOLS = (200, 2_000, 20_000)
QUESTIONS_BY_POOL = {200: 40, 2_000: 10, 20_000: 3}
"""Questions at each size of the pool; each is asked once to fill the cache, and then measured."""
SHARDS = 16
PROFILE = f"""name: scale
extends: embedded
description: The embedded profile with a corpus of several shards.
shards: {{questions: 1, corpus: {SHARDS}}}
"""
CHUNK_TOKENS = 128
MIB = 2**20


# In the process of a stage -----------------------------------------------------------------------------------------


def use(folder: Path) -> Recombined:
    """Have everything in this process encoded by the recombined encoder."""
    encoder = Recombined(folder / "sentences")
    registry.load_encoder = lambda name, **_: encoder  # type: ignore[assignment,attr-defined]
    return encoder


def each_shard(lake: Lake, table: str, stage: str, make: Callable[[StageContext], StageOutput]) -> None:
    """Make the shards of an asset of the corpus one after another, as its partitions are."""
    for shard in range(SHARDS):
        step = StageContext(lake, table, f"corpus/{NAME}/{stage}", str(shard))
        output = make(step)
        rows = {table: output.rows}
        lake.write(
            step.asset, step.partition, rows if output.lineage is None else {**rows, "lineage_edges": output.lineage}
        )


def chunks(lake: Lake, source: Path) -> None:
    each_shard(lake, "chunks", "chunks", lambda step: corpus_building.build_chunks(step, NAME, group_files(source)))


def embeddings(lake: Lake, source: Path) -> None:
    each_shard(lake, "chunk_embeddings", "embeddings", lambda step: corpus_building.build_embeddings(step, NAME))


def index(lake: Lake, source: Path) -> dict[str, Any]:
    build = index_building.write_index
    gained: list[float] = []

    def alone(*arguments: Any, **named: Any) -> Any:
        index, used = measured(build, *arguments, **named)
        gained.append(used.megabytes)
        return index

    index_building.write_index = alone
    return {**vars(corpus_building.build_index(lake, NAME)), "gained": gained[-1]}


def tokens(lake: Lake, source: Path) -> None:
    corpus_building.build_token_store(lake, NAME)


STAGES: dict[str, Callable[[Lake, Path], Any]] = {
    "chunks": chunks,
    "embeddings": embeddings,
    "index": index,
    "tokens": tokens,
}


def opening(lake: Lake) -> dict[str, Any]:
    """Open the corpus and read a thousand chunks of it anywhere."""
    corpus, used = measured(open_corpus, lake, NAME)
    positions = np.random.default_rng(0).integers(0, len(corpus), 1_000)
    start = time.perf_counter()
    assert len(corpus.texts(positions)) == 1_000
    return {**asdict(used), "thousand texts": time.perf_counter() - start, "chunks": len(corpus)}


def measure_answering(lake: Lake, size: int) -> dict[str, Any]:
    """Ask real questions of five options with pools of some size: a first time, which fills the cache, and again."""
    (first, again), used = measured(ask_twice, lake, size)
    return {**asdict(used), "first": statistics.median(first), "again": statistics.median(again)}


def ask_twice(lake: Lake, size: int) -> tuple[list[float], list[float]]:
    """Seconds of each question, the first time and the second."""
    asked_questions = [
        Question(f"q{n}", "asked", "mcqa", text, options(n))
        for n, text in enumerate(questions()[: QUESTIONS_BY_POOL[size]])
    ]
    step = StageContext(
        lake,
        "evidence",
        "evidence/mcqa/uscrake",
        "asked|scale",
        ad_hoc_benchmark=QuestionSource(NAME).benchmark("mcqa"),
    )
    parameters = {"R": size, "parts": "chunks"}
    variant = Variant(system="uscrake", family="mcqa", name="scale", parameters=parameters)
    selector = Uscrake(variant).open_selector(step)

    def ask(question: Question) -> float:
        start = time.perf_counter()
        assert next(iter(selector.select([question])))
        return time.perf_counter() - start

    return [ask(question) for question in asked_questions], [ask(question) for question in asked_questions]


def options(number: int) -> tuple[str, ...]:
    """Five answers of HotpotQA."""
    answers = list(dict.fromkeys(row["answer"] for row in hotpotqa_rows() if row["answer"] not in ("yes", "no")))
    return tuple(answers[(number + i) % len(answers)] for i in range(5))


def measure_stage(name: str, folder: Path, size: int) -> dict[str, Any]:
    """What a stage takes, or opening the corpus, or asking questions with a pool of this size."""
    use(folder)
    root = folder / str(size)
    is_made = (root / "lake").is_dir()
    lake = Lake(root / "lake") if is_made else Lake.create(root / "lake", question_shards=1, corpus_shards=SHARDS)
    if name == "open":
        return opening(lake)
    if name.isdecimal():
        return measure_answering(lake, int(name))
    before = disk(lake.root)
    report, used = measured(STAGES[name], lake, root / "source")
    return {**asdict(used), "disk": disk(lake.root) - before, "told": report}


# In the process that prints -----------------------------------------------------------------------------------------


def made_at(folder: Path, size: int, encoder: Recombined) -> dict[str, dict[str, Any]]:
    """Cost of every stage at a size; results of an earlier run in the same folder are reused."""
    root, noted = folder / str(size), folder / str(size) / "noted.json"
    if not (root / "source").is_dir():
        write_documents(root / "source", encoder.texts, round(size / encoder.chunks_a_document(CHUNK_TOKENS)))
    results: dict[str, dict[str, Any]] = json.loads(noted.read_text()) if noted.exists() else {}
    for name in (*STAGES, "open", *map(str, POOLS)):
        if name not in results:
            results[name] = in_new_process(measure_stage, name, folder, size)
            noted.write_text(json.dumps(results, default=str))
            print(f"{size:,} {name}: {results[name]}", file=sys.stderr, flush=True)
    return results


def show(results: dict[int, dict[str, dict[str, Any]]]) -> None:
    """The tables of what was measured."""
    print(
        "| chunks | stage | s | s / 1,000 chunks | bytes / chunk | own memory, MiB | with files, MiB |\n"
        "|---|---|---|---|---|---|---|"
    )
    for result in results.values():
        count = result["open"]["chunks"]
        for name in STAGES:
            row = result[name]
            print(
                f"| {count:,} | {name} | {row['wall']:.1f} | {1000 * row['wall'] / count:.2f} | "
                f"{row['disk'] / count:,.0f} | {row['peak']:,.0f} | {row['with_files']:,.0f} |"
            )
    print(
        "\n| chunks | open, s | it gains, MiB | R | s / question, first | again | own memory, MiB | with files, MiB |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for result in results.values():
        opened = result["open"]
        for pool in POOLS:
            row = result[str(pool)]
            print(
                f"| {opened['chunks']:,} | {opened['wall']:.2f} | {opened['megabytes']:.0f} | {pool:,} | "
                f"{row['first']:.2f} | {row['again']:.2f} | {row['peak']:,.0f} | {row['with_files']:,.0f} |"
            )
    for result in results.values():
        index_report = result["index"]["told"]
        recall = ", ".join(f"{share} at {k}" for k, share in index_report["recall"].items()) or "exact"
        print(
            f"\nIndex of {index_report['vectors']:,}: {index_report['kind']}, {index_report['bytes'] / MIB:,.0f} MiB, "
            f"{index_report['nprobe']} lists searched, recall {recall}; "
            f"built within {index_report['gained'] / (index_report['bytes'] / MIB):.2f} times its size, "
            f"{index_report['gained']:,.0f} MiB above what the process held before"
        )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000, 200_000, 1_000_000])
    parser.add_argument("--folder", type=Path, help="Where corpora are kept; a temporary folder where none is named.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        encoder = Recombined(folder / "sentences")
        (folder / "scale.yaml").write_text(PROFILE, encoding="utf-8")
        os.environ["EVIDENCE_PROFILE"] = str(folder / "scale.yaml")  # of the processes of the stages
        show({size: made_at(folder, size, encoder) for size in sorted(arguments.sizes)})


if __name__ == "__main__":
    main()
