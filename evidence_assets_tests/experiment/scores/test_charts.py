"""Pictures of scores: what they show, escaped texts, and bytes that follow from the rows."""

import random
from xml.etree import ElementTree

import pytest

from evidence_assets.experiment.scores import charts
from evidence_assets.experiment.scores.charts import Score, draw_precision, draw_reliability, draw_scores
from evidence_assets.experiment.scores.metrics import calibration_error
from evidence_assets.experiment.scores.scoreboard import draw_scoreboard
from evidence_assets.lake import connect
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import run_python
from evidence_assets_tests.lake_rows import score

MAX_BYTES = 30_000
NAMESPACE = "{http://www.w3.org/2000/svg}"
BM25 = Score("bm25", 0.5, 0.4, 0.625, None)
REPRODUCED = Score("uscrake@llama", 0.25, 0.125, 0.375, 0.75)


def texts(picture: str) -> list[str]:
    """The texts of a picture, as a browser shows them."""
    return ["".join(element.itertext()) for element in ElementTree.fromstring(picture).iter(f"{NAMESPACE}text")]


def points(picture: str) -> list[tuple[float, float]]:
    """The centres of a plot's points, from 0 to 1."""
    left, right = float(charts._x(0)), float(charts._x(1))
    bottom, top = float(charts._y(0)), float(charts._y(1))
    return [
        ((float(each.attrib["cx"]) - left) / (right - left), (float(each.attrib["cy"]) - bottom) / (top - bottom))
        for each in ElementTree.fromstring(picture).iter(f"{NAMESPACE}circle")
    ]


def test_scores_stand_with_their_values_intervals_and_printed_figures_highest_first() -> None:
    picture = draw_scores("accuracy on quiz", [REPRODUCED, BM25])
    contents = texts(picture)
    assert contents[0] == "accuracy on quiz" and contents.index("bm25") < contents.index("uscrake@llama")
    assert contents[-2:] == ["0.500", "0.250 0.750"]
    assert f"M{charts._x(0.4)} 74H{charts._x(0.625)}" in picture, "the interval of the first"
    assert f"M{charts._x(0.75)} 100v12" in picture, "the printed figure of the second"


def test_equal_scores_give_equal_bytes_in_any_order_and_process() -> None:
    picture = draw_scores("accuracy on quiz", [BM25, REPRODUCED])
    assert draw_scores("accuracy on quiz", [REPRODUCED, BM25]) == picture
    assert draw_scores("accuracy on quiz", [BM25, REPRODUCED._replace(published=None)]) != picture
    code = (
        "from evidence_assets_tests.experiment.scores.test_charts import *\n"
        "import sys; sys.stdout.buffer.write(draw_scores('accuracy on quiz', [BM25, REPRODUCED]).encode())"
    )
    assert run_python("-c", code, env={"PYTHONHASHSEED": "7"}) == picture


def test_names_are_text_and_not_markup() -> None:
    name = '<script>&"</text>'
    assert name in texts(draw_scores(name, [BM25._replace(label=name)]))
    assert texts(draw_scores("t", [BM25._replace(label=name)])).count(name) == 1
    assert f"{name}: 1.000 at 1" in texts(draw_precision(name, {name: [1.0]}))
    assert name in texts(draw_reliability(name, [0.5], [True]))


def test_of_many_scores_those_with_printed_figures_and_the_highest_are_drawn() -> None:
    label = "a variant with a name of seventy characters, of which the middle is cut"
    many = [BM25._replace(label=f"{label} {number}", value=number / 100) for number in range(100)]
    picture = draw_scores("accuracy on quiz", [*many, REPRODUCED])
    contents = texts(picture)
    assert "uscrake@llama" in contents and "0.990" in contents and "0.700" not in contents
    assert f"{101 - charts.MAX_ROWS} more are not drawn" in contents
    assert max(map(len, contents)) <= charts.MAX_LABEL + 1 < len(label)
    assert len(picture.encode()) < MAX_BYTES


def test_reliability_has_a_point_for_each_tenth_of_the_answers() -> None:
    rng = random.Random(0)
    confidence = [rng.random() for _ in range(500)]
    correct = [rng.random() < share for share in confidence]
    picture = draw_reliability("Confidence on quiz", confidence, correct)
    bins = points(picture)
    assert len(bins) == 10
    error = calibration_error(confidence, correct)
    assert sum(abs(x - y) for x, y in bins) / 10 == pytest.approx(error, abs=0.002)
    assert f"500 answers, calibration error {error:.3f}" in texts(picture)
    assert draw_reliability("Confidence on quiz", confidence, correct) == picture and len(picture) < MAX_BYTES


def test_curves_of_precision_have_a_point_for_each_rank() -> None:
    picture = draw_precision("Precision at k on zoo", {"own": [1.0, 0.5], "bertnet": [0.0, 0.25]})
    lines = [each.attrib["points"].split() for each in ElementTree.fromstring(picture).iter(f"{NAMESPACE}polyline")]
    assert lines[0] == [f"{charts._x(0.5)},{charts._y(1)}", f"{charts._x(1)},{charts._y(0.5)}"]
    assert len(lines) == 2 and {"own: 0.500 at 2", "bertnet: 0.250 at 2"} <= set(texts(picture))


def test_the_scoreboard_draws_the_main_metric_of_each_benchmark(lake: Lake) -> None:
    lake.write("scores/mcqa/bm25", "quiz", {"scores": [score("accuracy", 0.5), score("hit@1", 0.1)]})
    lake.write("scores/mcqa/a2q/llama", "quiz", {"scores": [score("accuracy", 0.25, published=0.75)]})
    lake.write("scores/search/bm25", "find", {"scores": [score("accuracy", 0.1, "find"), score("hit@1", 0.4, "find")]})
    lake.write("scores/mcqa/bm25", "empty", {"scores": [score("accuracy", None, "empty")]})
    with connect(lake.root) as connection:
        pictures = draw_scoreboard(connection)
    assert list(pictures) == ["accuracy on quiz", "hit@1 on find"]
    assert {"bm25", "a2q@llama", "0.500", "0.250 0.750"} <= set(texts(pictures["accuracy on quiz"]))
    assert "0.400" in texts(pictures["hit@1 on find"])
