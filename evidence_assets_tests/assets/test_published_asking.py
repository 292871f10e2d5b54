"""Variants with published prompts, answered by a scripted model."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest

from evidence_assets.experiment import solvers
from evidence_assets.models.protocols import Request
from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world
from evidence_assets_tests.systems.small_models import ScriptedGenerator

PARTITION, VARIANT = "sample_graph|0", "mcqa/ugat_published"
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
        file = small.lake.root / "raw" / "sample" / "benchmarks" / "sample_graph.jsonl"
        file.write_text(file.read_text().replace('"split": "dev"', '"split": "test"'))
        small.make(
            "knowledge/sample/triples", *(f"knowledge/sample/{p}" for p in ("nodes", "edges", "csr", "node_vectors"))
        )
        small.make("questions/mcqa", partition=PARTITION)
        small.make("subgraphs/mcqa", partition=PARTITION)
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
