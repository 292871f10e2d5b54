"""What people put there and a fuzzer found: refused by an error that names the file, in seconds, in little memory."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from evidence_assets import profiles
from evidence_assets.benchmarks import declarations, knowledge_bases
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.benchmarks.line_streams import MAX_EXPANSION, text_lines
from evidence_assets.benchmarks.readers import read_pairs
from evidence_assets.experiment.variants import presets, variants_of
from evidence_assets.lake.errors import BadInput
from evidence_assets.systems.kbloom.seeds import read_seed_folder


def seeds(folder: Path) -> None:
    for error in read_seed_folder(folder).errors:
        raise error


def declarations_of(read: Callable[[Path], object]) -> Callable[[Path], object]:
    def anew(folder: Path) -> object:
        declarations.declarations.cache_clear()
        return read(folder)

    return anew


READERS: dict[str, Callable[[Path], object]] = {
    "profile.yaml": lambda folder: profiles.load(str(folder / "profile.yaml")),
    "benchmark.yaml": declarations_of(all_benchmarks),
    "base.yaml": declarations_of(knowledge_bases.knowledge_bases),
    "s/variants.yaml": lambda folder: variants_of("s", folder),
    "presets.yaml": lambda folder: presets(folder / "presets.yaml"),
    "seed.yaml": seeds,
}
BASE = "type: x.KnowledgeBase\nattributes: {name: b, folder: f, '': ''}\n"


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: \xff\n", ":1: is not UTF-8"),
        (b"a: 2020-13-45\n", ""),
        (b"a: " + b"9" * 5000, ""),
        (b"a: " + b"[" * 4_000, "nested too deeply|is not valid YAML|must"),
        (b"- a\n", "must"),
        (b"\x00", "YAML"),
    ],
)
def test_yaml_that_cannot_be_read_names_its_file(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    if said or name in ("profile.yaml", "seed.yaml"):
        with pytest.raises(BadInput, match=said or None) as caught:
            READERS[name](tmp_path)
        assert str(file) in str(caught.value)
        return
    try:  # a mapping that says nothing to this reader
        READERS[name](tmp_path)
    except BadInput as error:
        assert str(file) in str(error)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("place", ["pipe", "device", "loop", "nowhere", "memory"])
def test_what_is_no_file_is_neither_waited_for_nor_read_for_ever(tmp_path: Path, name: str, place: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    if place == "pipe":
        os.mkfifo(file)
    else:
        targets = {"device": "/dev/zero", "loop": file.name, "nowhere": "nothing", "memory": "/proc/self/mem"}
        file.symlink_to(targets[place])
    started = time.monotonic()
    with pytest.raises(BadInput, match=file.name):
        READERS[name](tmp_path)
    with pytest.raises(BadInput, match=file.name):
        list(text_lines(file))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("name", ["../outside.csv", "{outside}", "x" * 300, "loop.csv"])
def test_a_table_that_a_file_names_lies_beside_it(tmp_path: Path, name: str) -> None:
    (outside := tmp_path / "outside.csv").write_text("name#value\nsecret#1\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "loop.csv").symlink_to("loop.csv")
    name = name.format(outside=outside)
    (inner / "test_examples.json").write_text(json.dumps({name: [["A is 1."], [1], "c"]}))
    with pytest.raises(BadInput, match="is named by the statements but is not there"):
        list(read_pairs("tabfact", [inner / "test_examples.json", inner], "test"))


def test_an_archive_that_expands_a_thousandfold_is_refused_and_one_in_proportion_is_read(tmp_path: Path) -> None:
    bomb, plain = tmp_path / "bomb.jsonl.gz", tmp_path / "plain.jsonl.gz"
    bomb.write_bytes(gzip.compress(b"\n" * 20_000_000))
    plain.write_bytes(gzip.compress("".join(f'{{"id": {i}}}\n' for i in range(50_000)).encode()))
    with pytest.raises(BadInput, match=rf"bomb\.jsonl\.gz: unpacks to more than {MAX_EXPANSION} times its size"):
        list(text_lines(bomb))
    assert sum(1 for _ in text_lines(plain)) == 50_000
