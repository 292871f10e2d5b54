"""What a fact is worth to a small model, by how close it is to the question, and the weight that follows.

    python -m bench.answers.fit_fact_weight MODEL LAKE:BENCHMARK:VARIANT … [--without BENCHMARK …] [--json FILE]

Lakes are those of ``make measure-local``; their replies are reused, and what is missing is asked. A question is
answered with its best fact alone and without any. Printed are both accuracies by closeness, the weights that are best
on the first halves of the questions (each set counts the same), and on the second halves what they, the packaged
weights and the one of before (0.3 at any closeness) reach. Questions are halved by a hash of their text, since sets
share questions; differences are paired, and a question counts once, with the mean over its sets. ``--without`` leaves
out the questions of a benchmark, such as those that the packaged weights were chosen on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import polars as pl

from bench.measuring import make_parser
from bench.result_files import print_table, write_results
from evidence_assets.experiment.answers.chains import build_choice_task
from evidence_assets.experiment.answers.options import measure_closeness
from evidence_assets.experiment.evidence_rows import evidence_by_option, keep_best_facts
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.scores.metrics import accuracy, paired_bootstrap
from evidence_assets.experiment.solvers import load_cached_generator
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.vectors import Array
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.profiles.model_source import generator_of
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.short_choices import FACT_WEIGHT, FACTS, RELATED, SHORT_CHOICE, UNRELATED, fact_weight
from evidence_assets.reasoning.tasks import ChooseAnswer

BANDS = (-1.0, 0.35, 0.5, 0.65, 1.01)
BEFORE = 0.3
HEADS = ("questions", "n", "without the fact", "with the fact alone", "weights before", "packaged weights", "best")


@dataclass(frozen=True)
class Rated:
    """A question with the log probabilities of its options with the best fact alone, and without a fact."""

    set: str
    question: str
    closeness: float
    gold: int
    with_fact: Array
    without: Array

    @property
    def is_first_half(self) -> bool:
        return int(content_id("half", self.question), 16) % 2 == 0

    def is_right(self, weight: float) -> bool:
        """Whether the answer is right if the fact has this weight."""
        log_probs = weight * self.with_fact + (1 - weight) * self.without
        return int(log_probs.argmax()) == self.gold


def read_tasks(lake: Lake, benchmark: str, variant: str, left_out: Sequence[str]) -> Iterator[tuple[ChooseAnswer, str]]:
    """The choices of a variant with a fact, each with its gold label."""
    all_questions = lake.read("questions", "questions/mcqa")
    left_out_texts = all_questions.filter(pl.col("benchmark").is_in(left_out))["text"].to_list()
    of_benchmark = pl.col("benchmark") == benchmark
    questions = all_questions.filter(of_benchmark, ~pl.col("text").is_in(left_out_texts))
    evidence = lake.read("evidence", f"evidence/mcqa/{variant}").filter(pl.col("benchmark") == benchmark)
    items = evidence_by_option(keep_best_facts(evidence, FACTS))
    gold = {row["question_id"]: row["gold"][0] for row in questions.iter_rows(named=True) if row["gold"]}
    tasks = [build_choice_task(question, (), items) for question in build_questions(questions)]
    for task in tasks:
        name = task.question.question_id
        if task.facts and name in gold:
            yield task, gold[name]


def rate(model: LanguageModel, place: str, left_out: Sequence[str]) -> Iterator[Rated]:
    """The questions of ``LAKE:BENCHMARK:VARIANT``."""
    folder, benchmark, variant = place.rsplit(":", 2)
    rows = list(read_tasks(Lake(Path(folder)), benchmark, variant, left_out))
    tasks = measure_closeness(load_encoder(EMBEDDED_ENCODER), [task for task, _ in rows])
    with_fact = SHORT_CHOICE.ask_in_both_orders(model, tasks)
    without = SHORT_CHOICE.ask_in_both_orders(model, [replace(task, evidence={}) for task in tasks])
    name = f"{benchmark}:{variant}"
    for task, (_, gold), informed, uninformed in zip(tasks, rows, with_fact, without, strict=True):
        log_probs = [np.asarray(cost.choice_log_probs) for _, cost in (informed, uninformed) if cost]
        if len(log_probs) == 2 and all(map(len, log_probs)):
            answer = list(task.question.labels).index(gold)
            yield Rated(name, task.question.text, task.closeness, answer, log_probs[0], log_probs[1])


def ramp(low: float, high: float, weight: float) -> Callable[[float], float]:
    """A weight that grows from 0 at one closeness to its whole at another."""
    return lambda closeness: weight * min(1.0, max(0.0, (closeness - low) / (high - low)))


def hits(rated: Sequence[Rated], weigh: Callable[[float], float]) -> list[bool]:
    return [each.is_right(weigh(each.closeness)) for each in rated]


def find_best(rated: Sequence[Rated]) -> tuple[float, float, float]:
    """Both ends and the weight that are best over the sets; of equal ones the middle."""
    sets = [[each for each in rated if each.set == name] for name in dict.fromkeys(each.set for each in rated)]
    grid = [
        (float(low), float(high), weight)
        for low, high, weight in product(np.arange(0, 0.6, 0.05), np.arange(0.3, 0.95, 0.05), (0.3, 0.4, 0.5, 0.6))
        if high > low
    ]
    values = [float(np.mean([np.mean(hits(group, ramp(*each))) for group in sets])) for each in grid]
    best = [each for each, value in zip(grid, values, strict=True) if value > max(values) - 1e-9]
    return best[len(best) // 2]


def table_rows(rated: Sequence[Rated], best: tuple[float, float, float]) -> Iterator[tuple[str, ...]]:
    """A row per band of closeness, one per set on its second half, and one of all second halves."""
    weights = (lambda _: 0.0, lambda _: 1.0, lambda _: BEFORE, fact_weight, ramp(*best))
    second = [each for each in rated if not each.is_first_half]
    groups = {
        f"closeness {low:.2f} to {high:.2f}" if low > -1 else f"closeness under {high:.2f}": [
            each for each in rated if low <= each.closeness < high
        ]
        for low, high in pairwise(BANDS)
    }
    for name in dict.fromkeys(each.set for each in second):
        groups[f"second half of {name}"] = [each for each in second if each.set == name]
    groups["all second halves"] = second
    for name, group in groups.items():
        if group:
            yield name, str(len(group)), *(f"{accuracy(hits(group, weigh)).value:.3f}" for weigh in weights)
    for halves, group_of_halves in (("second halves", second), ("both halves", rated)):
        before = by_question(group_of_halves, lambda _: BEFORE)
        gains = [paired_bootstrap(by_question(group_of_halves, weigh), before) for weigh in (fact_weight, ramp(*best))]
        differences = [f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})" for gain in gains]
        yield f"questions of {halves}: difference to the weights before", str(len(before)), "", "", "", *differences


def by_question(rated: Sequence[Rated], weigh: Callable[[float], float]) -> list[float]:
    """The share of right answers of each question, over its sets."""
    shares: dict[str, list[bool]] = {}
    for each, is_right in zip(rated, hits(rated, weigh), strict=True):
        shares.setdefault(each.question, []).append(is_right)
    return [float(np.mean(group)) for group in shares.values()]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("places", nargs="+", metavar="LAKE:BENCHMARK:VARIANT")
    parser.add_argument("--without", nargs="+", default=[], metavar="BENCHMARK")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settings = GeneratorSettings.model_validate(generator_of(options.model))
    rated: list[Rated] = []
    for place in options.places:
        cache = CompletionCache(Path(place.rsplit(":", 2)[0]) / "cache")
        rated += rate(LanguageModel(load_cached_generator(settings), cache), place, options.without)
    best = find_best([each for each in rated if each.is_first_half])
    rows = list(table_rows(rated, best))
    print_table(HEADS, rows, "best on first halves: 0 at {:.2f} up to {:.2f}, then {}".format(*best))
    print(f"packaged: 0 at {UNRELATED}, {FACT_WEIGHT} from {RELATED}")
    if options.json:
        write_results(
            options.json, HEADS, rows, "python -m bench.answers.fit_fact_weight MODEL LAKE:BENCHMARK:VARIANT …"
        )


if __name__ == "__main__":
    main()
