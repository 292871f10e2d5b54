"""Fit when a language model's yes or no is given, and print what that reaches on sets left out.

    python -m bench.answers.fit_yes_no --lake FOLDER [--write] [--json FILE]

It fits on the development sets, each of which is measured by the weights of the others, and measures the kept sets by
the weights of all. Rules, which answer first where they can, are left out.

Development sets: questions for yes or no of ``bench/answers/pages``, some of them put to the next set of pages, which
does not answer them, and those of fourteen sets of ``bench/answers/pages_other_words``. They are put to the language
model of the profile ``local``; ``FOLDER`` keeps its replies, so that another run asks nothing twice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sklearn.linear_model import LogisticRegression

from bench.answers.fit_written import checked_result
from bench.answers.fitted_values import read_local_options, write_local_fit
from bench.answers.measure_pages import kind_of
from bench.answers.short_answer_questions import (
    DEVELOPMENT_SETS,
    KEPT_SETS,
    AnswerableQuestion,
    Documents,
    build_lake,
    read_other_words,
    read_pages,
    select_evidence,
)
from bench.result_files import print_table, write_results
from evidence_assets import profiles
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.registry import load_generator
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.reasoning.yes_no_answers import (
    DECISION_FILE,
    ROWS,
    LogProbs,
    YesNoDecision,
    ask_rows,
    verdict_signals,
)
from evidence_assets.text.tokens import asks_yes_or_no

HEADS = ("questions", "for yes or no", "right", "wrong", "without an answer", "answered of those")
MAX_FALSE = 0.05
"""Maximum share of development questions without an answer that are answered."""
SAMPLE = 10
"""Questions of each set of pages; ``MOVED`` others are put to the next set."""
MOVED = 4


class Item(NamedTuple):
    """A question with its rows and their log probabilities."""

    question: AnswerableQuestion
    rows: tuple[EvidenceItem, ...]
    log_probs: list[LogProbs]

    @property
    def signals(self) -> dict[str, float]:
        return verdict_signals(self.log_probs)


def sample_pages() -> tuple[dict[str, Documents], list[AnswerableQuestion]]:
    """The same random questions of the pages in each run, and those that are put to the next set."""
    corpora, questions = read_pages()
    names = list(corpora)
    chosen = []
    for number, corpus in enumerate(names):
        of_corpus = [question for question in questions if question.corpus == corpus and question.verdict]
        yes_no_questions = [question for question in of_corpus if asks_yes_or_no(question.text)]
        sample = random.Random(corpus).sample(yes_no_questions, SAMPLE + MOVED)
        next_corpus = names[(number + 1) % len(names)]
        chosen += sample[:SAMPLE]
        chosen += [replace(question, corpus=next_corpus, verdict="") for question in sample[SAMPLE:]]
    return corpora, chosen


def read_sets(sets: Sequence[str]) -> tuple[dict[str, Documents], list[AnswerableQuestion]]:
    """Sets of pages with their questions for yes or no in other words."""
    corpora, questions = read_other_words(sets, with_yes_no=True)
    return corpora, [question for question in questions if asks_yes_or_no(question.text)]


def read_items(folder: Path, corpora: dict[str, Documents], questions: Sequence[AnswerableQuestion]) -> Iterator[Item]:
    """The questions with their replies; evidence is that of ``evidence ask``."""
    model = LanguageModel(load_generator(profiles.load("local").generator), CompletionCache(folder / "replies"))
    for question, task in select_evidence(build_lake(folder / "lake", corpora), questions):
        [outcomes] = ask_rows(model, [task])
        if outcomes:
            yield Item(question, task.texts[:ROWS], [checked_result(log_probs) for log_probs, _ in outcomes])
        print(".", end="", flush=True)


def fit_signals(items: Sequence[Item]) -> YesNoDecision:
    """Weights of the signals; any probability suffices."""
    names = [*items[0].signals]
    rows = [[item.signals[name] for name in names] for item in items]
    model = LogisticRegression().fit(rows, [item.question.verdict or "unknown" for item in items])
    weights = {
        verdict: dict(zip(["intercept", *names], [intercept, *slopes], strict=True))
        for verdict, intercept, slopes in zip(
            model.classes_.tolist(), model.intercept_.tolist(), model.coef_.tolist(), strict=True
        )
    }
    relative = {
        verdict: {name: round(weight - weights["unknown"][name], 4) for name, weight in weights[verdict].items()}
        for verdict in ("yes", "no")
    }
    return YesNoDecision(relative["yes"], relative["no"], 0.0)


def leave_out_sets(items: Sequence[Item]) -> dict[str, YesNoDecision]:
    """Weights by corpus, fitted on all the others."""
    corpora = dict.fromkeys(item.question.corpus for item in items)
    return {name: fit_signals([item for item in items if item.question.corpus != name]) for name in corpora}


def choose_threshold(items: Sequence[Item], decisions: Mapping[str, YesNoDecision]) -> float:
    """The smallest probability, by weights of other sets, at which few questions without an answer are answered."""
    false = [
        max(decisions[item.question.corpus].probabilities(item.signals).values())
        for item in items
        if not item.question.verdict
    ]
    return round(sorted(false, reverse=True)[int(MAX_FALSE * len(false))] + 5e-4, 3)


def count_row(name: str, items: Sequence[Item], decisions: Mapping[str, YesNoDecision]) -> tuple[str, ...]:
    """A row of the table; decisions by corpus."""
    kinds = Counter(kind_of(item.question) for item in items)
    counts = Counter[str]()
    for item in items:
        answer = decisions[item.question.corpus].decide(item.rows, item.log_probs).answer
        if answer is None:
            continue
        is_right = bool(item.question.verdict) and answer.casefold().startswith(item.question.verdict)
        verdict = "right" if is_right else "wrong" if item.question.verdict else "false"
        counts[verdict] += 1
        print(f"{verdict}: {item.question.text} {answer!r}")
    numbers = (kinds["for yes or no"], counts["right"], counts["wrong"], kinds["without an answer"], counts["false"])
    return (name, *map(str, numbers))


def main() -> None:
    options = read_local_options(__doc__)
    of_pages = list(read_items(options.lake, *sample_pages()))
    other_words = list(read_items(options.lake, *read_sets(DEVELOPMENT_SETS)))
    by_corpus = leave_out_sets([*of_pages, *other_words])
    threshold = choose_threshold([*of_pages, *other_words], by_corpus)
    by_corpus = {name: replace(decision, min_probability=threshold) for name, decision in by_corpus.items()}
    rows = [count_row("words of the page", of_pages, by_corpus), count_row("other words", other_words, by_corpus)]
    decision = replace(fit_signals([*of_pages, *other_words]), min_probability=threshold)
    print(decision)
    corpora, questions = read_sets(KEPT_SETS)
    kept_items = list(read_items(options.lake, corpora, questions))
    rows.append(count_row("other words, kept sets", kept_items, dict.fromkeys(corpora, decision)))
    print_table(HEADS, rows, "development sets by weights of the others, kept sets by those of all development sets")
    if options.json:
        write_results(options.json, HEADS, rows, "python -m bench.answers.fit_yes_no --lake FOLDER")
    if options.write:
        data = "a sample of bench/answers/pages, and fourteen sets of pages_other_words"
        values = {"yes": dict(decision.yes), "no": dict(decision.no), "min_probability": threshold}
        write_local_fit(DECISION_FILE, values, "fit_yes_no", data, MAX_FALSE)


if __name__ == "__main__":
    main()
