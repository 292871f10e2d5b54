"""Variants that ask as published, as assets answered by a scripted model; and what would be sent, shown
and not sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.experiment import solvers
from evidence_assets.models.protocols import Completion, Request
from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world

PARTITION, CLAIMS = "sample_graph|0", "sample_claims|0"
ONCE, CLOSED, CASES = "mcqa/ugat_published", "mcqa/closed_book", "table/ucret_published"
TABLES = ("chains", "predictions", "citations")


class Doctor:
    """Names the first option, and the first passage where it is to explain."""

    model_id, revision = "doctor", "1"

    def __init__(self) -> None:
        self.parameters: dict[str, object] = {}
        self.asked: list[Request] = []

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.asked += requests
        return [Completion(self._reply(request), 7, 3, 0.0, "stop") for request in requests]

    def _reply(self, request: Request) -> str:
        if request.choices:
            return request.choices[0]
        if "Explanation:" in request.user:
            return "Answer: A\nExplanation: [Passage 1] leads there."
        return "The cells say so."


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SmallWorld, Doctor]]:
    lines = ["name: published", "presets: [ugat_ablation]", "generator: {backend: openai, name: doctor, revision: '1'}"]
    doctor = Doctor()
    with pytest.MonkeyPatch.context() as patch, small_world(tmp_path_factory.mktemp("published"), lines, patch) as made:
        patch.setattr(solvers, "generator", lambda settings: doctor)
        made.make("raw/sample")
        for name in ("sample_graph", "sample_claims"):
            file = made.lake.raw / "sample" / "benchmarks" / f"{name}.jsonl"
            file.write_text(file.read_text().replace('"split": "dev"', '"split": "test"'))
        made.make(
            "knowledge/sample/triples", *(f"knowledge/sample/{p}" for p in ("nodes", "edges", "csr", "node_vectors"))
        )
        made.make("questions/mcqa", partition=PARTITION)
        made.make("subgraphs/mcqa", partition=PARTITION)
        made.make("tables", partition="sample_claims")
        made.make("questions/table", partition=CLAIMS)
        yield made, doctor


def test_one_call_a_question_gives_chain_answer_and_citations(world: tuple[SmallWorld, Doctor]) -> None:
    made, doctor = world
    doctor.asked.clear()
    made.make(f"evidence/{ONCE}", *(f"{table}/{ONCE}" for table in TABLES), partition=PARTITION)
    questions = made.rows("questions", "questions/mcqa")
    assert len(doctor.asked) == questions.height, "the prediction is read from the chain"
    chains, predictions = (made.rows(table, f"{table}/{ONCE}") for table in ("chains", "predictions"))
    assert chains.height == questions.height and set(chains["hypothesis"]) == {"A"}
    assert set(predictions["answer"]) == {"A"} and set(predictions["status"]) == {"answered"}
    evidence = made.rows("evidence", f"evidence/{ONCE}")
    told = set(evidence["question_id"])
    verdicts = made.rows("citations", f"citations/{ONCE}").join(chains.select("chain_id", "question_id"), on="chain_id")
    found = dict(verdicts.select("question_id", "verdict").iter_rows())
    assert {found[q] for q in told} == {"verified"}, "also where the passage was found for another option"
    assert {found[q] for q in set(questions["question_id"]) - told} <= {"absent"}
    assert set(chains["tokens_in"]) == {7} and predictions["tokens_in"].null_count() == predictions.height
    made.make(f"counterfactuals/{ONCE}", partition=PARTITION)
    again = made.rows("counterfactuals", f"counterfactuals/{ONCE}").filter(pl.col("question_id").is_in(list(told)))
    assert set(again["necessary"]) == {False}, "this one says A to everything"


def test_what_is_shown_is_what_is_sent(world: tuple[SmallWorld, Doctor]) -> None:
    made, doctor = world
    made.make(f"evidence/{CASES}", partition=CLAIMS)
    question = made.rows("questions", "questions/table").sort("question_id")["question_id"][0]
    arguments = f"prompts ucret --variant ucret_published --question {question} --lake {made.lake.root}".split()
    doctor.asked.clear()
    before = CliRunner().invoke(app, [*arguments, "--json"])
    assert before.exit_code == 0, before.output
    assert not doctor.asked, "nothing is sent"
    shown = json.loads(before.output)
    assert [one["asset"].partition("/")[0] for one in shown] == ["chains"] * 3 + ["predictions"]
    assert all(f"[reply {n}]" in shown[-1]["request"]["user"] for n in (1, 2, 3))
    made.make(*(f"{table}/{CASES}" for table in TABLES), partition=CLAIMS)
    sent = {(request.system, request.user) for request in doctor.asked}
    after = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert all((one["request"]["system"], one["request"]["user"]) in sent for one in after)
    text = CliRunner().invoke(app, arguments).output
    assert "The cells say so." in text and "at most 37 tokens" in text


def test_what_cannot_be_shown_is_told(world: tuple[SmallWorld, Doctor], tmp_path: Path) -> None:
    lake = ["--lake", str(world[0].lake.root)]
    for arguments, said in (
        (["ucrets"], "did you mean 'ucret'"),
        (["ucret", "--variant", "ucret_publised"], "did you mean 'ucret_published'"),
        (["ucret", "--variant", "ucret"], "materialize evidence/table/ucret first"),
        (["ucret", "--variant", "ucret_published", "--question", "zz"], "no table questions"),
        (
            ["kbloom", "--variant", "kbloom"],
            "there is no triple to ask about: materialize knowledge/kbloom/harvest first",
        ),
        (["kbloom", "--variant", "masked_lm"], "asks no language model about a question"),
    ):
        done = CliRunner().invoke(app, ["prompts", *arguments, *lake])
        assert done.exit_code == 1 and said in " ".join(done.output.split()), done.output
