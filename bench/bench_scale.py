"""A corpus from 20,000 to a million chunks: seconds, bytes and memory of every stage, and of who answers from it.

    EVIDENCE_DEV_DATA=<folder> python bench/bench_scale.py [--sizes 20000 200000 1000000] [--folder FOLDER]

Documents are real sentences put together anew (`recombined`), cut, encoded, indexed and answered from by the functions
that the assets call. Their vectors are known already, so that the row "embeddings" is the cost of keeping and reading vectors;
what the encoder itself takes is printed beside it and added to the extrapolation. Each stage is a process of its own.
"Own memory" is the greatest resident set without mapped files; "with files" counts the pages that were mapped as well, which
the system takes back where memory is short. A second run on the same folder makes nothing again that is there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.recombined import SENTENCES_A_DOCUMENT, Recombined, questions, write_documents
from evidence_assets import profiles
from evidence_assets.experiment import corpus_making
from evidence_assets.lake.store import Lake
from evidence_assets.models import in_use
from evidence_assets.models.encoders import EMBEDDED, load_encoder
from evidence_assets.retrieval.corpus import open_corpus

NAME = "scale"
POOLS = (200, 2_000, 20_000)
ASKED = {200: 40, 2_000: 10, 20_000: 3}
"""Questions at each size of the pool; each is asked once to fill the cache, and then measured."""
PAPER = {"11.4 M chunks": 11_400_000, "41 M chunks": 41_000_000}
STAGES = ("chunks", "embeddings", "index", "tokens")
MIB = 2**20


# In the process of a stage -----------------------------------------------------------------------------------------


def own_memory() -> float:
    """MiB of this process that are no mapped files."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return float(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1]) / 1024


@contextmanager
def measured(into: dict[str, Any]) -> Iterator[None]:
    """Seconds and the greatest own memory of what is done within."""
    done, peak = threading.Event(), [own_memory()]
    before = peak[0]

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], own_memory())

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    start = time.perf_counter()
    try:
        yield
    finally:
        into["seconds"] = time.perf_counter() - start
        done.set()
        watching.join()
        into["own"], into["gained"] = max(peak[0], own_memory()), max(peak[0], own_memory()) - before
        into["with files"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def use(folder: Path) -> Recombined:
    """Have everything in this process encoded by the recombined encoder."""
    encoder = Recombined(folder / "sentences")
    in_use.load_encoder = lambda name, **_: encoder  # type: ignore[assignment]
    return encoder


def chunks(lake: Lake, source: Path) -> None:
    corpus_making.make_chunks(lake, NAME, source)


def embeddings(lake: Lake, source: Path) -> None:
    corpus_making.make_embeddings(lake, NAME)


def index(lake: Lake, source: Path) -> dict[str, Any]:
    return vars(corpus_making.index(lake, NAME))


def tokens(lake: Lake, source: Path) -> None:
    corpus_making.tokens_of(lake, NAME, "on_demand")


def opening(lake: Lake) -> dict[str, Any]:
    """Open the corpus and read a thousand chunks of it anywhere."""
    made: dict[str, Any] = {}
    with measured(made):
        corpus = open_corpus(lake, NAME)
    positions = np.random.default_rng(0).integers(0, len(corpus), 1_000)
    start = time.perf_counter()
    assert len(corpus.texts(positions)) == 1_000
    made["thousand texts"] = time.perf_counter() - start
    made["chunks"] = len(corpus)
    return made


def asking(lake: Lake, size: int) -> dict[str, Any]:
    """Ask real questions of five options with pools of some size: a first time, which fills the cache, and again."""
    from evidence_assets.experiment.asked import AskedStep, Source
    from evidence_assets.experiment.selection import Asked
    from evidence_assets.systems.uscrake.methods import SYSTEM
    from evidence_assets.systems.uscrake.settings import Settings

    made: dict[str, Any] = {}
    texts = [Asked(f"q{n}", "asked", "mcqa", text, options(n)) for n, text in enumerate(questions()[: ASKED[size]])]
    with measured(made):
        step = AskedStep(lake, "evidence", "evidence/mcqa/uscrake", "asked|scale", source=Source(NAME))
        selector = SYSTEM.methods["uscrake"].open("uscrake", step, Settings(R=size, parts="chunks"))
        first, again = [], []
        for times in (first, again):
            for text in texts:
                start = time.perf_counter()
                assert selector.select([text])[0]
                times.append(time.perf_counter() - start)
    return {**made, "first": statistics.median(first), "again": statistics.median(again)}


def options(number: int) -> tuple[str, ...]:
    """Five answers of HotpotQA."""
    rows = json.loads(Path(os.environ["EVIDENCE_DEV_DATA"], "hotpotqa-100", "hotpotqa_train.json").read_text("utf-8"))
    answers = list(dict.fromkeys(row["answer"] for row in rows if row["answer"] not in ("yes", "no")))
    return tuple(answers[(number + i) % len(answers)] for i in range(5))


def in_child(stage: str, folder: Path, size: int) -> dict[str, Any]:
    """What a stage takes, in a process of its own."""
    command = [sys.executable, "-m", "bench.bench_scale", "--stage", stage, "--folder", str(folder), "--sizes", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"stage {stage} at {size} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def stage(name: str, folder: Path, size: int) -> dict[str, Any]:
    """The body of such a process."""
    use(folder)
    root = folder / str(size)
    lake = Lake(root / "lake") if (root / "lake").is_dir() else Lake.create(root / "lake", question_shards=1, corpus_shards=SHARDS)
    if name == "open":
        return opening(lake)
    if name.isdecimal():
        return asking(lake, int(name))
    made: dict[str, Any] = {}
    before = disk(lake.root)
    with measured(made):
        told = STAGE[name](lake, root / "source")
    return {**made, "disk": disk(lake.root) - before, "told": told}


def disk(folder: Path) -> int:
    """Bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
