"""A bad partition does not stop the demo, which reports errors and how to fix them at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from evidence_assets.lake import connect
from evidence_assets_tests.cli.test_add_benchmark import CLAIM
from evidence_assets_tests.conftest import REPOSITORY, World

pytestmark = pytest.mark.long
CHOICE = {"source_id": "1", "text": "Which animal buzzes?", "options": ["Bee", "Cat"], "gold": "A"}
GRAPH_QUESTION = {"source_id": "1", "task": "kgqa", "text": "What does the bee make?", "gold": ["honey"]}
ANSWERS = {
    "good": ("predictions/mcqa/bm25", "A"),
    "good_claim": ("predictions/table/bm25", "SUPPORTS"),
    "good_graph": ("predictions/graph/nearest_triples", "honey"),
}
"""Answers from the documents, tables and triples of added benchmarks, by benchmark."""


class OwnWorld(World):
    """A world with its own copy of the package."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "PYTHONPATH": str(self.root), "PYTHONSAFEPATH": "1"}

    def add(self, name: str, question: Mapping[str, object], *options: str) -> Path:
        """Add a benchmark of one question with its sources; returns its raw folder."""
        file = self.root / f"{name}.jsonl"
        file.write_text(json.dumps(question) + "\n")
        result = self.run("add", "benchmark", name, "--questions", str(file), *options)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "1 questions" in result.stdout
        return self.root / "data_lake" / "raw" / "benchmarks" / name


@pytest.fixture(scope="module")
def failing_world(made_world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[OwnWorld, str]:
    """A world with bad inputs of every kind, and the output of a rerun."""
    world = OwnWorld(tmp_path_factory.mktemp("failing") / "world")
    shutil.copytree(made_world.root, world.root)
    shutil.copytree(REPOSITORY / "evidence_assets", world.root / "evidence_assets")
    shutil.copyfile(REPOSITORY / "pyproject.toml", world.root / "pyproject.toml")
    docs, tables = world.root / "docs", world.root / "tables"
    docs.mkdir(), tables.mkdir()
    (docs / "bees.txt").write_text("Bees buzz.")
    (tables / "n.csv").write_text("name,value\nRiver,1\n")
    question = world.add("bad_question", CHOICE, "--corpus", str(docs)) / "questions.jsonl"
    question.write_text(json.dumps(CHOICE | {"gold": "Z"}) + "\n")
    (world.add("bad_document", CHOICE, "--corpus", str(docs)) / "corpus" / "bees.txt").write_bytes(b"Bees \xff buzz.")
    next(world.add("bad_table", CLAIM, "--tables", str(tables)).glob("tables*")).write_text("{")
    world.add("good", CHOICE, "--corpus", str(docs))
    world.add("good_claim", CLAIM, "--tables", str(tables))
    (world.root / "triples.tsv").write_text("bee\tmakes\thoney\nowl\thunts\tmouse\nspider\tmakes\tweb\n")
    world.add("good_graph", GRAPH_QUESTION, "--graph", str(world.root / "triples.tsv"))
    seeds = world.root / "data_lake" / "raw" / "seeds"
    for name, prompt, head in (
        ("odd_prompt", "<HEAD> zwirbelt <TAIL>", "gout"),
        ("odd_seed", "<HEAD> may treat <TAIL>", "quux"),
        ("good_seed", "<HEAD> may treat <TAIL>", "gout"),
    ):
        (seeds / f"{name}.yaml").write_text(
            f"id: {name}\ncollection: biomedical\nprompt: {prompt}\npairs:\n  - [epilepsy, gout]\n  - [{head}, gout]\n"
        )
    (seeds / "no_yaml.yaml").write_text("id: [\n")
    result = world.run("demo", timeout=600)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    return world, result.stdout


@pytest.mark.parametrize(
    "message",
    [
        "knowledge/kbloom/harvest [odd_prompt]: {raw}/seeds/odd_prompt.yaml:3: prompt: relation 'odd_prompt': the "
        "tokenizer of sample-masked-lm does not know 'zwirbelt'",
        "knowledge/kbloom/harvest [odd_seed]: {raw}/seeds/odd_seed.yaml:6: pairs: ",
        "raw/seeds:seed_files: {raw}/seeds/no_yaml.yaml:1: is not valid YAML",
        "questions/mcqa [bad_question|0]: {raw}/benchmarks/bad_question/questions.jsonl:1: gold: 'Z'",
        "tables [bad_table]: {raw}/benchmarks/bad_table/",
        "corpus/bad_document/chunks [0]: {raw}/benchmarks/bad_document/corpus/bees.txt",
        "Fix the errors above and run `evidence demo` again",
    ],
)
def test_each_failure_is_reported_with_its_file(failing_world: tuple[OwnWorld, str], message: str) -> None:
    world, output = failing_world
    assert message.format(raw=world.root / "data_lake" / "raw") in output


def test_all_other_assets_are_materialized(failing_world: tuple[OwnWorld, str], made_world: World) -> None:
    world, output = failing_world
    sql = "SELECT DISTINCT benchmark FROM predictions"
    with connect(made_world.root / "data_lake") as before, connect(world.root / "data_lake") as after:
        benchmarks = {name for (name,) in before.execute(sql).fetchall()}
        # Variants without documents answer the benchmark with the unreadable document.
        assert {name for (name,) in after.execute(sql).fetchall()} == benchmarks | {*ANSWERS, "bad_document"}
        for name, (asset, answer) in ANSWERS.items():
            answer_sql = "SELECT answer FROM predictions WHERE benchmark = ? AND asset = ?"
            assert after.execute(answer_sql, [name, asset]).fetchall() == [(answer,)], name
        harvested = after.execute("SELECT DISTINCT relation_id FROM triples WHERE origin = 'kbloom'").fetchall()
        scored = after.execute("SELECT count(*) FROM scores WHERE scope_id = 'good'").fetchone()
    assert {name for (name,) in harvested} == {"may_treat", "good_seed"}
    assert scored is not None and scored[0] > 0
    skipped = output.partition("Skipped")[2]
    for name in (
        "evidence/mcqa/bm25 [bad_document|0]",
        "predictions/mcqa/bm25 [bad_question|0]",
        "corpus/bad_document/index",
    ):
        assert name in skipped
    assert "[good|0]" not in skipped and "sample_" not in skipped and "scoreboard" not in skipped
