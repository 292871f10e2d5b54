"""Documents found by a retrieval variant: recall, nDCG and rank against their definitions written out."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.experiment.scores.retrieval_scores import passage_metrics, ranked_documents
from evidence_assets_tests.lake_rows import as_stored, evidence, question


def rows(number: int, chunks: list[int]) -> list[dict[str, Any]]:
    """Evidence of a question: chunk number c is piece c % 2 of document d{c // 2}."""
    return [evidence(number, rank, f"t{c}", source_id=f"k{c}", option="") for rank, c in enumerate(chunks, 1)]


DOCUMENT_OF = {f"k{c}": f"d{c // 2}" for c in range(24)}


def gold(*documents: int) -> list[dict[str, str]]:
    return [{"kind": "chunk", "source": f"d{d}", "locator": "", "text": "", "group": ""} for d in documents]


def test_a_document_stands_where_its_best_chunk_does() -> None:
    assert ranked_documents(as_stored("evidence", rows(1, [5, 0, 4, 1, 9])), DOCUMENT_OF) == {"q1": ["d2", "d0", "d4"]}


@settings(deadline=None, max_examples=40)
@given(
    chunks=st.lists(st.integers(0, 23), max_size=20, unique=True),
    wanted=st.sets(st.integers(0, 11), min_size=1, max_size=5),
)
def test_metrics_are_their_definitions(chunks: list[int], wanted: set[int]) -> None:
    asked = [question(1, gold_evidence=gold(*sorted(wanted))), question(2)]
    found = passage_metrics(asked, as_stored("evidence", rows(1, chunks)), DOCUMENT_OF)
    order = list(dict.fromkeys(c // 2 for c in chunks))
    relevant = [d in wanted for d in order]
    for k in (2, 5, 10):
        assert found[f"recall@{k}"].value == pytest.approx(sum(relevant[:k]) / len(wanted))
    gain = sum(1 / math.log2(i + 2) for i, r in enumerate(relevant[:10]) if r)
    best = sum(1 / math.log2(i + 2) for i in range(min(10, len(wanted))))
    assert found["ndcg@10"].value == pytest.approx(gain / best)
    assert found["mrr"].value == pytest.approx(next((1 / (i + 1) for i, r in enumerate(relevant) if r), 0.0))
    assert found["hit@1"].value == float(relevant[:1] == [True])
    assert found["mrr"].n == 1, "a question that names no document is left out"
