"""What every reader yields, whatever the format it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from evidence_assets.lake.ids import content_id

Task = Literal["mcqa", "verification", "table_qa", "kgqa", "skb_search"]
TASKS: tuple[Task, ...] = ("mcqa", "verification", "table_qa", "kgqa", "skb_search")
CLAIM_LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION")


@dataclass(frozen=True)
class GoldEvidence:
    """A piece of evidence that a benchmark itself names as the ground of an answer.

    ``kind`` is chunk, sentence, cell, column, row, triple or path; ``source`` a document, table or graph; ``locator``
    where in it (``12:57`` characters; ``r3c1`` a cell, ``r0`` being the header and ``r1`` the first row below it; a JSON
    list of edges; empty for the whole); ``text`` what stands there.
    Pieces of the same non-empty ``group`` say the same: one of them is enough.
    """

    kind: str
    source: str
    locator: str
    text: str
    group: str = ""


@dataclass(frozen=True)
class Question:
    """One question or claim.

    ``options`` are texts; option number i is labelled with the i-th letter, except in verification, where the labels
    are the options themselves. ``gold`` holds the right labels (usually one); for questions without options it holds
    answer strings (kgqa) or node ids (skb_search). An empty ``gold`` means that no answer is right or known.
    """

    benchmark: str
    source_id: str
    split: str
    task: Task
    text: str
    options: tuple[str, ...] = ()
    gold: tuple[str, ...] = ()
    table_id: str | None = None
    topic_entities: tuple[str, ...] = ()
    gold_evidence: tuple[GoldEvidence, ...] = ()
    negated: bool | None = None
    """Whether it asks for the option that does not hold; None where the benchmark does not say."""
    aliases: tuple[tuple[str, ...], ...] = field(default=())
    """For kgqa: other accepted forms of each gold answer."""

    @property
    def question_id(self) -> str:
        return content_id("question", self.benchmark, self.source_id, self.text, self.options, self.table_id)

    @property
    def labels(self) -> tuple[str, ...]:
        return option_labels(self.task, self.options)


def option_labels(task: str, options: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Labels of a question's options: letters, or the options themselves for a claim to verify."""
    if task == "verification":
        return tuple(options)
    return tuple(chr(ord("A") + i) for i in range(len(options)))


@dataclass(frozen=True)
class Table:
    """A table as read: the header may be empty, rows may be ragged; nothing is repaired here."""

    benchmark: str
    table_id: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Document:
    """One text of a corpus before it is cut into chunks."""

    doc_id: str
    title: str
    text: str
    source: str
    """File it was read from, relative to the corpus folder."""
