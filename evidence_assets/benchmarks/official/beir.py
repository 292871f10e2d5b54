"""BEIR's layout: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/<split>.tsv``; any retrieval collection in it.

The task is ``skb_search``: gold are the ids of the documents judged relevant (a score above 0).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located, SeenIds
from evidence_assets.benchmarks.info import DatasetInfo, dataset
from evidence_assets.benchmarks.reading import Row, headed_rows
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.benchmarks.records import Document, GoldEvidence

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    judged, queries, corpus = info.find(folder, split)
    judgements = _judgements(judged)
    wanted = {document for scores in judgements.values() for document, score in scores.items() if score > 0}
    texts = {document: _text(row) for document, row in _rows(corpus) if document in wanted}
    for missing in sorted(wanted - texts.keys()):
        raise Row({}, judged).bad(f"document {missing!r} is judged relevant but not in {corpus.name}", "corpus-id")
    for source_id, row in _rows(queries):
        scores = judgements.pop(source_id, None)
        if scores is None:
            continue
        relevant = sorted((-score, document) for document, score in scores.items() if score > 0)
        gold = tuple(document for _, document in relevant)
        evidence = tuple(GoldEvidence("chunk", document, "", texts[document]) for document in gold)
        yield info.question(row, split, source_id, row.text("text"), gold=gold, gold_evidence=evidence)
    for missing in sorted(judgements):
        raise Row({}, judged).bad(f"query {missing!r} is judged but not in {queries.name}", "query-id")


def read_documents(folder: Path) -> Iterator[Document]:
    """The corpus; the text of a document does not repeat its title."""
    for document, row in _rows(dataset("beir").find_one(folder, CORPUS) or folder / CORPUS):
        yield Document(document, row.text_or_none("title") or "", _text(row), CORPUS)


def _rows(file: Path) -> Iterator[tuple[str, Row]]:
    """The documents or queries of a file by their ids, of which none may come twice."""
    seen = SeenIds("_id")
    for row in jsonl(file):
        identifier = row.label("_id")
        seen.add(identifier, Row({}, row.file, row.line))
        yield identifier, row
    seen.finish()


def _judgements(file: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in headed_rows(file, ("query-id", "corpus-id", "score"), "\t", quoted=False):
        scores = found.setdefault(row.text("query-id"), {})
        if scores.setdefault(row.text("corpus-id"), row.number("score")) != row.number("score"):
            raise row.bad("the same pair is judged twice, differently", "score")
    return found


def _text(row: Row) -> str:
    """Some official documents have a title and no text."""
    return row.text("text", blank=True) if row.text_or_none("title") else row.text("text")


READERS = {"beir": read}
PASSAGES = {"beir": lambda folder, split: read_documents(folder)}
