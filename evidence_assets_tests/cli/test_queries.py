"""What `evidence trace`, `diff`, `impact` and `scoreboard` print."""

import json
import re
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console
from starlette.testclient import TestClient
from typer.testing import CliRunner

from evidence_assets.cli import app, console, queries
from evidence_assets.cli.browser_answers import BrowserAnswers
from evidence_assets.experiment.scores.input_version import compute_input_version
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.explorer import site
from evidence_assets.explorer.site import application
from evidence_assets.lake.lineage import CITED, DERIVED, USED, WAS_SHOWN, Node, edge, history_rows
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import REPOSITORY, World
from evidence_assets_tests.lake_rows import chain, chunk, citation, evidence, prediction, question, write_answers
from evidence_assets_tests.models.servers import FaultyServer, closed_port, running, short_pauses

PREDICTIONS, EVIDENCE = "predictions/mcqa/s", "evidence/mcqa/s"


def test_a_cited_row_comes_first_and_leads_to_the_shared_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MAX_CHILDREN", 2)
    document = [Node("document", "doc1")]
    text = {"text": "Ida Holm founded the library in 1921."}
    marked = {"text": "- **Ida Holm** founded the library in 1921."}
    children = [Node("evidence", f"{name}-row", name, "", marked, document) for name in (WAS_SHOWN, USED, CITED)]
    console = Console(record=True, width=80)
    console.print(queries._build_tree(Node("prediction", "p1", next=children)))
    output = console.export_text()
    assert output.count(text["text"]) == 1 and f"used evidence {USED}-row text: as evidence {CITED}-row" in output
    lines = [line.strip(" └├│─") for line in output.splitlines()]
    assert [line.split()[0] for line in lines] == ["prediction", "cited", "document", "used", "…"]


def test_diff_shows_changed_answers_and_counts_other_rows(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    lake.write("questions/mcqa", "quiz|0", {"questions": [question(1, text="Who won?", options=["Ida", "Bo"])]})

    def record(run: str, time: str, asset: str, rows: list[dict[str, object]]) -> None:
        table = asset.split("/")[0]
        lake.write(asset, "quiz|0", {table: rows})
        history = history_rows(table, lake.read(table, asset, "quiz|0").to_arrow(), run, asset, "quiz|0")
        lake.record_history(run, asset, "quiz|0", [row | {"time": time} for row in history])

    for run, time, answer in (("old", "2026-01-01 10:00", "A"), ("new", "2026-01-02 10:00", "B")):
        record(run, time, PREDICTIONS, [prediction(1, answer)])
        record(run, time, EVIDENCE, [evidence(1, 1 if run == "old" else 2, answer)])
    record("apart", "2026-01-03 10:00", "evidence/mcqa/t", [evidence(1, 1, "x", "t")])

    def diff(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["diff", *arguments, "--lake", str(tmp_path)])
        assert result.exit_code == 0, result.output
        return result.output

    text = diff("new", "old")
    assert text == diff("old", "new"), "the older run comes first"
    assert "from run old (2026-01-01 10:00) to run new (2026-01-02 10:00)" in text
    assert "Who won?\n  A. Ida (answered) → B. Bo (answered)" in text and "1 answer differs" in text
    assert EVIDENCE not in text and "1 evidence added, 1 evidence removed" in text
    assert EVIDENCE in diff("old", "new", "--all")
    assert "nothing in common" in diff("old", "apart")


def test_impact_of_a_document_lists_the_answers_that_cite_it(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    texts = {1: "Who won?", 2: "Who lost?", 3: "Who did not win?"}  # the chain of another option excludes it in 3
    rows = [question(n, text=text, negated=" not " in text) for n, text in texts.items()]
    lake.write("questions/mcqa", "quiz|0", {"questions": rows})
    lake.write("corpus/notes/chunks", "0", {"chunks": [chunk(1, "Ida won.", title="The match", source="match.md")]})
    write_answers(
        lake,
        [evidence(n, 1, "Ida won.", source_id="k1", why='{"aligned": []}') for n in texts],
        [chain(1, "A", "Ida won.", ["e-s-1-1"]), *(chain(n, "B", "Ida won.", [f"e-s-{n}-1"]) for n in (2, 3))],
        [prediction(n, "A") for n in texts],
        [citation(f"c-s-{n}-{label}", f"e-s-{n}-1", "verified") for n, label in ((1, "A"), (2, "B"), (3, "B"))],
        [edge("evidence", f"e-s-{n}-1", DERIVED, "chunk", "k1", "h") for n in texts],
    )
    for name in ("the match", "match.md", "notes:d1"):
        output = CliRunner().invoke(app, ["impact", name, "--lake", str(tmp_path)]).output
        assert output.startswith("Who did not win?\n  A. yes (answered)\n") and "Who lost?" not in output
        assert "others that received it: 1 (--all)" in output
    output = CliRunner().invoke(app, ["impact", "match.md", "--all", "--lake", str(tmp_path)]).output
    places = [output.index(text) for text in ("not win?", "Who won?", "Who lost?", "not cited", "chain")]
    assert places == sorted(places)
    assert "aligned" not in output
    lake.write("corpus/notes/chunks", "0", {"chunks": [chunk(2, "Bo won.")]})
    assert (
        "chunk k1 (no longer in the lake)"
        in CliRunner().invoke(app, ["trace", "e-s-1", "--lake", str(tmp_path)]).output
    )


def test_scores_of_rows_that_a_killed_run_has_replaced_are_stale(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    rows = {"questions": question(1), "evidence": evidence(1, 1, "Ida won."), "predictions": prediction(1, "A")}
    answers: dict[str, pl.DataFrame] = {}

    def write(table: str, asset: str, **fields: Any) -> None:
        lake.write(asset, "quiz|0", {table: [rows[table] | fields]})
        answers[table] = lake.read(table, asset)

    def is_stale() -> bool:
        output = CliRunner().invoke(app, ["scoreboard", "--lake", str(tmp_path)]).output
        page = TestClient(application(lake.root), base_url="http://127.0.0.1").get("/scores").text
        assert page.count(">stale<") == output.count("(stale)") == output.count("stale:")
        return "(stale)" in output

    lake.write("corpus/notes/chunks", "0", {"chunks": [chunk(1, "Ida won.")]})
    inputs = {"questions": "questions/mcqa", "evidence": EVIDENCE, "predictions": "predictions/mcqa/s"}
    for table, asset in inputs.items():
        write(table, asset)
    version = compute_input_version(**answers)
    scores = metric_rows("quiz", "s", "r", "m", {"accuracy": accuracy([True])})
    lake.write("scores/mcqa/s", "quiz", {"scores": [row | {"input_version": version} for row in scores]})
    assert not is_stale()
    lake.delete("questions", "questions/mcqa")
    assert is_stale(), "the questions are gone"
    for table, asset in inputs.items():
        write(table, asset)
        write(table, asset, **({"gold": ["B"]} if table == "questions" else {"content_hash": "new"}))
        assert is_stale(), table
        write(table, asset)
        assert not is_stale()
    lake.write("corpus/notes/chunks", "0", {"chunks": [chunk(2, "Ida won.")]})
    assert is_stale(), "the chunk is gone"
    sql, where = "SELECT 'NaN'::DOUBLE AS a, 'inf'::DOUBLE AS b, 1.5::DOUBLE AS c", ["--lake", str(tmp_path)]
    as_json = CliRunner().invoke(app, ["query", sql, "--format", "json", *where]).stdout
    assert json.loads(as_json) == [{"a": None, "b": None, "c": 1.5}]
    unknown = CliRunner().invoke(app, ["scoreboard", "chess", "--lake", str(tmp_path)]).output
    assert "no benchmark 'chess'; these have scores: quiz" in unknown
    unscored = CliRunner().invoke(app, ["scoreboard", "sample_mcqa", "--lake", str(tmp_path)]).output
    assert unscored == "sample_mcqa has no scores; `evidence run BENCHMARK` computes them.\n"


def test_the_scoreboard_fits_into_80_columns_and_breaks_no_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.create(tmp_path)
    labels = {"uscrake": "extractive", "four_step_focus/extractive": "extractive", "background/served": "prompted"}
    published = {"published": 0.5, "published_source": "table 3.2 of the dissertation, second row"}
    for benchmark in ("sample_mcqa", "sample_science_questions"):
        for label, reasoner in labels.items():
            metrics = {name: accuracy([True, False, True]) for name in ("accuracy", "answered_share")}
            metrics["supported_accuracy"] = accuracy([True])
            rows = metric_rows(benchmark, label.split("/")[0], reasoner, "m", metrics)
            more = {"input_version": "v", **(published if label == "uscrake" else {})}
            lake.write(f"scores/mcqa/{label}", benchmark, {"scores": [row | more for row in rows]})
    monkeypatch.setattr(console.out, "width", 80)
    output = CliRunner().invoke(app, ["scoreboard", "--lake", str(tmp_path)]).output
    tables = output.partition("accuracy counts")[0]
    assert max(map(len, tables.splitlines())) <= 80
    words = {word for row in tables.splitlines() for word in row.split()}
    assert words >= {"variant", "reasoner", "extractive", "prompted", "supported", "four_step_focus@extractive"}
    assert words >= {"published", "dissertation,", "67%", "0.667"}
    assert "Scoreboard of sample_science_questions, accuracy, n 3\n" in tables, "what is equal is printed once"


# The queries of docs/reproduction.md for table 3.2 and figure 3.3, against plain loops over the stored rows


def test_the_documented_queries_count_tables_and_labels(made_world: World) -> None:
    page = (REPOSITORY / "docs" / "reproduction.md").read_text(encoding="utf-8")
    queries = [sql for sql in re.findall(r'^evidence query "(.+)"$', page, re.M) if "verification" in sql]
    sizes, labels = (json.loads(made_world.invoke("query", sql, "--format", "json").stdout) for sql in queries)
    lake = Lake(made_world.root / "data_lake")
    claims = lake.read("questions", "questions/table").filter(pl.col("task") == "verification").to_dicts()
    tables = {row["table_id"]: row for row in lake.read("tables").to_dicts()}
    assert claims
    for row in sizes:
        tables_of_claims = [tables[claim["table_id"]] for claim in claims if claim["benchmark"] == row["benchmark"]]
        assert row["claims"] == len(tables_of_claims)
        columns, rows = zip(*((len(table["header"]), table["n_rows"]) for table in tables_of_claims), strict=True)
        for name, counts in (("column", columns), ("row", rows)):
            assert (row[f"min_{name}"], row[f"max_{name}"]) == (min(counts), max(counts))
            assert row[f"mode_{name}"] in statistics.multimode(counts)
            assert abs(row[f"average_{name}"] - statistics.mean(counts)) < 0.006
    claims_by_label = Counter((claim["benchmark"], claim["gold"][0]) for claim in claims)
    assert {(row["benchmark"], row["label"]): row["claims"] for row in labels} == claims_by_label


# The language model of the explorer's box


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[BrowserAnswers | None]:
    """What the explorer would answer questions with, instead of a server."""
    answers: list[BrowserAnswers | None] = []
    monkeypatch.setattr(site, "serve", lambda root, host, port, answer: answers.append(answer))
    return answers


def explore(*options: str, lake: Lake) -> str:
    return CliRunner().invoke(app, ["explore", *options, "--lake", str(lake.root)]).output


def test_a_model_is_loaded_before_the_explorer_starts_or_said_to_be_missing(
    lake: Lake, served: list[BrowserAnswers | None], other_settings: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = FaultyServer()
    closed = f"http://127.0.0.1:{closed_port()}/v1"
    profile = tmp_path / "two.yaml"
    models = f"{{quick: {{backend: openai, name: far-model, base_url: '{closed}'}}, rules: {{backend: extractive}}}}"
    profile.write_text(f"extends: embedded\nname: two\ngenerators: {models}\n")
    with short_pauses(), running(server.app) as url:
        assert not explore("--model", url, lake=lake)
        other_settings.setenv("EVIDENCE_MODEL", closed)
        assert f"evidence: the server at {closed} returned no completion" in explore(lake=lake)
        assert not explore("--host", "0.0.0.0", lake=lake), "nothing can be asked"
        other_settings.setenv("EVIDENCE_MODEL", "")
        assert f"the server at {closed} returned no completion" in explore("--model", closed, lake=lake)
        other_settings.setenv("EVIDENCE_MODEL", "")
        other_settings.setenv("EVIDENCE_PROFILE", str(profile))
        assert f"the server at {closed} returned no completion" in explore("--model", "quick", lake=lake)
        assert "no language model 'slow'; it has quick (far-model), rules" in explore("--model", "slow", lake=lake)
        assert not explore(lake=lake) + explore("--model", "rules", lake=lake)
    names = [answer and answer.model for answer in served]
    assert names == [f"test-model at {url}", None, f"far-model at {closed}", ""]
    for options in (("--host", "0.0.0.0"), ("--export", str(tmp_path / "pages"))):
        assert "nothing can be asked in exported pages" in explore("--model", url, *options, lake=lake)
    assert not (tmp_path / "pages").exists()
