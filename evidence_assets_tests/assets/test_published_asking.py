"""Variants with published prompts, answered by a scripted model; and the command that previews prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.experiment import solvers
from evidence_assets.models.protocols import Request
from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world
from evidence_assets_tests.systems.small_models import ScriptedGenerator

PARTITION, CLAIMS = "sample_graph|0", "sample_claims|0"
VARIANT, CLOSED, CASES = "mcqa/ugat_published", "mcqa/closed_book", "table/ucret_published"
TABLES = ("chains", "predictions", "citations")


def reply(request: Request) -> str:
    """The first option; an explanation that cites the first passage."""
    if request.choices:
        return request.choices[0]
    if "Explanation:" in request.user:
        return "Answer: A\nExplanation: [Passage 1] leads there."
    return "The cells say so."


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SmallWorld, ScriptedGenerator]]:
    lines = ["name: published", "presets: [ugat_ablation]", "generator: {backend: openai, name: doctor, revision: '1'}"]
    doctor = ScriptedGenerator(reply, model_id="doctor")
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch, small_world(folder, lines) as small:
        patch.setattr(solvers, "load_cached_generator", lambda settings: doctor)
        small.make("raw/sample")
        for name in ("sample_graph", "sample_claims"):
            file = small.lake.raw / "sample" / "benchmarks" / f"{name}.jsonl"
            file.write_text(file.read_text().replace('"split": "dev"', '"split": "test"'))
        small.make(
            "knowledge/sample/triples", *(f"knowledge/sample/{p}" for p in ("nodes", "edges", "csr", "node_vectors"))
        )
        small.make("questions/mcqa", partition=PARTITION)
        small.make("subgraphs/mcqa", partition=PARTITION)
        small.make("tables", partition="sample_claims")
        small.make("questions/table", partition=CLAIMS)
        yield small, doctor


def test_one_call_a_question_gives_chain_answer_and_citations(world: tuple[SmallWorld, ScriptedGenerator]) -> None:
    small, doctor = world
    doctor.requests.clear()
    small.make(f"evidence/{VARIANT}", *(f"{table}/{VARIANT}" for table in TABLES), partition=PARTITION)
    questions = small.rows("questions", "questions/mcqa")
    assert len(doctor.requests) == questions.height, "the prediction is read from the chain"
    chains, predictions = (small.rows(table, f"{table}/{VARIANT}") for table in ("chains", "predictions"))
    assert chains.height == questions.height and set(chains["hypothesis"]) == {"A"}
    assert set(predictions["answer"]) == {"A"} and set(predictions["status"]) == {"answered"}
    evidence = small.rows("evidence", f"evidence/{VARIANT}")
    answered_ids = set(evidence["question_id"])
    verdicts = small.rows("citations", f"citations/{VARIANT}").join(
        chains.select("chain_id", "question_id"), on="chain_id"
    )
    verdict_of = dict(verdicts.select("question_id", "verdict").iter_rows())
    assert {verdict_of[q] for q in answered_ids} == {"verified"}, "also where the passage was found for another option"
    assert {verdict_of[q] for q in set(questions["question_id"]) - answered_ids} <= {"absent"}
    assert set(chains["tokens_in"]) == {7} and predictions["tokens_in"].null_count() == predictions.height
    small.make(f"counterfactuals/{VARIANT}", partition=PARTITION)
    counterfactuals = small.rows("counterfactuals", f"counterfactuals/{VARIANT}").filter(
        pl.col("question_id").is_in(list(answered_ids))
    )
    assert set(counterfactuals["necessary"]) == {False}, "this one says A to everything"


def test_previewed_prompts_are_those_that_are_sent(world: tuple[SmallWorld, ScriptedGenerator]) -> None:
    small, doctor = world
    small.make(f"evidence/{CASES}", partition=CLAIMS)
    question = small.rows("questions", "questions/table").sort("question_id")["question_id"][0]
    arguments = f"prompts ucret --variant ucret_published --question {question} --lake {small.lake.root}".split()
    doctor.requests.clear()
    before = CliRunner().invoke(app, [*arguments, "--json"])
    assert before.exit_code == 0, before.output
    assert not doctor.requests, "nothing is sent"
    previews = json.loads(before.output)
    assert [preview["asset"].partition("/")[0] for preview in previews] == ["chains"] * 3 + ["predictions"]
    assert all(f"[reply {n}]" in previews[-1]["request"]["user"] for n in (1, 2, 3))
    small.make(*(f"{table}/{CASES}" for table in TABLES), partition=CLAIMS)
    sent_prompts = {(request.system, request.user) for request in doctor.requests}
    after = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert all((preview["request"]["system"], preview["request"]["user"]) in sent_prompts for preview in after)
    text = CliRunner().invoke(app, arguments).output
    assert "The cells say so." in text and "at most 37 tokens" in text
    places = [
        text.find(f"[thesis 3.3.2, stage 3, {part}]\n") for part in ("role", "given", "task 1", "task 3", "answer")
    ]
    assert -1 not in places and places == sorted(places), "each part comes after the passage that asks for it"
    assert "[ours]\nEverything between a line" in text
    parts = after[-1]["request"]["parts"]
    assert ["user", "thesis 3.3.2, stage 3, task 3"] in [part[:2] for part in parts]
    assert "\n\n".join(text for role, _, text in parts if role == "user") == after[-1]["request"]["user"]


def test_prompts_that_cannot_be_previewed_are_an_error(
    world: tuple[SmallWorld, ScriptedGenerator], tmp_path: Path
) -> None:
    lake = ["--lake", str(world[0].lake.root)]
    for arguments, message in (
        (["ucrets"], "did you mean 'ucret'"),
        (["ucret", "--variant", "ucret_publised"], "did you mean 'ucret_published'"),
        (["ucret", "--variant", "ucret"], "materialize evidence/table/ucret first"),
        (["ucret", "--variant", "ucret_published", "--question", "zz"], "no table questions"),
        (["kbloom", "--variant", "masked_lm"], "sends no requests about questions to a language model"),
    ):
        result = CliRunner().invoke(app, ["prompts", *arguments, *lake])
        assert result.exit_code == 1 and message in " ".join(result.output.split()), result.output
