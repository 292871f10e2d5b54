"""Declarations of the lake and the project are loaded with the package's, and can name only data."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import dagster as dg
import pytest
from typer.testing import CliRunner

from evidence_assets.assets.benchmark import Declared
from evidence_assets.benchmarks.declared_benchmarks import benchmarks, declarations, declarations_of
from evidence_assets.cli import app
from evidence_assets.lake.errors import BadInput

BENCHMARK = "type: evidence_assets.assets.benchmark.Benchmark\nattributes:\n  name: b\n  task: mcqa\n"
CORPUS = "type: evidence_assets.assets.corpus.Corpus\n"


@pytest.fixture(params=["lake", "project"])
def declaration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A declaration file of the lake, or of the project around it."""
    project = tmp_path / "project"
    (project / "data_lake").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.delenv("EVIDENCE_LAKE", raising=False)
    folder = project / "data_lake" if request.param == "lake" else project
    file = folder / "declarations" / "corpus" / "mine" / "defs.yaml"
    file.parent.mkdir(parents=True)
    declarations.cache_clear()
    yield file
    declarations.cache_clear()
    benchmarks.cache_clear()


def load_keys() -> set[str]:
    defs = Declared().build_defs(cast(dg.ComponentLoadContext, None))
    specs = (spec for asset in defs.assets or () if isinstance(asset, dg.AssetsDefinition) for spec in asset.specs)
    return {spec.key.to_user_string() for spec in specs}


def test_a_declared_corpus_is_loaded_with_and_without_dagster(declaration_file: Path) -> None:
    assert load_keys() == set()
    declarations.cache_clear()
    declaration_file.write_text(CORPUS + "attributes: {name: mine, folder: corpora/mine}\n", encoding="utf-8")
    assert {"corpus/mine/chunks", "corpus/mine/index"} <= load_keys()
    names = [document.attributes["name"] for document in declarations_of("Corpus")]
    assert "mine" in names and "sample" in names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n---\ntype: os.system\nattributes: {command: ls}\n", ":3: type: a lake or project cannot declare"),
        ("type: evidence_assets.assets.resources.Resources\n", "cannot declare the component 'Resources'"),
        ("type: evidence_assets.assets.benchmark.Benchmark\nattributes: {name: b, task: mcqa, corpus: none}\n", "none"),
        (BENCHMARK + "  corpus: smple\n", r":5: corpus: benchmark b uses 'smple'.* did you mean 'sample'\?"),
        (BENCHMARK + "  taxonomy: sample_kb\n", r":5: taxonomy: .*mean 'sample_skb'\? Declare a KnowledgeBase"),
        (BENCHMARK + "atributes: {path: p}\n", r":5: atributes: unknown field; did you mean 'attributes'\?"),
        (BENCHMARK + "  pathh: p\n", r":5: pathh: unknown field; did you mean 'path'\?"),
        (BENCHMARK.replace("Benchmark", "Benchmrk"), r":1: type: .*did you mean 'Benchmark'\?"),
        (BENCHMARK.replace("type", "typ"), r":1: typ: unknown field; did you mean 'type'\?"),
        (CORPUS + "attributes: {nam: b}\n", r":2: nam: .*did you mean 'name'\?"),
        (CORPUS + "attributes: {name: my.docs, folder: f}\n", ":2: name: 'my.docs' is not a valid corpus name: use"),
        (CORPUS.replace("corpus.Corpus", "graph.Graph") + "attributes: {name: g.h, files: []}\n", "a valid graph name"),
    ],
)
def test_a_lake_declares_data_and_errors_name_its_file(declaration_file: Path, text: str, message: str) -> None:
    declaration_file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=message) as raised:
        load_keys()
    assert str(declaration_file) in str(raised.value)
    benchmarks.cache_clear()
    result = CliRunner().invoke(app, ["run", "sample_mcqa", "--plan"])
    assert result.exit_code == 1 and len(result.output.splitlines()) == 1, result.output
    assert result.output.startswith(f"evidence: {declaration_file}:")
