"""One ranking serves every smaller k and s: the rows are those of a ranking of its own, and nothing is solved."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evidence_assets.experiment.evidence.selection import SelectedEvidence, evidence_rows
from evidence_assets.systems.uscrake.selector import WiderEvidence
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets_tests.systems.uscrake.small_pages import ENCODER, QUESTIONS, graph, passages, selector

PUBLISHED = {"cost": "jsd", "R": 5, "grain": "chunk", "links": 0, "judge": 1, "triples_judged": 0}
WIDEST = {"k": 4, "s": 5}


def without_scores(rows: list[SelectedEvidence]) -> list[tuple[object, ...]]:
    return [(row.option, row.kind, row.parents, row.locator, row.text, row.why) for row in rows]


@pytest.mark.parametrize("parts", ["both", "chunks", "graph"])
def test_every_k_and_s_is_a_prefix_of_the_widest_ranking(tmp_path: Path, parts: Any) -> None:
    corpus = passages(tmp_path)

    def published(k: int, s: int) -> Any:
        return selector(corpus, triples=graph(10**6), **{**PUBLISHED, "parts": parts, "k": k, "s": s})

    widest = published(**WIDEST)
    rows = pl.DataFrame(evidence_rows("widest", widest, QUESTIONS).rows)
    n_encoded = len(ENCODER.encoded_texts)
    for k, s in product((1, 2, 4), (1, 3, 5)):
        prefix = WiderEvidence(published(k, s), rows, k, s)
        selected = list(prefix.select(QUESTIONS))
        assert ENCODER.encoded_texts[n_encoded:] == [], "nothing is encoded"
        ranked = list(published(k, s).select(QUESTIONS))
        n_encoded = len(ENCODER.encoded_texts)
        for prefix_rows, ranked_rows in zip(selected, ranked, strict=True):
            assert without_scores(prefix_rows) == without_scores(ranked_rows)
            assert [r.score for r in prefix_rows] == pytest.approx([r.score for r in ranked_rows], abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "is_prefix"),
    [
        ({}, True),
        ({"parts": "chunks", "judge": 0.0, "triples_judged": 10}, True),
        ({"judge": 0.5}, False),  # the text's scores are scaled to those of the kept chunks
        ({"grain": "sentence"}, False),  # sentences of other chunks compete
        ({"triples_judged": 10}, False),  # the cap is a multiple of s
    ],
)
def test_evidence_contains_that_of_smaller_k_and_s_if_no_score_depends_on_them(settings: Any, is_prefix: bool) -> None:
    wide, narrow = (UscrakeSettings(**{**PUBLISHED, **settings, "k": n, "s": n}) for n in (9, 3))
    assert wide.contains_evidence_of(narrow) == is_prefix and not narrow.contains_evidence_of(wide)
    assert not wide.contains_evidence_of(UscrakeSettings(**{**PUBLISHED, **settings, "k": 3, "s": 3, "R": 6}))
