"""The list of runs, and the comparison of two: changed answers, right ones of both, and links."""

import re
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evidence_assets.explorer.site import application
from evidence_assets.lake import connect
from evidence_assets.lake.lineage import diff_runs
from evidence_assets.lake.store import Lake
from evidence_assets_tests.explorer.hostile_lake import ATTACK, NAMES, words_of
from evidence_assets_tests.explorer.test_home import write_run
from evidence_assets_tests.lake_rows import prediction, question

N_QUESTIONS = 60


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two runs: question 1 became wrong, 2 right, 3 was removed, 4 is new."""
    lake = Lake.create(tmp_path / "data_lake")
    questions = [question(n, text=f"Question {n}? {ATTACK}") for n in range(1, N_QUESTIONS + 1)]
    lake.write("questions/mcqa", "quiz|0", {"questions": questions})
    write_run(lake, "first", 10, [prediction(1, "A"), prediction(2, "B"), prediction(3, "A"), prediction(5, "A")])
    write_run(lake, "second", 11, [prediction(1, "B"), prediction(2, "A"), prediction(4, "B"), prediction(5, "A")])
    return lake


def test_runs_are_listed_with_a_link_to_what_changed(client: TestClient) -> None:
    page = client.get("/runs").text
    assert re.search("second 2026-01-01 11:00:00 UTC 1 4 compare first 2026", words_of(page))
    assert re.findall(r'href="(/compare[^"]*)"', page) == ["/compare?a=first&amp;b=second"]
    assert '<a href="/runs">Compare runs</a>' in client.get("/").text


def test_changed_answers_are_shown_with_what_became_right_and_wrong(client: TestClient) -> None:
    page = client.get("/compare?a=first&b=second").text
    text = words_of(page)
    assert "all : 4 became right : 1 became wrong : 1 other : 2" in text
    assert re.search(r"Question 1\?.*? A\. yes \(answered\) right → B\. no \(answered\) wrong mcqa/s quiz", text)
    assert re.search(r"Question 4\?.*? new → B\. no \(answered\) wrong", text)
    assert re.search(r"Prediction p-s-3, no longer in the lake none \(answered\)|A \(answered\) → removed", text)
    assert "Question 5?" not in text
    assert "quiz mcqa/ s 4 2 of 3 2 of 4" in text, "of the answers whose question is known"
    assert 'href="/question/q1?variant=mcqa%2Fs"' in page
    assert "predictions added: 1 predictions changed: 2 predictions removed: 1 predictions equal: 1" in text
    assert "<img" not in page and page.count("<script") == 1
    assert client.get("/compare?b=first&a=second").text.count("→") == page.count("→")
    wrong = words_of(client.get("/compare?a=first&b=second&effect=became+wrong").text)
    assert "Question 1?" in wrong and "Question 2?" not in wrong
    assert "No answer differs." in words_of(client.get("/compare?a=first&b=first").text)


def test_the_page_agrees_with_the_command(lake: Lake, client: TestClient) -> None:
    with connect(lake.root) as connection:
        rows = diff_runs(connection, "first", "second").rows
    assert sorted(row["change"] for row in rows) == ["added", "changed", "changed", "removed"]
    assert f"all : {len(rows)}" in words_of(client.get("/compare?a=first&b=second").text)


def test_runs_without_a_common_partition_say_so(lake: Lake, client: TestClient) -> None:
    write_run(lake, "fourth", 12, [prediction(1, "A")])
    other = {
        "asset": "predictions/mcqa/u",
        "partition": "quiz|0",
        "row_id": "x",
        "content_hash": "h",
        "run_id": "fifth",
    }
    lake.record_history("fifth", "predictions/mcqa/u", "quiz|0", [other | {"time": "2026-01-02 10:00:00+00:00"}])
    assert "The runs have nothing in common" in client.get("/compare?a=fourth&b=fifth").text


@pytest.mark.parametrize("name", ["", "unknown", ATTACK, *NAMES])
def test_an_unknown_run_is_not_found(client: TestClient, name: str) -> None:
    for query in ({"a": "first", "b": name}, {"a": name, "b": "second"}):
        reply = client.get("/compare", params=query)
        assert reply.status_code == 404 and "The lake has no run" in reply.text and "<img" not in reply.text


def test_many_changed_answers_are_paged(lake: Lake, client: TestClient) -> None:
    write_run(lake, "third", 12, [prediction(n, "A") for n in range(1, N_QUESTIONS + 1)])
    write_run(lake, "fourth", 13, [prediction(n, "B") for n in range(1, N_QUESTIONS + 1)])
    first = client.get("/compare?a=third&b=fourth&effect=became+wrong").text
    [next_page] = [unescape(address) for address in re.findall(r'rel="next" href="([^"]*)"', first)]
    assert "became wrong : 60" in words_of(first)
    item = '<li><a href="/question/'
    assert (first.count(item), client.get(next_page).text.count(item)) == (50, N_QUESTIONS - 50)


def test_a_lake_without_runs_says_what_to_run(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "empty_lake")
    page = TestClient(application(lake.root), base_url="http://127.0.0.1").get("/runs")
    assert page.status_code == 200 and "evidence run BENCHMARK" in page.text and "<form class" not in page.text
