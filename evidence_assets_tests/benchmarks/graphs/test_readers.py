"""Every graph format read as it is published, and every fault named by file, line and field."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from evidence_assets.benchmarks.graphs import (
    conceptnet,
    disease_database,
    hetionet,
    primekg,
    simplequestions,
    tab_separated,
    umls,
)
from evidence_assets.benchmarks.graphs.triples import TripleRecord, frame, frames
from evidence_assets.lake.errors import BadInput


def file_of(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def triples(records: Iterable[TripleRecord]) -> list[tuple[str, str, str, int]]:
    return [tuple(record[:4]) for record in records]


def test_tab_separated(tmp_path: Path) -> None:
    path = file_of(tmp_path, "g.tsv", "a\tr\tb\n\nc d \tr\té\r\n")
    assert triples(tab_separated.read(path)) == [("a", "r", "b", 1), ("c d", "r", "é", 3)]
    assert triples(tab_separated.read(file_of(tmp_path, "empty.tsv", ""))) == []


def test_disease_database(tmp_path: Path) -> None:
    names = file_of(
        tmp_path,
        "ddb_names.json",
        json.dumps({"Atrophy": ["7", "1"], "Wasting": ["7", "0"], "Thinning": [8, 1 and "1"], "Lost": ["9", "0"]}),
    )
    relations = file_of(tmp_path, "ddb_relas.json", '{"1": ["8", "7", "4"],\n "2": [7, 8, "26"]}')
    assert triples(disease_database.read(relations, names)) == [
        ("Thinning", "is_a_risk_factor_of", "Atrophy", 1),
        ("Atrophy", "see_also", "Thinning", 2),
    ]
    assert list(disease_database.synonyms(names)) == [("Atrophy", "Wasting")]


def test_primekg(tmp_path: Path) -> None:
    header = "relation,display_relation,x_index,x_id,x_type,x_name,x_source,y_index,y_id,y_type,y_name,y_source\n"
    row = 'indication,indication,1,D1,drug,"Aspirin, coated",DrugBank,2,M2,disease,fever,MONDO\n'
    assert list(primekg.read(file_of(tmp_path, "kg.csv", header + row))) == [
        TripleRecord("Aspirin, coated", "indication", "fever", 2, "drug", "disease")
    ]


def test_hetionet(tmp_path: Path) -> None:
    nodes = file_of(tmp_path, "nodes.tsv", "id\tname\tkind\nC::1\tAspirin\tCompound\nD::1\tfever\tDisease\n")
    edges = file_of(tmp_path, "edges.sif", "source\tmetaedge\ttarget\nC::1\tCtD\tD::1\n")
    assert list(hetionet.read(edges, nodes)) == [TripleRecord("Aspirin", "CtD", "fever", 2, "Compound", "Disease")]


def test_conceptnet(tmp_path: Path) -> None:
    lines = [
        "/a/1\t/r/AtLocation\t/c/en/fish/n/wn/animal\t/c/en/deep_sea\t{}",
        "/a/2\t/r/Synonym\t/c/en/fish\t/c/fr/poisson\t{}",
        "/a/3\t/r/ExternalURL\t/c/en/fish\thttp://example.org/fish\t{}",
        "/a/4\t/r/dbpedia/genre\t/c/en/caf%C3%A9\t/c/en/place\t{}",
    ]
    path = file_of(tmp_path, "assertions.csv", "\n".join(lines))
    assert triples(conceptnet.assertions(path)) == [
        ("fish", "AtLocation", "deep sea", 1),
        ("café", "genre", "place", 4),
    ]
    path = file_of(tmp_path, "dev.txt", "IsA\ttool\tobject\t1\nIsA\tcow\tbook\t0\nHasA\tcat\teye\n")
    records = list(conceptnet.completion(path))
    assert triples(records) == [("tool", "IsA", "object", 1), ("cow", "IsA", "book", 2), ("cat", "HasA", "eye", 3)]
    assert [record.label for record in records] == [True, False, None]


NAMES_OK = '{"A": ["1", "1"], "B": ["2", "1"]}'


def ddb(relations: str, names: str = NAMES_OK) -> Callable[[Path], Iterable[TripleRecord]]:
    return lambda folder: disease_database.read(
        file_of(folder, "relas.json", relations), file_of(folder, "names.json", names)
    )


def one(read: Callable[[Path], Iterable[TripleRecord]], text: str) -> Callable[[Path], Iterable[TripleRecord]]:
    return lambda folder: read(file_of(folder, "g", text))


def het(edge: str, nodes: str = "C::1\ta\tX\n") -> Callable[[Path], Iterable[TripleRecord]]:
    return lambda folder: hetionet.read(
        file_of(folder, "edges.sif", "source\tmetaedge\ttarget\n" + edge),
        file_of(folder, "nodes.tsv", "id\tname\tkind\n" + nodes),
    )


@pytest.mark.parametrize(
    ("read", "file", "line", "field", "words"),
    [
        (one(tab_separated.read, "a\tr\tb\na\tr\n"), "g", 2, None, "2 fields, expected 3"),
        (one(tab_separated.read, "a\t \tb\n"), "g", 1, "relation", "is empty"),
        (one(conceptnet.assertions, "x\tIsA\t/c/en/a\t/c/en/b\t{}\n"), "g", 1, "relation", "no relation URI"),
        (one(conceptnet.assertions, "x\t/r/IsA\t/c/en/a\tfish\t{}\n"), "g", 1, "end", "no concept URI"),
        (one(conceptnet.assertions, "x\t/r/IsA\t/c/en/a\n"), "g", 1, None, "3 fields, expected 5"),
        (one(conceptnet.completion, "IsA\ta\tb\nIsA\ta\tb\tyes\n"), "g", 2, "label", "neither 0 nor 1"),
        (one(conceptnet.completion, "IsA\ta\n"), "g", 1, None, "2 fields"),
        (one(primekg.read, "relation,x_name\n"), "g", 1, "x_type", "lacks this column"),
        (one(primekg.read, "relation,x_type,x_name,y_type,y_name\nr,drug,,t,b\n"), "g", 2, "x_name", "is empty"),
        (het("C::1\tCtD\tD::9\n"), "edges.sif", 2, "target", "D::9 is not in nodes.tsv"),
        (het("", "C::1\ta\tX\nC::1\tb\tX\n"), "nodes.tsv", 3, "id", "comes twice"),
        (ddb('{"1": ["1", "2", "2"],\n"2": ["1", "5", "2"]}'), "relas.json", 2, "2", "item 5 has no preferred name"),
        (ddb('{"1": ["1", "2", "99"]}'), "relas.json", 1, "1", "relation code 99 is unknown"),
        (ddb('{"1": ["1", "2"]}'), "relas.json", 1, "1", "not a list of 3 ids"),
        (ddb("{}", '{"A": ["1", "x"]}'), "names.json", 1, "A", "neither 0 nor 1"),
        (ddb('{"1": ["1", '), "relas.json", 1, None, "JSON"),
    ],
)
def test_faults_are_named(
    tmp_path: Path,
    read: Callable[[Path], Iterable[TripleRecord]],
    file: str,
    line: int,
    field: str | None,
    words: str,
) -> None:
    with pytest.raises(BadInput) as caught:
        list(read(tmp_path))
    error = caught.value
    assert error.file is not None and Path(error.file).name == file
    assert (error.line, error.field) == (line, field)
    assert words in str(error)


def test_frames_come_in_batches() -> None:
    records = [TripleRecord(f"h{i}", "r", "t", i) for i in range(5)]
    assert [len(part) for part in frames(iter(records), rows=2)] == [2, 2, 1]
    assert frame(iter(records))["line"].to_list() == [0, 1, 2, 3, 4]
    assert frame([]).columns == list(TripleRecord._fields)


@pytest.mark.dev_data
def test_the_real_files(dev_data: Path) -> None:
    sizes = {name: len(list(umls.read(dev_data / "umls" / f"{name}.txt"))) for name in ("train", "valid", "test")}
    assert sizes == {"train": 5_216, "valid": 652, "test": 661}
    first = next(iter(umls.read(dev_data / "umls" / "train.txt")))
    assert first == TripleRecord("acquired abnormality", "location_of", "experimental model of disease", 1)
    labelled = list(conceptnet.completion(dev_data / "conceptnet" / "dev1.txt"))
    assert len(labelled) == 1_200 and {record.label for record in labelled} == {True, False}
    assert len(list(conceptnet.completion(dev_data / "conceptnet" / "train_slice.txt"))) == 20_000


def test_freebase_subsets_of_simplequestions(tmp_path: Path) -> None:
    line = "www.freebase.com/m/01\twww.freebase.com/people/person/born\twww.freebase.com/m/02 www.freebase.com/m/03\n"
    path = file_of(tmp_path, "FB2M.txt", line + "www.freebase.com/m/04\twww.freebase.com/a/b\twww.freebase.com/m/01\n")
    assert triples(simplequestions.read(path)) == [
        ("m.01", "people.person.born", "m.02", 1), ("m.01", "people.person.born", "m.03", 1), ("m.04", "a.b", "m.01", 2),
    ]  # fmt: skip
    with pytest.raises(BadInput, match=r"g\.txt:2: objects: is empty"):
        list(simplequestions.read(file_of(tmp_path, "g.txt", "m.1\tr\tm.2\nm.1\tr\t \n")))
    with pytest.raises(BadInput, match=r"h\.txt:1: 2 fields, expected 3"):
        list(simplequestions.read(file_of(tmp_path, "h.txt", "m.1\tm.2\n")))
