"""The same questions about the same pages, put to ``evidence ask``, LlamaIndex and PaperQA2 with the same model.

    make document-peers
    python -m bench.peers.documents http://127.0.0.1:8081/v1 --folder FOLDER [--systems ask …] [--questions 20]

The questions are fifteen with an answer and five without, drawn from those of the sixth set of `bench.answers.pages`
on five of its pages; questions whose replies fitted the thresholds of our written answers are left out. Each fourth
one has no answer, so that the first N of them are a sample, too. FOLDER keeps all replies, and another run asks only
what is missing. The requests of all systems reach the server through a proxy, one at a time, which counts them.

- answered: answerable questions whose reply is no refusal. A reply is a refusal if it says anywhere that the text does
  not say it or that it cannot be answered (`REFUSAL`), for all systems alike.
- right: answered ones whose reply contains an accepted answer, compared as `bench.answers.measure_pages` does.
- false: unanswerable questions with another reply than a refusal.
- citations that hold: texts cited for answered answerable questions that contain an accepted answer. LlamaIndex cites
  what it retrieved, PaperQA2 the chunks that its reply names, and we the rows that the answer used.
- held: answered answerable questions with at least one such citation.
- s: median seconds of a question, at its side. The first one includes the start and the reading of the pages.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import httpx2

from bench.answers.fit_written import sample_questions
from bench.answers.short_answer_questions import PAGES
from bench.measuring import make_parser
from bench.peers.counting_proxy import CALLS, READ, WRITTEN, CountingProxy
from bench.result_files import print_table, write_results
from evidence_assets.reasoning.citations import contains_quote

SET = "sixth"
"""Its questions were only counted while the rules were improved."""
DOCUMENTS, ANSWERABLE, UNANSWERABLE = 5, 15, 5
PEERS_PYTHON = Path("build/document_peers/bin/python")
REFUSAL = re.compile(
    r"insufficient|nothing in the documents|no (?:sure )?answer|no option|does not decide|unable to"
    r"|(?:don't|do not) know"
    r"|(?:can't|cannot|can not|could not|couldn't)(?: be)? (?:answer|determine|find|found|provide)"
    r"|(?:not|n't) (?:\w+ )?(?:mention|specif|state|provide|contain|indicate|give any|given|say|list|disclos|available)"
    r"|no (?:\w+ )?(?:information|mention|details?|data|indication)\b"
)
HEADS = (
    *("system", "questions", "answered", "right", "false", "citations that hold", "held", "characters of a citation"),
    *("s", "calls", "tokens read", "tokens written"),
)


class PageQuestion(NamedTuple):
    """A question to the pages; without ``golds`` they do not answer it."""

    text: str
    golds: tuple[str, ...]


@dataclass(frozen=True)
class Reply:
    """What a system replied to a question, the texts that it cites, and what that took."""

    question: str
    text: str
    sources: list[str]
    seconds: float
    calls: int
    tokens_read: int
    tokens_written: int


# Questions ----------------------------------------------------------------------------------------------------------


def select_questions() -> tuple[list[str], list[PageQuestion]]:
    """The same random pages and questions in each run; each fourth question has no answer."""
    records = [json.loads(line) for line in (PAGES / f"{SET}.jsonl").read_text(encoding="utf-8").splitlines()]
    source = random.Random(SET)
    pages = sorted(source.sample(sorted({record["document"] for record in records}), DOCUMENTS))
    fitted = {question.text for question in sample_questions()}
    open_questions = [
        PageQuestion(record["question"], tuple(record["answers"]))
        for record in records
        if record["document"] in pages and record["answers"] not in (["yes"], ["no"])
    ]
    unseen = [question for question in open_questions if question.text not in fitted]
    answerable = source.sample([question for question in unseen if question.golds], ANSWERABLE)
    unanswerable = source.sample([question for question in unseen if not question.golds], UNANSWERABLE)
    step = ANSWERABLE // UNANSWERABLE
    groups = ([*answerable[step * i : step * (i + 1)], question] for i, question in enumerate(unanswerable))
    return pages, [question for group in groups for question in group]


# Scores -------------------------------------------------------------------------------------------------------------


def is_refusal(reply: str) -> bool:
    """Whether a reply says that the text does not answer the question."""
    return not reply.strip() or REFUSAL.search(reply.casefold().replace("’", "'")) is not None


def has_answer(text: str, golds: Sequence[str]) -> bool:
    """Whether a text contains an accepted answer."""
    return any(contains_quote(gold, text) for gold in golds)


def score(name: str, questions: Sequence[PageQuestion], replies: Sequence[Reply]) -> tuple[str, ...]:
    """The row of a system; numbers of the last columns are those of a question."""
    pairs = list(zip(questions, replies, strict=True))
    answered = [(question, reply) for question, reply in pairs if question.golds and not is_refusal(reply.text)]
    false = sum(not question.golds and not is_refusal(reply.text) for question, reply in pairs)
    right = sum(has_answer(reply.text, question.golds) for question, reply in answered)
    holds = [[has_answer(source, question.golds) for source in reply.sources] for question, reply in answered]
    lengths = [len(source) for _, reply in answered for source in reply.sources]
    answerable = sum(bool(question.golds) for question in questions)
    counts = (
        f"{answerable} + {len(questions) - answerable}",
        *map(str, (len(answered), right, false)),
        f"{sum(map(sum, holds))} of {len(lengths)}",
        f"{sum(map(any, holds))} of {len(answered)}",
        f"{statistics.median(lengths):.0f}" if lengths else "",
        f"{statistics.median(reply.seconds for reply in replies):.1f}",
    )
    usage = [(reply.calls, reply.tokens_read, reply.tokens_written) for reply in replies]
    means = (statistics.mean(column) for column in zip(*usage, strict=True))
    return name, *counts, *(f"{mean:,.1f}" if number == 0 else f"{mean:,.0f}" for number, mean in enumerate(means))


# Systems ------------------------------------------------------------------------------------------------------------


def read_view(line: str) -> tuple[str, list[str]]:
    """The answer and the used evidence in a line of ``evidence ask --json``."""
    view = json.loads(line)
    return view["answer_text"], [item["text"] for item in view["evidence"] if item["used"]]


def read_peer(line: str) -> tuple[str, list[str]]:
    """The reply and the cited texts in a line of `bench.peers.document_peers`."""
    record = json.loads(line)
    return record["reply"], record["sources"]


@dataclass(frozen=True)
class System:
    """A program that replies to each line of its standard input with one line."""

    label: str
    command: str
    """``{address}`` and ``{model}`` are those of the server, ``{pages}`` and ``{lake}`` are folders."""
    read: Callable[[str], tuple[str, list[str]]]


ASK = "{python} -m evidence_assets.cli ask --json --folder {pages} --lake {lake} --model {address}"
PEER = "{peers_python} -m bench.peers.document_peers %s {address} {model} {pages}"
SYSTEMS = {
    "ask": System("`evidence ask`", ASK, read_view),
    "llama_index": System("LlamaIndex", PEER % "llama_index", read_peer),
    "paper_qa": System("PaperQA2", PEER % "paper_qa", read_peer),
}


def find_model(address: str) -> str:
    """The name of the server's first model."""
    return str(httpx2.get(f"{address}/models", timeout=None).json()["data"][0]["id"])


def ask_each(system: System, questions: Sequence[str], proxy: CountingProxy, pages: Path) -> Iterator[Reply]:
    """Put the questions to a new process of a system one after the other, and yield its replies."""
    with tempfile.TemporaryDirectory() as lake:
        names = {"python": sys.executable, "peers_python": PEERS_PYTHON, "pages": pages, "lake": lake}
        names |= {"address": proxy.address, "model": find_model(proxy.address)}
        command = [argument.format(**names) for argument in system.command.split()]
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for question in questions:
                proxy.usage.clear()
                start = time.perf_counter()
                process.stdin.write(question + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
                if not line:
                    raise SystemExit(f"{system.label} ended at {question!r}")
                text, sources = system.read(line)
                seconds, usage = time.perf_counter() - start, proxy.usage
                yield Reply(question, text, sources, seconds, usage[CALLS], usage[READ], usage[WRITTEN])
            process.stdin.close()


def read_replies(file: Path) -> dict[str, Reply]:
    """The replies of a file by question; empty if it is missing."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    replies = (Reply(**json.loads(line)) for line in lines)
    return {reply.question: reply for reply in replies}


def complete_replies(system: System, file: Path, questions: Sequence[str], server: str, pages: Path) -> None:
    """Ask the questions without a reply in the file, and append each reply to it."""
    stored = read_replies(file)
    missing = [question for question in questions if question not in stored]
    if not missing:
        return
    with CountingProxy(server) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        for reply in ask_each(system, missing, proxy, pages):
            with file.open("a", encoding="utf-8") as output:
                output.write(json.dumps(asdict(reply), ensure_ascii=False) + "\n")
            print(f"{system.label}, {reply.seconds:.1f} s: {reply.question} {reply.text!r}", flush=True)
        proxy.shutdown()


def count_rows(folder: Path, questions: Sequence[PageQuestion]) -> list[tuple[str, ...]]:
    """The rows of all systems by the questions that they have replies to; all on those of the fewest, too."""
    replies_of = {system.label: read_replies(folder / f"{name}.jsonl") for name, system in SYSTEMS.items()}
    counts = {}
    for label, replies in replies_of.items():
        counts[label] = next((i for i, q in enumerate(questions) if q.text not in replies), len(questions))
    rows = []
    for count in sorted({*counts.values()} - {0}, reverse=True):
        for label, replies in replies_of.items():
            if counts[label] >= count:
                rows.append(score(label, questions[:count], [replies[q.text] for q in questions[:count]]))
    return rows


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("server", help="address of a model server, such as http://127.0.0.1:8081/v1")
    parser.add_argument("--folder", type=Path, required=True, help="a folder that keeps the replies")
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--questions", type=int, help="ask only the first ones")
    parser.add_argument("--json", type=Path, help="a file to write the table to")
    options = parser.parse_args()
    names, questions = select_questions()
    pages = options.folder / "pages"
    pages.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(PAGES / SET / name, pages)
    texts = [question.text for question in questions[: options.questions]]
    for name in options.systems:
        if name != "ask" and not PEERS_PYTHON.exists():
            print(f"{SYSTEMS[name].label}: not run: run `make document-peers`")
            continue
        complete_replies(SYSTEMS[name], options.folder / f"{name}.jsonl", texts, options.server, pages)
    rows = count_rows(options.folder, questions)
    print_table(HEADS, rows)
    if options.json:
        write_results(options.json, HEADS, rows, "python -m bench.peers.documents MODEL --folder FOLDER")


if __name__ == "__main__":
    main()
