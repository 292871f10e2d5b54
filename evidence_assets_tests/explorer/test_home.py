"""The first page: the contents of the lake, the changes of the last run, and answers worth a look."""

import os
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from evidence_assets.explorer.site import application
from evidence_assets.lake.lineage import history_rows
from evidence_assets.lake.store import Lake
from evidence_assets_tests.explorer.hostile_lake import ATTACK
from evidence_assets_tests.lake_rows import chain, chunk, evidence, prediction, question, write_answers

PREDICTIONS = "predictions/mcqa/s"


def write_run(lake: Lake, run: str, time: int, predictions: list[dict[str, Any]]) -> None:
    """Write predictions as a run of Dagster does, at an hour; files of a copied lake may have other times."""
    lake.write(PREDICTIONS, "quiz|0", {"predictions": predictions})
    table = lake.read("predictions", PREDICTIONS, "quiz|0").to_arrow()
    rows = history_rows("predictions", table, run, PREDICTIONS, "quiz|0")
    lake.record_history(run, PREDICTIONS, "quiz|0", [row | {"time": f"2026-01-01 {time}:00:00+00:00"} for row in rows])
    for path in (lake.root / "history" / f"run={run}").iterdir():
        os.utime(path, (-time, -time))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three questions; a variant is confident and wrong on the second."""
    lake = Lake.create(tmp_path / "data_lake")
    questions = [question(n, text=f"Question {n}? {ATTACK}", options=[f"bee {ATTACK}", "cat"]) for n in (1, 2, 3)]
    lake.write("questions/mcqa", "quiz|0", {"questions": questions})
    chunks = [chunk(1, ATTACK), chunk(2, "Cats purr.", doc_id="d1", ordinal=1)]
    lake.write("corpus/notes/chunks", "0", {"chunks": chunks})
    write_answers(
        lake,
        [evidence(1, 1, ATTACK, "t"), evidence(2, 1, ATTACK, "t")],
        [chain(1, "A", ATTACK, ["e-t-1-1"], "t"), chain(2, "A", "Unused.", ["gone"], "t")],
        [
            prediction(1, "A", selector="t", confidence=0.6),
            prediction(2, "B", selector="t", confidence=0.9),
            prediction(3, "B", selector="t", confidence=0.7, status="insufficient"),
        ],
        selector="t",
    )
    return lake


def sections(page: str) -> dict[str, str]:
    """Text of each section of a page, by the id of its heading."""
    return {
        match[1]: " ".join(unescape(re.sub(r"<[^>]+>", " ", match[2])).split())
        for match in re.finditer(r'<h[23] id="(\w+)">(.*?)(?=<h[23] id=|</main>)', page, re.DOTALL)
    }


def test_contents_are_counted(client: TestClient) -> None:
    contents = sections(client.get("/").text)
    assert "notes : 1 document, 2 chunks" in contents["contents"] and "quiz : 3 questions" in contents["contents"]
    assert "quiz mcqa 3 1 3" in contents["benchmarks"]


def test_an_empty_lake_says_what_to_run(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "data_lake")
    page = TestClient(application(lake.root), base_url="http://127.0.0.1").get("/")
    assert page.status_code == 200 and set(sections(page.text)) == {"contents"}
    assert "evidence demo" in page.text and "evidence ask" in page.text


def test_answers_worth_a_look_follow_their_rules(lake: Lake, client: TestClient) -> None:
    notable = sections(client.get("/").text)["notable"]
    assert "Confident and wrong" in notable and "Variants disagree" not in notable
    assert "Question 2?" in notable and "gold A. bee" in notable and "confidence 0.90" in notable
    assert "Question 3?" not in notable, "an answer without support is not confident"
    lake.write(PREDICTIONS, "quiz|0", {"predictions": [prediction(2, "A", confidence=0.8)]})
    notable = sections(client.get("/").text)["notable"]
    assert re.search(r"Variants disagree.*Question 2\?.*cat.*wrong.*0\.90.*bee.*right.*0\.80", notable)


def test_changed_answers_of_the_last_run_are_listed(lake: Lake, client: TestClient) -> None:
    write_run(lake, "first", 10, [prediction(1, "A"), prediction(2, "A"), prediction(3, "A")])
    new = sections(client.get("/").text)["new"]
    assert "quiz : 3 new answers" in new
    assert "Changed answers" not in new
    lake.record_history("first", "predictions/mcqa/t", "quiz|0", [])
    write_run(lake, "second", 11, [prediction(1, "B"), prediction(2, "A")])
    page = client.get("/").text
    new = sections(page)["new"]
    assert re.search(r"Question 1\?.*bee.*right → B\. cat wrong", new) and "Question 2?" not in new
    numbers = re.findall(r'<td class="n">(\d*)</td>', page[page.index('id="new"') : page.index('id="notable"')])
    assert numbers == ["", "1", "1"], "no new, one changed and one removed answer"
    write_run(lake, "third", 14, [prediction(1, "B"), prediction(2, "A")])
    assert "It changed no answer, triple or score." in sections(client.get("/").text)["new"]
