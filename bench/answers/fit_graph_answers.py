"""Fit the probabilities of short answers from graphs, and print what they reach on graphs that were not used.

    python -m bench.answers.fit_graph_answers          # leave out one graph each, then half 2
    python -m bench.answers.fit_graph_answers --write  # then fit on all and write the packaged weights

``bench/answers/graphs`` has six small graphs as people keep them (families, machines, paintings, dishes, services,
rivers), each with 20 questions that it answers and 10 that only look like it. They were written for this project
without looking at the rules. ``village``, ``museum`` and ``services``, on whose errors the features were chosen, are
half 1. An answer is right if all names that support it are gold answers.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.answers.fitted_values import FloatArray, fit_choice, write_values
from bench.measuring import make_parser
from evidence_assets import profiles, systems
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.benchmarks.records import ASKED_BENCHMARK
from evidence_assets.cli.ask import select_variant
from evidence_assets.experiment.ad_hoc_questions import QuestionSource, build_question, store_question
from evidence_assets.experiment.answers.short_answers import build_short_task
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.graph_building import GraphBuilder, build_graph
from evidence_assets.experiment.stage import StageContext, discard_message
from evidence_assets.experiment.stages import build_stages
from evidence_assets.extractive import readings
from evidence_assets.extractive.readings import Reading, ReadingWeights, find_readings
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.store import Lake
from evidence_assets.models.registry import get_encoder

GRAPHS = Path(__file__).with_name("graphs")
HALF_1 = ("museum", "services", "village")
L2 = 2.0
MIN_ANSWER = 0.75
MIN_CLOSEST = 0.4
MIN_WITH_TEXT = 0.2
SHOWN_THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8)


class Item(NamedTuple):
    """A question on a graph, with its readings; without ``golds`` the graph does not answer it."""

    graph: str
    text: str
    golds: tuple[str, ...]
    readings: list[Reading]

    @property
    def is_right(self) -> FloatArray:
        """1 for each reading whose ends are gold answers."""
        return np.array([set(reading.ends) <= set(self.golds) for reading in self.readings], dtype=np.float64)


def read_items(folder: Path) -> list[Item]:
    """The readings of all questions; facts are those of ``evidence ask``."""
    lake = Lake.create(folder, question_shards=1, corpus_shards=1)
    encoder = get_encoder(profiles.load().encoder)
    items = []
    for file in sorted(GRAPHS.glob("*.tsv")):
        path = f"graphs/{file.stem}/graph.tsv"
        lake.raw_path(path).parent.mkdir(parents=True)
        shutil.copyfile(file, lake.raw_path(path))
        source = GraphSource(format="tab_separated", paths=(path,), licence="written for this project")
        build_graph(lake, GraphBuilder(file.stem, [source]), discard_message)
        for line in file.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            task = build_short_task(Question("", "", "kgqa", record["text"]), _select_evidence(lake, file.stem, record))
            found = find_readings(record["text"], task.facts, encoder)
            items.append(Item(file.stem, record["text"], tuple(record["golds"]), found))
    return items


def _select_evidence(lake: Lake, graph: str, record: dict[str, str]) -> list[dict[str, object]]:
    """Evidence rows of a question by rank."""
    source = QuestionSource(graph=graph)
    question = build_question(record["text"], (), source)
    store_question(lake, question)
    stages = build_stages(systems.open_method(select_variant("graph", source, "", "")))
    stage = next(stage for stage in stages if stage.table == "evidence")
    partition = f"{ASKED_BENCHMARK}|{question.question_id}"
    benchmark = source.benchmark(question.task)
    context = StageContext(lake, stage.table, stage.key, partition, ad_hoc_benchmark=benchmark)
    rows = prepare_rows("evidence", stage.run(context).rows).to_pylist()
    return sorted(rows, key=lambda row: row["rank"])


def fit_weights(items: Sequence[Item]) -> ReadingWeights:
    """The weights of the largest penalised likelihood; features are scaled to equal deviations for the fit."""
    items = [item for item in items if item.readings]
    names = list(items[0].readings[0].features)
    values = np.array([[r.features[name] for name in names] for item in items for r in item.readings])
    scales = dict(zip(names, values.std(axis=0) + 1e-9, strict=True))
    scaled = [[{n: x / scales[n] for n, x in r.features.items()} for r in item.readings] for item in items]
    right = [item.is_right for item in items]
    no_answer = np.array([not row.any() for row in right], dtype=np.float64)
    bias, weights = fit_choice(scaled, right, no_answer, L2)
    unscaled = {name: round(float(weights.get(name, 0.0) / scales[name]), 3) for name in names}
    return ReadingWeights(bias, unscaled, MIN_ANSWER, MIN_CLOSEST, MIN_WITH_TEXT)


def print_outcomes(title: str, outcomes: Sequence[tuple[Item, float, bool]]) -> dict[str, str]:
    """Print right, wrong and false answers by threshold; return those at the served threshold."""
    answerable = sum(bool(item.golds) for item, _, _ in outcomes)
    print(f"{title}: {answerable} questions with an answer, {len(outcomes) - answerable} without")
    served = {}
    for threshold in SHOWN_THRESHOLDS:
        answered = [(item, is_right) for item, probability, is_right in outcomes if probability >= threshold]
        right = sum(is_right for _, is_right in answered)
        false = sum(not item.golds for item, _ in answered)
        wrong = len(answered) - right - false
        print(f"  from {threshold:.2f}: {right} right, {wrong} wrong, {false} false answers")
        if threshold == MIN_ANSWER:
            served = {
                "right": f"{right} of {answerable}",
                "wrong": str(wrong),
                "false": f"{false} of {len(outcomes) - answerable}",
            }
    return served


def answer_items(items: Sequence[Item], weights: ReadingWeights) -> list[tuple[Item, float, bool]]:
    """The most probable reading of each question: its probability, and whether it is right."""
    outcomes = []
    for item in items:
        probability, best = next(iter(weights.rank(item.readings)), (0.0, None))
        outcomes.append((item, probability, best is not None and set(best.ends) <= set(item.golds)))
    return outcomes


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        items = read_items(Path(folder))
    weights = fit_weights([item for item in items if item.graph in HALF_1])
    half_2 = [item for item in items if item.graph not in HALF_1]
    score = {"half 2": print_outcomes("fitted on half 1, half 2", answer_items(half_2, weights))}
    outcomes = []
    for graph in sorted({item.graph for item in items}):
        weights = fit_weights([item for item in items if item.graph != graph])
        outcomes += answer_items([item for item in items if item.graph == graph], weights)
    score["each graph left out"] = print_outcomes("each graph left out of the fit", outcomes)
    if options.write:
        weights = fit_weights(items)
        thresholds = {name: getattr(weights, name) for name in ("min_answer", "min_closest", "min_with_text")}
        write_values(
            readings.WEIGHTS_FILE,
            {"bias": weights.bias, **thresholds, "weights": dict(weights.weights)},
            command="python -m bench.answers.fit_graph_answers --write",
            data="bench/answers/graphs, six graphs written for this project: 120 questions with an answer, 60 without",
            halves="weights fitted on all; half 2 is scored by weights of half 1, each graph by those of the others",
            encoder=get_encoder(profiles.load().encoder).model_id,
            l2=L2,
            score=score,
        )


if __name__ == "__main__":
    main()
