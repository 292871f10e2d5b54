"""What was tried on evidence rows and queries and is in no variant: docs/beyond-the-papers.md has the figures.

    EVIDENCE_DEV_DATA=<folder> python -m bench.measure_tried

Paired differences to the 5 rows nearest to question ⊕ option by cosine, on the second half of the questions by their
ids (95 %, paired bootstrap). OpenBookQA has its book, HotpotQA the sentences of its passages. CommonsenseQA has no
text: its option nearest to the question without the question word is compared with the option nearest to the question.

``statement``: the option in place of the last question word, without the negation of a question for the exception.
``distinct``: A row with a cosine of at least .9 with a better row is replaced by the next one.
The last lines count rows that contradict a better one: the same words, with another number or negation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.retrieval_collections import write_hotpot_options
from evidence_assets import profiles
from evidence_assets.benchmarks.readers import read_passages, read_questions
from evidence_assets.experiment.scores.metrics import paired_bootstrap
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder
from evidence_assets.reasoning.extractive import ExtractiveSolver
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.text.negation import asks_for_exception, is_denial
from evidence_assets.text.words import stems

Queries = Callable[[str, str], str]
Measured = dict[str, list[float]]
K, POOL, DUPLICATE, SAME_WORDS = 5, 40, 0.9, 0.7
_QUESTION_WORD = re.compile(
    r"\b(?:which|what|who|whom|whose|where|when|why|how)\b(?:\s+of\s+(?:these|those|the following))?", re.IGNORECASE
)
_NEGATION = re.compile(r"\s*(?:\b(?:not|except)\b|n['’]t\b)", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """A question with options, its correct option, and its gold texts."""

    text: str
    options: tuple[str, ...]
    right: int
    gold: frozenset[str] = frozenset()


def pair(question: str, option: str) -> str:
    return f"{question} {option}"


def state(question: str, option: str) -> str:
    """The question as a statement.

    >>> state("What animal can live without oxygen?", "shark"), state("Which is NOT a mammal?", "bee")
    ('shark animal can live without oxygen', 'bee is a mammal')
    """
    text = question.strip().rstrip("?: ")
    if asks_for_exception(question):
        text = _NEGATION.sub("", text)
    matches = list(_QUESTION_WORD.finditer(text))
    return f"{text[: matches[-1].start()]}{option}{text[matches[-1].end() :]}" if matches else pair(text, option)


def select(similarity: NDArray[np.floating], vectors: NDArray[np.floating], limit: float) -> list[int]:
    """The best ``K`` texts; a text with this cosine to a better one is left out."""
    rows: list[int] = []
    for row in np.argsort(-similarity, kind="stable")[:POOL].tolist():
        if len(rows) < K and all(vectors[row] @ vectors[other] < limit for other in rows):
            rows.append(row)
    return rows


def split_query(query: Queries, question: str, label: str, option: str) -> tuple[str, str, str]:
    """What the solver compares statements with, in its parts; it reads a negated option beside its question."""
    return (question, label, option) if query is pair or is_denial(option) else (query(question, option), label, "")


def measure(cases: Sequence[Case], texts: Sequence[str], encoder: Encoder, query: Queries, limit: float) -> Measured:
    """Recall of the correct option's gold texts in its first 1 and 5 rows, and the solver's accuracy."""
    vectors = np.asarray(encoder.encode_sentences(texts))
    hypotheses = [query(case.text, option) for case in cases for option in case.options]
    selected = iter([select(v @ vectors.T, vectors, limit) for v in encoder.encode_sentences(hypotheses)])
    rows = [[next(selected) for _ in case.options] for case in cases]
    recall = {
        f"recall@{k}": [
            len(case.gold & {texts[row] for row in selection[case.right][:k]}) / len(case.gold)
            for case, selection in zip(cases, rows, strict=True)
        ]
        for k in (1, K)
    }
    items = [
        {
            "ABCD"[n]: tuple(EvidenceItem(str(r), "chunk", str(r), "", texts[r]) for r in selection)
            for n, selection in enumerate(each)
        }
        for each in rows
    ]
    solver = ExtractiveSolver(encoder)
    tasks = [
        ExplainOption(*split_query(query, case.text, label, option), evidence[label])
        for case, evidence in zip(cases, items, strict=True)
        for label, option in zip(evidence, case.options, strict=True)
    ]
    chains = iter([chain for chain in solver.explain(tasks) if isinstance(chain, Chain)])
    choices = solver.choose(
        [
            ChooseAnswer(case.text, tuple(evidence), case.options, tuple(next(chains) for _ in evidence), evidence)
            for case, evidence in zip(cases, items, strict=True)
        ]
    )
    right = [isinstance(c, Choice) and c.answer == "ABCD"[case.right] for c, case in zip(choices, cases, strict=True)]
    return recall | {"accuracy": [float(each) for each in right]}


def associations(cases: Sequence[Case], encoder: Encoder, query: Queries) -> Measured:
    """Accuracy of the option nearest to the question."""
    questions = encoder.encode_sentences([query(case.text, "").strip() for case in cases])
    options = [np.asarray(encoder.encode_sentences(list(case.options))) for case in cases]
    best = [int(np.argmax(o @ q)) for q, o in zip(questions, options, strict=True)]
    return {"accuracy": [float(answer == case.right) for answer, case in zip(best, cases, strict=True)]}


def count_contradictions(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of texts with the same words, but for another number or a negation."""
    numbers = [frozenset(re.findall(r"\d[\d.,]*", text)) for text in texts]
    words = [frozenset(stems(text)) - digits for text, digits in zip(texts, numbers, strict=True)]
    denials = [is_denial(text) for text in texts]
    return [
        (texts[a], texts[b])
        for a in range(len(texts))
        for b in range(a + 1, len(texts))
        if (denials[a] != denials[b] or (numbers[a] and numbers[b] and numbers[a] != numbers[b]))
        and len(words[a] & words[b]) >= SAME_WORDS * len(words[a] | words[b])
    ]


def main() -> None:
    data = Path(os.environ["EVIDENCE_DEV_DATA"])
    encoder = get_encoder(profiles.load().encoder)
    book = {d.doc_id: d.text for d in read_passages("obqa", data / "obqa", "dev")}
    obqa = [
        Case(q.text, q.options, "ABCD".index(q.gold[0]), frozenset(book[gold.source] for gold in q.gold_evidence))
        for q in sorted(read_questions("obqa", data / "obqa", "dev"), key=lambda q: q.source_id)
    ]
    pages = json.loads((data / "hotpotqa-100" / "hotpotqa_train_corpus.json").read_text())
    sentences = list(dict.fromkeys(s.strip() for page in pages.values() for s in page if s.strip()))
    with tempfile.TemporaryDirectory() as folder:
        write_hotpot_options(data, Path(folder) / "hotpot")
        lines = (Path(folder) / "hotpot" / "questions.jsonl").read_text().splitlines()
        shutil.copy(data / "csqa" / "train_500.jsonl", Path(folder) / "train_rand_split.jsonl")
        csqa_questions = sorted(read_questions("csqa", Path(folder), "train"), key=lambda q: q.source_id)
    csqa = [Case(q.text, q.options, "ABCDE".index(q.gold[0])) for q in csqa_questions]
    hotpot = [
        Case(q["text"], tuple(q["options"]), q["gold"], frozenset(g["text"].strip() for g in q["gold_evidence"]))
        for q in sorted(map(json.loads, lines), key=lambda q: q["source_id"])
    ]
    for name, cases, texts in (("OpenBookQA", obqa, list(book.values())), ("HotpotQA", hotpot, sentences)):
        base = measure(cases, texts, encoder, pair, 2)
        print_differences(f"{name}, statement", measure(cases, texts, encoder, state, 2), base)
        print_differences(f"{name}, distinct", measure(cases, texts, encoder, pair, DUPLICATE), base)
    print_differences("CommonsenseQA, statement", associations(csqa, encoder, state), associations(csqa, encoder, pair))
    for name, texts in (("OpenBookQA", list(book.values())), ("HotpotQA", sentences)):
        pairs = count_contradictions(texts)
        print(f"{name}: {len(pairs)} contradictory pairs of {len(texts)} texts", *pairs, sep="\n  ")


def print_differences(title: str, tried: Measured, base: Measured) -> None:
    for metric, values in tried.items():
        half = len(values) // 2
        for name, part in (("first half", slice(half)), ("second half", slice(half, None))):
            d = paired_bootstrap(values[part], base[metric][part])
            new, old = (100 * float(np.mean(each[part])) for each in (values, base[metric]))
            interval = f"{100 * d.value:+.1f} ({100 * d.low:+.1f} to {100 * d.high:+.1f})"
            print(f"{title}, {metric}, {name} (n = {d.n}): {new:.1f} instead of {old:.1f}, {interval}")


if __name__ == "__main__":
    main()
