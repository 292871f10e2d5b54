"""Fit when a language model's written answer is shown, and print what that reaches on questions left out.

    python -m bench.answers.fit_written --lake FOLDER          # fit on half 1, report half 2
    python -m bench.answers.fit_written --lake FOLDER --write  # then fit on all and write the packaged weights

A sample of the questions of ``bench/answers/pages`` and of ``unanswerable.jsonl`` is put to the language model of the
profile ``local``; ``FOLDER`` keeps its replies, so that another run asks nothing twice. An answer is right if it
contains an acceptable answer or, for yes or no, begins with the right one. Half 1 are the first three sets of pages.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.answers.fitted_values import smallest_threshold, write_values
from bench.answers.measure_pages import FALSE, MIN_F1, REFUSED, RIGHT, STATEMENT, WRONG, grade, kind_of
from bench.answers.short_answer_questions import (
    PAGE_SETS,
    AnswerableQuestion,
    build_lake,
    read_pages,
    read_unanswerable,
    select_evidence,
)
from bench.measuring import make_parser
from evidence_assets import profiles
from evidence_assets.experiment.scores.metrics import token_f1
from evidence_assets.extractive.short_answers import ExtractiveShortAnswers
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.registry import get_encoder, load_generator
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.confidence import fit_weights
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.short_answers import ShortAnswer
from evidence_assets.reasoning.tasks import STATED_STATUS, Failure
from evidence_assets.reasoning.written_answers import (
    DECISION_FILE,
    SIGNALS,
    WRITTEN_ANSWER,
    WRITTEN_CHECK,
    Decision,
    Draft,
    answer_signals,
    find_draft,
    list_rows,
    log_odds,
    settle_answer,
)

T = TypeVar("T")

PRECISION = 0.9
"""Minimum share of right answers among those of half 1 that are shown."""
SAMPLE = {"with an answer": 8, "for yes or no": 4, "without an answer": 3}
"""Questions of each kind by set of pages; as many derived ones as of the last kind are added."""


class Item(NamedTuple):
    """A question with the answer of the rules and, if the model's reply is usable, its draft and how it is believed."""

    question: AnswerableQuestion
    by_rules: ShortAnswer
    draft: Draft | None
    believed: float

    def answer(self, decision: Decision | None) -> ShortAnswer:
        """What is served; of the rules alone without a decision."""
        if self.draft is None or decision is None:
            return self.by_rules
        return settle_answer(self.draft, self.by_rules, self.believed, decision)


def grade_written(question: AnswerableQuestion, answer: str | None) -> str:
    """The verdict on a written answer: one that contains an acceptable answer is right."""
    if answer is None:
        return RIGHT if kind_of(question) == "without an answer" else REFUSED
    if question.verdict:
        return RIGHT if answer.casefold().startswith(question.verdict) else WRONG
    if not question.golds:
        return FALSE
    is_right = (
        any(contains_quote(gold, answer) for gold in question.golds) or token_f1(answer, question.golds) >= MIN_F1
    )
    return RIGHT if is_right else WRONG


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


def read_items(folder: Path) -> Iterator[Item]:
    """The questions with their replies; evidence is that of ``evidence ask``."""
    profile = profiles.load("local")
    rules = ExtractiveShortAnswers(get_encoder(profile.encoder))
    model = LanguageModel(load_generator(profile.generator), CompletionCache(folder / "replies"))
    lake = build_lake(folder / "lake", read_pages()[0])
    for question, task in select_evidence(lake, sample_questions()):
        by_rules = checked_result(rules.answer([task])[0])
        if not list_rows(task):
            yield Item(question, by_rules, None, 0.0)
            continue
        reply = checked_result(WRITTEN_ANSWER.ask(model, [task])[0])
        draft = find_draft(reply, task, by_rules)
        believed = 0.0
        if draft:
            [(judgement, cost)] = WRITTEN_CHECK.ask_with_cost(model, [draft])
            believed = log_odds(checked_result(judgement), cost)
        print(f"{question.corpus}: {question.text} | {reply} | {draft and draft.text} | {believed:.2f}", flush=True)
        yield Item(question, by_rules, draft, believed)


def checked_result(result: T | Failure) -> T:
    """A result, unless it is a failure."""
    if isinstance(result, Failure):
        raise SystemExit(f"no reply: {result.reason}")
    return result


def fit_decision(items: Sequence[Item]) -> Decision:
    """Weights of the signals of usable replies, and the smallest probability with the precision."""
    rows, right = [], []
    for item in items:
        if item.draft:
            rows_of_prompt = list_rows(item.draft.task)
            rows.append(answer_signals(item.draft.checked, rows_of_prompt, item.by_rules, item.believed))
            right.append(grade_written(item.question, item.draft.text) == RIGHT)
    intercept, *weights = fit_weights([[row[name] for name in SIGNALS] for row in rows], right, [1.0] * len(rows))
    decision = Decision({"intercept": intercept, **dict(zip(SIGNALS, weights, strict=True))}, 0.0)
    answers = [(decision.probability(row), is_right) for row, is_right in zip(rows, right, strict=True)]
    threshold = smallest_threshold(answers, PRECISION)
    return replace(decision, min_probability=1.0 if threshold is None else round(threshold - 5e-4, 3))


def print_counts(title: str, items: Sequence[Item], decision: Decision | None, *, with_cases: bool) -> str:
    """Print and return how the answers are graded: of the rules or, with a decision, of model and rules."""
    counts: dict[str, Counter[str]] = {}
    for item in items:
        answer = item.answer(decision)
        if answer is item.by_rules:
            shown_text = answer.answer if answer.status in ("answered", STATED_STATUS) else None
            verdict = grade(item.question, shown_text, is_stated=answer.status == STATED_STATUS)
        else:
            verdict = grade_written(item.question, answer.answer)
        counts.setdefault(kind_of(item.question), Counter())[verdict] += 1
        if with_cases and verdict in (WRONG, FALSE):
            print(f"  {verdict}: {item.question.text} {answer.answer!r} instead of {list(item.question.golds)}")
    parts = [
        f"{count.total()} {kind}: "
        + ", ".join(f"{count[v]} {v}" for v in (RIGHT, STATEMENT, REFUSED, WRONG, FALSE) if count[v])
        for kind, count in counts.items()
    ]
    print(f"{title}: {'; '.join(parts)}")
    return "; ".join(parts)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--lake", type=Path, required=True, help="folder that keeps replies")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    items = list(read_items(options.lake))
    first_sets = {f"pages_{name}" for name in PAGE_SETS[:3]}
    first = [item for item in items if item.question.corpus in first_sets]
    second = [item for item in items if item.question.corpus not in first_sets]
    decision = fit_decision(first)
    print(decision)
    by_rules = print_counts("half 2, rules alone", second, None, with_cases=False)
    score = print_counts("half 2, fitted on half 1", second, decision, with_cases=True)
    if options.write:
        fitted = fit_decision(items)
        write_values(
            DECISION_FILE,
            {"weights": dict(fitted.weights), "min_probability": fitted.min_probability},
            "python -m bench.answers.fit_written --lake FOLDER --write",
            data="a sample of bench/answers/pages and unanswerable.jsonl",
            halves="score: fitted on the first three sets, shown on the last three; values written: all",
            model="Qwen2.5-Coder-1.5B-Instruct, 4 bit",
            precision=PRECISION,
            score={"rules alone": by_rules, "with the model": score},
        )


if __name__ == "__main__":
    main()
