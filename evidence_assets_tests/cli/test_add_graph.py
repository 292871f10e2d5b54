"""``evidence add graph`` and ``evidence ask --graph FILE``: a file of triples becomes a graph that answers."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.experiment import graph_building

TRIPLES = """Marta Weiss\tborn in\tLindau
Josef Weiss\tyear of birth\t1931
Ada Kern\tconducts\tHarbour Band
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    (tmp_path / "Family Graph.tsv").write_text(TRIPLES, encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, " ".join(result.output.split())


def test_a_file_of_triples_answers_at_once_and_by_its_name_later(project: Path) -> None:
    code, output = run("ask", "Where was Marta Weiss born?", "--graph", "./Family Graph.tsv", "--json")
    assert code == 0, output
    answer = json.loads(output[output.index("{") : output.rindex("}") + 1])
    assert (answer["answer"], answer["status"]) == ("Lindau", "answered")
    with (project / "Family Graph.tsv").open("a", encoding="utf-8") as file:
        file.write("Marta Weiss\tplays\tcello\n")
    code, output = run("add", "graph", "family_graph", "Family Graph.tsv")
    assert code == 0 and "4 triples" in output
    code, output = run("ask", "Which instrument does Marta Weiss play?", "--graph", "family_graph", "--json")
    assert code == 0 and '"cello"' in output


def test_a_graph_killed_before_its_arrays_is_completed_and_others_are_proposed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(graph_building, "build_arrays", interrupt)
        assert run("add", "graph", "family", "Family Graph.tsv")[0] == 130
    code, output = run("ask", "Where was Marta Weiss born?", "--graph", "family", "--json")
    assert code == 0 and '"Lindau"' in output, output
    code, output = run("ask", "Where was Marta Weiss born?", "--graph", "families")
    assert code != 0 and "there are: family. Add one with `evidence ask … --graph ./FILE`" in output


PARTS = ("build_arrays", "build_name_vectors", "build_passages")
"""Functions that build a graph after its nodes and edges, in order."""


def interrupt(*arguments: object, **options: object) -> None:
    raise KeyboardInterrupt


def graph_files(lake: Path) -> dict[str, bytes]:
    """The bytes of all files of graphs, by path."""
    folders = ("triples", "kg_nodes", "kg_edges", "kg_passages", "indexes")
    paths = [path for folder in folders for path in (lake / folder).rglob("*") if path.is_file()]
    return {path.relative_to(lake).as_posix(): path.read_bytes() for path in paths if not path.name.startswith(".")}


def test_a_graph_whose_build_was_killed_is_completed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project / "Family Graph.tsv"
    by_file = ("--graph", f"./{file.name}", "--json")
    code, output = run("ask", "Where was Marta Weiss born?", *by_file)
    assert code == 0 and '"Lindau"' in output, output
    for part, place in zip(PARTS, ("Konstanz", "Bregenz", "Meersburg"), strict=True):
        file.write_text(TRIPLES.replace("Lindau", place), encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.setattr(graph_building, part, interrupt)
            assert run("ask", "Where was Marta Weiss born?", *by_file)[0] == 130
        source = by_file if part != PARTS[-1] else ("--graph", "family_graph", "--json")
        code, output = run("ask", "Where was Marta Weiss born?", *source)
        assert code == 0 and f'"{place}"' in output and "building" in output, (part, output)
    assert "building" not in run("ask", "Where was Marta Weiss born?", *by_file)[1], "it is complete"
    files = graph_files(project / "data_lake")
    assert run("add", "graph", "family_graph", file.name, "--lake", str(project / "other_lake"))[0] == 0
    assert files == graph_files(project / "other_lake")


def test_a_file_does_not_replace_the_graph_of_another_file(project: Path) -> None:
    (project / "other").mkdir()
    other = project / "other" / "family-graph.tsv"
    other.write_text(TRIPLES.replace("Lindau", "Bregenz"), encoding="utf-8")
    for command in (("ask", "Where?", "--graph", "./Family Graph.tsv"), ("add", "graph", "family_graph", str(other))):
        assert run(*command)[0] == 0
        source = project / "Family Graph.tsv" if command[0] == "ask" else other
        for file in {project / "Family Graph.tsv", other} - {source}:
            code, output = run("ask", "Where was Marta Weiss born?", "--graph", str(file))
            assert code != 0 and f"graph 'family_graph' has the triples of {source}" in output, output
            assert "`evidence add graph family_graph FILE`" in output and "`evidence add graph NAME FILE`" in output
    code, output = run("ask", "Where was Marta Weiss born?", "--graph", "family_graph", "--json")
    assert code == 0 and '"Bregenz"' in output


def test_bad_files_and_names_change_nothing(project: Path) -> None:
    (project / "empty.tsv").write_text("", encoding="utf-8")
    (project / "two.tsv").write_text("Marta\tborn in\n", encoding="utf-8")
    for name, message in (("empty.tsv", "has no triples"), ("two.tsv", "two.tsv:1"), ("missing.tsv", "no such file")):
        code, output = run("ask", "Where?", "--graph", f"./{name}")
        assert code != 0 and message in output, output
    code, output = run("add", "graph", "sample", "Family Graph.tsv")
    assert code != 0 and "choose another name" in output
    assert not (project / "data_lake" / "raw" / "graphs").exists()
