"""Drawing of an answer: its question, the evidence, and the sources of the evidence."""

from __future__ import annotations

from collections.abc import Iterator

from evidence_assets.explorer.answer_view import AnswerView, EvidenceView
from evidence_assets.explorer.layers import Box, Curve, Layers, draw_layers
from evidence_assets.explorer.pages import link

MAX_EVIDENCE, MAX_SOURCES = 8, 12
"""Maximum rows of evidence and sources that are drawn."""


def draw_answer(answer: AnswerView, anchor: str, *, linked: bool = True) -> Layers | None:
    """Curves lead from the answer to used evidence, and from the question to the other evidence; None without evidence.

    ``anchor``: Prefix of the ids of the evidence on the page.
    ``linked``: Whether sources link to their pages.
    """
    if not answer.evidence:
        return None
    evidence = sorted(answer.evidence, key=lambda item: not item.is_used)[:MAX_EVIDENCE]
    question = answer.question["text"] if answer.question else f"question {answer.prediction['question_id']}"
    text = f"Answer: {answer.name or answer.answer_text}" if answer.has_answer else answer.answer_text
    boxes = [Box("question", 0, question), Box("answer", 0, text, "", "used" if answer.rows.used_ids else "shown")]
    curves, sources = [], dict[str, Box]()
    for item in evidence:
        style, key = "used" if item.is_used else "shown", f"evidence {item.number}"
        text = f"[{item.number}] {item.text}"
        boxes.append(Box(key, 1, text, f"#{anchor}e{item.number}", style))
        curves.append(Curve("answer" if item.is_used else "question", key, style))
        for kind, identifier, text in _sources(item):
            source = f"{kind} {identifier}"
            if source not in sources and len(sources) < MAX_SOURCES:
                sources[source] = Box(source, 2, text, link("source", kind, identifier) if linked else "", style)
            curves.append(Curve(key, source, style))
    n_used, n_all = sum(item.is_used for item in answer.evidence), len(answer.evidence)
    limit = f"; {len(evidence)} are drawn, used ones first" if n_all > len(evidence) else ""
    return draw_layers(
        "Question, evidence and sources of the answer",
        f"Used evidence: {n_used} of {n_all} rows{limit}. Solid lines lead from the answer to used evidence.",
        ("Question", "Evidence", "Sources"),
        [*boxes, *sources.values()],
        curves,
    )


def _sources(item: EvidenceView) -> Iterator[tuple[str, str, str]]:
    """Kind, id and text of each source; those of a path are its edges."""
    for edge in dict.fromkeys(item.walk):
        yield "edge", edge.edge_id, f"{edge.head} —{edge.words}→ {edge.tail} ({', '.join(edge.sources)})"
    if not item.walk:
        source = item.source or {}
        files = [source["source"]] if "source" in source else source.get("sources", [])
        text = f"{item.title} ({', '.join(files)})" if files else item.title
        yield item.row["source_kind"], item.row["source_id"], text
