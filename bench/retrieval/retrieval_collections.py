"""Retrieval collections in BEIR's layout, written from EVIDENCE_DEV_DATA and the sample for
``bench/worlds/collections.yaml``.

The first half of a collection's queries is its split ``dev``, on which settings are chosen, the second its ``test``.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

from bench.dev_data import hotpotqa_pages, hotpotqa_rows
from evidence_assets.benchmarks.readers import read_passages, read_questions

SAMPLE = Path(__file__).resolve().parents[2] / "evidence_assets" / "sample" / "full"
CLOZES, SHORTEST_CLOZE = 200, 40

Documents = list[tuple[str, str, str]]
Queries = list[tuple[str, set[str]]]


def _hotpot_passages(data: Path) -> tuple[Documents, Queries]:
    """Questions in two steps, each with the two passages that answer it."""
    folder = data / "hotpotqa-100"
    queries = [(q.text, {gold.source for gold in q.gold_evidence}) for q in read_questions("hotpotqa", folder, "train")]
    return [(d.doc_id, d.title, d.text) for d in read_passages("hotpotqa", folder, "train")], queries


def _hotpot_sentences(data: Path) -> tuple[Documents, Queries]:
    """The same questions; every sentence is a document under the title of its page."""
    pages = hotpotqa_pages().items()
    documents = [(f"{t}#{i}", t, s.strip()) for t, page in pages for i, s in enumerate(page) if s.strip()]
    titles = {name for name, _, _ in documents}
    queries = [(r["question"], {f"{t}#{i}" for t, i in r["supporting_facts"]} & titles) for r in hotpotqa_rows()]
    return documents, queries


def _hotpot_clozes(data: Path) -> tuple[Documents, Queries]:
    """Sentences that were taken out of 200 pages, each with the page that it stood in: no question in two steps."""
    generator = random.Random(0)
    pages = hotpotqa_pages()
    positions = {t: [i for i, s in enumerate(page) if i and len(s) > SHORTEST_CLOZE] for t, page in pages.items()}
    removed_sentence = {
        t: generator.choice(positions[t])
        for t in generator.sample(sorted(t for t in pages if len(positions[t]) > 1), CLOZES)
    }
    page_texts = {
        t: "".join(s for i, s in enumerate(page) if removed_sentence.get(t) != i) for t, page in pages.items()
    }
    return [(t, t, text) for t, text in page_texts.items()], [
        (pages[t][i].strip(), {t}) for t, i in removed_sentence.items()
    ]


def _openbook_facts(data: Path) -> tuple[Documents, Queries]:
    """Questions with their right answer, each with the fact of the book that it rests on."""
    folder = data / "obqa"
    queries = [
        (f"{q.text} {q.options['ABCD'.index(q.gold[0])]}", {gold.source for gold in q.gold_evidence})
        for q in read_questions("obqa", folder, "dev")
    ]
    return [(d.doc_id, d.title, d.text) for d in read_passages("obqa", folder, "dev")], queries


def _pubmed_abstracts(data: Path) -> tuple[Documents, Queries]:
    """Questions, each with the abstract that they were asked of."""
    rows = json.loads((data / "pubmedqa" / "ori_pqal_not_test.json").read_text())
    documents = [(name, "", "\n".join(row["CONTEXTS"])) for name, row in rows.items()]
    return documents, [(row["QUESTION"], {name}) for name, row in rows.items()]


def _sample_articles(data: Path) -> tuple[Documents, Queries]:
    """This project's own articles: questions with their right answer, and every article that states their facts."""
    articles = map(json.loads, (SAMPLE / "corpus" / "sample" / "articles.jsonl").open(encoding="utf-8"))
    lines = (SAMPLE / "benchmarks" / "sample_mcqa.jsonl").open(encoding="utf-8")
    rows = [row for row in map(json.loads, lines) if row["gold_evidence"]]
    queries = [
        (f"{r['text']} {r['options'][r['gold'][0]]}", {gold["source"] for gold in r["gold_evidence"]}) for r in rows
    ]
    return [(a["doc_id"], a["title"], a["text"]) for a in articles], queries


COLLECTIONS: dict[str, Callable[[Path], tuple[Documents, Queries]]] = {
    "hotpot_passages": _hotpot_passages,
    "hotpot_sentences": _hotpot_sentences,
    "hotpot_clozes": _hotpot_clozes,
    "openbook_facts": _openbook_facts,
    "pubmed_abstracts": _pubmed_abstracts,
    "sample_articles": _sample_articles,
}


def write_hotpot_options(data: Path, folder: Path) -> None:
    """Write HotpotQA's questions with four options: the answer, if it is no yes or no, and those of three others."""
    questions = [
        q for q in read_questions("hotpotqa", data / "hotpotqa-100", "train") if q.gold[0] not in ("yes", "no")
    ]
    answers, generator = sorted({q.gold[0] for q in questions}), random.Random(0)
    rows = []
    for q in questions:
        options = [*generator.sample([a for a in answers if a != q.gold[0]], 3), q.gold[0]]
        generator.shuffle(options)
        evidence = [{"kind": g.kind, "source": g.source, "locator": g.locator, "text": g.text} for g in q.gold_evidence]
        rows.append({"source_id": q.source_id, "text": q.text, "options": options, "gold": options.index(q.gold[0])})
        rows[-1]["gold_evidence"] = evidence
    folder.mkdir(parents=True)
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def link_pages(pages: dict[str, str]) -> dict[tuple[str, str, str], None]:
    """The distinct edges from each page to the others that its text names, in order."""
    titles_by_name: dict[str, list[str]] = {}
    for title in pages:
        titles_by_name.setdefault(name_of_page(title), []).append(title)
    names = sorted(map(re.escape, titles_by_name), key=len, reverse=True)
    any_name = re.compile(rf"\b(?:{'|'.join(names)})\b")
    return dict.fromkeys(
        (title, "mentions", mentioned)
        for title, text in pages.items()
        for name in any_name.findall(text)
        for mentioned in titles_by_name[name]
        if mentioned != title
    )


def write_hotpot_base(data: Path, folder: Path) -> None:
    """Write HotpotQA's passages as a knowledge base, and the questions with a gold passage that they do not name.

    A passage is a node, and has an edge to each other one whose title is in its text. The answers of a question are
    its unnamed gold passages: a search by triplets excludes what its question mentions.
    """
    pages = {title: "".join(sentences) for title, sentences in hotpotqa_pages().items()}
    nodes = [
        {"node_id": title, "type": "page", "name": name_of_page(title), "document": text}
        for title, text in pages.items()
    ]
    rows = []
    for question in read_questions("hotpotqa", data / "hotpotqa-100", "train"):
        sources = dict.fromkeys(gold.source for gold in question.gold_evidence)
        unnamed = [title for title in sources if name_of_page(title).casefold() not in question.text.casefold()]
        row = {"source_id": question.source_id, "task": "skb_search", "text": question.text, "gold": unnamed}
        rows += [row] if unnamed else []
    folder.mkdir(parents=True)
    for file, lines in (("nodes", nodes), ("questions", rows)):
        (folder / f"{file}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "edges.tsv").write_text("".join("\t".join(edge) + "\n" for edge in link_pages(pages)), encoding="utf-8")


def name_of_page(title: str) -> str:
    """A title without what tells it from others of the same name.

    >>> name_of_page("Lilu (mythology)")
    'Lilu'
    """
    return re.sub(r" \([^)]*\)$", "", title)


QUESTIONS = {"hotpot_options": write_hotpot_options, "hotpot_base": write_hotpot_base}
"""Writers of questions with options, and of questions with a knowledge base."""


def write(name: str, data: Path, folder: Path) -> None:
    """Write a collection into ``folder``; queries without a relevant document are left out."""
    documents, queries = COLLECTIONS[name](data)
    answerable = [query for query in queries if query[1]]
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": i, "title": title, "text": text} for i, title, text in documents]
    numbered = [{"_id": f"q{i}", "text": text} for i, (text, _) in enumerate(answerable)]
    for file, rows in (("corpus", corpus), ("queries", numbered)):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{file}.jsonl").write_text(lines, encoding="utf-8")
    for split, chosen in (("dev", range(len(answerable) // 2)), ("test", range(len(answerable) // 2, len(answerable)))):
        lines = "".join(f"q{i}\t{gold}\t1\n" for i in chosen for gold in sorted(answerable[i][1]))
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}", encoding="utf-8")
