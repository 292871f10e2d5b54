"""Questions that come with passages: HotpotQA and MuSiQue over several paragraphs, and collections in BEIR's layout.

Answers of the first two are strings (task ``kgqa``); of the last, gold are the ids of the documents judged relevant
(``skb_search``). The gold evidence names passages as the corpus of the same files names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.checks import LocatedQuestion, UniqueIds
from evidence_assets.benchmarks.dataset_info import DatasetInfo, find_dataset
from evidence_assets.benchmarks.json_streams import json_items, json_rows, jsonl_rows
from evidence_assets.benchmarks.line_streams import Row, headed_rows
from evidence_assets.benchmarks.records import Document, GoldEvidence
from evidence_assets.lake.ids import content_id

CORPUS_FILE, QUERIES_FILE = "corpus.jsonl", "queries.jsonl"


def read_hotpotqa(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    hidden = split in info.hidden
    for row in info.read_each(folder, split, json_rows):
        paragraphs = dict(_read_paragraphs(row))
        gold = () if hidden else (row.text("answer"),)
        evidence = () if hidden else tuple(_read_supporting_facts(row, paragraphs))
        yield info.question(row, split, row.text("_id"), row.text("question"), gold=gold, gold_evidence=evidence)


def _read_paragraphs(row: Row) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Title and sentences of each paragraph that comes with a question."""
    for pair in _read_pairs(row, "context", "sentences", "a title and a list of sentences"):
        yield pair.text("title"), pair.texts("sentences", blank=True)


def _read_pairs(row: Row, field: str, second: str, expected: str) -> Iterator[Row]:
    """The pairs of a list, each a title and something else."""
    for place, entry in enumerate(row.list(field)):
        if not isinstance(entry, list) or len(entry) != 2:
            raise row.error(f"expected {expected}", f"{field}[{place}]")
        yield Row({"title": entry[0], second: entry[1]}, row.file, row.line, f"{field}[{place}]")


def _read_supporting_facts(row: Row, paragraphs: dict[str, tuple[str, ...]]) -> Iterator[GoldEvidence]:
    for pair in _read_pairs(row, "supporting_facts", "sentence", "a title and the number of a sentence"):
        title, number = pair.text("title"), pair.number("sentence")
        sentences = paragraphs.get(title)
        if sentences is None or not 0 <= number < len(sentences):
            # A few official questions point at a sentence that is not in their context: the pointer is kept as it is.
            yield GoldEvidence("sentence", title, f"sentence {number}", "")
            continue
        start = sum(len(sentence) for sentence in sentences[:number])
        text = sentences[number]
        lead = len(text) - len(text.lstrip())
        yield GoldEvidence("sentence", title, f"{start + lead}:{start + len(text)}", text[lead:])


def read_hotpotqa_documents(folder: Path, split: str) -> Iterator[Document]:
    """The paragraphs, called by their titles: of ``*_corpus.json`` beside the questions, else of the questions."""
    text_by_title: dict[str, str] = {}
    for file in find_dataset("hotpotqa").find_files(folder, split):
        corpus = file.with_name(f"{file.name.removesuffix('.gz').removesuffix('.json')}_corpus.json")
        contexts = ((row, *paragraph) for row in json_rows(file) for paragraph in _read_paragraphs(row))
    for place, title, sentences in _read_corpus(corpus) if corpus.is_file() else contexts:
        document = Document(title, title, "".join(sentences), place.file.name)
        content = content_id("paragraph", document.text)
        if title not in text_by_title:
            text_by_title[title] = content
            yield document
        elif text_by_title[title] != content:
            raise place.error(f"two different paragraphs are called {title!r}", "title")


def _read_corpus(file: Path) -> Iterator[tuple[Row, str, tuple[str, ...]]]:
    for line, title, sentences in json_items(file):
        row = Row({"title": title, "sentences": sentences}, file, line)
        yield row, row.text("title"), row.texts("sentences", blank=True)


def read_musique(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    for row in info.read_each(folder, split, _read_objects):
        aliases = row.texts("answer_aliases") if row.values.get("answer_aliases") else ()
        answer: dict[str, Any] = {}
        if split not in info.hidden and row.values.get("answerable") is not False:
            supporting = (part for part in row.rows("paragraphs") if part.get("is_supporting") is True)
            answer = {
                "gold": (row.text("answer"),),
                "aliases": (aliases,),
                "gold_evidence": tuple(
                    GoldEvidence("chunk", _paragraph_id(part), "", part.text("paragraph_text")) for part in supporting
                ),
            }
        yield info.question(row, split, row.text("id"), row.text("question"), **answer)


def read_musique_documents(folder: Path, split: str) -> Iterator[Document]:
    """The different paragraphs that come with the questions."""
    doc_ids: set[str] = set()
    for row in find_dataset("musique").read_each(folder, split, _read_objects):
        for part in row.rows("paragraphs"):
            doc_id = _paragraph_id(part)
            if doc_id not in doc_ids:
                doc_ids.add(doc_id)
                yield Document(doc_id, part.text("title"), part.text("paragraph_text"), row.file.name)


def _read_objects(file: Path) -> Iterator[Row]:
    return jsonl_rows(file) if ".jsonl" in file.name else json_rows(file)


def _paragraph_id(part: Row) -> str:
    title = part.text("title")
    return f"{title}#{content_id('paragraph', title, part.text('paragraph_text'))[:8]}"


def read_beir(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    judged, queries, corpus = info.find_files(folder, split)
    judgements = _read_judgements(judged)
    relevant_ids = {document for scores in judgements.values() for document, score in scores.items() if score > 0}
    texts = {document: _document_text(row) for document, row in _read_by_id(corpus) if document in relevant_ids}
    for missing in sorted(relevant_ids - texts.keys()):
        raise Row({}, judged).error(f"document {missing!r} is judged relevant but not in {corpus.name}", "corpus-id")
    for source_id, row in _read_by_id(queries):
        scores = judgements.pop(source_id, None)
        if scores is None:
            continue
        relevant = sorted((-score, document) for document, score in scores.items() if score > 0)
        gold = tuple(document for _, document in relevant)
        evidence = tuple(GoldEvidence("chunk", document, "", texts[document]) for document in gold)
        yield info.question(row, split, source_id, row.text("text"), gold=gold, gold_evidence=evidence)
    for missing in sorted(judgements):
        raise Row({}, judged).error(f"query {missing!r} is judged but not in {queries.name}", "query-id")


def read_beir_documents(folder: Path, split: str) -> Iterator[Document]:
    """The corpus, the same for every split; the text of a document does not repeat its title."""
    for document, row in _read_by_id(
        find_dataset("beir").find_optional_file(folder, CORPUS_FILE) or folder / CORPUS_FILE
    ):
        yield Document(document, row.text_or_none("title") or "", _document_text(row), CORPUS_FILE)


def _read_by_id(file: Path) -> Iterator[tuple[str, Row]]:
    """The documents or queries of a file by their ids, of which none may come twice."""
    ids = UniqueIds("_id")
    for row in jsonl_rows(file):
        identifier = row.label("_id")
        ids.add(identifier, row)
        yield identifier, row


def _read_judgements(file: Path) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = {}
    for row in headed_rows(file, ("query-id", "corpus-id", "score"), "\t", quoted=False):
        scores = judgements.setdefault(row.text("query-id"), {})
        if scores.setdefault(row.text("corpus-id"), row.number("score")) != row.number("score"):
            raise row.error("the same pair is judged twice, differently", "score")
    return judgements


def _document_text(row: Row) -> str:
    """Some official documents have a title and no text."""
    return row.text("text", blank=True) if row.text_or_none("title") else row.text("text")


READERS = {"hotpotqa": read_hotpotqa, "musique": read_musique, "beir": read_beir}
PASSAGES = {"hotpotqa": read_hotpotqa_documents, "musique": read_musique_documents, "beir": read_beir_documents}
