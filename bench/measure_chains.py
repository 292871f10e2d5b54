"""Ambiguous answers, and chains checked step by step, on recorded answers of GPT-3.5 and GPT-4 to medical questions.

    EVIDENCE_DEV_DATA=<folder> python -m bench.measure_chains

50 questions, each answered by two models without and with 32 retrieved snippets. Nothing is tuned on them.

``options``: a model supports the options that its two replies name. The set's accuracy is 1 / its size if it has the
right option, otherwise 0, paired with the accuracy of the reply without snippets (95 %, bootstrap over questions).

``steps``: a step of a chain follows from the question's sentences and the steps before it, because the recordings have
no snippets. ``cosine``: largest cosine with one of them; a chain has the value of its weakest step. The baseline is the
number of steps, fewer first. Printed are the area under the curve for right answers, and accuracy of the better half of
the chains against all of them (95 %, bootstrap over questions).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.minilm import MiniLm
from evidence_assets.experiment.scores.metrics import paired_bootstrap
from evidence_assets.text.sentences import sentence_spans
from tools.replay import Scored, score_recording

Floats = NDArray[np.floating]
Verifier = Callable[[Sequence[str], Sequence[str]], float]
_THINKING = re.compile(r'"step_by_step_thinking":\s*"(.*?)"\s*,\s*"answer_choice"', re.DOTALL)
RESAMPLES = 2000


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


def print_options(recorded: Sequence[Scored]) -> None:
    models = sorted({item.model for item in recorded})
    replies: dict[tuple[str, str], dict[tuple[str, str], Scored]] = {}
    for item in recorded:
        replies.setdefault((item.question.benchmark, item.question.source_id), {})[item.model, item.mode] = item
    for model in models:
        sets, single, hits = [], [], []
        for by_mode in replies.values():
            named = {by_mode[model, mode].answer for mode in ("cot", "rag_32")} - {None}
            gold = by_mode[model, "cot"].question.gold[0]
            hits.append(gold in named)
            sets.append(len(named))
            single.append(float(by_mode[model, "cot"].correct))
        shared = [hit / max(1, size) for hit, size in zip(hits, sets, strict=True)]
        d = paired_bootstrap(shared, single)
        ambiguous = np.array(sets) > 1
        print(
            f"options, {model}: {ambiguous.mean():.1%} ambiguous, {np.mean(hits):.3f} have the right option,"
            f" accuracy {np.mean(shared):.3f} instead of {np.mean(single):.3f}, {d.value:+.3f} ({d.low:+.3f} to"
            f" {d.high:+.3f}), n = {d.n}; one option: {np.array(hits)[~ambiguous].mean():.3f} right,"
            f" several: {np.array(hits)[ambiguous].mean():.3f} have it, {np.array(single)[ambiguous].mean():.3f} alone"
        )


def cosine_verifier() -> Verifier:
    encoder = MiniLm()

    def weakest(premises: Sequence[str], steps: Sequence[str]) -> float:
        vectors = np.asarray(encoder.encode_sentences([*premises, *steps]))
        first = len(premises)
        return min(float((vectors[:i] @ vectors[i]).max()) for i in range(first, len(vectors)))

    return weakest


def area(scores: Floats, right: NDArray[np.bool_]) -> float:
    """Probability that a right answer has the higher score, ties half."""
    differences = scores[right][:, None] - scores[~right][None, :]
    return float(((differences > 0) + 0.5 * (differences == 0)).mean())


def print_steps(name: str, recorded: Sequence[Scored], verifier: Verifier) -> None:
    chains = [(item, sentences(match[1])) for item in recorded if (match := _THINKING.search(item.reply))]
    chains = [(item, steps) for item, steps in chains if steps and item.answer]
    scores = np.array([verifier(sentences(item.question.text), steps) for item, steps in chains])
    right = np.array([item.correct for item, _ in chains])
    questions = np.array([f"{item.question.benchmark} {item.question.source_id}" for item, _ in chains])
    draw, names = np.random.default_rng(0), np.unique(questions)
    rows_of = [np.flatnonzero(questions == each) for each in names]
    figures = []
    for number in range(RESAMPLES + 1):
        sample = draw.integers(len(names), size=len(names)) if number else range(len(names))
        rows = np.concatenate([rows_of[i] for i in sample])
        better = rows[np.argsort(-scores[rows], kind="stable")][: len(rows) // 2]
        figures.append((area(scores[rows], right[rows]), right[better].mean() - right[rows].mean()))
    low, high = np.percentile(figures[1:], (2.5, 97.5), axis=0)
    for metric, column in (("area", 0), ("better half", 1)):
        print(
            f"steps, {name}: {metric} {figures[0][column]:+.3f} ({low[column]:+.3f} to {high[column]:+.3f}),"
            f" n = {len(chains)} chains of {len(names)} questions, {right.mean():.3f} right"
        )


def main() -> None:
    recorded = list(score_recording(Path(os.environ["EVIDENCE_DEV_DATA"]) / "replay"))
    print_options(recorded)
    print_steps("number of steps", recorded, lambda premises, steps: -float(len(steps)))
    print_steps("cosine", recorded, cosine_verifier())


if __name__ == "__main__":
    main()
