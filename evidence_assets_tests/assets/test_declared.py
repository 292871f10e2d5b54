"""Declarations of the lake and the project are loaded with the package's, and can name only data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import dagster as dg
import pytest

from evidence_assets.assets.benchmark import Declared
from evidence_assets.benchmarks.declared_benchmarks import declarations, declarations_of
from evidence_assets.lake.errors import BadInput


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


def load_keys() -> set[str]:
    defs = Declared().build_defs(cast(dg.ComponentLoadContext, None))
    specs = (spec for asset in defs.assets or () if isinstance(asset, dg.AssetsDefinition) for spec in asset.specs)
    return {spec.key.to_user_string() for spec in specs}


def test_a_declared_corpus_is_loaded_with_and_without_dagster(declaration_file: Path) -> None:
    assert load_keys() == set()
    declarations.cache_clear()
    declaration_file.write_text(
        "type: evidence_assets.assets.corpus.Corpus\nattributes: {name: mine, folder: corpora/mine}\n", encoding="utf-8"
    )
    assert {"corpus/mine/chunks", "corpus/mine/index"} <= load_keys()
    names = [document.attributes["name"] for document in declarations_of("Corpus")]
    assert "mine" in names and "sample" in names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("type: os.system\nattributes: {command: ls}\n", "cannot declare the component 'system'"),
        ("type: evidence_assets.assets.resources.Resources\n", "cannot declare the component 'Resources'"),
        ("type: evidence_assets.assets.benchmark.Benchmark\nattributes: {name: b, task: mcqa, corpus: none}\n", "none"),
    ],
)
def test_a_lake_declares_data_and_errors_name_its_file(declaration_file: Path, text: str, message: str) -> None:
    declaration_file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=message) as raised:
        load_keys()
    assert str(declaration_file) in str(raised.value)
