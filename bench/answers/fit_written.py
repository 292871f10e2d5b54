"""Fit when a language model's written answer is shown, and print what that reaches on sets left out.

    python -m bench.answers.fit_written --lake FOLDER [--write] [--json FILE]

It fits on the development sets, each of which is measured by the weights of the others, and measures three kept sets by
the weights of all. Yes and no are chosen by the packaged weights of ``bench.answers.fit_yes_no``.

Development sets: a sample of the questions of ``bench/answers/pages`` and of ``unanswerable.jsonl``, and seventeen sets
of ``bench/answers/pages_other_words``. They are put to the language model of the profile ``local``; ``FOLDER`` keeps
its replies, so that another run asks nothing twice. An answer is right if it contains an acceptable answer (all items
of a list) or, for yes or no, begins with the right one. The calibration error is that of the probabilities of all
answers and statements that are shown.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from bench.answers.fitted_values import read_local_options, write_local_fit
from bench.answers.measure_pages import FALSE, MIN_F1, REFUSED, RIGHT, STATEMENT, WRONG, grade, kind_of
from bench.answers.short_answer_questions import (
    DEVELOPMENT_SETS,
    KEPT_SETS,
    TRIAL_SETS,
    AnswerableQuestion,
    Documents,
    build_lake,
    read_other_words,
    read_pages,
    read_unanswerable,
    select_evidence,
)
from bench.result_files import print_table, write_results
from evidence_assets import profiles
from evidence_assets.experiment.scores.metrics import calibration_error, token_f1
from evidence_assets.extractive.short_answers import ExtractiveShortAnswers
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.registry import get_encoder, load_generator
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.confidence import fit_weights
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.short_answers import NO_ANSWER, ShortAnswer
from evidence_assets.reasoning.tasks import STATED_STATUS, Failure
from evidence_assets.reasoning.written_answers import (
    DECISION_FILE,
    SIGNALS,
    WRITTEN_ANSWER,
    CheckedRules,
    Decision,
    Draft,
    answer_signals,
    find_draft,
    judge_rows,
    list_rows,
    settle_answer,
)
from evidence_assets.reasoning.yes_no_answers import YesNoAnswers, needs_verdict
from evidence_assets.text.tokens import asks_yes_or_no

T = TypeVar("T")

HEADS = (
    *("questions", "answers by", "with an answer", "right of them", "right as a statement", "wrong of them"),
    *("for yes or no", "right of these", "wrong of these", "without an answer", "answered of those"),
    "calibration error",
)
MAX_FALSE = 0.03
"""Maximum share of questions without an answer that the model answers; the rules may answer others."""
SAMPLE = {"with an answer": 8, "for yes or no": 4, "without an answer": 3}
"""Questions of each kind by set of pages; as many derived ones as of the last kind are added."""


class Item(NamedTuple):
    """A question with the answers of the rules and, if the model's reply is usable, its draft.

    ``by_rules``: Without answers whose rows the model doubts, and with its yes or no where the rules have none.
    ``stated_log_odds``: Log odds, by the model, that the rows of the draft state what is asked for.
    """

    question: AnswerableQuestion
    by_rules_alone: ShortAnswer
    by_rules: ShortAnswer
    draft: Draft | None
    stated_log_odds: float

    def answer(self, decision: Decision | None) -> ShortAnswer:
        """What is served; of the rules alone without a decision."""
        if decision is None:
            return self.by_rules_alone
        if self.draft is None:
            return self.by_rules
        return settle_answer(self.draft, self.by_rules, self.stated_log_odds, decision)


def grade_written(question: AnswerableQuestion, answer: str | None) -> str:
    """The verdict on a written answer: one that contains an acceptable answer is right."""
    if answer is None:
        return RIGHT if kind_of(question) == "without an answer" else REFUSED
    if question.verdict:
        return RIGHT if answer.casefold().startswith(question.verdict) else WRONG
    if not question.golds:
        return FALSE
    contained = [contains_quote(gold, answer) for gold in question.golds]
    if question.is_list:
        return RIGHT if all(contained) else WRONG
    return RIGHT if any(contained) or token_f1(answer, question.golds) >= MIN_F1 else WRONG


def sample_questions() -> list[AnswerableQuestion]:
    """The same random questions in each run."""
    corpora, questions = read_pages()
    chosen = []
    for corpus in corpora:
        source = random.Random(corpus)
        for kind, count in SAMPLE.items():
            of_kind = [question for question in questions if question.corpus == corpus and kind_of(question) == kind]
            chosen += source.sample(of_kind, count)
        derived = [question for question in read_unanswerable() if question.corpus == corpus]
        chosen += source.sample(derived, SAMPLE["without an answer"])
    return chosen


def development_sets() -> tuple[dict[str, Documents], list[AnswerableQuestion]]:
    """Documents by corpus, and the questions that weights are fitted on."""
    corpora, questions = read_other_words((*DEVELOPMENT_SETS, *TRIAL_SETS))
    return {**read_pages()[0], **corpora}, [*sample_questions(), *questions]


def read_items(folder: Path, corpora: dict[str, Documents], questions: Sequence[AnswerableQuestion]) -> Iterator[Item]:
    """The questions with their replies; evidence is that of ``evidence ask``."""
    profile = profiles.load("local")
    rules = ExtractiveShortAnswers(get_encoder(profile.encoder))
    model = LanguageModel(load_generator(profile.generator), CompletionCache(folder / "replies"))
    checked_rules = CheckedRules(model, rules)
    yes_no = YesNoAnswers(model)
    lake = build_lake(folder / "lake", corpora)
    for question, task in select_evidence(lake, questions):
        by_rules_alone = checked_result(rules.answer([task])[0])
        by_rules = checked_result(checked_rules.answer([task])[0])
        if not list_rows(task) or asks_yes_or_no(question.text):
            chosen = checked_result(yes_no.answer([task])[0]) if needs_verdict(task, by_rules) else NO_ANSWER
            yield Item(question, by_rules_alone, by_rules if chosen == NO_ANSWER else chosen, None, 0.0)
            continue
        reply = checked_result(WRITTEN_ANSWER.ask(model, [task])[0])
        draft = find_draft(reply, task)
        stated_log_odds = 0.0
        if draft:
            [(judgement, _)] = judge_rows(model, [draft.check])
            stated_log_odds = checked_result(judgement)
        print(
            f"{question.corpus}: {question.text} | {reply} | {draft and draft.text} | {stated_log_odds:.2f}", flush=True
        )
        yield Item(question, by_rules_alone, by_rules, draft, stated_log_odds)


def checked_result(result: T | Failure) -> T:
    """A result, unless it is a failure."""
    if isinstance(result, Failure):
        raise SystemExit(f"no reply: {result.reason}")
    return result


def signals_of(item: Item, draft: Draft) -> dict[str, float]:
    """The signals of a usable reply."""
    return answer_signals(draft, item.stated_log_odds)


def is_right(item: Item) -> bool:
    """Whether a draft answers its question, which must have an answer."""
    has_answer = bool(item.question.golds or item.question.verdict)
    return has_answer and item.draft is not None and grade_written(item.question, item.draft.text) == RIGHT


def fit_signals(items: Sequence[Item]) -> Decision:
    """Weights of the signals of usable replies; any probability suffices.

    Signals are divided by their standard deviations, so that the penalty of weights does not depend on their units.
    """
    signals = [signals_of(item, item.draft) for item in items if item.draft]
    right = [is_right(item) for item in items if item.draft]
    matrix = np.array([[row[name] for name in SIGNALS] for row in signals])
    units = matrix.std(axis=0)
    intercept, *weights = fit_weights((matrix / units).tolist(), right, [1.0] * len(signals))
    by_name = zip(SIGNALS, (np.array(weights) / units).round(4).tolist(), strict=True)
    return Decision({"intercept": intercept, **dict(by_name)}, 0.0)


def leave_out_sets(items: Sequence[Item]) -> dict[str, Decision]:
    """Weights by corpus, fitted on all the others."""
    corpora = dict.fromkeys(item.question.corpus for item in items)
    return {name: fit_signals([item for item in items if item.question.corpus != name]) for name in corpora}


def choose_threshold(items: Sequence[Item], decisions: Mapping[str, Decision]) -> float:
    """The smallest probability, by weights of other sets, at which few questions without an answer are answered."""
    open_items = [item for item in items if not asks_yes_or_no(item.question.text)]
    unanswerable = [item for item in open_items if not item.question.golds]
    probabilities = [
        decisions[item.question.corpus].probability(signals_of(item, item.draft)) for item in unanswerable if item.draft
    ]
    n_allowed = int(MAX_FALSE * len(unanswerable))
    return round(sorted(probabilities, reverse=True)[n_allowed] + 5e-4, 3)


def grade_item(item: Item, decision: Decision | None) -> str:
    """The verdict on what is served; of the rules alone without a decision."""
    answer = item.answer(decision)
    if answer.status == STATED_STATUS:
        return grade(item.question, answer.answer, is_stated=True)
    return grade_written(item.question, answer.answer if answer.status == "answered" else None)


def count_row(name: str, items: Sequence[Item], decisions: Mapping[str, Decision]) -> tuple[str, ...]:
    """A row of the table: how many answers of each kind of question are right, wrong or false; decisions by corpus."""
    counts = {"with an answer": Counter[str](), "for yes or no": Counter[str](), "without an answer": Counter[str]()}
    probabilities, is_correct = list[float](), list[bool]()
    for item in items:
        decision = decisions.get(item.question.corpus)
        verdict = grade_item(item, decision)
        counts[kind_of(item.question)][verdict] += 1
        answer = item.answer(decision)
        if answer.answer is not None and answer.confidence is not None:
            probabilities.append(answer.confidence)
            is_correct.append(verdict in (RIGHT, STATEMENT))
        if decisions and verdict in (WRONG, FALSE):
            print(f"{verdict}: {item.question.text} {answer.answer!r} instead of {list(item.question.golds)}")
    spans, verdicts, others = counts.values()
    by = "model and rules" if decisions else "rules"
    cells = (
        *(spans.total(), spans[RIGHT], spans[STATEMENT], spans[WRONG]),
        *(verdicts.total(), verdicts[RIGHT], verdicts[WRONG], others.total(), others[FALSE]),
    )
    error = f"{calibration_error(probabilities, is_correct):.3f}" if probabilities else ""
    return (name, by, *map(str, cells), error)


def count_sets(items: Sequence[Item], decisions: Mapping[str, Decision], other_words: str) -> list[tuple[str, ...]]:
    """Rows of the questions in words of the pages and in other words, by the rules alone and with the model."""
    rows = []
    for name, prefix in (("words of the page", "pages_"), (other_words, "other_words_")):
        of_kind = [item for item in items if item.question.corpus.startswith(prefix)]
        if of_kind:
            rows += [count_row(name, of_kind, {}), count_row(name, of_kind, decisions)]
    return rows


def main() -> None:
    options = read_local_options(__doc__)
    items = list(read_items(options.lake, *development_sets()))
    by_corpus = leave_out_sets(items)
    threshold = choose_threshold(items, by_corpus)
    by_corpus = {name: replace(decision, min_probability=threshold) for name, decision in by_corpus.items()}
    rows = count_sets(items, by_corpus, "other words")
    decision = replace(fit_signals(items), min_probability=threshold)
    print(decision)
    kept_items = list(read_items(options.lake, *read_other_words(KEPT_SETS)))
    rows += count_sets(
        kept_items, dict.fromkeys((item.question.corpus for item in kept_items), decision), "other words, kept sets"
    )
    print_table(HEADS, rows, "development sets by weights of the others, kept sets by those of all development sets")
    if options.json:
        write_results(options.json, HEADS, rows, "python -m bench.answers.fit_written --lake FOLDER")
    if options.write:
        data = "a sample of bench/answers/pages and unanswerable.jsonl, and seventeen sets of pages_other_words"
        values = {"weights": dict(decision.weights), "min_probability": threshold}
        write_local_fit(DECISION_FILE, values, "fit_written", data, MAX_FALSE)


if __name__ == "__main__":
    main()
