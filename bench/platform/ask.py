"""How long `evidence ask` takes: a cold start by its parts, and questions after the first in one process; then the CPU
time of commands that start without torch.

Every start is a process of its own. Without a lake, the sample's articles are made into one first.

    python -m bench.platform.ask --lake data_lake
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import evidence_assets
from bench.measuring import make_parser
from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.experiment.corpus_building import build_corpus
from evidence_assets.lake.store import Lake

COLD, WARM = 4.0, 2.0
ANY_PREDICTION = "SELECT prediction_id FROM predictions LIMIT 1"
LIGHT_COMMANDS = {("--help",): 0.5, ("query", ANY_PREDICTION): 0.8, ("trace",): 0.8}
"""CPU seconds that a command may take."""
QUESTIONS = [
    "Which drug may treat gout?",
    "What is a symptom of asthma?",
    "Which medicine is given for epilepsy?",
    "What may cause a cough?",
    "What is a spider known to do?",
]
CHILD = """
import contextlib, io, json, sys, time
parts, last = {}, time.perf_counter()
def lap(name):
    global last
    now = time.perf_counter()
    parts[name], last = now - last, now
from evidence_assets.cli import ask; lap("command line")
import torch; lap("torch")
import evidence_assets.experiment.ad_hoc_questions, evidence_assets.experiment.stages; lap("stages")
from evidence_assets import profiles, systems
systems.method_classes("uscrake"); lap("system")
from evidence_assets.models.registry import get_encoder
get_encoder(profiles.load().encoder).encode_sentences(["warm"]); lap("encoder")
from pathlib import Path
lake = ask._open_lake(Path(sys.argv[1]), create=False)
source = evidence_assets.experiment.ad_hoc_questions.resolve_source(lake, sys.argv[2], "", "")
warm = []
for number, text in enumerate(json.loads(sys.argv[3])):
    for options in ([], ["Allopurinol", "Wheezing", "Valproate"]):
        with contextlib.redirect_stdout(io.StringIO()):
            view = ask._answer(lake, text, options, source, None, "")
            ask._print_answer(view, 0.0, with_options=bool(options), as_json=False, show_all=False)
        lap("question")
        if not number and not options:
            parts["first question"] = parts["question"]
        else:
            warm.append(parts["question"])
del parts["question"]
assert "dagster" not in sys.modules
print(json.dumps([parts, warm]))
"""


def cpu_seconds(command: list[str]) -> tuple[float, str]:
    """CPU seconds and output of a command in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = [sys.executable, "-m", "evidence_assets.cli", *command]
    process = subprocess.run(line, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, process.stdout


def print_light_commands(lake: Path, starts: int) -> None:
    [prediction] = json.loads(cpu_seconds(["query", ANY_PREDICTION, "--format", "json", "--lake", str(lake)])[1])
    for command, limit in LIGHT_COMMANDS.items():
        options = [] if command == ("--help",) else ["--lake", str(lake)]
        options += [prediction["prediction_id"]] if command == ("trace",) else []
        seconds = statistics.median(cpu_seconds([*command, *options])[0] for _ in range(starts))
        print(f"evidence {command[0]}: {seconds:.2f} s of CPU time, {seconds / limit:.2f} of the {limit} s allowed")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--lake", type=Path, help="A lake with the sample's corpus; made where none is named.")
    parser.add_argument("--corpus", default="sample")
    parser.add_argument("--starts", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = chosen.lake
        if root is None:
            root = Path(temporary) / "data_lake"
            articles = Path(evidence_assets.__file__).parent / "sample" / "full" / "corpus" / "sample"
            lake = Lake.create(root, question_shards=1, corpus_shards=1)
            build_corpus(lake, chosen.corpus, group_files(articles), lambda text: None)
        runs = []
        for _ in range(chosen.starts):
            process = subprocess.run(
                [sys.executable, "-c", CHILD, str(root), chosen.corpus, json.dumps(QUESTIONS)],
                capture_output=True,
                text=True,
                check=True,
            )
            runs.append(json.loads(process.stdout.splitlines()[-1]))
        print_light_commands(root, chosen.starts)
    for step in runs[0][0]:
        print(f"{step:16} {statistics.median(run[0][step] for run in runs):6.2f} s")
    cold = statistics.median(sum(run[0].values()) for run in runs)
    warm = [seconds for _, seconds_each in runs for seconds in seconds_each]
    print(f"cold: {cold:.2f} s, {cold / COLD:.2f} of the {COLD:.0f} s allowed")
    middle, worst = statistics.median(warm), max(warm)
    print(f"warm: {middle:.2f} s, worst {worst:.2f} s of {len(warm)}; {worst / WARM:.2f} of the {WARM:.0f} s allowed")


if __name__ == "__main__":
    main()
