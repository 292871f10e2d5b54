"""A corpus as its assets make it: what a killed step had encoded is there for the next, and shards take
turns on cards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evidence_assets.benchmarks.corpora import portions
from evidence_assets.experiment import corpus_making
from evidence_assets.experiment.stage import StageContext
from evidence_assets.lake.errors import NoRoom
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import ModelSettings
from evidence_assets.retrieval import vector_index
from evidence_assets.retrieval.corpus import open_corpus

KILLED = """
import os, signal, sys
from pathlib import Path
from evidence_assets.benchmarks.corpora import portions
from evidence_assets.experiment import corpus_making
from evidence_assets.experiment.stage import StageContext
from evidence_assets.lake import blocks
from evidence_assets.lake.store import Lake
from evidence_assets.retrieval import embedding
blocks.BLOCK_SECONDS, embedding.TOGETHER = 0.0, 4
lake, calls = Lake(sys.argv[1]), 0
real = embedding._encoded
def dies(encoder, texts):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(encoder, texts)
embedding._encoded = dies
made = corpus_making.embeddings(StageContext(lake, "chunk_embeddings", "corpus/c/embeddings", "0"), "c")
lake.write("corpus/c/embeddings", "0", {"chunk_embeddings": made.rows, "lineage_edges": made.lineage})
print(made.reused, calls)
"""


def run(lake: Lake, dies_at: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KILLED, str(lake.root), str(dies_at)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)


def chunked(root: Path, folder: Path) -> Lake:
    lake = Lake.create(root, question_shards=1, corpus_shards=1)
    step = StageContext(lake, "chunks", "corpus/c/chunks", "0")
    lake.write(step.asset, "0", {"chunks": corpus_making.chunks(step, "c", portions(folder)).rows})
    return lake


@pytest.mark.long
def test_a_killed_step_goes_on_from_its_last_block_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for number in range(18):
        (tmp_path / "raw" / f"{number}.txt").write_text(f"Number {number} {'is told ' * (number % 5)}here.")
    lake, whole = (chunked(tmp_path / name, tmp_path / "raw") for name in ("killed", "whole"))
    assert run(lake, 4).returncode == -signal.SIGKILL
    assert not lake.path("chunk_embeddings", "corpus/c/embeddings", "0").exists()
    assert run(lake, 0).stdout.split() == ["12", "2"], "three blocks of four are taken over, the rest is encoded"
    assert run(whole, 0).stdout.split() == ["0", "5"]
    for table in ("chunk_embeddings", "lineage_edges"):
        one, other = (made.path(table, "corpus/c/embeddings", "0").read_bytes() for made in (lake, whole))
        assert one == other


FULL = """
import resource, signal, sys
from pathlib import Path
from evidence_assets.benchmarks.corpora import portions
from evidence_assets.experiment.corpus_making import make_corpus
from evidence_assets.lake.errors import NoRoom
from evidence_assets.lake.store import Lake
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
lake, asked = Lake(sys.argv[1]), portions(Path(sys.argv[2]))
for most in map(int, sys.argv[3:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    stages = []
    try:
        make_corpus(lake, "c", asked, stages.append)
        print("made with", most)
    except NoRoom as error:
        print(len(stages), error.strerror, flush=True)
"""


@pytest.mark.slow
@pytest.mark.long
def test_a_disk_that_fills_in_any_stage_leaves_the_old_corpus(tmp_path: Path) -> None:
    """Files may not grow beyond a limit, which each stage meets at another size, as a full disk does."""
    folder = tmp_path / "raw"
    folder.mkdir()
    text = "".join(f"Bee number {i} buzzes in the garden of its own hive. " for i in range(400))
    (folder / "a.jsonl").write_text(json.dumps({"doc_id": "a", "text": text}) + "\n")
    lake = Lake.create(tmp_path / "lake", question_shards=1, corpus_shards=1)
    corpus_making.make_corpus(lake, "c", portions(folder), lambda said: None)
    before = open_corpus(lake, "c").version
    (folder / "a.jsonl").write_text(json.dumps({"doc_id": "a", "text": text.upper()}) + "\n")
    limits = [str(1 << power) for power in range(11, 26, 2)]
    command = [sys.executable, "-c", FULL, str(lake.root), str(folder), *limits]
    said = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=True).stdout.splitlines()
    failed = [line for line in said if not line.startswith("made with")]
    assert all("no room to write" in line and "run again" in line for line in failed), said
    assert {line.split()[0] for line in failed} >= {"1", "2", "4"}, "it filled while cutting, encoding and storing"
    assert said[-1].startswith("made with") and open_corpus(lake, "c").version != before
    assert not [path for path in lake.root.rglob("*") if path.suffix in (".tmp", ".old")]


def test_a_disk_that_fills_while_the_index_is_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("Bees buzz.")
    lake = Lake.create(tmp_path / "lake", question_shards=1, corpus_shards=1)
    corpus_making.make_corpus(lake, "c", portions(tmp_path / "raw"), lambda said: None, "on_demand")
    folder = lake.index_folder("corpus/c/index")
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def full(*arguments: object) -> None:
        raise RuntimeError("Error in write: No space left on device")  # as FAISS says it

    monkeypatch.setattr(vector_index.faiss(), "write_index", full)
    with pytest.raises(NoRoom, match=r"no room to write .*corpus\.c\.index.* run again"):
        corpus_making.index(lake, "c")
    assert {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert open_corpus(lake, "c").texts([0]) == ["Bees buzz."]


def test_shards_take_turns_on_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ModelSettings(name="m")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    assert corpus_making.on_a_card(settings, 5) == settings
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    assert [corpus_making.on_a_card(settings, shard).device for shard in (0, 5, 63)] == ["cuda:0", "cuda:1", "cuda:3"]
    named = ModelSettings(name="m", device="cpu")
    assert corpus_making.on_a_card(named, 5) == named
