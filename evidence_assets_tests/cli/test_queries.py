"""What `evidence trace` and `evidence diff` print."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.cli.queries import _build_tree
from evidence_assets.lake.lineage import CITED, USED, WAS_SHOWN, Node, history_rows
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import evidence, prediction, question

PREDICTIONS, EVIDENCE = "predictions/mcqa/s", "evidence/mcqa/s"


def test_a_cited_row_comes_first_and_leads_to_the_shared_source() -> None:
    document = [Node("document", "doc1")]
    children = [Node("evidence", f"{relation}-row", relation, next=document) for relation in (WAS_SHOWN, USED, CITED)]
    console = Console(record=True, width=80)
    console.print(_build_tree(Node("prediction", "p1", next=children), 2))
    lines = [line.strip(" └├│─") for line in console.export_text().splitlines()]
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
