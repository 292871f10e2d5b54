"""Scores come from stored predictions, without a solver; the table of printed figures is written after them.

Their metadata has pictures, and the URL of their files.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import dagster as dg
import pytest

from evidence_assets.assets.resources import LakeResource
from evidence_assets.assets.system import Scoreboard, build_variant_defs
from evidence_assets.experiment import solvers
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.assets.small_worlds import materialize
from evidence_assets_tests.lake_rows import as_stored, evidence, prediction, question, score

PLAIN = Variant(system="baselines", family="mcqa", name="x", method="bm25")


def test_scoring_again_calls_no_solver_and_leaves_the_predictions(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a solver was asked for")

    monkeypatch.setattr(solvers, "build_solver", refuse)
    benchmark = "sample_mcqa"
    lake.write("questions/mcqa", f"{benchmark}|0", {"questions": [question(i, benchmark) for i in range(4)]})
    predictions = [prediction(i, "A" if i else "B", benchmark) for i in range(4)]
    lake.write("predictions/mcqa/x", f"{benchmark}|0", {"predictions": predictions})
    before = lake.path("predictions", "predictions/mcqa/x", f"{benchmark}|0").read_bytes()

    materialize(lake, build_variant_defs(PLAIN), "scores/mcqa/x", partition_key=benchmark)
    scores = {row["metric"]: row["value"] for row in lake.read("scores", "scores/mcqa/x").to_dicts()}
    assert scores["accuracy"] == 0.75
    assert lake.path("predictions", "predictions/mcqa/x", f"{benchmark}|0").read_bytes() == before


def picture_of(result: dg.ExecuteInProcessResult, asset: str, name: str) -> str:
    """The SVG picture in the metadata of an asset's materialization."""
    markdown = metadata_of(result, asset)[name].value
    assert isinstance(markdown, str)
    beginning = f"![{name}](data:image/svg+xml;base64,"
    assert markdown.startswith(beginning) and markdown.endswith(")")
    return base64.b64decode(markdown[len(beginning) : -1], validate=True).decode()


def metadata_of(result: dg.ExecuteInProcessResult, asset: str) -> Mapping[str, dg.MetadataValue[Any]]:
    (materialization,) = result.asset_materializations_for_node(asset.replace("/", "__"))
    return materialization.metadata


def test_scores_have_a_reliability_diagram_and_the_url_of_their_file(lake: Lake) -> None:
    questions = [question(i, "sample_mcqa") for i in range(40)]
    sure = {"confidence": 0.8, "probabilities": [0.8, 0.2]}
    predictions = [prediction(i, "A" if i % 4 else "B", "sample_mcqa", **sure) for i in range(40)]
    lake.write("questions/mcqa", "sample_mcqa|0", {"questions": questions})
    lake.write("predictions/mcqa/x", "sample_mcqa|0", {"predictions": as_stored("predictions", predictions)})
    definitions = build_variant_defs(PLAIN)
    pictures = []
    for _ in range(2):
        result = materialize(lake, definitions, "scores/mcqa/x", partition_key="sample_mcqa")
        pictures.append(picture_of(result, "scores/mcqa/x", "reliability"))
    assert "40 answers, calibration error 0.050" in pictures[0] and pictures[0] == pictures[1]
    url = metadata_of(result, "scores/mcqa/x")["dagster/uri"].value
    assert Path(unquote(urlsplit(str(url)).path)) == lake.path("scores", "scores/mcqa/x", "sample_mcqa").absolute()
    assert lake.path("scores", "scores/mcqa/x", "sample_mcqa").is_file()


def test_without_a_fitted_confidence_scores_have_no_diagram(lake: Lake) -> None:
    lake.write("questions/mcqa", "sample_mcqa|0", {"questions": [question(0, "sample_mcqa")]})
    lake.write("predictions/mcqa/x", "sample_mcqa|0", {"predictions": [prediction(0, "A", "sample_mcqa")]})
    result = materialize(lake, build_variant_defs(PLAIN), "scores/mcqa/x", partition_key="sample_mcqa")
    assert "reliability" not in metadata_of(result, "scores/mcqa/x")


def test_an_asset_names_the_folder_of_its_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(lake.root))
    assets = build_variant_defs(PLAIN).assets or []
    (asset,) = (a for a in assets if a.key.path[0] == "scores")  # type: ignore[union-attr]
    (spec,) = asset.specs  # type: ignore[union-attr]
    folder = lake.path("scores", "scores/mcqa/x", "sample_mcqa").parent
    assert spec.metadata["dagster/uri"] == dg.MetadataValue.url(folder.absolute().as_uri().replace("%3D", "="))


def test_missing_evidence_and_predictions_are_an_error_and_not_scored_as_wrong(lake: Lake) -> None:
    lake.write("questions/mcqa", "sample_mcqa|0", {"questions": [question(0, "sample_mcqa")]})
    words = "evidence/mcqa/x and predictions/mcqa/x have no rows for sample_mcqa: materialize one first"
    with pytest.raises(StaleInput, match=words):
        materialize(lake, build_variant_defs(PLAIN), "scores/mcqa/x", partition_key="sample_mcqa")


def test_evidence_is_scored_without_predictions_and_no_answer_counts_as_wrong(lake: Lake) -> None:
    triples = Variant(system="a2q", family="mcqa", name="x", method="nearest_triples", scores_triples=True)
    lake.write("questions/mcqa", "sample_mcqa|0", {"questions": [question(i, "sample_mcqa") for i in (0, 1)]})
    tails = {0: "yes", 1: "maybe"}
    rows = [
        evidence(
            i,
            1,
            f"it is {tail}",
            option="",
            kind="triple",
            source_kind="edge",
            why=json.dumps({"triple": ["it", "is", tail]}),
        )
        for i, tail in tails.items()
    ]
    lake.write("evidence/mcqa/x", "sample_mcqa|0", {"evidence": rows})
    materialize(lake, build_variant_defs(triples), "scores/mcqa/x", partition_key="sample_mcqa")
    scores = {row["metric"]: row for row in lake.read("scores", "scores/mcqa/x").to_dicts()}
    assert scores["hit@1"]["value"] == 0.5 and scores["coverage"]["value"] is not None
    assert not {"accuracy", "answered_share"} & scores.keys()
    assert {row["reasoner"] for row in scores.values()} == {""}


def test_the_printed_figures_are_written_and_counted_and_the_scores_drawn(lake: Lake) -> None:
    lake.write("scores/mcqa/bm25", "sample_mcqa", {"scores": [score("accuracy", 0.625, "sample_mcqa")]})
    (asset,) = Scoreboard().build_defs(dg.ComponentTree.for_test().load_context).assets or []
    assert isinstance(asset, dg.AssetsDefinition)
    result = dg.materialize([asset], resources={"lake": LakeResource(root=str(lake.root))})
    metadata = metadata_of(result, "report/scoreboard")
    picture = picture_of(result, "report/scoreboard", "accuracy on sample_mcqa")
    assert ">bm25<" in picture and ">0.625<" in picture
    rows = lake.read("published_figures", "report/scoreboard")
    counts = [metadata[name].value for name in ("printed", "fillable", "filled")]
    assert counts == [rows.height, rows["reason"].null_count(), 0] and rows.height == 1248
