"""One ranking serves every smaller k and s: the rows are those of a ranking of its own."""

from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.experiment.evidence_rows import evidence_rows
from evidence_assets.systems.uscrake.selector import FirstRows, FirstRowsSettings
from evidence_assets_tests.systems.uscrake.small_pages import QUESTIONS, graph, passages, selector

PUBLISHED = {"cost": "jsd", "R": 5, "grain": "chunk", "links": 0, "judge": 1, "triples_judged": 0}
WIDEST = {"k": 4, "s": 5}


def without_scores(rows: list[SelectedEvidence]) -> list[tuple[object, ...]]:
    return [(row.option, row.kind, row.parents, row.locator, row.text, row.why) for row in rows]


@pytest.mark.parametrize("parts", ["both", "chunks", "graph"])
def test_every_k_and_s_is_a_prefix_of_the_widest_ranking(tmp_path: Path, parts: Any) -> None:
    chunks = passages(tmp_path) if parts != "graph" else None
    triples = graph(10**6) if parts != "chunks" else None

    def published(k: int, s: int) -> Any:
        return selector(chunks, triples=triples, **{**PUBLISHED, "parts": parts, "k": k, "s": s})

    rows = pl.DataFrame(evidence_rows("widest", published(**WIDEST), QUESTIONS).rows)
    for k, s in product((1, 2, 4), (1, 3, 5)):
        selected = FirstRows(rows, FirstRowsSettings("widest", k, s)).select(QUESTIONS)
        ranked = published(k, s).select(QUESTIONS)
        for prefix_rows, ranked_rows in zip(selected, ranked, strict=True):
            assert without_scores(prefix_rows) == without_scores(ranked_rows)
            assert [r.score for r in prefix_rows] == pytest.approx([r.score for r in ranked_rows], abs=1e-6)
