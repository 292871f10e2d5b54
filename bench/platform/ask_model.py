"""Seconds that a person waits for `evidence ask` with a language model, each question in a process of its own.

    python -m bench.platform.ask_model http://127.0.0.1:8081/v1 --folder FOLDER [--questions 8]

- four options: development questions of OpenBookQA with the facts of its book;
- short answer: questions about pages that `bench.peers.documents` draws;
- four options, each explained: half as many further questions of OpenBookQA with `--why`.

The documents are read and encoded before the first question. FOLDER gets them and a lake, which keeps the replies of
the model, so it must be new. The requests reach the server one after the other through a proxy, which
counts calls and tokens.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.answers.short_answer_questions import PAGES
from bench.dev_data import dev_data
from bench.measuring import make_parser
from bench.peers.counting_proxy import CALLS, READ, WRITTEN, CountingProxy
from bench.peers.documents import SET, select_questions
from bench.result_files import print_table, write_results

HEADS = ("question", "n", "median s", "slowest s", "target s", "calls", "tokens read", "tokens written")
WARM_UP = "What is this about?"


@dataclass(frozen=True)
class Task:
    """Questions that are asked alike: the arguments of each, the folder of their documents, and the target in s."""

    name: str
    target: float
    folder: Path
    questions: Sequence[Sequence[str]]


def build_tasks(folder: Path, n_questions: int) -> list[Task]:
    """The tasks, whose documents are copied below a folder."""
    book, pages = folder / "book", folder / "pages"
    for documents in (book, pages):
        documents.mkdir(parents=True, exist_ok=True)
    main = dev_data() / "obqa" / "Data" / "Main"
    shutil.copy(main / "openbook.txt", book)
    n_explained = n_questions // 2
    lines = (main / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[: n_questions + n_explained]]
    optional = [[row["question"]["stem"], *(each["text"] for each in row["question"]["choices"])] for row in rows]
    names, short = select_questions()
    for name in names:
        shutil.copy(PAGES / SET / name, pages)
    return [
        Task("four options", 5, book, optional[:n_questions]),
        Task("short answer", 6, pages, [[question.text] for question in short[:n_questions]]),
        Task("four options, each explained", 60, book, [["--why", *each] for each in optional[n_questions:]]),
    ]


def ask(lake: Path, folder: Path, *arguments: str) -> float:
    """Seconds of a process of `evidence ask`."""
    command = [sys.executable, "-m", "evidence_assets.cli", "ask", "--lake", str(lake), "--folder", str(folder)]
    start = time.perf_counter()
    subprocess.run([*command, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure(task: Task, lake: Path, proxy: CountingProxy) -> tuple[str, ...]:
    """The row of a task."""
    seconds = []
    usage = Counter[str]()
    for question in task.questions:
        proxy.usage.clear()
        seconds.append(ask(lake, task.folder, "--model", proxy.address, *question))
        usage += proxy.usage
        print(f"{task.name}, {seconds[-1]:.1f} s: {question[-1]}", flush=True)
    each = [f"{usage[name] / len(seconds):,.1f}" for name in (CALLS, READ, WRITTEN)]
    times = (f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}", f"{task.target:g}")
    return (task.name, str(len(seconds)), *times, *each)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("server", help="address of a model server, such as http://127.0.0.1:8081/v1")
    parser.add_argument("--folder", type=Path, required=True, help="a folder for the documents and the lake")
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--json", type=Path, help="a file to write the table to")
    options = parser.parse_args()
    lake = options.folder / "lake"
    if lake.exists():
        parser.error(f"{options.folder} has replies of an earlier run: name a new folder")
    tasks = build_tasks(options.folder, options.questions)
    for documents in dict.fromkeys(task.folder for task in tasks):
        ask(lake, documents, WARM_UP)
    with CountingProxy(options.server) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        rows = [measure(task, lake, proxy) for task in tasks]
        proxy.shutdown()
    print_table(HEADS, rows)
    if options.json:
        write_results(options.json, HEADS, rows, "python -m bench.platform.ask_model MODEL --folder FOLDER")


if __name__ == "__main__":
    main()
