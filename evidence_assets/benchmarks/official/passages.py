"""Readers of questions with passages: HotpotQA, MuSiQue, and collections in BEIR's layout.

Answers of the first two are strings (task ``kgqa``); for BEIR, gold answers are the ids of relevant documents
(``skb_search``). Gold evidence uses the document ids of the corpus in the same files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.dataset_info import DatasetInfo, find_dataset
from evidence_assets.benchmarks.json_streams import json_rows, jsonl_rows
from evidence_assets.benchmarks.line_streams import Row, headed_rows
from evidence_assets.benchmarks.records import Document, GoldEvidence, LocatedQuestion, UniqueIds
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id

CORPUS_FILE = "corpus.jsonl"


def read_hotpotqa(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    """Read HotpotQA with its supporting facts."""
    hidden = split in info.hidden
    for row in info.read_each(folder, split, json_rows):
        paragraphs = dict(_read_paragraphs(row))
        gold = () if hidden else (row.text("answer"),)
        evidence = () if hidden else tuple(_read_supporting_facts(row, paragraphs))
        yield info.question(row, split, row.text("_id"), row.text("question"), gold=gold, gold_evidence=evidence)


def _read_paragraphs(row: Row) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Read title and sentences of each paragraph of a question."""
    for pair in _read_pairs(row, "context", "sentences", "a title and a list of sentences"):
        yield pair.text("title"), pair.texts("sentences", blank=True)


def _read_pairs(row: Row, field: str, second: str, expected: str) -> Iterator[Row]:
    """Read a list of pairs of a title and a second value."""
    for position, entry in enumerate(row.list(field)):
        if not isinstance(entry, list) or len(entry) != 2:
            raise row.error(f"expected {expected}", f"{field}[{position}]")
        yield Row({"title": entry[0], second: entry[1]}, row.file, row.line, f"{field}[{position}]")


def _read_supporting_facts(row: Row, paragraphs: dict[str, tuple[str, ...]]) -> Iterator[GoldEvidence]:
    for pair in _read_pairs(row, "supporting_facts", "sentence", "a title and the number of a sentence"):
        title = pair.text("title")
        number = pair.number("sentence")
        sentences = paragraphs.get(title)
        if sentences is None or not 0 <= number < len(sentences):
            # A few official questions reference a sentence outside their context: keep the reference.
            yield GoldEvidence("sentence", title, f"sentence {number}", "")
            continue
        start = sum(len(sentence) for sentence in sentences[:number])
        text = sentences[number]
        lead = len(text) - len(text.lstrip())
        yield GoldEvidence("sentence", title, f"{start + lead}:{start + len(text)}", text[lead:])


def read_hotpotqa_documents(folder: Path, split: str) -> Iterator[Document]:
    """Read the paragraphs of the questions, with titles as ids."""
    hash_by_title: dict[str, str] = {}
    for row in find_dataset("hotpotqa").read_each(folder, split, json_rows):
        for title, sentences in _read_paragraphs(row):
            document = Document(title, title, "".join(sentences), row.file.name)
            content = content_id("paragraph", document.text)
            if title not in hash_by_title:
                hash_by_title[title] = content
                yield document
            elif hash_by_title[title] != content:
                raise row.error(f"two different paragraphs have the title {title!r}; rename one", "title")


def read_musique(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    """Read MuSiQue with its supporting paragraphs; unanswerable questions have no gold."""
    for row in info.read_each(folder, split, _read_objects):
        aliases = row.texts("answer_aliases", optional=True)
        unanswerable = row.values.get("answerable") is False
        answer: dict[str, Any] = {"unanswerable": unanswerable}
        if split not in info.hidden and not unanswerable:
            supporting = (p for p in row.rows("paragraphs") if p.get("is_supporting") is True)
            answer = {
                "gold": (row.text("answer"),),
                "aliases": (aliases,),
                "gold_evidence": tuple(
                    GoldEvidence("chunk", _paragraph_id(p), "", p.text("paragraph_text")) for p in supporting
                ),
            }
        yield info.question(row, split, row.text("id"), row.text("question"), **answer)


def read_musique_documents(folder: Path, split: str) -> Iterator[Document]:
    """Read the distinct paragraphs of the questions."""
    doc_ids: set[str] = set()
    for row in find_dataset("musique").read_each(folder, split, _read_objects):
        for paragraph in row.rows("paragraphs"):
            doc_id = _paragraph_id(paragraph)
            if doc_id not in doc_ids:
                doc_ids.add(doc_id)
                yield Document(doc_id, paragraph.text("title"), paragraph.text("paragraph_text"), row.file.name)


def _read_objects(file: Path) -> Iterator[Row]:
    return jsonl_rows(file) if ".jsonl" in file.name else json_rows(file)


def _paragraph_id(paragraph: Row) -> str:
    title = paragraph.text("title")
    return f"{title}#{content_id('paragraph', title, paragraph.text('paragraph_text'))[:8]}"


def read_beir(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    """Read the judged queries of a BEIR collection."""
    judgements, queries, corpus = info.find_files(folder, split)
    gold_by_query = _read_judgements(judgements)
    relevant_ids = {document for gold in gold_by_query.values() for document in gold}
    texts = {document: _document_text(row) for document, row in _read_by_id(corpus) if document in relevant_ids}
    if missing := sorted(relevant_ids - texts.keys()):
        message = f"document {missing[0]!r} is judged relevant but missing in {corpus.name}"
        raise BadInput(message, file=judgements, field="corpus-id")
    for source_id, row in _read_by_id(queries):
        if source_id in gold_by_query:
            gold = gold_by_query.pop(source_id)
            evidence = tuple(GoldEvidence("chunk", document, "", texts[document]) for document in gold)
            yield info.question(row, split, source_id, row.text("text"), gold=gold, gold_evidence=evidence)
    if gold_by_query:
        message = f"query {min(gold_by_query)!r} is judged but missing in {queries.name}"
        raise BadInput(message, file=judgements, field="query-id")


def read_beir_documents(folder: Path, split: str) -> Iterator[Document]:
    """Read the corpus, which is the same for all splits; texts do not repeat the title."""
    corpus = find_dataset("beir").find_optional_file(folder, CORPUS_FILE) or folder / CORPUS_FILE
    for document, row in _read_by_id(corpus):
        yield Document(document, row.text_or_none("title") or "", _document_text(row), CORPUS_FILE)


def _read_by_id(file: Path) -> Iterator[tuple[str, Row]]:
    """Read documents or queries by id; a duplicate id is an error."""
    ids = UniqueIds("_id")
    for row in jsonl_rows(file):
        identifier = row.label("_id")
        ids.add(identifier, row)
        yield identifier, row


def _read_judgements(file: Path) -> dict[str, tuple[str, ...]]:
    """Read the relevant documents of each judged query, the most relevant first."""
    judgements: dict[str, dict[str, int]] = {}
    for row in headed_rows(file, ("query-id", "corpus-id", "score"), "\t", quoted=False):
        judgements.setdefault(row.text("query-id"), {})[row.text("corpus-id")] = row.number("score")
    return {
        query: tuple(document for document in sorted(scores, key=lambda d: (-scores[d], d)) if scores[document] > 0)
        for query, scores in judgements.items()
    }


def _document_text(row: Row) -> str:
    """Read the text of a document; some official documents have only a title."""
    return row.text("text", blank=True) if row.text_or_none("title") else row.text("text")


READERS = {"hotpotqa": read_hotpotqa, "musique": read_musique, "beir": read_beir}
PASSAGES = {"hotpotqa": read_hotpotqa_documents, "musique": read_musique_documents, "beir": read_beir_documents}
