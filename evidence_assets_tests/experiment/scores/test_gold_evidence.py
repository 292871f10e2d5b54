"""Gold evidence found and cited: counted by hand, and against an independent count over sets."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.experiment.scores.gold_evidence import chain_id_of, citation_scores, evidence_recall, recall_curve
from evidence_assets_tests.lake_rows import citation, evidence, prediction, question, stored


def frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return stored(table, rows)


def gold(text: str, group: str = "") -> dict[str, str]:
    return {"kind": "sentence", "source": "d", "locator": "", "text": text, "group": group}


def cite(number: int, rank: int, verdict: str = "verified", hypothesis: str = "A") -> dict[str, Any]:
    return citation(chain_id_of(f"q{number}", hypothesis, "s", "r", "m"), f"e-s-{number}-{rank}", verdict)


def test_what_the_chosen_chain_cites_is_counted_by_hand() -> None:
    asked = [
        question(1, gold_evidence=[gold("one"), gold("two"), gold("again one", "g"), gold("also two", "g")]),
        question(2, gold_evidence=[gold("three")]),
        question(3, gold_evidence=[gold("four")]),  # answered, nothing cited
        question(4, gold_evidence=[gold("five")]),  # not answered
        question(5),  # names no gold evidence
    ]
    said = {f"q{i}": prediction(i, None if i == 4 else "A") for i in range(1, 6)}
    rows = [
        evidence(1, 1, "it says one here"),
        evidence(1, 2, "nothing"),
        evidence(1, 3, "and also two"),
        evidence(2, 1, "it says three"),
        evidence(5, 1, "x"),
    ]
    citations = [
        cite(1, 1),
        cite(1, 2),
        cite(1, 3, "misquoted"),
        cite(2, 1),
        cite(2, 9, "absent"),
        cite(5, 1),
        cite(3, 1, hypothesis="B"),
    ]
    precision, recall = citation_scores(asked, said, frame("evidence", rows), frame("citations", citations))
    # q1: of three cited rows one is gold (the misquoted one is none); it holds one of the three groups.
    assert precision == [pytest.approx(1 / 3), 0.5]
    assert recall == [pytest.approx(1 / 3), 1.0, 0.0]


@settings(deadline=None)
@given(
    wanted=st.sets(st.integers(0, 5), min_size=1),
    picked=st.lists(st.integers(0, 9), max_size=8, unique=True),
    cited=st.sets(st.integers(0, 7)),
)
def test_precision_and_recall_are_those_of_sets(wanted: set[int], picked: list[int], cited: set[int]) -> None:
    asked = [question(1, gold_evidence=[gold(f"<{i}>") for i in sorted(wanted)])]
    rows = [evidence(1, rank, f"text <{i}> text") for rank, i in enumerate(picked, 1)]
    chosen = [picked[place] for place in sorted(cited) if place < len(picked)]
    citations = [cite(1, picked.index(i) + 1) for i in chosen]
    precision, recall = citation_scores(
        asked, {"q1": prediction(1, "A")}, frame("evidence", rows), frame("citations", citations)
    )
    assert recall == [pytest.approx(len(wanted & set(chosen)) / len(wanted))]
    assert precision == ([pytest.approx(len(wanted & set(chosen)) / len(chosen))] if chosen else [])


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=25))
def test_the_curve_is_the_recall_of_what_stands_above_each_depth(picked: list[int]) -> None:
    asked = [question(1, gold_evidence=[gold(f"<{i}>") for i in (0, 1, 2)])]
    found = recall_curve(asked, frame("evidence", [evidence(1, r, f"<{i}>") for r, i in enumerate(picked, 1)]))
    assert found == {
        k: [pytest.approx(len({0, 1, 2} & set(picked[:k])) / 3)] for k in (1, 2, 3, 5, 10, 20) if k <= len(picked)
    }


def test_without_evidence_there_is_no_curve_and_nothing_is_found() -> None:
    asked = [question(1, gold_evidence=[gold("x")]), question(2)]
    assert recall_curve(asked, frame("evidence", [])) == {}
    assert evidence_recall(asked, frame("evidence", [])) == [0.0]
