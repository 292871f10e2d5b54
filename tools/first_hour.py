"""The first hour of a new user: installs the wheel, creates and edits a project, adds own data, asks, and measures.

It asks documents, tables and a graph, in the terminal and in the explorer, then harvests a relation from six seed
pairs, and stops and restarts the daemon in the middle of a change. Prints each command with the end of its output and
its time.

    python -m tools.first_hour [--folder FOLDER] [--shared] [--lines 8] [--model http://127.0.0.1:8081/v1]

``--shared`` installs only our wheel and finds the other packages in this environment, offline and minutes faster.
With ``--model``, a language model is asked, too.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import httpx2
import yaml

from evidence_assets.assets.automation import request_stale_assets
from evidence_assets.assets.change_sensors import request_input_runs
from evidence_assets.assets.definitions import load_definitions
from evidence_assets.assets.run_liveness import FOLLOW_JOB, PARENT_TAG, UNFINISHED_STATUSES
from evidence_assets.lake.store import Lake
from tools.ports import free_port

REPOSITORY = Path(__file__).resolve().parent.parent
PR_SET_PDEATHSIG = 1
PACKAGE_FILES = ("evidence_assets", "pyproject.toml", "README.md", "LICENSE")
BUILD = "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"
NEW_TEXT = "\nThe head of the library is Marta Quint. Her cat Tolstoy sleeps in the map room.\n"
NOTES = "The ferry Seeadler carries 120 passengers. It stayed in port in March because the engine was repaired.\n"
NOTE_QUESTIONS = ("How many passengers does the ferry carry?", "Why did the ferry stay in port?", "Who owns the ferry?")
VISITORS = "city,year,visitors\nRome,2022,700\nOslo,2022,200\nRome,2023,900\nOslo,2023,350\n"
FARES = """<h1>Fares</h1><table><tr><th>Ticket</th><th>Price</th></tr>
<tr><td>adult</td><td>9</td></tr><tr><td>child</td><td>4</td></tr></table>
"""
SHIPS = "Seeadler\tbuilt by\tOrlo Yard\nMerlin\tbuilt by\tPike and Sons\nOrlo Yard\tlocated in\tVarnsund\n"
QUESTIONS_OF_EVERYTHING = (
    '"How much does a child ticket cost?" --folder notes',
    '"What is the number of visitors in Oslo in 2023?" --folder notes',
    '"Who built the Merlin?" --graph ships.tsv',
    '"Who painted the Merlin?" --graph ships.tsv',
)
CLAIMS = (("Rome had more visitors than Oslo in 2022.", "supports"), ("The ticket costs 3 euros.", "NOT ENOUGH INFO"))
NEW_QUESTION = {
    "source_id": "5",
    "text": "Where does the cat Tolstoy sleep?",
    "options": ["the map room", "the cellar"],
    "gold": "A",
}
SCORES = "SELECT scope_id, selector, value, n FROM scores WHERE metric = 'accuracy'"
SUCCEEDED = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS])
SIXTH_PAIR = ["insulin", "diabetes"]
MOVED_NOTE = "\nTolstoy moved to the cellar.\n"
MODULE = ("-m", "evidence_assets.definitions")
PREDICTION = "SELECT prediction_id FROM predictions ORDER BY confidence DESC LIMIT 1"


class Console:
    """Runs commands without the caller's settings, and prints what a user sees."""

    def __init__(self, environment: Path, lines: int) -> None:
        self._lines, self._start = lines, time.monotonic()
        self.python = environment / "bin" / "python"
        self.variables = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        self.variables["PATH"] = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def run(self, command: str, folder: Path) -> str:
        """Run a command; returns its standard output, or exits with its errors."""
        before, cpu = time.monotonic(), _children_cpu()
        variables = {**self.variables, "PWD": str(folder)}  # a shell sets it, and the project's .env reads it
        result = subprocess.run(
            shlex.split(command), cwd=folder, env=variables, capture_output=True, text=True, check=False
        )
        seconds, cpu = time.monotonic() - before, _children_cpu() - cpu
        print(f"\n[{time.monotonic() - self._start:5.0f} s] $ {command}", flush=True)
        lines = (result.stdout + result.stderr).rstrip().splitlines()
        if len(lines) > self._lines:
            print(f"… {len(lines) - self._lines} lines")
        print("\n".join(lines[-self._lines :]))
        print(f"({seconds:.1f} s, {cpu:.1f} s of CPU time)", flush=True)
        if result.returncode:
            sys.exit(f"{command}: exit status {result.returncode}\n{result.stderr[-3000:]}")
        return result.stdout


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def build_wheel(folder: Path) -> Path:
    """Build sdist and wheel from a copy of the sources; returns the wheel in ``folder/dist``."""
    for name in PACKAGE_FILES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, folder / name)
    subprocess.run([sys.executable, "-c", BUILD], cwd=folder, check=True, capture_output=True)
    return next((folder / "dist").glob("*.whl"))


def install(wheel: Path, environment: Path, *, shared: bool) -> None:
    """Install the wheel into a new environment, with its dependencies or with those of this environment."""
    venv.create(environment, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "-qq"]
    options = ["--no-deps", "--no-index"] if shared else []
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*pip, *options, f"{wheel}[documents]"], check=True, env=clean)
    if shared:  # a path in a .pth file does not read further .pth files, so our editable installation stays out
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
        (packages / "shared.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")


def edit_project(project: Path) -> None:
    """Add two sentences to the corpus and a question to the benchmark, as an editor would."""
    raw = project / "data_lake" / "raw"
    with (raw / "corpora" / "library" / "history.md").open("a", encoding="utf-8") as file:
        file.write(NEW_TEXT)
    with (raw / "benchmarks" / "quiz" / "questions.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(NEW_QUESTION) + "\n")


def add_own_data(project: Path) -> None:
    """Write notes, a table and labelled claims, as a user has them."""
    (project / "notes").mkdir()
    (project / "notes" / "ferry.md").write_text(NOTES, encoding="utf-8")
    (project / "visitors.csv").write_text(VISITORS, encoding="utf-8")
    with (project / "claims.jsonl").open("w", encoding="utf-8") as file:
        for number, (text, gold) in enumerate(CLAIMS):
            claim = {"source_id": str(number), "task": "verification", "text": text, "gold": gold}
            file.write(json.dumps(claim | {"table_id": "visitors.csv"}) + "\n")


def ask_everything(console: Console, project: Path, model: str) -> None:
    """Put tables and a page beside the notes and a graph beside the folder; ask each, then the explorer."""
    (project / "notes" / "fares.html").write_text(FARES, encoding="utf-8")
    shutil.copy(project / "visitors.csv", project / "notes")
    (project / "ships.tsv").write_text(SHIPS, encoding="utf-8")
    for question in QUESTIONS_OF_EVERYTHING:
        console.run(f"evidence ask {question}", project)
    console.run("evidence add graph ships ships.tsv", project)
    ask_explorer(console, project)
    if model:
        for question in NOTE_QUESTIONS:
            console.run(f'evidence ask "{question}" --folder notes --model {model}', project)


def ask_explorer(console: Console, project: Path) -> None:
    """Start the explorer, and ask its box as a browser does."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    print(f"\n$ evidence explore --port {port}", flush=True)
    process = subprocess.Popen(
        [console.python, "-m", "evidence_assets.cli", "explore", "--port", str(port)],
        cwd=project,
        env={**console.variables, "PWD": str(project)},
        stdout=subprocess.DEVNULL,
    )
    try:
        page = _wait_for_page(f"{address}/ask")
        [token] = re.findall(r'name="token" value="([^"]+)"', page)
        form = {"text": NOTE_QUESTIONS[0], "source": "corpus:notes", "options": "", "token": token}
        reply = httpx2.post(f"{address}/ask", data=form, headers={"origin": address}, timeout=120)
        [result] = re.findall(r'<p class="result">([^<]*)</p>', reply.text)
        print(f"The explorer answers {NOTE_QUESTIONS[0]!r} with {result!r}.", flush=True)
    finally:
        process.terminate()
        process.wait(60)


def _wait_for_page(address: str) -> str:
    """The text of a page, as soon as its server answers."""
    deadline = time.monotonic() + 300
    while True:
        try:
            return httpx2.get(address, timeout=60).raise_for_status().text
        except httpx2.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def harvest_six_pairs(console: Console, project: Path) -> None:
    """Add a pair to a relation of the sample, and harvest it for a benchmark whose graph has it."""
    seed = project / "data_lake" / "raw" / "seeds" / "may_treat.yaml"
    seed.parent.mkdir()
    relation = yaml.safe_load((REPOSITORY / "evidence_assets/sample/full/seeds/may_treat.yaml").read_text())
    relation["pairs"].append(SIXTH_PAIR)
    seed.write_text(yaml.safe_dump(relation, sort_keys=False))
    report = console.run("evidence run sample_graph --variants ugat", project)
    assert "knowledge/seeds [may_treat] 6 rows" in report and "warnings" not in report, report
    print("All six pairs of may_treat are used.")


def _end_with_parent() -> None:
    if sys.platform == "linux":  # elsewhere it outlives a parent that is killed
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def daemon(
    environment: Mapping[str, str], log: Path, *workspace: str | Path, python: str | Path = sys.executable
) -> Iterator[subprocess.Popen[bytes]]:
    """The daemon, over this repository's workspace or another; it and all that it started end with the block."""
    with log.open("w") as log_file:
        process = subprocess.Popen(
            [
                python,
                Path(sys.executable).with_name("dagster-daemon"),
                "run",
                *(workspace or ("-w", REPOSITORY / "workspace.yaml")),
            ],
            env=environment,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            cwd=environment.get("PWD", REPOSITORY),
            preexec_fn=_end_with_parent,
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def is_settled(repository: dg.RepositoryDefinition, instance: dg.DagsterInstance, lake: Lake) -> bool:
    """Whether nothing runs and a tick would request nothing."""
    if instance.get_run_ids(dg.RunsFilter(statuses=UNFINISHED_STATUSES), limit=1):
        return False
    return (
        not request_input_runs(repository, instance, lake)[0]
        and not request_stale_assets(repository, instance, None).run_requests
    )


def restart_daemon(console: Console, project: Path) -> None:
    """Stop the daemon in the middle of a change: the first tick after its restart makes every asset current."""
    home, log = project / ".dagster", project / "daemon.log"
    os.environ |= {"DAGSTER_HOME": str(home), "EVIDENCE_LAKE": str(project / "data_lake")}
    os.chdir(project)
    variables = {**console.variables, "DAGSTER_HOME": str(home), "PWD": str(project)}
    repository, lake = load_definitions().get_repository_def(), Lake(project / "data_lake")
    with dg.DagsterInstance.get() as instance:

        def wait_until(is_done: Callable[[], object]) -> float:
            start = time.monotonic()
            while not is_done():
                assert time.monotonic() < start + 300, log.read_text()[-3000:]
                time.sleep(0.1)
            return time.monotonic() - start

        def is_current() -> bool:
            return "follow_data" in log.read_text() and is_settled(repository, instance, lake)

        def count_propagated() -> int:
            return sum(PARENT_TAG in run.tags for run in instance.get_runs(SUCCEEDED))

        with daemon(variables, log, *MODULE, python=console.python):
            print(f"\nThe daemon is started; all assets are current after {wait_until(is_current):.1f} s.", flush=True)
            n_propagated = count_propagated()
            with (project / "data_lake/raw/corpora/library/history.md").open("a", encoding="utf-8") as file:
                file.write(MOVED_NOTE)
            seconds = wait_until(lambda: count_propagated() > n_propagated)
            print(f"The first assets are remade {seconds:.1f} s later; the daemon receives SIGTERM.", flush=True)
        assert not is_settled(repository, instance, lake), "the signal came after the change had been propagated"
        earlier_runs = instance.get_runs(dg.RunsFilter(job_name=FOLLOW_JOB))
        is_running = not all(run.is_finished for run in earlier_runs)  # such a run may finish the change by itself
        before = {run.run_id for run in earlier_runs}
        with daemon(variables, log, *MODULE, python=console.python):
            seconds = wait_until(is_current)
        runs = [run for run in instance.get_runs(dg.RunsFilter(job_name=FOLLOW_JOB)) if run.run_id not in before]
        assert len(runs) == 1 or (not runs and is_running), f"one tick requests one run: {runs}"
        assert all(run.is_success for run in runs), runs
        print(f"The restarted daemon makes all assets current in {seconds:.1f} s; runs of its first tick: {len(runs)}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="An empty folder to keep; default: a temporary one.")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--model", default="", help="Address of a model server that is asked, too.")
    parser.add_argument("--lines", type=int, default=8, help="Lines of output to print for each command.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        start = time.monotonic()
        (folder / "source").mkdir(parents=True)
        wheel = build_wheel(folder / "source")
        print(f"{wheel.name} built in {time.monotonic() - start:.1f} s", flush=True)
        start = time.monotonic()
        install(wheel, folder / "environment", shared=options.shared)
        print(f"installed in {time.monotonic() - start:.1f} s" + (" (other packages shared)" if options.shared else ""))
        console, project = Console(folder / "environment", options.lines), folder / "my_library"
        console.run("evidence --help", folder)
        console.run("evidence init my_library", folder)
        console.run("evidence run quiz --variants bm25,uscrake", project)
        edit_project(project)
        print("\nTwo sentences and a question are added to the project.")
        console.run("evidence run quiz --variants bm25,uscrake", project)
        choices = " ".join(f'"{option}"' for option in NEW_QUESTION["options"])
        console.run(f'evidence ask "{NEW_QUESTION["text"]}" {choices} --corpus library', project)
        print("\nA folder of notes, a CSV table and claims about it are added.")
        add_own_data(project)
        for question in NOTE_QUESTIONS:
            console.run(f'evidence ask "{question}" --folder notes', project)
        console.run('evidence ask "What is the total of visitors in Rome?" --table visitors.csv', project)
        print("\nA page, two tables and a graph are added.")
        ask_everything(console, project, options.model)
        console.run("evidence add benchmark claims --questions claims.jsonl --tables visitors.csv", project)
        console.run("evidence run claims --variants ucret --plan", project)
        console.run("evidence measure quiz bm25 uscrake --baselines", project)
        console.run(f'evidence query "{SCORES}"', project)
        predictions = json.loads(console.run(f'evidence query "{PREDICTION}" --format json', project))
        console.run(f"evidence trace {predictions[0]['prediction_id']}", project)
        console.run(f"evidence card {predictions[0]['prediction_id']}", project)
        console.run("evidence impact history.md", project)
        console.run("python -m dagster definitions validate", project)
        print("\nA sixth pair is added to the seed file of a relation.")
        harvest_six_pairs(console, project)
        restart_daemon(console, project)


if __name__ == "__main__":
    main()
