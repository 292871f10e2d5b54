"""A lake in an object store, shared by machines: each machine sees only finished files."""

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from evidence_assets.lake import mirror
from evidence_assets.lake.atomic import mirrors, replacing_folder
from evidence_assets.lake.blocks import Blocks
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.errors import BadInput, StoreUnavailable
from evidence_assets.lake.input_files import lake_url, parse_address
from evidence_assets.lake.lineage import edge, trace
from evidence_assets.lake.mirror import Mirror, child_names
from evidence_assets.lake.rows import prepare_rows, version_of
from evidence_assets.lake.store import Lake, delete_orphans, find_orphans, table_url
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.protocols import Completion
from evidence_assets_tests.lake.stores import faulty_proxy, new_bucket, s3_environment, s3_server
from evidence_assets_tests.lake_rows import prediction, question

ASSET = "predictions/mcqa/s"
Machine = Callable[[str], Path]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Returns the folder of a machine by its name; all machines share one store."""

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


def test_a_machine_downloads_only_the_files_that_it_reads(machine: Machine) -> None:
    writer, reader = Lake.create(machine("a"), question_shards=1), Lake(machine("b"))
    write(writer, "A")
    write(writer, "X", "quiz|1")
    writer.write("questions/mcqa", "quiz|0", {"questions": [question(1)]})
    assert reader.frozen == {"question_shards": 1}
    assert (
        answers(reader) == ["A"] and not (reader.root / "predictions/asset=predictions.mcqa.s/quiz/1.parquet").exists()
    )
    assert reader.is_complete("predictions", ASSET, "quiz|0")
    write(writer, "B")
    assert answers(reader) == ["B"]
    write(reader, "C")
    assert answers(writer) == ["C"]
    with connect(reader.root) as connection:
        assert connection.execute("SELECT answer FROM predictions ORDER BY 1").fetchall() == [("C",), ("X",)]
        assert trace(connection, "p-s-1").next[0].id == "q1"
    writer.delete("predictions", ASSET)
    assert reader.read("predictions").is_empty() and [t for t, _ in reader.assets()] == ["questions", "lineage_edges"]


def test_the_version_of_a_partition_is_read_from_its_footer(machine: Machine) -> None:
    writer, reader = Lake.create(machine("a")), Lake(machine("b"))
    write(writer, "A")
    before = reader.stamp(("predictions", ASSET))
    for table in ("predictions", "lineage_edges"):
        version = version_of(prepare_rows(table, writer.read(table, ASSET, "quiz|0")))
        assert reader.stored_version(table, ASSET, "quiz|0") == writer.stored_version(table, ASSET, "quiz|0") == version
    assert reader.is_complete("predictions", ASSET, "quiz|0") and not reader.is_complete("predictions", ASSET, "quiz|1")
    write(writer, "X", "quiz|1")
    assert reader.partitions("predictions", ASSET) == ["0", "1"] == writer.partitions("predictions", ASSET)
    assert not (reader.root / "predictions").exists(), "no file was downloaded"
    write(writer, "B")
    assert reader.stamp(("predictions", ASSET)) != before != writer.stamp(("predictions", ASSET))


def test_a_packed_folder_is_always_from_one_write(machine: Machine) -> None:
    writer, reader = Lake.create(machine("a")), Lake(machine("b"))

    def build(lake: Lake, **files: str) -> None:
        with replacing_folder(lake.index_folder("corpus/x/index")) as folder:
            (folder / "part").mkdir()
            for name, text in files.items():
                (folder / "part" / name).write_text(text)

    def contents(lake: Lake) -> dict[str, str]:
        folder = lake.index_folder("corpus/x/index")
        return {path.name: path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}

    assert contents(reader) == {}
    build(writer, ids="1", vectors="1")
    assert contents(reader) == {"ids": "1", "vectors": "1"} == contents(writer)
    before = reader.stamp(("indexes", "corpus/x/index"))
    assert reader.stamp(("indexes", "corpus/x/index")) == before
    build(writer, ids="1", vectors="22", more="3")
    assert contents(reader) == {"ids": "1", "more": "3", "vectors": "22"}
    assert reader.stamp(("indexes", "corpus/x/index")) != before
    # `evidence gc` deletes the folder of a removed asset with all its objects.
    assert [path.name for path, _ in find_orphans(reader, [])] == ["asset=corpus.x.index"]
    delete_orphans(find_orphans(reader, []))
    assert contents(writer) == {} and mirror_at(writer.root).list_objects(writer.root / "indexes") == []


def test_a_packed_folder_cannot_write_outside_its_destination(machine: Machine, tmp_path: Path) -> None:
    reader, harm = Lake.create(machine("a")), io.BytesIO()
    with tarfile.open(fileobj=harm, mode="w") as packed:
        packed.addfile(tarfile.TarInfo("../../../out"))
    (tmp_path / "shared" / "indexes").mkdir()
    (tmp_path / "shared" / "indexes" / "asset=x.tar").write_bytes(harm.getvalue())
    with pytest.raises(BadInput, match="outside the destination"):
        reader.index_folder("x")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("damage", ["cut", "other", "gone"])
def test_a_stale_or_damaged_copy_is_downloaded_again(machine: Machine, damage: str) -> None:
    writer, reader = Lake.create(machine("a")), Lake(machine("b"))
    write(writer, "A")
    path = reader.path("predictions", ASSET, "quiz|0")
    original, status = path.read_bytes(), path.stat()
    if damage == "cut":
        path.write_bytes(original[:100])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif damage == "other":
        path.write_bytes(original[::-1])
    else:
        path.unlink()
    assert reader.path("predictions", ASSET, "quiz|0").read_bytes() == original


def test_a_step_resumes_on_another_machine_from_its_blocks(machine: Machine) -> None:
    writer, reader = Lake.create(machine("a")), Lake(machine("b"))
    Blocks(writer, ASSET, "quiz|0").store({"predictions": [prediction(1, "A")]})
    none = reader.read("predictions", ASSET, "quiz|0")
    assert Blocks(reader, ASSET, "quiz|0").merge_into("predictions", none)["answer"].to_list() == ["A"]
    write(reader, "B")
    assert Blocks(writer, ASSET, "quiz|0").merge_into("predictions", none).is_empty()


def test_machines_share_cached_completions(machine: Machine) -> None:
    writer, reader = Lake.create(machine("a")), Lake(machine("b"))
    first, second = CompletionCache(writer.cache), CompletionCache(reader.cache)
    completion = Completion("yes", 1, 1, 0.5, "stop")
    first.put("ab" * 16, completion)
    assert second.get("ab" * 16) == completion and second.get("cd" * 16) is None


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_environment(server).items():
        monkeypatch.setenv(name, value)
    return new_bucket(server)


@pytest.mark.parametrize("failure", ["503", "reset", "cut"])
def test_requests_are_retried_until_the_server_recovers(
    failure: str, bucket: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(100_000)
    (tmp_path / "file").write_bytes(content)
    with faulty_proxy(server) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        writer, reader = Mirror(bucket, tmp_path / "here"), Mirror(bucket, tmp_path / "there")
        for request in (
            lambda: writer.upload(tmp_path / "file", writer.root / "raw/file"),
            lambda: reader.fetch_folder(reader.root / "raw"),
        ):
            proxy.failures += [failure] * 2
            request()
        assert (reader.root / "raw/file").read_bytes() == content
        proxy.failures += [failure] * 2
        reader.delete(reader.root / "raw/file")
        assert writer.list_objects(writer.root / "raw") == [] and proxy.failed == 6


def test_a_failed_upload_keeps_the_old_object_and_raises(
    bucket: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Mirror(bucket, tmp_path / "there")
    for name, content in (("before", "before"), ("after", "x" * 100_000)):
        (tmp_path / name).write_text(content)
    reader.upload(tmp_path / "before", reader.root / "x")
    monkeypatch.setattr(mirror, "RETRY_TIMEOUT", timedelta(seconds=1))
    with faulty_proxy(server) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        proxy.failures += ["cut"] * 100
        with pytest.raises(StoreUnavailable, match=f"{bucket}/x.*its objects are unchanged"):
            Mirror(bucket, tmp_path / "here").upload(tmp_path / "after", tmp_path / "here/x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    reader.fetch(reader.root / "x")
    assert (reader.root / "x").read_text() == "before"


def test_a_folder_lists_its_children_and_not_similar_names(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Mirror(bucket, tmp_path / "here")
    monkeypatch.setitem(mirrors, writer.root, writer)
    (tmp_path / "dot").write_text(".")
    for name in ("a/b/c", "a/b.json", "ab/c", "a/é =@+ü/x.yaml"):
        writer.upload(tmp_path / "dot", writer.root / name)
    assert [meta["path"] for meta in writer.list_objects(writer.root / "a/b")] == ["a/b/c"]
    assert child_names(writer.root / "a") == ["b", "b.json", "é =@+ü"]


def test_urls_of_a_table_name_its_files_and_no_credentials(tmp_path: Path, machine: Machine) -> None:
    local = Lake.create(tmp_path / "a lake")
    write(local, "A")
    url = table_url(local.address, "predictions", ASSET, "quiz|0")
    assert url.startswith("file:///") and Path(unquote(urlsplit(url).path)).is_file()
    assert Path(unquote(urlsplit(table_url(local.address, "predictions", ASSET)).path)).is_dir()
    shared = Lake.create(machine("a"))
    write(shared, "A")
    assert Path(urlsplit(table_url(shared.address, "predictions", ASSET, "quiz|0")).path).is_file()
    assert table_url("s3://key:se/cret@bucket/lake?sig=x", "chains", "chains/b", "q|0").startswith("s3://bucket/lake/")
    assert lake_url("s3://bucket/lake?X-Amz-Signature=secret") == "s3://bucket/lake"
    assert lake_url("abfs://container@account.dfs.core.windows.net/lake").startswith("abfs://container@account.")


def test_addresses_are_recognized_even_with_merged_slashes() -> None:
    assert parse_address(Path("s3://bucket/prefix/")) == "s3://bucket/prefix" == parse_address("s3://bucket/prefix")
    assert parse_address(Path("file:///mnt/lake")) == "file:///mnt/lake"
    assert [parse_address(place) for place in ("data_lake", "/mnt/a:b/c", "../x", "c:/x")] == [""] * 4
    with pytest.raises(BadInput, match="is not the address of a lake"):
        parse_address("ftp://host/lake")
