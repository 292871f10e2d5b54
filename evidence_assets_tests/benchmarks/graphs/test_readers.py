"""Every graph format read as it is published, and every fault named by file, line and field."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from evidence_assets.benchmarks.graphs import rows
from evidence_assets.benchmarks.graphs.formats import FORMATS, TripleRecord, find_format
from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.lake.errors import BadInput
from evidence_assets_tests.graphs.small_graph import graph_of_rows, merge_source, read_triples


@dataclass(frozen=True)
class Fault:
    """A text in place of one of a format's files, with the expected error: line, field and words."""

    text: str
    line: int
    field: str | None
    words: str
    file: int = 0


class ReaderContract:
    """What holds of every registered graph format."""

    name: ClassVar[str]
    files: ClassVar[Sequence[str]]
    """Texts of its files."""
    records: ClassVar[Sequence[TripleRecord]]
    """What they state."""
    synonyms: ClassVar[Sequence[tuple[str, str]]] = ()
    faults: ClassVar[Sequence[Fault]]

    def write_texts(self, folder: Path, texts: Sequence[str] = ()) -> list[Path]:
        paths = [folder / f"{i}.txt" for i in range(len(self.files))]
        for path, text in zip(paths, texts or self.files, strict=True):
            path.write_text(text, encoding="utf-8")
        return paths

    def test_its_records_and_rows_name_file_line_and_licence(self, tmp_path: Path) -> None:
        paths = self.write_texts(tmp_path)
        assert list(find_format(self.name, paths).read(*paths)) == list(self.records)
        source = GraphSource(format=self.name, paths=tuple(path.name for path in paths), licence="CC0")
        results = read_triples([source, source], tmp_path)
        assert results.height == len(self.records), "a triple stated twice is one row"
        assert set(results["source"]) == {f"0.txt:{record.line}" for record in self.records}
        assert set(results["licence"]) == {"CC0"} and set(results["origin"]) == {"import"}
        assert rows.read_synonyms([source, source], tmp_path).rows() == list(self.synonyms)

    def test_faults_are_named_by_file_line_and_field(self, tmp_path: Path) -> None:
        for fault in self.faults:
            texts = [fault.text if i == fault.file else text for i, text in enumerate(self.files)]
            with pytest.raises(BadInput) as caught:
                list(FORMATS[self.name].read(*self.write_texts(tmp_path, texts)))
            error = caught.value
            assert error.file is not None and Path(error.file).name == f"{fault.file}.txt", fault
            assert (error.line, error.field) == (fault.line, fault.field), fault
            assert fault.words in str(error)


class TestTabSeparated(ReaderContract):
    name = "tab_separated"
    files = ("a\tr\tb\n\nc d \tr\té\r\n",)
    records = (TripleRecord("a", "r", "b", 1), TripleRecord("c d", "r", "é", 3))
    faults = (Fault("a\tr\tb\na\tr\n", 2, None, "2 fields; expected 3"), Fault("a\t \tb\n", 1, "relation", "is empty"))


class TestUmls(ReaderContract):
    name = "umls"
    files = ("acquired_abnormality\tlocation_of\tmodel_of_disease\n",)
    records = (TripleRecord("acquired abnormality", "location_of", "model of disease", 1),)
    faults = (Fault("a\tr\n", 1, None, "2 fields; expected 3"),)


class TestDiseaseDatabase(ReaderContract):
    name = "disease_database"
    files = (
        '{"1": ["8", "7", "4"],\n "2": [7, 8, "26"]}',
        json.dumps({"Atrophy": ["7", "1"], "Wasting": ["7", "0"], "Thinning": [8, "1"], "Lost": ["9", "0"]}),
    )
    records = (
        TripleRecord("Thinning", "is_a_risk_factor_of", "Atrophy", 1),
        TripleRecord("Atrophy", "see_also", "Thinning", 2),
    )
    synonyms = (("Atrophy", "Wasting"),)
    faults = (
        Fault('{"1": ["7", "8", "2"],\n"2": ["7", "5", "2"]}', 2, "2", "item 5 has no preferred name"),
        Fault('{"A": ["1", "x"]}', 1, "A", "neither 0 nor 1", file=1),
    )


class TestConceptNet(ReaderContract):
    name = "conceptnet"
    files = (
        "\n".join(
            [
                "/a/1\t/r/AtLocation\t/c/en/fish/n/wn/animal\t/c/en/deep_sea\t{}",
                "/a/2\t/r/Synonym\t/c/en/fish\t/c/fr/poisson\t{}",
                "/a/3\t/r/ExternalURL\t/c/en/fish\thttp://example.org/fish\t{}",
                "/a/4\t/r/dbpedia/genre\t/c/en/caf%C3%A9\t/c/en/place\t{}",
            ]
        ),
    )
    records = (TripleRecord("fish", "AtLocation", "deep sea", 1), TripleRecord("café", "genre", "place", 4))
    faults = (
        Fault("x\tIsA\t/c/en/a\t/c/en/b\t{}\n", 1, "relation", "not a relation URI"),
        Fault("x\t/r/IsA\t/c/en/a\tfish\t{}\n", 1, "end", "not a concept URI"),
    )


class TestConceptNetCompletion(ReaderContract):
    name = "conceptnet_completion"
    files = ("IsA\ttool\tobject\t1\nIsA\tcow\tbook\t0\nHasA\tcat\teye\n",)
    records = (TripleRecord("tool", "IsA", "object", 1), TripleRecord("cat", "HasA", "eye", 3))
    faults = (
        Fault("IsA\ta\tb\nIsA\ta\tb\tyes\n", 2, "label", "neither 0 nor 1"),
        Fault("IsA\ta\n", 1, None, "2 fields"),
    )


class TestPrimeKG(ReaderContract):
    name = "primekg"
    files = ('relation,x_type,x_name,y_type,y_name,y_source\nindication,drug,"Aspirin, coated",disease,fever,MONDO\n',)
    records = (TripleRecord("Aspirin, coated", "indication", "fever", 2, "drug", "disease"),)
    faults = (Fault("relation,x_type,x_name,y_type,y_name\nr,drug,,t,b\n", 2, "x_name", "is empty"),)


class TestHetionet(ReaderContract):
    name = "hetionet"
    files = (
        "source\tmetaedge\ttarget\nC::1\tCtD\tD::1\n",
        "id\tname\tkind\nC::1\tAspirin\tCompound\nD::1\tfever\tDisease\n",
    )
    records = (TripleRecord("Aspirin", "CtD", "fever", 2, "Compound", "Disease"),)
    faults = (Fault("source\tmetaedge\ttarget\nC::1\tCtD\tD::9\n", 2, "target", "D::9 is not in 1.txt"),)


class TestDrugbank(ReaderContract):
    name = "drugbank"
    files = (
        "DB00945\tDB00682\nBTD1\tDB00945\n",
        "DrugBank ID,Accession Numbers,Common name,CAS,UNII,Synonyms,Standard InChI Key\n"
        "DB00945,APRD264,Aspirin,50-78-2,R16,Acetylsalicylic acid | ASA,K\nDB00682,BTD1 | BTD2,Warfarin,81,5Q7,,K\n",
    )
    records = (
        TripleRecord("Aspirin", "interacts_with", "Warfarin", 1, "drug", "drug"),
        TripleRecord("Warfarin", "interacts_with", "Aspirin", 2, "drug", "drug"),
    )
    synonyms = (("Aspirin", "Acetylsalicylic acid"), ("Aspirin", "ASA"))
    faults = (Fault("DB00945\tDB9\n", 1, "second drug", "drug 'DB9' is not in 1.txt"),)


class TestSimpleQuestions(ReaderContract):
    name = "simplequestions"
    files = (
        "www.freebase.com/m/01\twww.freebase.com/people/person/born\twww.freebase.com/m/02 www.freebase.com/m/03\n"
        "www.freebase.com/m/04\twww.freebase.com/a/b\twww.freebase.com/m/01\n",
    )
    records = (
        TripleRecord("m.01", "people.person.born", "m.02", 1),
        TripleRecord("m.01", "people.person.born", "m.03", 1),
        TripleRecord("m.04", "a.b", "m.01", 2),
    )
    faults = (Fault("m.1\tr\tm.2\nm.1\tr\t \n", 2, "objects", "is empty"),)


def test_every_registered_format_passes_the_contract() -> None:
    assert {case.name for case in ReaderContract.__subclasses__()} == set(FORMATS)
    with pytest.raises(BadInput, match="no graph format 'rdf'"):
        find_format("rdf", [])


def test_ids_are_called_by_a_users_file_and_found_by_both(tmp_path: Path) -> None:
    """A name that two bear tells which of them."""
    (tmp_path / "names.tsv").write_text("m.01\tAda\nm.01\tAda L.\nm.02\tLondon\nm.04\tLondon\n")
    (tmp_path / "facts.txt").write_text(TestSimpleQuestions.files[0])
    source = GraphSource(format="simplequestions", paths=("facts.txt",), licence="", names="names.tsv")
    triples = read_triples([source], tmp_path)
    assert set(triples.select("head", "relation", "tail").rows()) == {
        ("Ada", "people.person.born", "London (m.02)"),
        ("Ada", "people.person.born", "m.03"),
        ("London (m.04)", "a.b", "Ada"),
    }
    graph = graph_of_rows("g", *merge_source(source, tmp_path))
    for text in ("Ada", "m.01", "Ada L."):
        assert [graph.names[n] for n in graph.linker.link(text).nodes] == ["Ada"], text
    assert sorted(graph.names) == ["Ada", "London", "London", "m.03"], "shown by their labels"
    nodes = {text: set(graph.linker.link(text).nodes) for text in ("London", "London (m.02)", "m.02", "m.04")}
    assert nodes["London"] == nodes["m.02"] | nodes["m.04"] and len(nodes["London"]) == 2, "all that share the label"
    assert nodes["London (m.02)"] == nodes["m.02"], "the id tells which"
    (tmp_path / "names.tsv").write_text("m.01\t \n")
    with pytest.raises(BadInput, match=r"names\.tsv:1: name: is empty"):
        read_triples([source], tmp_path)


# The foreign names of relations


def test_foreign_names_are_translated_and_inverted() -> None:
    triples = [
        TripleRecord("a", "CtD", "b", 1, "Compound", "Disease"),
        TripleRecord("class", "PCiC", "drug", 2, "Class", "Compound"),
        TripleRecord("a", "odd", "b", 3),
        TripleRecord("a", "may_treat", "b", 4),
    ]
    assert list(load_vocabulary().translate(triples, "hetionet")) == [
        TripleRecord("a", "may_treat", "b", 1, "Compound", "Disease"),
        TripleRecord("drug", "belongs_to_the_drug_family_of", "class", 2, "Compound", "Class"),
        *triples[2:],
    ]
    assert list(load_vocabulary().translate(triples, "umls")) == triples
