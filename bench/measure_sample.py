"""How hard is the sample world? Simple baselines and an oracle on each of its benchmarks, with 95 % Wilson intervals.

Run ``python bench/measure_sample.py [--no-cosine]``. No baseline may solve a benchmark: the last lines say which comes
nearest on each, and the exit status is 1 where one does. The oracle, which reads the gold evidence, should. A question
that the evidence cannot answer is right only where nothing is answered, so every baseline that always answers gets it
wrong; one with two right options is right with either.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evidence_assets.experiment.metrics import accuracy
from evidence_assets.sample.facts import load_world
from evidence_assets.sample.render import render

Question = dict[str, Any]
Encode = Callable[[list[str]], np.ndarray]
STOP = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "is",
        "are",
        "to",
        "in",
        "on",
        "for",
        "with",
        "and",
        "or",
        "by",
        "from",
        "that",
        "which",
        "what",
        "who",
        "would",
        "could",
        "can",
        "may",
        "does",
        "do",
        "be",
        "it",
        "its",
        "this",
        "these",
        "one",
        "some",
        "somebody",
        "someone",
        "not",
        "under",
        "has",
        "have",
        "having",
        "at",
        "as",
        "into",
        "there",
        "where",
        "than",
        "how",
        "many",
        "much",
    ]
)
SOLVED = 0.85
"""A benchmark on which a simple baseline is right more often than this is too easy."""
ORACLE = "oracle (gold evidence)"
SHARES: dict[str, dict[str, float]] = defaultdict(dict)


def words(text: str) -> set[str]:
    """Return the content words of a text, plural endings cut."""
    return {w[:-1] if len(w) > 3 and w.endswith("s") else w for w in re.findall(r"[^\W_]+", text.lower())} - STOP


def read(folder: Path, name: str) -> list[Any]:
    """Read a JSON lines file."""
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def is_right(question: Question, answer: Any) -> bool:
    """Say whether an answer (an option's index, a name, a node id, or None) is right."""
    if question["gold"] is None:
        return answer is None
    if question["task"] in ("kgqa", "skb_search"):
        return answer in question["gold"]
    return answer in (question["gold"], *question["gold_also"])


def overlap_options(questions: list[Question], sentences: list[str]) -> list[int]:
    """Choose the option named in the sentence that shares most rare words with the question, the first of a tie."""
    index: dict[str, set[int]] = defaultdict(set)
    for number, sentence in enumerate(sentences):
        found = words(sentence)
        for word in found:
            index[word].add(number)
    idf = {word: math.log(len(sentences) / len(where)) for word, where in index.items()}
    answers = []
    for question in questions:
        scores = []
        for option in question["options"]:
            total: dict[int, float] = defaultdict(float)
            # only sentences that speak of the option count
            speaking = [index.get(word, set()) for word in words(option)]
            about = set.intersection(*speaking) if speaking else set()
            for word in words(question["text"]):
                for number in index.get(word, set()) & about:
                    total[number] += idf[word]
            scores.append(max(total.values(), default=0.0))
        answers.append(int(np.argmax(scores)))
    return answers


def cosine_options(questions: list[Question], sentences: list[str], encode: Encode) -> list[int]:
    """Choose the option that with the question is nearest to one sentence."""
    vectors = encode(sentences)
    asked = [f"{question['text']} {option}" for question in questions for option in question["options"]]
    best = iter((encode(asked) @ vectors.T).max(axis=1).tolist())
    return [int(np.argmax([next(best) for _ in question["options"]])) for question in questions]


def closed_options(questions: list[Question], encode: Encode) -> list[int]:
    """Choose the option nearest to the question, without any evidence."""
    return [int(np.argmax(encode([q["text"]]) @ encode(q["options"]).T)) for q in questions]


def oracle_options(questions: list[Question]) -> list[int | None]:
    """Read the gold evidence: the option that it is about, or for the odd one out the one that it is not about.

    A sentence that tells two facts may name a wrong option too, so the fact that a row stands for decides where it is
    given.
    """
    answers: list[int | None] = []
    for question in questions:
        rows = question["gold_evidence"]
        names = {name for row in rows for fact in ([row["fact"]] if "fact" in row else row["locator"]) for name in fact}
        inside = [option in names for option in question["options"]]
        wanted = not question["negated"]
        answers.append(inside.index(wanted) if rows and wanted in inside else None)
    return answers


def verbalise(folder: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the graph's triples as sentences, and the two names of each."""
    world = load_world()
    texts, ends = [], []
    for name in ("biomedical", "commonsense"):
        for line in (folder / "graphs" / f"{name}.tsv").read_text(encoding="utf-8").splitlines():
            head, relation, tail = line.split("\t")
            texts.append(world.relations[relation]["template"].format(head=head, tail=tail))
            ends.append((head, tail))
    return texts, ends


def short_answers(questions: list[Question], scores: np.ndarray, ends: list[tuple[str, str]]) -> list[str | None]:
    """Answer with the name in the best triple that the question does not hold."""
    answers: list[str | None] = []
    for question, row in zip(questions, scores, strict=True):
        text, answer = question["text"].lower(), None
        for number in np.argsort(-row, kind="stable")[:50]:
            new = [name for name in ends[number] if name.lower() not in text]
            if len(new) == 1:
                answer = new[0]
                break
        answers.append(answer)
    return answers


def overlap_matrix(questions: list[Question], texts: list[str]) -> np.ndarray:
    """Jaccard overlap of every question with every text."""
    bags = [words(text) for text in texts]
    asked = [words(question["text"]) for question in questions]
    return np.array([[len(a & b) / (len(a | b) or 1) for b in bags] for a in asked])


def table_overlap(question: Question, table: dict[str, Any]) -> int:
    """Choose the option equal to a cell whose row and header share most words with the question."""
    asked, scores = words(question["text"]), []
    for option in question["options"]:
        best = 0.0
        for row in table["rows"]:
            for header, cell in zip(table["header"], row, strict=True):
                same = len(words(option) & words(cell)) / (len(words(option) | words(cell)) or 1)
                rest = set().union(*(words(other) for other in row if other is not cell)) | words(header)
                best = max(best, 2 * same + len(asked & rest) / (len(asked) or 1))
        scores.append(best)
    return int(np.argmax(scores))


def claim_by_overlap(claims: list[Question], tables: dict[str, Any]) -> list[int]:
    """Label by the share of a claim's words that stand in its table; thresholds are the best ones of the first half."""
    shares = []
    for claim in claims:
        table = tables[claim["table_id"]]
        found = set().union(
            *(words(cell) for row in [table["header"], *table["rows"]] for cell in row), words(table["caption"])
        )
        shares.append(len(words(claim["text"]) & found) / (len(words(claim["text"])) or 1))
    return by_thresholds(claims, shares)


def by_thresholds(claims: list[Question], scores: list[float]) -> list[int]:
    """Turn scores into SUPPORTS, REFUTES, NOT ENOUGH INFORMATION with the two best thresholds of the first half."""
    grid = sorted({round(score, 2) for score in scores})
    tuning = [(score, claim) for score, claim in zip(scores, claims, strict=True) if claim["split"] == "dev"]

    def label(score: float, high: float, low: float) -> int:
        return 0 if score >= high else 2 if score < low else 1

    pairs = [(high, low) for high in grid for low in grid if low <= high]
    best = max(pairs, key=lambda pair: sum(label(score, *pair) == claim["gold"] for score, claim in tuning))
    return [label(score, *best) for score in scores]


def oracle_claim(claim: Question) -> int:
    """Decide a claim from its gold cells alone, by its operation."""
    cells = claim["gold_evidence"]
    if not cells:
        return 2
    return 0 if claim_holds(claim, cells) else 1


def claim_holds(claim: Question, cells: list[dict[str, Any]]) -> bool:
    """Work out whether the claim follows from the cells; independent of how the claims were made."""
    text, operation = claim["text"], claim["operation"]
    table = {row["table_id"]: row for row in TABLES}[claim["table_id"]]
    at = [(cell["locator"]["row"], cell["locator"]["column"]) for cell in cells]
    names = [table["rows"][row][0] for row, _ in at]
    if operation == "look-up":
        return all(cell["text"] in text for cell in cells) and bool(re.search(rf"\b{re.escape(names[0])}\b", text))
    if operation in ("count", "trend", "superlative"):
        values = [row[at[0][1]] for row in table["rows"]]
        if operation == "count":
            number = int(re.findall(r"Exactly (\d+)", text)[0])
            above = re.search(r"have more than ([\d.-]+)", text)
            if above:
                return number == sum(float(value) > float(above.group(1)) for value in values)
            wanted = re.findall(r"have '([^']+)'", text)[0]
            return number == values.count(wanted)
        numbers = [float(value) for value in values]
        if operation == "superlative":
            best = numbers.index(max(numbers) if "greater" in text else min(numbers))
            return text.rstrip(".").endswith(table["rows"][best][0])
        columns = sorted({column for _, column in at})
        rising = []
        for one, two in (columns, columns[::-1]):
            order = sorted(table["rows"], key=lambda row: float(row[one]))
            column = [float(row[two]) for row in order]
            rising.append("rises" if column == sorted(column) else "falls")
        return rising[0] in text
    one, two = (float(cell["text"]) for cell in cells[:2])
    if operation == "comparison":
        return (one > two) == ("a greater" in text or "a later" in text)
    if operation == "difference":
        told = float(re.findall(r"lie ([\d.]+)", text)[0])
        return abs(told - abs(one - two)) < 0.011
    told = float(re.findall(r"about (\d+) times", text)[0])
    return abs(one / two - told) < 0.1


def oracle_table(question: Question) -> int | None:
    """Work out the option from the gold cells, by the question's operation."""
    cells, text, operation = question["gold_evidence"], question["text"], question["operation"]
    table = {row["table_id"]: row for row in TABLES}[question["table_id"]]
    names = [table["rows"][cell["locator"]["row"]][0] for cell in cells]
    values = [cell["text"] for cell in cells]
    if operation == "look-up":
        answer = names[0] if len(cells) == 2 else values[0]
    elif operation == "comparison":
        answer = names[0]
    elif operation == "superlative":
        best = max if re.search("the (greatest|latest) value", text) else min
        answer = names[values.index(best(values, key=float))]
    elif operation == "difference":
        answer = f"{abs(float(values[0]) - float(values[1])):.2f}".rstrip("0").rstrip(".")
    elif operation == "ratio":
        answer = str(round(float(values[0]) / float(values[1])))
    elif operation == "count":
        above = re.search(r"have more than ([\d.-]+)", text)
        wanted = re.findall(r"have '([^']+)'", text)
        limit = float(above.group(1)) if above else 0.0
        answer = str(sum(float(value) > limit for value in values) if above else values.count(wanted[0]))
    else:
        pairs = [tuple(float(value) for value in values[i : i + 2]) for i in range(0, len(values), 2)]
        second = [b for _, b in sorted(pairs)]
        answer = "it rises throughout" if second == sorted(second) else "it falls throughout"
    return question["options"].index(answer) if answer in question["options"] else None


def line(benchmark: str, baseline: str, questions: list[Question], answers: list[Any]) -> None:
    """Print one result."""
    share = accuracy([is_right(question, answer) for question, answer in zip(questions, answers, strict=True)])
    SHARES[benchmark][baseline] = share.value
    print(f"{benchmark:14s} {baseline:22s} {share.value:6.1%}  [{share.low:5.1%}, {share.high:5.1%}]  n={share.n}")


def by_kind(questions: list[Question], answers: list[Any]) -> None:
    """Print the shares by kind of question."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for question, answer in zip(questions, answers, strict=True):
        kind = "negated" if question["negated"] else "two right" if question["gold_also"] else f"{question['hops']} hop"
        groups["unanswerable" if not question["answerable"] else kind].append(is_right(question, answer))
    print(" " * 37 + ", ".join(f"{kind} {sum(r)}/{len(r)}" for kind, r in sorted(groups.items())))


TABLES: list[dict[str, Any]] = []


def main() -> None:
    """Render the sample world into a temporary folder and score the baselines on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-cosine", action="store_true", help="leave out the baselines that need MiniLM")
    cosine = not parser.parse_args().no_cosine
    encode: Encode | None = None
    if cosine:
        from evidence_assets.models.encoders import EMBEDDED, load_encoder

        encode = load_encoder(EMBEDDED, device="cpu", dtype="float32").sentences
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        render(folder)
        TABLES.extend(read(folder, "tables/tables.jsonl"))
        articles = read(folder, "corpus/sample/articles.jsonl")
        sentences = [s for article in articles for s in re.split(r"(?<=\.) (?=[A-Z])", article["text"])]
        triples, ends = verbalise(folder)
        for benchmark, texts in (("sample_mcqa", sentences), ("sample_graph", triples)):
            questions = read(folder, f"benchmarks/{benchmark}.jsonl")
            runs = {"first option": [0] * len(questions), "word overlap": overlap_options(questions, texts)}
            if encode:
                runs["cosine, closed"] = closed_options(questions, encode)
                runs["cosine, best sentence"] = cosine_options(questions, texts, encode)
            runs[ORACLE] = oracle_options(questions)  # type: ignore[assignment]
            for baseline, answers in runs.items():
                line(benchmark, baseline, questions, answers)
                by_kind(questions, answers)
        tables = {table["table_id"]: table for table in TABLES}
        claims = read(folder, "benchmarks/sample_claims.jsonl")
        line("sample_claims", "always SUPPORTS", claims, [0] * len(claims))
        line("sample_claims", "word overlap", claims, claim_by_overlap(claims, tables))
        if encode:
            rows = [
                [f"{t['caption']}: " + ", ".join(row) for row in t["rows"]]
                for t in (tables[c["table_id"]] for c in claims)
            ]
            near = [float((encode([c["text"]]) @ encode(r).T).max()) for c, r in zip(claims, rows, strict=True)]
            line("sample_claims", "cosine", claims, by_thresholds(claims, near))
        line("sample_claims", ORACLE, claims, [oracle_claim(claim) for claim in claims])
        asked = read(folder, "benchmarks/sample_tables.jsonl")
        line("sample_tables", "first option", asked, [0] * len(asked))
        line("sample_tables", "word overlap", asked, [table_overlap(q, tables[q["table_id"]]) for q in asked])
        if encode:
            chosen = []
            for question in asked:
                table = tables[question["table_id"]]
                rows = encode(
                    [", ".join(f"{h}: {c}" for h, c in zip(table["header"], r, strict=True)) for r in table["rows"]]
                )
                options = encode([f"{question['text']} {option}" for option in question["options"]])
                chosen.append(int(np.argmax((options @ rows.T).max(axis=1))))
            line("sample_tables", "cosine, best row", asked, chosen)
        line("sample_tables", ORACLE, asked, [oracle_table(question) for question in asked])
        short = read(folder, "benchmarks/sample_kgqa.jsonl")
        line("sample_kgqa", "word overlap", short, short_answers(short, overlap_matrix(short, triples), ends))
        if encode:
            scores = encode([q["text"] for q in short]) @ encode(triples).T
            line("sample_kgqa", "cosine, best triple", short, short_answers(short, scores, ends))
        last = [
            next((n for n in reversed(q["gold_evidence"][0]["locator"][-1]) if n in q["gold"]), None)
            if q["gold"]
            else None
            for q in short
        ]
        line("sample_kgqa", ORACLE, short, last)
        nodes = read(folder, "skb/sample/nodes.jsonl")
        searched = read(folder, "benchmarks/sample_skb.jsonl")
        texts = [f"{node['name']}. {node['document']}" for node in nodes]
        ids = [node["node_id"] for node in nodes]
        best = overlap_matrix(searched, texts).argmax(axis=1)
        line("sample_skb", "word overlap, hit@1", searched, [ids[i] for i in best])
        if encode:
            best = (encode([q["text"] for q in searched]) @ encode(texts).T).argmax(axis=1)
            line("sample_skb", "cosine, hit@1", searched, [ids[i] for i in best])
    print()
    for benchmark, shares in SHARES.items():
        baseline, share = max(((b, s) for b, s in shares.items() if b != ORACLE), key=lambda pair: pair[1])
        print(f"{benchmark:14s} nearest: {baseline}, {share:.1%}{'  TOO EASY' if share > SOLVED else ''}")
    if any(share > SOLVED for shares in SHARES.values() for name, share in shares.items() if name != ORACLE):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
