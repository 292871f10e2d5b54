"""What models say of a harvest: rows of ``scores`` where no truth is known.

Belongs here: what a generator is asked of one statement and the strict reading of its reply; judged precision and noise,
agreement of two judges, and the likelihood of the statements. Triples are put to models as statements, by the template of
their relation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from evidence_assets.experiment.scores.metrics import Estimate, bare, bootstrap
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.harvest.triple_metrics import Pair, cohens_kappa, judge_precision, novel_only
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.asking import LanguageModel, PromptedTask
from evidence_assets.reasoning.parsing import one_of
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.reasoning.templates import PACKAGED, Template, Words
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.text.prompt_text import as_sentence, fill

VERDICTS = {"correct": True, "wrong": False}
REWORDINGS = 5
"""Rewordings of a statement that are asked for at once."""
_PROMPT = Template.load(__package__, "judge", "statement")
_REWORD = Template.load(__package__, "reword", "statement number")


class Judge(Protocol):
    """Says of statements, in order, whether they are correct."""

    @property
    def model_id(self) -> str: ...
    @property
    def version(self) -> str: ...
    def judge(self, statements: Sequence[str]) -> list[bool | Failure]: ...


def judge_request(statement: str, words: Words = PACKAGED) -> Request:
    """Ask a generator for a verdict."""
    return words.of(_PROMPT).request(8, tuple(VERDICTS), statement=json.dumps(statement, ensure_ascii=False))


def parse_verdict(reply: str) -> bool:
    """One of the two words, alone; see :func:`one_of`.

    >>> parse_verdict("Correct."), parse_verdict("wrong")
    (True, False)
    """
    return VERDICTS[one_of(reply, tuple(VERDICTS))]


JUDGE = PromptedTask("judge", (_PROMPT,), judge_request, lambda reply, _: parse_verdict(reply))


class PromptedJudge:
    """Judges by a language model."""

    def __init__(self, model: LanguageModel) -> None:
        self._model, self.model_id = model, model.model_id
        self._said: dict[str, bool | Failure] = {}
        self.version = content_id("prompted_judge", JUDGE.version_in(model.words), model.version)

    def judge(self, statements: Sequence[str]) -> list[bool | Failure]:
        """One verdict or failure a statement; what it has judged before it is not asked again."""
        new = [text for text in dict.fromkeys(statements) if text not in self._said]
        self._said |= dict(zip(new, JUDGE.ask(self._model, new), strict=True)) if new else {}
        return [self._said[text] for text in statements]


def parse_rewordings(reply: str) -> list[str]:
    """One a line, without bullets and numbers.

    >>> parse_rewordings("1. A saw serves to cut." + chr(10) + "- To cut, one takes a saw.")
    ['A saw serves to cut.', 'To cut, one takes a saw.']
    """
    lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line).strip().strip('"') for line in reply.splitlines())
    return [line for line in lines if line]


REWORD: PromptedTask[str, list[str]] = PromptedTask(
    "reword",
    (_REWORD,),
    lambda statement, words: words.of(_REWORD).request(
        40 * REWORDINGS, statement=json.dumps(statement, ensure_ascii=False), number=str(REWORDINGS)
    ),
    lambda reply, _: parse_rewordings(reply),
)


class PromptedParaphraser:
    """Rewords statements by a language model; a reply that cannot be read gives no rewording."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.version = content_id("prompted_paraphraser", REWORD.version_in(model.words), model.version)

    def reword(self, statements: Sequence[str]) -> list[list[str]]:
        return [said if isinstance(said, list) else [] for said in REWORD.ask(self._model, statements)]


class Likelihood(Protocol):
    """Rates texts given the ones before them."""

    @property
    def model_id(self) -> str: ...
    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.floating]: ...


def statement(relation: Relation, head: str, tail: str) -> str:
    """A triple as a sentence, by its relation's template."""
    return as_sentence(fill(relation.template, head, tail))


Verdicts = list[bool | None]
"""Of statements in order, whether each is correct; None where nothing usable was said."""


def verdicts_of(judge: Judge, texts: Sequence[str]) -> Verdicts:
    """What a judge says of statements."""
    return [verdict if isinstance(verdict, bool) else None for verdict in judge.judge(texts)]


def agreement(said: Sequence[Verdicts]) -> tuple[float, list[bool]]:
    """Cohen's kappa of the first two judges, and whether they say the same of each statement that both judged."""
    both = [(a, b) for a, b in zip(*said[:2], strict=True) if a is not None and b is not None]
    return (cohens_kappa(*zip(*both, strict=True)) if both else float("nan")), [a == b for a, b in both]


def pairs_of(triples: pl.DataFrame, origin: str, relations: Sequence[Relation]) -> dict[str, list[Pair]]:
    """Head and tail of one origin's triples by relation, best first."""
    own = triples.filter(pl.col("origin") == origin).sort("rank")
    named = {relation.id: own.filter(pl.col("relation_id") == relation.id) for relation in relations}
    return {name: list(rows.select("head", "tail").iter_rows()) for name, rows in named.items() if rows.height}


def unseeded(relation: Relation, pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs that are no seeds of the relation, however they are capitalised."""
    seeds = {(head.casefold(), tail.casefold()) for head, tail in relation.pairs}
    return [pair for pair in pairs if (pair[0].casefold(), pair[1].casefold()) not in seeds]


def judged_rows(
    relations: Sequence[Relation],
    triples: pl.DataFrame,
    *,
    variants: Mapping[str, str],
    judges: Sequence[Judge] = (),
    likelihood: Likelihood | None = None,
) -> list[dict[str, Any]]:
    """Rows for every relation and variant; ``variants`` says under which name each origin's triples are scored.

    * ``judge_precision`` and ``judge_noisy``, in per cent, by each judge (its name is the ``reasoner``), and
      ``judge_precision_novel`` over what the other variants did not find. A statement without a usable verdict counts
      neither way; ``n`` says how many have one.
    * ``judge_kappa`` of the first two judges, over the statements that both judged.
    * ``likelihood``: mean log-probability of the statement after the relation's seed statements, with its interval over
      the triples. Seeds themselves are left out of everything.
    """
    rows: list[dict[str, Any]] = []
    for relation in sorted(relations, key=lambda each: each.id):
        pairs = {
            origin: unseeded(relation, pairs_of(triples, origin, [relation]).get(relation.id, []))
            for origin in variants
        }
        for origin, variant in variants.items():
            if not pairs[origin]:
                continue
            texts = [statement(relation, *pair) for pair in pairs[origin]]
            elsewhere = [pair for other, found in pairs.items() if other != origin for pair in found]
            novel = novel_only(pairs[origin], elsewhere)
            verdicts = [verdicts_of(judge, texts) for judge in judges]
            model = str(triples["model_id"][0])
            for judge, said in zip(judges, verdicts, strict=True):
                numbers = _verdict_numbers(said, [said[i] for i in novel] if elsewhere else None)
                rows += metric_rows(relation.id, variant, judge.model_id, model, numbers, kind="relation")
            if len(verdicts) > 1:
                kappa, both = agreement(verdicts)
                numbers = {"judge_kappa": bare(kappa, len(both))}
                rows += metric_rows(relation.id, variant, judges[0].model_id, model, numbers, kind="relation")
            if likelihood is not None:
                before = " ".join(statement(relation, *seed) for seed in relation.pairs)
                numbers = {
                    "likelihood": bootstrap(likelihood.score([(before, text) for text in texts]), resamples=1000)
                }
                rows += metric_rows(relation.id, variant, likelihood.model_id, model, numbers, kind="relation")
    return rows


def _verdict_numbers(said: Verdicts, novel: Verdicts | None) -> dict[str, Estimate]:
    judged = len(said) - said.count(None)
    if not judged:
        return {"judge_precision": bare(float("nan"), 0)}
    precision, noisy = judge_precision(said)
    numbers = {"judge_precision": bare(precision, judged), "judge_noisy": bare(noisy, judged)}
    if novel is not None and (of := len(novel) - novel.count(None)):
        numbers["judge_precision_novel"] = bare(judge_precision(novel)[0], of)
    return numbers
