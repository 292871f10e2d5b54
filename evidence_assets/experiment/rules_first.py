"""Short work on tables: rules answer what they settle, and a small language model is asked for the rest.

Rules compute and compare better than a small model (docs/with-a-real-model.md). Where they settle nothing, the log
probabilities of both count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import log_softmax

from evidence_assets.experiment.question_rows import is_asked_about_table
from evidence_assets.lake.ids import content_id
from evidence_assets.models.vectors import Array
from evidence_assets.reasoning.confidence import probabilities
from evidence_assets.reasoning.prompted_solver import build_choice
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, ExplainOption, Failure, Solver

VERSION = "1"
"""Raise it whenever equal choices of rules and model may become other choices."""
RULES_MODEL_ID = "extractive"
"""What predictions of the rules alone have as their model."""
MODEL_WEIGHT = 0.5
"""Weight of the model's log probabilities; the rules have the rest. Where these settle nothing, neither knows more."""
MIN_SHARE = 0.6
"""Minimum share of an answer that the rules find no reason for. Below, both of them guess."""


class RulesFirst:
    """Chooses by ``rules``, and by ``model`` too where the rules settle nothing.

    The rules alone answer a question that is asked about a table: its options are mostly cells, of which a model takes
    one even if none answers.
    """

    name = "rules_first"

    def __init__(self, rules: Solver, model: Solver) -> None:
        self._rules = rules
        self._model = model
        self.model_id = model.model_id
        self.version = content_id(VERSION, rules.version, model.version, MODEL_WEIGHT, MIN_SHARE)

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        return self._rules.explain(tasks)

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        choices = self._rules.choose(tasks)
        sent = [number for number, task in enumerate(tasks) if not _is_settled(choices[number], task.question)]
        replies = self._model.choose([tasks[number] for number in sent])
        for number, reply in zip(sent, replies, strict=True):
            choices[number] = _combine(tasks[number], choices[number], reply)
        return choices


def _is_settled(choice: Choice | Failure, question: Question) -> bool:
    """Whether the choice of the rules stands."""
    return is_asked_about_table(question) or (isinstance(choice, Choice) and choice.status == "answered")


def _combine(task: ChooseAnswer, by_rules: Choice | Failure, reply: Choice | Failure) -> Choice | Failure:
    """The choice by the weights of both; that of the model if one has none."""
    if isinstance(by_rules, Failure) or isinstance(reply, Failure) or not (by_rules.weights and reply.weights):
        return reply
    labels = task.question.labels
    rules, model = (_log_probs(choice.weights, labels) for choice in (by_rules, reply))
    log_probs = (1 - MODEL_WEIGHT) * rules + MODEL_WEIGHT * model
    best = labels[int(log_probs.argmax())]
    weights = dict(zip(labels, log_probs.tolist(), strict=True))
    is_guess = by_rules.status == "insufficient" and probabilities(weights)[best] < MIN_SHARE
    choice = replace(build_choice(task, best), weights=weights, reply=reply.reply)
    return replace(choice, status="insufficient") if is_guess else choice


def _log_probs(weights: Mapping[str, float], labels: Sequence[str]) -> Array:
    return np.asarray(log_softmax([weights[label] for label in labels]))
