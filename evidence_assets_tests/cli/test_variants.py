"""``evidence variants``: every variant, what it is and when it is loaded; errors name the command."""

import json

import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.cli.ask import select_variant
from evidence_assets.experiment.ad_hoc_questions import QuestionSource
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.reproduction.presets import PRESETS_VARIABLE


@pytest.fixture(autouse=True)
def _no_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PRESETS_VARIABLE, raising=False)


def test_every_variant_is_listed_with_its_method_and_when_it_is_loaded() -> None:
    result = CliRunner().invoke(app, ["variants", "--json"])
    rows = json.loads(result.output)
    by_key = {f"{row['family']}/{row['variant']}": row for row in rows}
    assert by_key.keys() == {variant.key for variant in variants()} and len(rows) == len(by_key)
    assert all(row["method"] and row["loaded"] for row in rows)
    published = by_key["table/keep_all"]
    assert published["system"] == "ucret" and published["method"].startswith("UCRET and UCRET-JS: columns and cells")
    assert published["parameters"] == "{measure: all}"
    keys = ("table/ucret", "table/keep_all", "graph/uscrake", "retrieval/bm25", "graph/a2q")
    assert [by_key[key]["loaded"] for key in keys] == [
        "yes",
        "preset ucret_ablation or ucret_js",
        "evidence ask only",
        "no benchmark of retrieval",
        "yes",
    ]


def test_a_family_is_listed_alone_and_an_enabled_preset_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PRESETS_VARIABLE, "ucret_ablation")
    rows = json.loads(CliRunner().invoke(app, ["variants", "table", "--json"]).output)
    assert {row["family"] for row in rows} == {"table"}
    assert next(row["loaded"] for row in rows if row["variant"] == "keep_all") == "yes"
    assert "without_explanations" in CliRunner().invoke(app, ["variants", "table"]).output


def test_errors_suggest_a_family_and_the_list_of_variants() -> None:
    result = CliRunner().invoke(app, ["variants", "tabel"])
    assert result.exit_code == 1 and "there is no family 'tabel'; did you mean 'table'?" in result.output
    with pytest.raises(BadInput, match=r"did you mean 'ucret'.* `evidence variants table` lists them"):
        select_variant("table", QuestionSource(table="t"), "ucrte", "")
