"""The best facts of a question, for a model that reads few."""

from collections import defaultdict

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.experiment.evidence_rows import keep_best_facts

COLUMNS = ("question_id", "option", "kind", "content_hash", "rank", "score")
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["q1", "q2"]),
        st.sampled_from(["", "A", "B"]),
        st.sampled_from(["chunk", "triple", "cell", "caption"]),
        st.sampled_from(["x", "y", "z"]),
        st.integers(1, 3),
        st.sampled_from([0.0, 0.5, 1.0]),
    ),
    unique=True,
)


@given(ROWS, st.integers(1, 3))
def test_the_best_facts_of_a_question_are_kept_once_and_tables_whole(
    rows: list[tuple[str, str, str, str, int, float]], n: int
) -> None:
    best_rows = keep_best_facts(pl.DataFrame(rows, schema=COLUMNS, orient="row"), n).rows()
    in_order = sorted(rows, key=lambda row: (-row[5], row[1], row[4]))
    best_scores = defaultdict[str, dict[str, float]](dict)
    for question_id, _, kind, content, _, score in in_order:
        if kind in ("chunk", "triple"):
            best_scores[question_id].setdefault(content, score)
    of_tables = [row for row in rows if row[2] in ("cell", "caption")]
    assert sorted(row for row in best_rows if row[2] in ("cell", "caption")) == sorted(of_tables)
    facts = [row for row in best_rows if row[2] in ("chunk", "triple")]
    assert set(facts) <= set(rows)
    for question_id, of_content in best_scores.items():
        scores = [row[5] for row in facts if row[0] == question_id]
        assert sorted(scores, reverse=True) == sorted(of_content.values(), reverse=True)[:n]
        assert len({row[3] for row in facts if row[0] == question_id}) == len(scores)
