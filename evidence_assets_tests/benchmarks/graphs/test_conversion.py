"""Dumps as three columns: in names and ids, around what is asked for, and in memory that does not grow with the dump."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets.benchmarks.graphs.conversion import convert
from evidence_assets.cli import app
from evidence_assets.lake.errors import BadInput
from evidence_assets_tests.benchmarks.graphs.test_readers import DOT, NS, TestDrugbank, entity, item

WORLD = [
    entity("Q90", "Paris", P17=item("Q142")),
    entity("Q830149", "Paris", P17=item("Q30")),
    entity("Q142", "France"),
    entity("P17", "country"),
    entity("Q142b", "French\tland", P9=item("Q142")),
    entity("Q90b", "no end", P17=item("Q999")),
]


def dump(folder: Path, lines: list[str] = WORLD) -> Path:
    path = folder / "latest-all.json.gz"
    path.write_bytes(gzip.compress(("[\n" + ",\n".join(lines) + "\n]\n").encode()))
    return path


def test_names_are_put_to_ids_and_told_apart(tmp_path: Path) -> None:
    names, ids = tmp_path / "out" / "triples.tsv", tmp_path / "out" / "ids.tsv"
    assert convert("wikidata", [dump(tmp_path)], names, ids) == 4
    assert names.read_text().splitlines() == [
        "French land\tP9\tFrance",
        "Paris (Q830149)\tcountry\tQ30",
        "Paris (Q90)\tcountry\tFrance",
        "no end\tcountry\tQ999",
    ]
    assert ids.read_text().splitlines() == ["Q142b\tP9\tQ142", "Q830149\tP17\tQ30", "Q90\tP17\tQ142", "Q90b\tP17\tQ999"]
    called = (names.parent / "names.tsv").read_text().splitlines()
    assert called == [
        "Q142\tFrance",
        "Q142b\tFrench land",
        "Q830149\tParis (Q830149)",
        "Q90\tParis (Q90)",
        "Q90b\tno end",
    ]
    left = sorted(path.name for path in names.parent.iterdir())
    assert left == ["ids.tsv", "names.tsv", "triples.tsv"], "nothing else is left"


def test_only_what_is_near_is_kept(tmp_path: Path) -> None:
    names = tmp_path / "triples.tsv"
    assert convert("wikidata", [dump(tmp_path)], names, around=["Q90"]) == 1
    assert convert("wikidata", [dump(tmp_path)], names, around=["Q90"], hops=2) == 2, "what else leads to France"
    assert convert("wikidata", [dump(tmp_path)], names, around=["Q7"], hops=3) == 0 == len(names.read_text())


def test_a_bad_line_is_named_and_leaves_what_was_there(tmp_path: Path) -> None:
    names = tmp_path / "triples.tsv"
    names.write_text("before")
    with pytest.raises(BadInput) as caught:
        convert("wikidata", [dump(tmp_path, [*WORLD, '{"id": 3}'])], names)
    assert (caught.value.line, caught.value.field) == (len(WORLD) + 2, "id")
    assert names.read_text() == "before"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    texts = [tmp_path / name for name in ("interactions.tsv", "vocabulary.csv")]
    for path, text in zip(texts, TestDrugbank.files, strict=True):
        path.write_text(text)
    done = CliRunner().invoke(app, ["convert", "drugbank", *map(str, texts)])
    assert done.exit_code == 0 and "2 triples" in done.output, done.output
    place = tmp_path / "data_lake/raw/graphs/drugbank"
    assert (
        place / "triples.tsv"
    ).read_text() == "Aspirin\tinteracts_with\tWarfarin\nWarfarin\tinteracts_with\tAspirin\n"
    assert not (place / "triples_in_ids.tsv").exists()
    near = ["convert", "wikidata", str(dump(tmp_path)), "--around", "mintakka"]
    assert "did you mean 'mintaka'" in CliRunner().invoke(app, near).output


MEASURED = """
import resource, sys
from pathlib import Path
from evidence_assets.benchmarks.graphs.conversion import convert
convert("freebase", [Path(sys.argv[1])], Path(sys.argv[2]), memory="128MB")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_dump(tmp_path: Path) -> None:
    peaks = []
    for topics in (5_000, 250_000):
        file, out = tmp_path / f"{topics}.nt", tmp_path / f"{topics}" / "triples.tsv"
        with file.open("w") as written:
            for i in range(topics):
                written.write(f'{NS}m.{i}>\t{NS}type.object.name>\t"topic number {i}"@en{DOT}')
                written.write(f"{NS}m.{i}>\t{NS}a.b.leads_to>\t{NS}m.{(i * 7919) % topics}>{DOT}")
        run = [sys.executable, "-c", MEASURED, str(file), str(out)]
        peaks.append(int(subprocess.run(run, check=True, capture_output=True, text=True).stdout))
        with out.open() as lines:
            assert sum(1 for _ in lines) == topics
    assert peaks[1] < peaks[0] + 200, f"MiB of 5,000 and of 250,000 topics: {peaks}"
