"""The reader's chains state its weights and cite all facts that it was given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from evidence_assets import systems
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.system import is_answered_by_model
from evidence_assets.experiment.variants import variants_of
from evidence_assets.models.reader.network import EncodedInput, OptionInput
from evidence_assets.models.reader.training import TrainedReader
from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.systems.reader import READER_ASSET
from evidence_assets.systems.reader.system import ReaderSolver
from evidence_assets_tests.systems.small_models import WordEncoder


class FactCounter:
    """A fake reader: an option weighs 2 for each fact with its name, and aspirin 5 more in a sure question."""

    model_id, weights_id, revision = "reader-mine", "abc", "abc-1"
    settings = SimpleNamespace(facts=2)

    def encode(self, inputs: Sequence[OptionInput]) -> list[EncodedInput]:
        return [EncodedInput([1, 2, 3], [0, 0, 1], "long" in each.question) for each in inputs]

    def score(self, inputs: Sequence[OptionInput], features: Any) -> Any:
        counts = [sum(each.option in fact for fact in each.facts) for each in inputs]
        sure = ["sure" in each.question and each.option == "aspirin" for each in inputs]
        return np.array([2.0 * count + 5 * is_sure for count, is_sure in zip(counts, sure, strict=True)], np.float32)


ITEMS = tuple(
    EvidenceItem(f"e{i}", "chunk", f"c{i}", "", text)
    for i, text in enumerate(("gold is a metal", "aspirin treats pain", "aspirin is a drug"))
)


@pytest.fixture
def solver() -> ReaderSolver:
    return ReaderSolver(cast(TrainedReader, FactCounter()), WordEncoder())


def explain(solver: ReaderSolver, question: str, *evidence: EvidenceItem) -> Chain:
    (chain,) = solver.explain([ExplainOption(question, "A", "aspirin", evidence)])
    assert isinstance(chain, Chain)
    return chain


def test_every_given_fact_is_cited_with_the_weight_without_it(solver: ReaderSolver) -> None:
    chain = explain(solver, "What treats pain?", *ITEMS)
    first, *fact_steps = chain.steps
    assert "reader-mine" in first.text and "+2.00" in first.text and not first.cited
    assert [step.cited for step in fact_steps] == [("e0",), ("e1",)], "only the facts that the reader gets"
    assert [step.text[-18:] for step in fact_steps] == ["(without it +2.00)", "(without it +0.00)"]
    assert [c.verdict for c in check_citations(chain, ITEMS)] == ["verified", "verified"]
    assert chain.support == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-8)
    assert chain.reply is not None and chain.reply.model == solver.model_id == "reader-mine@abc"
    assert not chain.omissions


def test_cut_texts_are_reported(solver: ReaderSolver) -> None:
    assert [o.kind for o in explain(solver, "A long question?", ITEMS[1]).omissions] == ["cut"]


def choose(solver: ReaderSolver, question: str, evidence: dict[str, tuple[EvidenceItem, ...]]) -> Any:
    options = ("aspirin", "gold", "tin")
    tasks = [
        ExplainOption(question, label, option, evidence.get(label, ()))
        for label, option in zip("ABC", options, strict=True)
    ]
    chains = tuple(chain for chain in solver.explain(tasks) if isinstance(chain, Chain))
    (choice,) = solver.choose([ChooseAnswer(question, ("A", "B", "C"), options, chains, evidence)])
    return choice


def test_the_option_with_the_largest_weight_is_supported_by_its_facts(solver: ReaderSolver) -> None:
    choice = choose(solver, "What treats pain?", {"A": ITEMS[1:2], "B": ITEMS[1:2]})
    assert (choice.answer, choice.supported, choice.status) == ("A", ("A",), "answered")
    assert choice.weights == pytest.approx({"A": 2.0, "B": 0.0, "C": 0.0}, abs=1e-6)


def test_a_reader_answers_instead_of_a_language_model_and_only_its_answers_depend_on_training() -> None:
    (variant,) = [v for v in variants_of("reader") if v.key == "mcqa/reader"]
    assert not is_answered_by_model(variant)
    inputs = {
        stage.table: {each.key for each in stage.inputs} for stage in build_stages(systems.load("reader"), variant)
    }
    dependent = {table for table, keys in inputs.items() if READER_ASSET in keys}
    assert dependent == {"chains", "predictions", "counterfactuals"}


def test_without_facts_no_answer_is_supported(solver: ReaderSolver) -> None:
    choice = choose(solver, "What treats pain for sure?", {})
    assert choice.weights["A"] == pytest.approx(5, abs=1e-4)
    assert (choice.answer, choice.supported, choice.status) == ("A", (), "insufficient")
