"""A lake in an object store is one lake for every machine: each sees only what another has finished."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence_assets.lake import mirror
from evidence_assets.lake.atomic import mirrors, replacing_file, replacing_folder
from evidence_assets.lake.blocks import Blocks
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.errors import BadInput, StoreUnavailable
from evidence_assets.lake.housekeeping import delete_orphans, find_orphans
from evidence_assets.lake.input_files import parse_address
from evidence_assets.lake.lineage import edge, trace
from evidence_assets.lake.mirror import Mirror, child_names, delete_path, fetch_folder, fetch_path
from evidence_assets.lake.rows import prepare_rows, version_of
from evidence_assets.lake.store import Lake
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.protocols import Completion
from evidence_assets_tests.lake.stores import failing, new_bucket, reached_by, s3_server
from evidence_assets_tests.lake_rows import prediction, question

ASSET = "predictions/mcqa/s"
Machine = Callable[[str], Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Gives the folder of a machine by its name; all machines share one store."""

    def of(name: str) -> Path:
        root = tmp_path / name
        if root not in mirrors:
            monkeypatch.setitem(mirrors, root, Mirror(f"file://{tmp_path}/shared", root))  # type: ignore[arg-type]
        return root

    return of


def mirror_at(root: Path) -> Mirror:
    return mirrors[root]


def write(lake: Lake, answer: str, partition: str = "quiz|0") -> None:
    lineage = edge("prediction", "p-s-1", "used", "question", "q1", answer)
    lake.write(ASSET, partition, {"predictions": [prediction(1, answer)], "lineage_edges": [lineage]})


def answers(lake: Lake) -> list[str]:
    return lake.read("predictions", ASSET, "quiz|0")["answer"].to_list()


def test_what_one_machine_writes_another_reads_and_only_what_it_asks_for(machine: Machine) -> None:
    here, there = Lake.create(machine("a"), question_shards=1), Lake(machine("b"))
    write(here, "A")
    write(here, "X", "quiz|1")
    here.write("questions/mcqa", "quiz|0", {"questions": [question(1)]})
    assert there.frozen == {"question_shards": 1}
    assert answers(there) == ["A"] and not (there.root / "predictions/asset=predictions.mcqa.s/quiz/1.parquet").exists()
    assert there.is_complete("predictions", ASSET, "quiz|0")
    write(here, "B")
    assert answers(there) == ["B"]
    write(there, "C")
    assert answers(here) == ["C"]
    with connect(there.root) as connection:
        assert connection.execute("SELECT answer FROM predictions ORDER BY 1").fetchall() == [("C",), ("X",)]
        assert trace(connection, "p-s-1").next[0].id == "q1"
    here.delete("predictions", ASSET)
    assert there.read("predictions").is_empty() and [t for t, _ in there.assets()] == ["questions", "lineage_edges"]


def test_the_version_of_a_partition_is_read_from_its_footer_alone(machine: Machine) -> None:
    here, there = Lake.create(machine("a")), Lake(machine("b"))
    write(here, "A")
    before = there.stamp(("predictions", ASSET))
    for table in ("predictions", "lineage_edges"):
        version = version_of(prepare_rows(table, here.read(table, ASSET, "quiz|0")))
        assert there.stored_version(table, ASSET, "quiz|0") == here.stored_version(table, ASSET, "quiz|0") == version
    assert there.is_complete("predictions", ASSET, "quiz|0") and not there.is_complete("predictions", ASSET, "quiz|1")
    write(here, "X", "quiz|1")
    assert there.partitions("predictions", ASSET) == ["0", "1"] == here.partitions("predictions", ASSET)
    assert not (there.root / "predictions").exists(), "nothing of it was fetched"
    write(here, "B")
    assert there.stamp(("predictions", ASSET)) != before != here.stamp(("predictions", ASSET))


def test_a_folder_that_changes_as_one_is_always_of_one_writing(machine: Machine) -> None:
    here, there = Lake.create(machine("a")), Lake(machine("b"))

    def build(lake: Lake, **files: str) -> None:
        with replacing_folder(lake.index_folder("corpus/x/index")) as folder:
            (folder / "part").mkdir()
            for name, text in files.items():
                (folder / "part" / name).write_text(text)

    def seen(lake: Lake) -> dict[str, str]:
        folder = lake.index_folder("corpus/x/index")
        return {path.name: path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}

    assert seen(there) == {}
    build(here, ids="1", vectors="1")
    assert seen(there) == {"ids": "1", "vectors": "1"} == seen(here)
    before = there.stamp(("indexes", "corpus/x/index"))
    assert there.stamp(("indexes", "corpus/x/index")) == before
    build(here, ids="1", vectors="22", more="3")
    assert seen(there) == {"ids": "1", "more": "3", "vectors": "22"}
    assert there.stamp(("indexes", "corpus/x/index")) != before
    # as `evidence gc` finds it: the folder of an asset that is no more goes with all its objects
    assert [path.name for path, _ in find_orphans(there, [])] == ["asset=corpus.x.index"]
    delete_orphans(find_orphans(there, []))
    assert seen(here) == {} and mirror_at(here.root).list_objects(here.root / "indexes") == []


def test_a_folder_that_someone_else_put_leads_nowhere_else(machine: Machine, tmp_path: Path) -> None:
    there, harm = Lake.create(machine("a")), io.BytesIO()
    with tarfile.open(fileobj=harm, mode="w") as packed:
        packed.addfile(tarfile.TarInfo("../../../out"))
    (tmp_path / "shared" / "indexes").mkdir()
    (tmp_path / "shared" / "indexes" / "asset=x.tar").write_bytes(harm.getvalue())
    with pytest.raises(BadInput, match="outside the destination"):
        there.index_folder("x")
    assert not (tmp_path / "out").exists()


def test_two_writers_of_one_partition_end_with_all_files_of_one(machine: Machine) -> None:
    lakes = [Lake.create(machine(name)) for name in "ab"]

    def often(lake: Lake, name: str) -> None:
        for number in range(8):
            write(lake, f"{name}{number}")

    writers = [Thread(target=often, args=pair) for pair in zip(lakes, "ab", strict=True)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    third = Lake(machine("c"))
    assert third.is_complete("predictions", ASSET, "quiz|0")
    [answer] = answers(third)
    assert answer in ("a7", "b7") and third.read("lineage_edges", ASSET)["parent_version"].to_list() == [answer]


@pytest.mark.parametrize("harm", ["cut", "other", "gone"])
def test_a_stale_or_damaged_copy_is_fetched_again(machine: Machine, harm: str) -> None:
    here, there = Lake.create(machine("a")), Lake(machine("b"))
    write(here, "A")
    path = there.path("predictions", ASSET, "quiz|0")
    whole, status = path.read_bytes(), path.stat()
    if harm == "cut":
        path.write_bytes(whole[:100])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif harm == "other":
        path.write_bytes(whole[::-1])
    else:
        path.unlink()
    assert there.path("predictions", ASSET, "quiz|0").read_bytes() == whole


def test_the_clock_of_a_machine_does_not_matter(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = Lake.create(machine("a")), Lake(machine("b"))
    ahead = time.time
    for hours in (1, -1):
        with monkeypatch.context() as wrong:
            wrong.setattr(time, "time", lambda hours=hours: ahead() + 3600 * hours)
            wrong.setattr(time, "time_ns", lambda hours=hours: int((ahead() + 3600 * hours) * 1e9))
            write(here, f"A{hours}")
        assert answers(there) == [f"A{hours}"] == answers(here)
        assert abs(here.path("predictions", ASSET, "quiz|0").stat().st_mtime - ahead()) < 60
        write(there, f"B{hours}")
        assert answers(here) == [f"B{hours}"]


def test_a_step_goes_on_elsewhere_from_its_blocks(machine: Machine) -> None:
    here, there = Lake.create(machine("a")), Lake(machine("b"))
    Blocks(here, ASSET, "quiz|0").store({"predictions": [prediction(1, "A")]})
    none = there.read("predictions", ASSET, "quiz|0")
    assert Blocks(there, ASSET, "quiz|0").merge_into("predictions", none)["answer"].to_list() == ["A"]
    write(there, "B")
    assert Blocks(here, ASSET, "quiz|0").merge_into("predictions", none).is_empty()


def test_a_completion_is_paid_for_once_by_all_machines(machine: Machine) -> None:
    here, there = Lake.create(machine("a")), Lake(machine("b"))
    one, other = CompletionCache(here.cache), CompletionCache(there.cache)
    said = Completion("yes", 1, 1, 0.5, "stop")
    one.put("ab" * 16, said)
    assert other.get("ab" * 16) == said and other.get("cd" * 16) is None and len(other) == 1


Deed = tuple[str, str, str, int]
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["write", "delete", "read", "all"]),
        st.sampled_from("ab"),
        st.sampled_from("xyz"),
        st.integers(0, 2),
    ),
    max_size=12,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=DEEDS)
def test_machines_that_take_turns_see_what_one_folder_would_hold(
    deeds: list[Deed], machine: Machine, tmp_path: Path
) -> None:
    for name in "ab":
        delete_path(machine(name) / "raw")
    folder: dict[str, str] = {}
    for deed, name, file, size in deeds:
        path = machine(name) / "raw" / file
        if deed == "write":
            with replacing_file(path) as temporary:
                temporary.write_text(file * size)
            folder[file] = file * size
        elif deed == "delete":
            delete_path(path)
            folder.pop(file, None)
        elif deed == "read":
            assert (path.read_text() if fetch_path(path).exists() else None) == folder.get(file)
        else:
            there = fetch_folder(machine(name) / "raw")
            assert {p.name: p.read_text() for p in there.glob("[!.]*")} == folder


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in reached_by(server).items():
        monkeypatch.setenv(name, value)
    return new_bucket(server)


@pytest.mark.parametrize("failure", ["503", "reset", "cut"])
def test_requests_are_repeated_until_the_server_is_well_again(
    failure: str, bucket: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(100_000)
    (tmp_path / "file").write_bytes(content)
    with failing(server) as door:
        monkeypatch.setenv("AWS_ENDPOINT_URL", door.address)
        here, there = Mirror(bucket, tmp_path / "here"), Mirror(bucket, tmp_path / "there")
        for request in (
            lambda: here.upload(tmp_path / "file", here.root / "raw/file"),
            lambda: there.fetch_folder(there.root / "raw"),
        ):
            door.failures += [failure] * 2
            request()
        assert (there.root / "raw/file").read_bytes() == content
        door.failures += [failure] * 2
        there.delete(there.root / "raw/file")
        assert here.list_objects(here.root / "raw") == [] and door.failed == 6


def test_a_put_that_never_arrives_leaves_what_was_there_and_says_so(
    bucket: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Mirror(bucket, tmp_path / "there")
    for name, content in (("before", "before"), ("after", "x" * 100_000)):
        (tmp_path / name).write_text(content)
    there.upload(tmp_path / "before", there.root / "x")
    monkeypatch.setattr(mirror, "RETRY_TIMEOUT", timedelta(seconds=1))
    with failing(server) as door:
        monkeypatch.setenv("AWS_ENDPOINT_URL", door.address)
        door.failures += ["cut"] * 100
        with pytest.raises(StoreUnavailable, match=f"{bucket}/x.*its objects are unchanged"):
            Mirror(bucket, tmp_path / "here").upload(tmp_path / "after", tmp_path / "here/x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    there.fetch(there.root / "x")
    assert (there.root / "x").read_text() == "before"


def test_a_folder_holds_what_is_below_it_and_not_what_is_named_like_it(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Mirror(bucket, tmp_path / "here")
    monkeypatch.setitem(mirrors, here.root, here)
    (tmp_path / "dot").write_text(".")
    for name in ("a/b/c", "a/b.json", "ab/c", "a/é =@+ü/x.yaml"):
        here.upload(tmp_path / "dot", here.root / name)
    assert [stored["path"] for stored in here.list_objects(here.root / "a/b")] == ["a/b/c"]
    assert child_names(here.root / "a") == ["b", "b.json", "é =@+ü"]


def test_addresses_are_told_from_paths_even_where_a_path_has_taken_a_slash() -> None:
    assert parse_address(Path("s3://bucket/prefix/")) == "s3://bucket/prefix" == parse_address("s3://bucket/prefix")
    assert parse_address(Path("file:///mnt/lake")) == "file:///mnt/lake"
    assert [parse_address(place) for place in ("data_lake", "/mnt/a:b/c", "../x", "c:/x")] == [""] * 4
    with pytest.raises(BadInput, match="is not the address of a lake"):
        parse_address("ftp://host/lake")
