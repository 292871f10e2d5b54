"""Pages of the lake's runs, and of the answers that differ between two of them."""

from __future__ import annotations

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.lake_reader import CHANGE_KINDS, LakeReader
from evidence_assets.explorer.pages import PER_PAGE, NotFound, Page, Pager, Query
from evidence_assets.lake.lineage import PAIRED_ROWS

MAX_CHOICES = 200
"""Maximum runs that the form offers, the newest first."""
MAX_VARIANTS = 100
"""Maximum variants whose changes are counted, those with most changes first."""
RUNS = """
    SELECT run_id, max(time) AS time, count(DISTINCT (asset, partition)) AS partitions,
           count(*) FILTER (starts_with(asset, 'predictions/')) AS answers
    FROM history GROUP BY run_id ORDER BY time DESC NULLS LAST, run_id
"""
_HISTORY = f"(SELECT * FROM history WHERE split_part(asset, '/', 1) IN {CHANGE_KINDS})"
PAIRS = f"""
    CREATE OR REPLACE TEMP TABLE paired_rows AS
    SELECT r.*, split_part(r.asset, '/', 1) AS kind, substr(r.asset, length('predictions/') + 1) AS variant,
           split_part(r.partition, '|', 1) AS benchmark, q.question_id, q.text, q.task, q.options,
           CASE WHEN r.change IS DISTINCT FROM 'added' THEN is_right(a.benchmark, q.question_id, q.task, q.gold,
               q.gold_aliases, r.answer_before, r.status_before) END AS was_right,
           CASE WHEN r.change IS DISTINCT FROM 'removed' THEN is_right(a.benchmark, q.question_id, q.task, q.gold,
               q.gold_aliases, r.answer_after, r.status_after) END AS is_right,
           CASE WHEN was_right AND NOT is_right THEN 'became wrong' WHEN NOT was_right AND is_right THEN 'became right'
               ELSE 'other' END AS effect
    FROM ({PAIRED_ROWS.format(history=_HISTORY)}) r
    LEFT JOIN all_answers a ON a.prediction_id = r.row_id AND r.asset = 'predictions/' || a.variant
    LEFT JOIN all_questions q USING (question_id)
"""
"""The rows of two runs; whether an answer was and is right is judged by the lake's present questions."""
_IS_OTHER_ANSWER = """
    kind = 'predictions' AND (answer_before, status_before) IS DISTINCT FROM (answer_after, status_after)
"""
COUNTS = "SELECT kind, change, count(*) AS n FROM paired_rows GROUP BY ALL ORDER BY ALL"
EFFECTS = f"SELECT effect, count(*) AS n FROM paired_rows WHERE {_IS_OTHER_ANSWER} GROUP BY ALL ORDER BY ALL"
VARIANTS = f"""
    SELECT benchmark, variant, count(*) FILTER ({_IS_OTHER_ANSWER}) AS changes,
           count(was_right) AS judged_before, count(*) FILTER (was_right) AS right_before,
           count(is_right) AS judged_after, count(*) FILTER (is_right) AS right_after
    FROM paired_rows WHERE kind = 'predictions' GROUP BY ALL HAVING changes > 0
    ORDER BY changes DESC, benchmark, variant LIMIT {MAX_VARIANTS}
"""
ANSWERS = f"""
    SELECT * FROM paired_rows WHERE {_IS_OTHER_ANSWER} AND ($effect = '' OR effect = $effect)
    ORDER BY effect, variant, benchmark, row_id LIMIT {PER_PAGE} OFFSET $offset
"""


def read_runs(reader: LakeReader) -> list[Row]:
    """The runs that wrote history, the newest first, each with the run ``before`` it."""
    rows = reader.rows(RUNS)
    earlier_runs = [*(row["run_id"] for row in rows[1:]), ""]
    return [row | {"before": before} for row, before in zip(rows, earlier_runs, strict=False)]


def runs(reader: LakeReader, query: Query) -> Page:
    rows = reader.cached(read_runs)
    pager = Pager.of(query.get("page", ""), len(rows))
    values = {"rows": rows[pager.offset : pager.offset + PER_PAGE], "choices": rows[:MAX_CHOICES], "pager": pager}
    return Page("runs.html", "Runs", values)


def compare(reader: LakeReader, query: Query) -> Page:
    """The answers that differ between the runs ``a`` and ``b``, and numbers of other rows that do."""
    all_runs = reader.cached(read_runs)
    names = [query.get(name, "") for name in ("a", "b")]
    pair = [row for row in reversed(all_runs) if row["run_id"] in names]
    for name in names:
        if name not in {row["run_id"] for row in pair}:
            raise NotFound(f"The lake has no run {name!r}. Choose two runs on the page Runs.")
    older = pair[0]
    newer = pair[-1]
    reader.connection.execute(PAIRS, {"a": older["run_id"], "b": newer["run_id"]})
    effects = {row["effect"]: row["n"] for row in reader.rows(EFFECTS)}
    effect = query.get("effect", "")
    pager = Pager.of(query.get("page", ""), effects.get(effect, 0) if effect else sum(effects.values()))
    values = {
        "older": older,
        "newer": newer,
        "counts": reader.rows(COUNTS),
        "effects": effects,
        "effect": effect,
        "variants": reader.rows(VARIANTS),
        "max_variants": MAX_VARIANTS,
        "rows": reader.rows(ANSWERS, effect=effect, offset=pager.offset),
        "pager": pager,
    }
    return Page("compare.html", "Comparison of two runs", values)
