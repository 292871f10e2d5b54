"""Page of a source: its content, the evidence taken from it, and the answers that it reached and that depend on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.pages import PER_PAGE, Page, Pager, Query
from evidence_assets.explorer.pages.source_kinds import MAX_ROWS, Source, read_source

_SPAN = re.compile(r"(\d+):(\d+)")
MAX_ANSWERS = 3
"""Maximum answers that are listed for a row of evidence, which several models may have received."""
EVIDENCE = f"""
    SELECT e.*, q.text AS question, q.task, q.options, EXISTS (FROM citations c WHERE c.evidence_id = e.evidence_id
           AND c.verdict = 'verified') AS cited
    FROM evidence e LEFT JOIN all_questions q USING (question_id) WHERE {{condition}}
    ORDER BY cited DESC, e.rank, e.benchmark, e.question_id, e.selector, e.option, e.evidence_id LIMIT {MAX_ROWS + 1}
"""
"""Evidence, cited rows first."""
FROM_EDGES = """e.evidence_id IN (SELECT child_id FROM lineage_edges WHERE child_kind = 'evidence'
    AND parent_kind = 'edge' AND parent_id IN (SELECT unnest($edges)))"""
ANSWERS = """
    SELECT question_id, variant, answer, is_right FROM all_answers WHERE question_id IN (SELECT unnest($questions))
    ORDER BY variant, prediction_id
"""
DEPENDENT_ANSWERS = """
    SELECT c.question_id, replace(c.asset, 'counterfactuals/', '') AS variant, c.answer, c.without_cited,
           q.text AS question
    FROM counterfactuals c LEFT JOIN all_questions q USING (question_id)
    WHERE c.necessary AND len(c.cited) > 0 AND c.question_id IN (SELECT unnest($questions))
          AND list_has_all($facts, c.cited) ORDER BY ALL
"""
"""Answers that change without their citations, all of which are among these facts."""


def source(reader: LakeReader, query: Query, kind: str, identifier: str) -> Page:
    content = read_source(reader, kind, identifier)
    evidence = _read_evidence(reader, query, content)
    related = Pager.of(query.get("related", ""), len(content.related))
    values = {
        "kind": kind,
        "facts": content.facts,
        "texts": [
            (chunk_id, _mark_passages(text, evidence["passages"].get(chunk_id, ()))) for chunk_id, text in content.texts
        ],
        "grid": content.grid,
        "related": content.related[related.offset : related.offset + PER_PAGE],
        "related_pager": related,
        "max_rows": MAX_ROWS,
    }
    return Page("source.html", content.title, values | evidence)


class Passage(NamedTuple):
    """A part of a text; ``question_id`` is that of an answer that cites it, empty for none."""

    text: str
    question_id: str = ""


def _mark_passages(text: str, cited: Sequence[tuple[int, int, str]]) -> list[Passage]:
    """A text in parts: those that answers cite, each once, and those between them."""
    parts: list[Passage] = []
    position = 0
    for start, end, question_id in sorted(cited):
        start = max(start, position)
        if start < end <= len(text):
            parts += [Passage(text[position:start]), Passage(text[start:end], question_id)]
            position = end
    parts.append(Passage(text[position:]))
    return [part for part in parts if part.text]


def _find_passages(evidence: Sequence[Row]) -> dict[str, list[tuple[int, int, str]]]:
    """Start, end and question of the cited passages within each chunk."""
    passages: dict[str, list[tuple[int, int, str]]] = {}
    for row in evidence:
        span = _SPAN.fullmatch(row["locator"] or "")
        if row["cited"] and row["source_kind"] == "chunk" and span:
            passages.setdefault(row["source_id"], []).append((int(span[1]), int(span[2]), row["question_id"]))
    return passages


def _read_evidence(reader: LakeReader, query: Query, content: Source) -> dict[str, Any]:
    """The evidence from a source or its edges, with the answers that it reached, and those that depend on it."""
    condition = content.condition
    parameters = dict(content.parameters)
    if content.edges:
        condition = f"({condition} OR {FROM_EDGES})"
        parameters["edges"] = [edge["edge_id"] for edge in content.edges]
    evidence = reader.rows(EVIDENCE.format(condition=condition), **parameters)
    has_more = len(evidence) > MAX_ROWS or len(content.edges) == MAX_ROWS
    evidence = evidence[:MAX_ROWS]
    pager = Pager.of(query.get("page", ""), len(evidence))
    questions = sorted({row["question_id"] for row in evidence})
    facts = sorted({row["content_hash"] for row in evidence})
    return {
        "has_more": has_more,
        "passages": _find_passages(evidence),
        "pager": pager,
        "rows": _add_answers(reader, evidence[pager.offset : pager.offset + PER_PAGE]),
        "dependent": reader.rows(DEPENDENT_ANSWERS, questions=questions, facts=facts) if evidence else [],
    }


def _add_answers(reader: LakeReader, evidence: list[Row]) -> list[Row]:
    """Rows of evidence with the ``answers`` of their variant, by the default model and by others."""
    answers: dict[str, list[Row]] = {}
    for row in reader.rows(ANSWERS, questions=sorted({row["question_id"] for row in evidence})):
        answers.setdefault(row["question_id"], []).append(row)
    rows = []
    for row in evidence:
        variant = row["asset"].removeprefix("evidence/")
        reached = [a for a in answers.get(row["question_id"], []) if f"{a['variant']}/".startswith(f"{variant}/")]
        rows.append(row | {"variant": variant, "answers": reached[:MAX_ANSWERS]})
    return rows
