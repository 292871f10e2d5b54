"""Measure what ``evidence ask --graph`` answers to questions on small graphs.

    python -m bench.answers.measure_graphs [--folder bench/answers/graphs/kept] [--lake FOLDER]
    EVIDENCE_PROFILE=local python -m bench.answers.measure_graphs   # with the profile's language model

Without ``--folder``, the questions are those that no rule was made on (`bench.answers.fit_graph_answers`). An answer is
right if it contains a gold answer, and if all names that support it are gold answers. ``--lake`` keeps the replies of a
model for a later run.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.answers.short_answer_questions import ask_source
from bench.measuring import make_parser
from bench.result_files import print_table
from evidence_assets import profiles
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.experiment.ad_hoc_questions import QuestionSource
from evidence_assets.experiment.graph_building import GraphBuilder, build_graph
from evidence_assets.experiment.scores.metrics import exact_match
from evidence_assets.experiment.stage import discard_message
from evidence_assets.lake.store import Lake

KEPT_GRAPHS = Path(__file__).with_name("graphs") / "kept"
HEADS = ("graph", "right", "wrong", "refused", "answered without an answer")


def grade(golds: Sequence[str], predictions: Sequence[Mapping[str, Any]]) -> str:
    """The verdict on the prediction of a question: one of HEADS."""
    answered = [row for row in predictions if row["status"] == "answered"]
    if not answered:
        return "refused"
    if not golds:
        return "answered without an answer"
    is_right = exact_match(answered[0]["answer"], golds)
    is_supported = all(exact_match(name, golds) for name in answered[0]["supported_answers"])
    return "right" if is_right and is_supported else "wrong"


def add_graph(lake: Lake, file: Path) -> None:
    """Build the graph of a file of triples, by its name."""
    place = f"graphs/{file.stem}/graph.tsv"
    lake.raw_path(place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, lake.raw_path(place))
    source = GraphSource(format="tab_separated", paths=(place,), licence="written for this project")
    build_graph(lake, GraphBuilder(file.stem, [source]), discard_message)


def measure(lake: Lake, file: Path) -> Counter[str]:
    """Verdicts on all questions of a graph, which is a file of triples with questions beside it."""
    add_graph(lake, file)
    records = [json.loads(line) for line in file.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()]
    texts = [record["text"] for record in records]
    predictions = ask_source(lake, QuestionSource(graph=file.stem), file.stem, texts, "predictions")
    return Counter(grade(record["golds"], rows) for record, rows in zip(records, predictions, strict=True))


def list_rows(verdicts: Mapping[str, Counter[str]]) -> Iterator[tuple[str, ...]]:
    """A row for each graph, and one for all."""
    total = sum(verdicts.values(), Counter[str]())
    for name, counts in [*verdicts.items(), ("all", total)]:
        yield (name, *(str(counts[head]) for head in HEADS[1:]))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=Path, default=KEPT_GRAPHS)
    parser.add_argument("--lake", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.lake or Path(temporary) / "lake"
        lake = Lake(folder) if folder.exists() else Lake.create(folder, question_shards=1, corpus_shards=1)
        verdicts = {file.stem: measure(lake, file) for file in sorted(options.folder.glob("*.tsv"))}
    print_table(HEADS, list(list_rows(verdicts)), f"profile {profiles.load().name}")


if __name__ == "__main__":
    main()
