"""Documents found by a retrieval variant: recall, nDCG and rank against their definitions written out."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.benchmarks.readers import read_passages, read_questions
from evidence_assets.benchmarks.records import question_rows
from evidence_assets.experiment.evidence import sources as inputs
from evidence_assets.experiment.evidence.selection import asked as of_rows
from evidence_assets.experiment.evidence.selection import evidence_rows
from evidence_assets.experiment.evidence.sources import Bm25Chunks
from evidence_assets.experiment.scores.retrieval_scores import passage_metrics, ranked_documents
from evidence_assets.retrieval import corpus_files
from evidence_assets_tests.lake_rows import evidence, question, stored
from evidence_assets_tests.retrieval.written import written_corpus


def rows(number: int, chunks: list[int]) -> list[dict[str, Any]]:
    """Evidence of a question: chunk number c is piece c % 2 of document d{c // 2}."""
    return [evidence(number, rank, f"t{c}", source_id=f"k{c}", option="") for rank, c in enumerate(chunks, 1)]


DOCUMENT_OF = {f"k{c}": f"d{c // 2}" for c in range(24)}


def gold(*documents: int) -> list[dict[str, str]]:
    return [{"kind": "chunk", "source": f"d{d}", "locator": "", "text": "", "group": ""} for d in documents]


def test_a_document_stands_where_its_best_chunk_does() -> None:
    assert ranked_documents(stored("evidence", rows(1, [5, 0, 4, 1, 9])), DOCUMENT_OF) == {"q1": ["d2", "d0", "d4"]}


@settings(deadline=None, max_examples=40)
@given(
    chunks=st.lists(st.integers(0, 23), max_size=20, unique=True),
    wanted=st.sets(st.integers(0, 11), min_size=1, max_size=5),
)
def test_metrics_are_their_definitions(chunks: list[int], wanted: set[int]) -> None:
    asked = [question(1, gold_evidence=gold(*sorted(wanted))), question(2)]
    found = passage_metrics(asked, stored("evidence", rows(1, chunks)), DOCUMENT_OF)
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


@pytest.mark.dev_data
def test_recall_on_hotpotqa_is_what_other_code_counted(
    dev_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (inputs, corpus_files):  # The other code cut words as this; ours keep an apostrophe within a word.
        monkeypatch.setattr(module, "words", lambda text: re.findall(r"\w+", text.lower()))
    folder = dev_data / "hotpotqa-100"
    documents = list(read_passages("hotpotqa", folder, "train"))
    asked = question_rows(read_questions("hotpotqa", folder, "train"), "train", 0, 1)
    texts, titles = [document.text for document in documents], [document.title for document in documents]
    chunks = written_corpus(tmp_path, [f"k{i}" for i in range(len(texts))], texts, titles)
    picked = evidence_rows("bm25", Bm25Chunks(chunks, 10, "1", titles=True), of_rows(stored("questions", asked)))
    document_of = {f"k{i}": document.doc_id for i, document in enumerate(documents)}
    found = passage_metrics(asked, stored("evidence", picked.rows), document_of)
    assert {k: round(found[f"recall@{k}"].value, 3) for k in (2, 5, 10)} == {2: 0.585, 5: 0.775, 10: 0.895}
    assert found["recall@2"].n == 100
