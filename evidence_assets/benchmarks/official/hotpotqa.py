"""HotpotQA and MuSiQue: questions over several paragraphs, with the paragraphs or sentences that support the answer.

The task is ``kgqa``: answers are strings, not options. The paragraphs that come with the questions are a corpus too,
with the identifiers that the gold evidence names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo, dataset
from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.reading_json import json_items, json_rows, jsonl
from evidence_assets.benchmarks.records import Document, GoldEvidence
from evidence_assets.lake.ids import content_id


def read_hotpotqa(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    hidden = split in info.hidden
    for row in info.each(folder, split, json_rows):
        paragraphs = dict(_paragraphs(row))
        gold = () if hidden else (row.text("answer"),)
        evidence = () if hidden else tuple(_supporting(row, paragraphs))
        yield info.question(row, split, row.text("_id"), row.text("question"), gold=gold, gold_evidence=evidence)


def _paragraphs(row: Row) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Title and sentences of each paragraph that comes with a question."""
    for found in _titled(row, "context", "sentences", "a title and a list of sentences"):
        yield found.text("title"), found.texts("sentences", blank=True)


def _titled(row: Row, field: str, second: str, expected: str) -> Iterator[Row]:
    """The pairs of a list, each a title and something else."""
    for place, entry in enumerate(row.list(field)):
        if not isinstance(entry, list) or len(entry) != 2:
            raise row.bad(f"expected {expected}", f"{field}[{place}]")
        yield Row({"title": entry[0], second: entry[1]}, row.file, row.line, f"{field}[{place}]")


def _supporting(row: Row, paragraphs: dict[str, tuple[str, ...]]) -> Iterator[GoldEvidence]:
    for found in _titled(row, "supporting_facts", "sentence", "a title and the number of a sentence"):
        title, number = found.text("title"), found.number("sentence")
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
    seen: dict[str, str] = {}
    for file in dataset("hotpotqa").find(folder, split):
        corpus = file.with_name(f"{file.name.removesuffix('.gz').removesuffix('.json')}_corpus.json")
        contexts = ((row, *said) for row in json_rows(file) for said in _paragraphs(row))
    for place, title, sentences in _corpus(corpus) if corpus.is_file() else contexts:
        document = Document(title, title, "".join(sentences), place.file.name)
        content = content_id("paragraph", document.text)
        if title not in seen:
            seen[title] = content
            yield document
        elif seen[title] != content:
            raise place.bad(f"two different paragraphs are called {title!r}", "title")


def read_musique(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for row in info.each(folder, split, _objects):
        aliases = row.texts("answer_aliases") if row.values.get("answer_aliases") else ()
        known: dict[str, Any] = {}
        if split not in info.hidden and row.values.get("answerable") is not False:
            supporting = (part for part in row.rows("paragraphs") if part.get("is_supporting") is True)
            known = {
                "gold": (row.text("answer"),),
                "aliases": (aliases,),
                "gold_evidence": tuple(
                    GoldEvidence("chunk", _paragraph_id(part), "", part.text("paragraph_text")) for part in supporting
                ),
            }
        yield info.question(row, split, row.text("id"), row.text("question"), **known)


def read_musique_documents(folder: Path, split: str) -> Iterator[Document]:
    """The different paragraphs that come with the questions."""
    seen: set[str] = set()
    for file in dataset("musique").find(folder, split):
        for row in _objects(file):
            for part in row.rows("paragraphs"):
                doc_id = _paragraph_id(part)
                if doc_id not in seen:
                    seen.add(doc_id)
                    yield Document(doc_id, part.text("title"), part.text("paragraph_text"), file.name)


def _objects(file: Path) -> Iterator[Row]:
    return jsonl(file) if ".jsonl" in file.name else json_rows(file)


def _paragraph_id(part: Row) -> str:
    title = part.text("title")
    return f"{title}#{content_id('paragraph', title, part.text('paragraph_text'))[:8]}"


def _corpus(file: Path) -> Iterator[tuple[Row, str, tuple[str, ...]]]:
    for line, title, sentences in json_items(file):
        row = Row({"title": title, "sentences": sentences}, file, line)
        yield row, row.text("title"), row.texts("sentences", blank=True)


READERS = {"hotpotqa": read_hotpotqa, "musique": read_musique}
PASSAGES = {"hotpotqa": read_hotpotqa_documents, "musique": read_musique_documents}
