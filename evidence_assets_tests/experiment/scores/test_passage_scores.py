"""Document metrics of a retrieval variant against their written-out definitions."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.experiment.scores.retrieval_scores import passage_metrics, ranked_documents
from evidence_assets_tests.lake_rows import as_stored, evidence, question


def rows(number: int, chunks: list[int]) -> list[dict[str, Any]]:
    """Evidence of a question: chunk c is part c % 2 of document d{c // 2}."""
    return [evidence(number, rank, f"t{c}", source_id=f"k{c}", option="") for rank, c in enumerate(chunks, 1)]


DOCUMENT_OF = {f"k{c}": f"d{c // 2}" for c in range(24)}


def gold(*documents: int) -> list[dict[str, str]]:
    return [{"kind": "chunk", "source": f"d{d}", "locator": "", "text": "", "group": ""} for d in documents]


def test_a_document_ranks_by_its_best_chunk() -> None:
    assert ranked_documents(as_stored("evidence", rows(1, [5, 0, 4, 1, 9])), DOCUMENT_OF) == {"q1": ["d2", "d0", "d4"]}


@settings(deadline=None, max_examples=40)
@given(
    chunks=st.lists(st.integers(0, 23), max_size=20, unique=True),
    gold_documents=st.sets(st.integers(0, 11), min_size=1, max_size=5),
)
def test_metrics_equal_their_definitions(chunks: list[int], gold_documents: set[int]) -> None:
    questions = [question(1, gold_evidence=gold(*sorted(gold_documents))), question(2)]
    metrics = passage_metrics(questions, as_stored("evidence", rows(1, chunks)), DOCUMENT_OF)
    order = list(dict.fromkeys(c // 2 for c in chunks))
    relevant = [d in gold_documents for d in order]
    for k in (2, 5, 10):
        assert metrics[f"recall@{k}"].value == pytest.approx(sum(relevant[:k]) / len(gold_documents))
    gain = sum(1 / math.log2(i + 2) for i, r in enumerate(relevant[:10]) if r)
    best = sum(1 / math.log2(i + 2) for i in range(min(10, len(gold_documents))))
    assert metrics["ndcg@10"].value == pytest.approx(gain / best)
    assert metrics["mrr"].value == pytest.approx(next((1 / (i + 1) for i, r in enumerate(relevant) if r), 0.0))
    assert metrics["hit@1"].value == float(relevant[:1] == [True])
    assert metrics["mrr"].n == 1, "a question without gold documents is left out"
