"""Document metrics of a retrieval variant against hand counts."""

import math
from typing import Any

import pytest

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


def test_metrics_equal_hand_counts() -> None:
    questions = [question(1, gold_evidence=gold(0, 4, 9)), question(2)]
    metrics = passage_metrics(questions, as_stored("evidence", rows(1, [5, 0, 4, 1, 9])), DOCUMENT_OF)
    # The ranking is d2, d0, d4; d9 is not found.
    assert [metrics[f"recall@{k}"].value for k in (2, 5)] == pytest.approx([1 / 3, 2 / 3])
    gains = [1 / math.log2(rank + 1) for rank in (1, 2, 3)]
    assert metrics["ndcg@10"].value == pytest.approx(sum(gains[1:]) / sum(gains))
    assert (metrics["mrr"].value, metrics["hit@1"].value) == (0.5, 0)
    assert metrics["mrr"].n == 1, "a question without gold documents is left out"
