"""Invalid input files from users and a fuzzer: rejected quickly, in little memory, with the file's name."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from evidence_assets import profiles
from evidence_assets.benchmarks import declared_benchmarks, knowledge_bases
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.benchmarks.line_streams import text_lines
from evidence_assets.benchmarks.readers import read_pairs
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake.errors import BadInput
from evidence_assets.reproduction.presets import presets
from evidence_assets.systems.kbloom.seeds import read_seed_folder


def seeds(folder: Path) -> None:
    for error in read_seed_folder(folder).errors:
        raise error


def uncached(reader: Callable[[Path], object]) -> Callable[[Path], object]:
    def reload(folder: Path) -> object:
        declared_benchmarks.declarations.cache_clear()
        return reader(folder)

    return reload


READERS: dict[str, Callable[[Path], object]] = {
    "profile.yaml": lambda folder: profiles.load(str(folder / "profile.yaml")),
    "benchmark.yaml": uncached(all_benchmarks),
    "base.yaml": uncached(knowledge_bases.knowledge_bases),
    "s/variants.yaml": lambda folder: variants_of("s", folder),
    "presets.yaml": lambda folder: presets(folder / "presets.yaml"),
    "seed.yaml": seeds,
}
BASE = "type: x.KnowledgeBase\nattributes: {name: b, folder: f, '': ''}\n"


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: \xff\n", ":1: is not UTF-8"),
        (b"a: 2020-13-45\n", ""),
        (b"a: " + b"9" * 5000, ""),
        (b"a: " + b"[" * 4_000, "nested too deeply|is not valid YAML|must"),
        (b"- a\n", "must"),
        (b"\x00", "YAML"),
        (b"a: " + b"[" * 80_000, "is not valid YAML"),
        (b"a: 1\nb: [\n  [c, d],\n", ":2: is not valid YAML: the bracket that opens here is not closed"),
    ],
)
def test_an_error_in_yaml_names_the_file(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    if message or name in ("profile.yaml", "seed.yaml"):
        with pytest.raises(BadInput, match=message or None) as caught:
            READERS[name](tmp_path)
        assert str(file) in str(caught.value)
        return
    try:  # a valid mapping that this reader may ignore
        READERS[name](tmp_path)
    except BadInput as error:
        assert str(file) in str(error)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "nowhere", "memory"])
def test_devices_pipes_and_broken_links_are_rejected_quickly(tmp_path: Path, name: str, kind: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    else:
        targets = {"device": "/dev/zero", "loop": file.name, "nowhere": "nothing", "memory": "/proc/self/mem"}
        file.symlink_to(targets[kind])
    start = time.monotonic()
    with pytest.raises(BadInput, match=file.name):
        READERS[name](tmp_path)
    with pytest.raises(BadInput, match=file.name):
        list(text_lines(file))
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("name", ["../outside.csv", "{outside}", "x" * 300, "loop.csv"])
def test_a_referenced_table_must_be_in_the_same_folder(tmp_path: Path, name: str) -> None:
    (outside := tmp_path / "outside.csv").write_text("name#value\nsecret#1\n")
    inner = tmp_path / "inner" / "all_csv"
    inner.mkdir(parents=True)
    (inner / "loop.csv").symlink_to("loop.csv")
    name = name.format(outside=outside)
    (inner.parent / "test_examples.json").write_text(json.dumps({name: [["A is 1."], [1], "c"]}))
    with pytest.raises(BadInput, match="this table of the statements is missing"):
        list(read_pairs("tabfact", inner.parent, "test"))
