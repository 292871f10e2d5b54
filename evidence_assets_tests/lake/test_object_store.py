"""Every kind of store keeps the same promises, and an S3 server that fails for a while loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Timer

import pytest

from evidence_assets.lake import object_store
from evidence_assets.lake.errors import BadInput, StoreUnavailable
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.object_store import Changed, ObjectStore, address_of
from evidence_assets_tests.lake.stores import failing, new_bucket, reached_by, s3_server


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as address:
        yield address


class StoreContract:
    """What the lake relies on."""

    def test_a_put_takes_the_place_of_what_was_there_and_has_another_tag(self, store: ObjectStore) -> None:
        first, second = store.put("t/x", b"first"), store.put("t/x", b"second one")
        assert first != second and store.get("t/x") == b"second one"
        head = store.head("t/x")
        assert head is not None and (head.name, head.size, head.tag) == ("t/x", 10, second)
        assert store.listed("t") == [head]

    def test_what_is_not_there_is_none(self, store: ObjectStore) -> None:
        assert store.head("t/x") is None and store.get("t/x") is None and store.listed("t") == [] == store.names("t")
        store.delete(["t/x"])

    def test_a_new_one_replaces_nothing(self, store: ObjectStore) -> None:
        assert store.put("format.json", b"mine", new=True) is not None
        assert store.put("format.json", b"yours", new=True) is None
        assert store.get("format.json") == b"mine"

    def test_files_come_back_byte_by_byte_in_blocks(
        self, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for size in (0, 1, 10, 1_001):
            (tmp_path / "file").write_bytes(bytes(i % 251 for i in range(size)))
            store.put("a/file", tmp_path / "file")
            monkeypatch.setattr(object_store, "BLOCK", 100)
            head = store.head("a/file")
            assert head is not None
            store.fetch(head, tmp_path / "back")
            monkeypatch.undo()
            assert file_id(tmp_path / "back") == file_id(tmp_path / "file")
        assert store.get_range("a/file", 251, 3) == bytes([0, 1, 2])

    def test_a_fetch_is_of_the_object_that_was_listed(self, store: ObjectStore, tmp_path: Path) -> None:
        store.put("x", b"old")
        head = store.head("x")
        assert head is not None
        store.put("x", b"new")
        with pytest.raises(Changed):
            store.fetch(head, tmp_path / "x")
        store.delete(["x"])
        with pytest.raises(Changed):
            store.fetch(head, tmp_path / "x")

    def test_a_folder_holds_what_lies_below_it_and_not_what_is_named_like_it(self, store: ObjectStore) -> None:
        for name in ("a/b/c", "a/b.json", "ab/c", "a/é =@+ü/x.yaml"):
            store.put(name, b".")
        assert [s.name for s in store.listed("a/b")] == ["a/b/c"]
        assert [s.name for s in store.listed("a")] == ["a/b.json", "a/b/c", "a/é =@+ü/x.yaml"]
        assert store.names("a") == ["b", "b.json", "é =@+ü"]


class TestInMemory(StoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        pytest.importorskip("obstore", reason="the extra `cloud` is not installed")
        return ObjectStore("memory://lake")


class TestS3(StoreContract):
    @pytest.fixture
    def store(self, server: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
        for name, value in reached_by(server).items():
            monkeypatch.setenv(name, value)
        return ObjectStore(new_bucket(server))

    def test_it_waits_until_the_server_is_well_again(
        self, store: ObjectStore, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_bytes(b"x" * 100_000)
        with failing(server) as door:
            monkeypatch.setenv("AWS_ENDPOINT_URL", door.address)
            through = ObjectStore(store.address)
            for failure in ("503", "reset", "cut"):
                door.failures += [failure] * 3
                through.put(f"after/{failure}", tmp_path / "file")
                door.failures += [failure] * 2
                head = through.head(f"after/{failure}")
                assert head is not None
                door.failures += [failure] * 2
                through.fetch(head, tmp_path / "back")
                assert file_id(tmp_path / "back") == file_id(tmp_path / "file")
                door.failures += [failure] * 2
                assert [s.name for s in through.listed("after")] == [head.name]
                through.delete([head.name])
            assert door.failed == 3 * 9 and not door.failures

    @pytest.mark.slow
    def test_a_store_that_stays_away_is_asked_again_with_growing_waits(
        self, store: ObjectStore, server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with failing(server) as door:
            monkeypatch.setenv("AWS_ENDPOINT_URL", door.address)
            door.failures += ["503", "reset"] * 1_000
            Timer(20, door.failures.clear).start()
            ObjectStore(store.address).put("x", b"late")
            assert 1 < door.failed < 25 and store.get("x") == b"late"

    def test_a_put_that_never_arrives_leaves_what_was_there_and_says_so(
        self, store: ObjectStore, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.put("x", b"before")
        (tmp_path / "file").write_bytes(b"x" * 100_000)
        monkeypatch.setattr(object_store, "PATIENCE", timedelta(seconds=1))
        with failing(server) as door:
            monkeypatch.setenv("AWS_ENDPOINT_URL", door.address)
            door.failures += ["cut"] * 100
            with pytest.raises(StoreUnavailable, match="what was there before is unchanged"):
                ObjectStore(store.address).put("x", tmp_path / "file")
        assert store.get("x") == b"before"

    def test_bytes_that_are_not_those_of_the_writer_are_refused(self, store: ObjectStore, tmp_path: Path) -> None:
        store._library.put(store._store, "x", b"damaged", attributes={object_store.HASH: "0" * 32})
        head = store.head("x")
        assert head is not None
        with pytest.raises(StoreUnavailable, match="hash"):
            store.fetch(head, tmp_path / "x")
        with pytest.raises(StoreUnavailable, match="hash"):
            store.get("x")


class TestSharedFolder(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        pytest.importorskip("obstore", reason="the extra `cloud` is not installed")
        return ObjectStore(address_of(f"file://{tmp_path}/shared"))


def test_addresses_are_told_from_paths_even_where_a_path_has_taken_a_slash() -> None:
    assert address_of(Path("s3://bucket/prefix/")) == "s3://bucket/prefix" == address_of("s3://bucket/prefix")
    assert address_of(Path("file:///mnt/lake")) == "file:///mnt/lake"
    assert [address_of(place) for place in ("data_lake", "/mnt/a:b/c", "../x", "c:/x")] == [""] * 4
    with pytest.raises(BadInput, match="is no address"):
        address_of("ftp://host/lake")
