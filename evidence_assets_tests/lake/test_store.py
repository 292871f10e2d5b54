"""The store: declared schemas, atomic files, equal bytes for equal rows, and recovery from faults."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence_assets.experiment.stage import StageContext
from evidence_assets.lake.atomic import is_abandoned, replacing_file, replacing_folder, temporary_folder
from evidence_assets.lake.errors import SchemaMismatch
from evidence_assets.lake.lineage import edge
from evidence_assets.lake.rows import prepare_rows, version_of
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake, delete_abandoned_files, find_abandoned_files
from evidence_assets_tests import lake_rows
from evidence_assets_tests.lake_rows import prediction


def citation(i: int, verdict: str = "verified") -> dict[str, Any]:
    return lake_rows.citation(f"c{i:04d}", "e", verdict) | {"citation_id": f"{i:04d}"}


def test_every_table_has_descriptions_and_a_valid_key() -> None:
    for schema in TABLES.values():
        assert schema.description.endswith(".")
        assert all(field.metadata[b"description"].endswith(b".") for field in schema.arrow), schema.name
        assert {*schema.key, schema.row_id, schema.version_column} <= set(schema.names), schema.name


def test_equal_rows_have_equal_bytes_and_different_rows_different_versions(lake: Lake) -> None:
    rows = [citation(i) for i in range(100)]
    versions = lake.write("citations/x", "b|0", {"citations": rows})
    path = lake.path("citations", "citations/x", "b|0")
    bytes_before = path.read_bytes()
    random.Random(0).shuffle(rows)
    assert lake.write("citations/x", "b|0", {"citations": rows}) == versions
    assert path.read_bytes() == bytes_before
    assert version_of(prepare_rows("citations", rows)) != version_of(prepare_rows("citations", rows[:-1]))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{**citation(0), "colour": "red"}], "unknown column 'colour'"),
        ([{**citation(0), "verdict": None}], "column verdict is null in 1 rows"),
        ([{**citation(0), "step": "first"}], "citations"),
        ([citation(0), citation(0)], "occurs twice"),
    ],
)
def test_rows_that_do_not_match_the_schema_are_rejected(rows: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(SchemaMismatch, match=says):
        prepare_rows("citations", rows)


def test_a_version_does_not_depend_on_memory_layout() -> None:
    texts, lists = ["a", None, "ccc", ""], [["x"], [], None, ["yy", "z"]]
    numbers = pa.array([1.5, None, float("inf"), 0.0], pa.float16())
    records = pa.array([{"a": "x", "b": 1}, None, {"a": None, "b": 2}, {"a": "", "b": None}])
    rows = pa.table(
        {"text": texts, "list": lists, "number": numbers, "record": records, "flag": [True, None, False, True]}
    )
    longer = pa.concat_tables([rows.slice(1), rows, rows.slice(2)])
    assert version_of(longer.combine_chunks().slice(3, 4)) == version_of(longer.slice(3, 4)) == version_of(rows)
    empty = rows.set_column(0, "text", pa.array(["a", "", "ccc", ""]))
    assert len({version_of(one) for one in (rows, rows.slice(1), rows.take([1, 0, 2, 3]), empty)}) == 4


def test_no_key_or_partition_can_leave_the_lake(lake: Lake) -> None:
    for asset, partition in [("../x", ""), ("a/../b", ""), ("a", "../../x"), ("a", ".hidden"), ("a/b", "x|..")]:
        with pytest.raises(ValueError, match="must have only"):
            lake.path("citations", asset, partition)


WRITER = """
import os, signal, sys
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake.test_store import citation
flush = os.fsync
flushes_left = int(sys.argv[2])
def flush_or_die(handle):
    global flushes_left
    if not flushes_left:
        os.kill(os.getpid(), signal.SIGKILL)
    flushes_left -= 1
    flush(handle)
os.fsync = flush_or_die
citations = [citation(i) for i in range(3000)]
Lake(sys.argv[1]).write("citations/x", "b|0", {"citations": citations, "lineage_edges": []})
"""


@pytest.mark.parametrize(("flushes", "renames"), [(0, 0), (1, 1), (3, 2)])
def test_sigkill_leaves_complete_files_and_a_rerun_writes_the_same_bytes(
    flushes: int, renames: int, lake: Lake, tmp_path: Path
) -> None:
    """Killed before a file's flush, or after a rename but before the flush of its folder."""
    undisturbed = Lake.create(tmp_path / "other")
    rows = {"citations": [citation(i) for i in range(3000)], "lineage_edges": []}
    undisturbed.write("citations/x", "b|0", rows)
    lake.write("citations/x", "b|0", {"citations": [citation(0)], "lineage_edges": []})
    process = subprocess.run([sys.executable, "-c", WRITER, str(lake.root), str(flushes)], check=False)
    assert process.returncode == -signal.SIGKILL
    path = lake.path("citations", "citations/x", "b|0")
    assert pq.read_table(path).num_rows == (3000 if renames == 2 else 1)
    assert lake.is_complete("citations", "citations/x", "b|0") is (renames != 1)
    lake.write("citations/x", "b|0", rows)
    assert path.read_bytes() == undisturbed.path("citations", "citations/x", "b|0").read_bytes()
    assert [p.name for p in path.parent.iterdir()] == [path.name], "a temporary file was left behind"


def _write_on_full_disk(root: str, queue: Any) -> None:
    import resource

    lake = Lake(root)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        rows = [citation(i) | {"quoted": os.urandom(40).hex()} for i in range(5000)]
        lake.write("citations/x", "b|0", {"citations": rows})
        queue.put("written")
    except OSError as error:
        queue.put(str(error))


def test_a_full_disk_is_a_clear_error_and_the_old_partition_stays(lake: Lake) -> None:
    lake.write("citations/x", "b|0", {"citations": [citation(1)]})
    path = lake.path("citations", "citations/x", "b|0")
    before = path.read_bytes()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_write_on_full_disk, args=(str(lake.root), queue))
    process.start()
    message = queue.get(timeout=300)
    process.join()
    assert "no space left to write" in message and "unchanged" in message
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_folder_is_replaced_atomically(tmp_path: Path) -> None:
    for content in ("1", "2"):
        with replacing_folder(tmp_path / "index") as temporary:
            (temporary / "a").write_text(content)
    with pytest.raises(RuntimeError), replacing_folder(tmp_path / "index") as temporary:
        (temporary / "a").write_text("3")
        raise RuntimeError
    assert (tmp_path / "index" / "a").read_text() == "2"


def test_a_kill_between_the_two_renames_of_a_folder_loses_no_version(lake: Lake) -> None:
    folder = lake.root / "raw" / "a"
    with replacing_folder(folder) as temporary:
        (temporary / "a").write_text("1")
    folder.rename(old := folder.parent / ".a.old")  # the state after the kill
    assert find_abandoned_files(lake) == []
    with pytest.raises(RuntimeError), replacing_folder(folder):
        raise RuntimeError
    assert (folder / "a").read_text() == "1" and not old.exists()


def write_prediction(lake: Lake, number: int) -> StageContext:
    """Write a prediction with its lineage, and return the stage's context."""
    linked = [edge("prediction", f"p-s-{number}", "used", "question", f"q{number}", "1")]
    lake.write("predictions/x", "b|0", {"predictions": [prediction(number, "A")], "lineage_edges": linked})
    return StageContext(lake, "predictions", "predictions/x", "b|0")


def test_rows_are_reused_only_with_all_files_of_their_write(lake: Lake) -> None:
    step = write_prediction(lake, 1)
    lineage = lake.path("lineage_edges", "predictions/x", "b|0")
    assert step.previous_rows().height == 1 and lake.is_complete("predictions", "predictions/x", "b|0")
    old_lineage = lineage.read_bytes()
    write_prediction(lake, 2)
    lineage.write_bytes(old_lineage)  # the state after a kill between two renames
    assert step.previous_rows().is_empty() and step.previous_rows().schema == lake.read("predictions").schema
    write_prediction(lake, 2)
    lineage.unlink()
    assert step.previous_rows().is_empty() and lake.read("predictions").height == 1
    lake.delete("predictions", "predictions/x")
    assert not lake.is_complete("predictions", "predictions/x", "b|0")


# A power cut loses no finished file: content and directory entries are flushed before the rename


def test_replaced_files_and_folders_are_flushed_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed, real_fsync = list[str](), os.fsync

    def fsync(handle: int) -> None:
        real_fsync(handle)
        flushed.append(Path(f"/proc/self/fd/{handle}").resolve().name.partition(".tmp")[0])

    monkeypatch.setattr(os, "fsync", fsync)
    with replacing_file(tmp_path / "a" / "file") as file:
        file.write_text("one")
    assert flushed[-2].startswith(".file.") and flushed[-1] == "a", "the content before its directory entry"
    with replacing_folder(tmp_path / "b" / "folder") as folder:
        (folder / "vectors").write_text("two")
    assert flushed[-3:] == ["vectors", ".folder", "b"]


# Abandoned files of killed writers are deleted; files of active writers are not


WRITES_AND_DIES = """
import os, signal, sys
from pathlib import Path
from evidence_assets.lake.atomic import replacing_file, replacing_folder, temporary_folder
root = Path(sys.argv[1])
with replacing_file(root / "t" / "x.parquet") as file, replacing_folder(root / "i") as folder, temporary_folder(root):
    file.write_text("half"); (folder / "vectors").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_files_of_killed_writers_are_deleted_and_those_of_active_writers_are_not(lake: Lake) -> None:
    process = subprocess.run([sys.executable, "-c", WRITES_AND_DIES, str(lake.root)], check=False)
    assert process.returncode == -9
    abandoned = sorted(path.name.split(".")[1] for path in find_abandoned_files(lake))
    assert len(abandoned) == 3 and {"i", "x"} < set(abandoned)
    file_at, folder_at = replacing_file(lake.root / "t" / "y.parquet"), replacing_folder(lake.root / "j")
    with file_at as file, folder_at as folder, temporary_folder(lake.root) as sorting:
        file.write_text("new"), (folder / "vectors").write_text("new")
        assert not is_abandoned(file) and not is_abandoned(folder) and not is_abandoned(sorting)
        assert len(find_abandoned_files(lake)) == 1, "the new folder replaced those beside it"
        delete_abandoned_files(lake)
        assert find_abandoned_files(lake) == [] and sorting.is_dir()
    assert {path.name for path in lake.root.iterdir()} == {"format.json", "t", "j", ".i.lock", ".j.lock"}
    assert (lake.root / "t" / "y.parquet").read_text() == "new" and (lake.root / "j" / "vectors").read_text() == "new"
