"""What a trained verifier of steps is worth: does the cited row entail the step?

    EVIDENCE_DEV_DATA=<folder> python -m bench.answers.measure_verifier FOLDER [--questions 2000]

A step is a question of OpenBookQA with one option, a row is a fact of its book. The verifier is a reader that is
trained on training questions with the fact behind each: the right option must score above the others. FOLDER keeps it.
Beside it is the cosine of step and row. Nothing is tuned; differences are paired (95 %, bootstrap) over the second half
of the 500 development questions.

``right option``: the gold fact entails the right option more than the three wrong ones. ``right row``: it entails the
right option more than the nearest other fact does. ``answers``: of the answers of the extractive solver with its five
nearest facts, the share that is right among the half whose best row entails them most.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from bench.answers.measure_reader import DATA, DEVELOPMENT, TRAINING, answer_by_solver, open_solver, read_questions
from bench.differences import format_difference
from evidence_assets.experiment.scores.metrics import mean, paired_bootstrap
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.reader.network import EncoderName, OptionInput
from evidence_assets.models.reader.training import TrainedReader, TrainingQuestion, TrainingSettings, train_reader
from evidence_assets.models.vectors import encode_ends

FACTS = 5
Step = tuple[str, str]
"""A question and an option."""
Judge = Callable[[Sequence[tuple[Step, str]]], Sequence[float]]
"""How much each row entails its step, for pairs of step and row."""


class StepQuestion(NamedTuple):
    """The steps of a question, one for each option; the gold fact and the nearest other one of the right step."""

    identifier: str
    steps: tuple[Step, ...]
    gold: int
    fact: str
    other: str


def read_steps(file: str, encoder: Encoder) -> list[StepQuestion]:
    """The questions of a file with the fact behind each."""
    rows = [json.loads(line) for line in (DATA / file).read_text(encoding="utf-8").splitlines()]
    book = [line.strip('" ') for line in (DATA / "obqa/Data/Main/openbook.txt").read_text("utf-8").splitlines()]
    steps = [tuple((r["question"]["stem"], each["text"]) for each in r["question"]["choices"]) for r in rows]
    golds = [[each["label"] for each in r["question"]["choices"]].index(r["answerKey"]) for r in rows]
    vectors = encode_ends(encoder, [*book, *(" ".join(s[gold]) for s, gold in zip(steps, golds, strict=True))])
    matrix = np.stack([vectors[fact] for fact in book])
    questions = []
    for row, options, gold in zip(rows, steps, golds, strict=True):
        order = np.argsort(-(matrix @ vectors[" ".join(options[gold])]), kind="stable")
        other = next(book[i] for i in order if book[i] != row["fact1"])
        questions.append(StepQuestion(row["id"], options, gold, row["fact1"], other))
    return questions


def training_questions(questions: Iterable[StepQuestion]) -> list[TrainingQuestion]:
    """The questions with the fact behind each as the only evidence of every option."""
    return [
        TrainingQuestion(q.identifier, tuple(OptionInput(*step, (q.fact,), 0.0) for step in q.steps), q.gold)
        for q in questions
    ]


def measure_steps(questions: Sequence[StepQuestion], judge: Judge) -> dict[str, list[float]]:
    """Hits of each question, and the values of pairs that entail and of those that do not."""
    options = np.array_split(np.array(judge([(s, q.fact) for q in questions for s in q.steps])), len(questions))
    others = judge([(q.steps[q.gold], q.other) for q in questions])
    right = [float(each[q.gold]) for each, q in zip(options, questions, strict=True)]
    return {
        "right option": [float(each.argmax() == q.gold) for each, q in zip(options, questions, strict=True)],
        "right row": [float(a > b) for a, b in zip(right, others, strict=True)],
        "entailed": right,
        "not entailed": [*others, *(float(each[q.gold - 1]) for each, q in zip(options, questions, strict=True))],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=2000)
    options = parser.parse_args()
    encoder = load_encoder(EMBEDDED_ENCODER)
    development = read_steps(DEVELOPMENT["obqa"], encoder)
    tested = {step for q in development for step in q.steps}
    if not options.folder.exists():
        training = [q for q in read_steps(TRAINING["obqa"], encoder) if q.steps[q.gold] not in tested]
        sample = random.Random(0).sample(training, min(options.questions, len(training)))
        options.folder.mkdir(parents=True)
        questions = training_questions(sample)
        train_reader(EncoderName(EMBEDDED_ENCODER), questions, options.folder, TrainingSettings(), print)
    reader = TrainedReader(options.folder, "verifier")

    def verify(pairs: Sequence[tuple[Step, str]]) -> list[float]:
        return reader.score([OptionInput(*step, (row,), 0.0) for step, row in pairs]).tolist()

    def cosine(pairs: Sequence[tuple[Step, str]]) -> list[float]:
        texts = [(" ".join(step), row) for step, row in pairs]
        vectors = encode_ends(encoder, [text for pair in texts for text in pair])
        return [float(vectors[step] @ vectors[row]) for step, row in texts]

    half = development[len(development) // 2 :]
    measured = {name: measure_steps(half, v) for name, v in (("verifier", verify), ("cosine", cosine))}
    for hits in ("right option", "right row"):
        first, second = (measured[name][hits] for name in measured)
        difference = format_difference(paired_bootstrap(first, second))
        print(
            f"{hits}: verifier {mean(first).value:.3f}, cosine {mean(second).value:.3f}; {difference}, n = {len(half)}"
        )
    for name, result in measured.items():
        entails, not_entailed = result["entailed"], result["not entailed"]
        area = roc_auc_score([1] * len(entails) + [0] * len(not_entailed), [*entails, *not_entailed])
        print(f"{name}: area under the curve of pairs that entail, against those that do not, {area:.3f}")

    questions = read_questions("obqa", DEVELOPMENT["obqa"], encoder, FACTS)[len(development) // 2 :]
    chosen, confidence = answer_by_solver(open_solver("obqa", encoder), questions)
    right = np.array([n == q.gold for n, q in zip(chosen, questions, strict=True)], dtype=float)
    cited = [q.options[n] for n, q in zip(chosen, questions, strict=True)]
    pairs = [((each.question, each.option), fact) for each in cited for fact in each.facts]
    best = {
        name: np.array(judge(pairs)).reshape(len(questions), FACTS).max(axis=1)
        for name, judge in (("verifier", verify), ("cosine", cosine))
    }
    best["confidence"] = np.array(confidence)
    print(f"answers: {right.mean():.3f} right, n = {len(right)}")
    for name, values in best.items():
        surest = right[np.argsort(-values, kind="stable")[: len(right) // 2]]
        area = roc_auc_score(right, values)
        print(f"answers by {name}: area under the curve {area:.3f}, surer half {surest.mean():.3f} right")


if __name__ == "__main__":
    main()
