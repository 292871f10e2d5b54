"""Replies in the manner of six model families, and what the parsers read in them.

``replies/<family>/<task>.txt`` holds the replies of one family to one prompted task. A line ``@@ question => reading``
comes before each reply. The reading is that of a careful person, decided before the parser ran. ``held out:`` before
the question marks replies that were written after the parsers. The questions are in ``QUESTIONS``.

Readings: a label, several labels, ``insufficient`` or ``unusable``; ``C cites 1 2`` with the numbers of the cited
evidence (any without ``cites``); the cited evidence of each step, separated by bars (``-``: none); ``kept`` if the
complete text counts; a number; names or facts separated by semicolons; sentences separated by ``//``; ``none`` for an
empty list or no answer. A written answer has its verdict first and the numbers of the cited rows after each sentence.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning.model_calls import PROMPTED_TASKS
from evidence_assets.reasoning.short_answers import ShortFact, ShortTask
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.reasoning.written_answers import RowCheck
from evidence_assets.reasoning.yes_no_answers import ORDERS, RowQuestion
from evidence_assets.systems.background.recall import NamesTask, TriplesTask
from evidence_assets.systems.four_step_focus.grading import NodeCard
from evidence_assets.systems.four_step_focus.triplets import Schema
from evidence_assets_tests.reasoning.small_questions import make_question
from tools.sample_tasks import build_tasks  # and registers all tasks

FOLDER = Path(__file__).parent / "replies"
REAL_REPLIES = FOLDER.with_name("real_replies")
LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION")


def _texts(*texts: str) -> tuple[EvidenceItem, ...]:
    return tuple(EvidenceItem(str(n), "chunk", "d", str(n), text) for n, text in enumerate(texts, 1))


def _question(text: str, *options: str, passages: tuple[EvidenceItem, ...] = (), chains: bool = False) -> ChooseAnswer:
    question = make_question(text, *options)
    return ChooseAnswer(question, tuple(Chain(label, ()) for label in question.labels if chains), {"A": passages})


_PLACES = {"r0c0": "Lake", "r0c1": "Depth", "r1c0": "Como", "r1c1": "425", "r2c0": "Garda", "r2c1": "346"}
_CELLS = tuple(EvidenceItem(place, "cell", "lakes", place, text) for place, text in _PLACES.items())
_DRUGS = _texts(
    "Allopurinol inhibits xanthine oxidase.",
    "Xanthine oxidase forms uric acid.",
    "Colchicine may treat gout.",
    "Probenecid increases excretion of uric acid.",
)
_FACTS = (ShortFact("1", "Australia", "capital", "Canberra", "Canberra is the capital of Australia"),)
_CAPITAL = _texts("Canberra has been the capital of Australia since 1913.")
_LAKES = ("Lake Como", "Lake Garda", "Lake Maggiore", "Lake Orta")
_CLAIM = make_question("Como is deeper than Garda.", *LABELS, task="verification")
_CAPITAL_QUESTION = make_question("What is the capital of Australia?")
QUESTIONS: dict[str, Any] = {
    "lakes": _question("Which lake is the deepest?", *_LAKES),
    "claim": ChooseAnswer(_CLAIM, (), dict.fromkeys(LABELS, _CELLS)),
    "depth": ChooseAnswer(
        make_question("Which lake is 346 m deep?", "Como", "Garda", task="table_qa"), (), dict.fromkeys("AB", _CELLS)
    ),
    "drafted": RowCheck("When did Canberra become the capital?", _CAPITAL),
    "yes or no": RowQuestion("Is Canberra the capital?", _CAPITAL[0], ORDERS[0]),
    "table claim": ExplainOption(_CLAIM, "SUPPORTS", _CELLS),
    "aspirin": ExplainOption(
        make_question("Which drug eases pain and thins the blood?", "aspirin"),
        "A",
        _texts("Aspirin may treat pain.", "Aspirin inhibits platelets.", "Paracetamol may treat fever."),
    ),
    "chain": ExplainOption(
        make_question("Which vitamin do only foods from animals contain?", "Vitamin C", "Vitamin B12"),
        "B",
        _texts("Meat has vitamin B12.", "Plants have none.", "Vitamin A is in liver.", "Cereals are fortified."),
    ),
    "vitamins": _question(
        "Which vitamin do only foods from animals contain?",
        *("Vitamin C", "Vitamin B12", "Vitamin D", "Vitamin K"),
        chains=True,
    ),
    "trial": _question("Does vitamin D prevent falls in nursing homes?", "yes", "no", "maybe"),
    "gout": _question(
        "Which drug lowers serum urate by inhibiting xanthine oxidase?",
        *("Colchicine", "Probenecid", "Allopurinol", "Naproxen"),
        passages=_DRUGS,
    ),
    "node": ("Which drug eases pain?", NodeCard("aspirin", "drug", "It eases pain.", ())),
    "saw": "A saw is used for cutting wood.",
    "entities": NamesTask("What is the money of Switzerland called?", "entities"),
    "relations": NamesTask("What is the money of Switzerland called?", "relations"),
    "tower": TriplesTask("Who designed the tower on the Champ de Mars?", ("Eiffel Tower",), ("designed by",)),
    "facts": ShortTask(_CAPITAL_QUESTION, _FACTS),
    "texts": ShortTask(_CAPITAL_QUESTION, (), _CAPITAL),
    "year": ShortTask(make_question("Since when has Canberra been the capital of Australia?"), (), _CAPITAL),
    "gout drug": (
        "Which drugs that target TNF treat gout?",
        Schema(("drug", "disease", "gene/protein"), ("treats", "targets")),
    ),
}


@dataclass(frozen=True)
class Reply:
    """A reply with its reading, and the number of its line in the file."""

    family: str
    task: str
    question: str
    text: str
    reading: str
    line: int
    held_out: bool

    @property
    def parsed_reading(self) -> str:
        """The parser's reading in the same notation."""
        return read(self.task, self.question, self.text, self.reading)

    @property
    def is_read_correctly(self) -> bool:
        return self.parsed_reading == self.reading


@dataclass(frozen=True)
class RealReply:
    """A reply of a model to an input of ``tools.sample_tasks``, with a person's reading."""

    model: str
    task: str
    number: int
    text: str
    reading: str

    @property
    def parsed_reading(self) -> str:
        return read_reply(self.task, build_tasks(self.task)[self.number], self.text, self.reading)


def load_real_replies() -> Iterator[RealReply]:
    """Those of ``real_replies/<model>/<task>.jsonl``."""
    for file in sorted(REAL_REPLIES.glob("*/*.jsonl")):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            yield RealReply(file.parent.name, file.stem, row["number"], row["reply"], row["reading"])


def load_replies() -> Iterator[Reply]:
    for file in sorted(FOLDER.glob("*/*.txt")):
        for match in re.finditer(r"^@@ (held out: )?(.+?) => (.+)\n((?:(?!@@ ).*\n)*)", file.read_text("utf-8"), re.M):
            line = file.read_text("utf-8")[: match.start()].count("\n") + 1
            text = match[4].removesuffix("\n")
            yield Reply(file.parent.name, file.stem, match[2], text, match[3], line, bool(match[1]))


def read(task: str, question: str, text: str, reading: str = "") -> str:
    """The reading of the parser of a task on one of ``QUESTIONS``."""
    return read_reply(task, QUESTIONS[question], text, reading)


def read_reply(task: str, task_input: Any, text: str, reading: str = "") -> str:
    """The reading of the task's parser; of ``reading``, only the citations or words that it names are compared."""
    try:
        result: Any = PROMPTED_TASKS[task].parse(text, task_input)
    except UnusableReply:
        return "unusable"
    match task:
        case "choose" | "choose_letter" | "published_choice" | "published_question" | "published_verdict":
            return result.answer or result.status
        case "published_verdict_several":
            return " ".join(result.supported) or result.answer
        case "published_answer":
            choice, chain = result
            if choice.answer is None:
                return str(choice.status)
            return choice.answer + (_citations(chain, task_input.facts) if " cites " in reading else "")
        case "explain":
            numbers = {item.evidence_id: str(n) for n, item in enumerate(task_input.evidence, 1) if item.kind != "cell"}
            cited = (" ".join(numbers.get(item, item) for item in step.cited) for step in result.steps)
            return " | ".join(each or "-" for each in cited) or "none"
        case "published_chain":
            cited = _citations(result, task_input.evidence).strip()
            return (cited or "kept") if _is_kept(text, result) else "shortened"
        case "published_case":
            return "kept" if _is_kept(text, result) else "shortened"
        case "grade":
            return str(result)
        case "judge" | "check_written":
            return "correct" if result else "wrong"
        case "recall_names":
            return "; ".join(result.items) or "none"
        case "recall_triples":
            return "; ".join(map(" | ".join, result.items)) or "none"
        case "reword":
            return " // ".join(result)
        case "written":
            return " // ".join(f"{each.text} {[n + 1 for n in each.cited]}" for each in result) or "none"
        case "yes_no":
            return str(result)
        case "short_answer":
            answer = "none" if result.answer is None else result.answer
            return reading if reading != "none" and reading in answer else answer
        case _:
            triplets = (f"{t.head.text} {t.edge_type} {t.tail.text}" for t in result.triplets)
            return f"{result.target.text} of {'; '.join(triplets)}"


def _is_kept(text: str, chain: Chain) -> bool:
    return _words(text) == _words("\n".join(step.text for step in chain.steps))


def _citations(chain: Chain, evidence_items: Sequence[EvidenceItem]) -> str:
    number_by_id = {item.evidence_id: number for number, item in enumerate(evidence_items, 1)}
    cited = {item for step in chain.steps for item in step.cited}
    numbers = {number_by_id.get(item) or int(item.removeprefix("evidence ")) for item in cited}
    return f" cites {' '.join(map(str, sorted(numbers)))}" if numbers else ""


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]{2,}", text)


def misread(replies: Sequence[Reply]) -> list[str]:
    return [
        f"{r.family}/{r.task}.txt:{r.line}: {r.parsed_reading!r} instead of {r.reading!r}"
        for r in replies
        if not r.is_read_correctly
    ]
