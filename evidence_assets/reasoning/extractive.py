"""Reasoners that ask no model: one answers multiple-choice questions by the nearest statement of the evidence, one by
how well the evidence of each option was found. Questions on tables are read in ``tables``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.vectors import unit_rows
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Failure
from evidence_assets.text.negation import asks_for_exception, is_denial
from evidence_assets.text.sentences import sentence_spans, split_clauses
from evidence_assets.text.words import STOP_WORDS, stem

_ANSWER_KIND = re.compile(r"\b(?:which|what|whose)\s+((?:[\w-]+\s+){0,3}[\w-]+)", re.IGNORECASE)
_PRONOUN = re.compile(r"\s*(?:it|its|they|their|them|this|these|those|he|his|she|her|such)\b", re.IGNORECASE)
YES_NO_MAYBE = ("yes", "no", "maybe")
_FINDING = re.compile(
    r"\d\s*%|\bp\s*[<=>≤≥]|significan|\b(?:show|found|observ|conclu|suggest|indicat|correlat|associat|higher|lower"
    r"|increas|decreas|differen|similar|predict|improv)",
    re.IGNORECASE,
)
_NO_FINDING = re.compile(
    r"\b(?:no|not|nor|neither|without)\b[^.;]{0,60}\b(?:significan|differen|associat|correlat|effect|affect|influenc"
    r"|increas|improv|chang|benefit|relat)"
    r"|\b(?:similar|comparable|unchanged|failed|ns|insignificant|nonsignificant)\b",
    re.IGNORECASE,
)
NON_FINDING_WEIGHT = 0.1
"""What a statement that is no finding counts beside one that is."""
# Log odds against yes, fitted on the first half of PubMedQA's development questions; bench/measure_answers.py --fit.
LOG_ODDS_OFFSETS = {"yes": 0.0, "no": -0.68, "maybe": -1.50}
LOG_ODDS_SLOPES = {"yes": 0.0, "no": 2.06, "maybe": -0.34}
MIN_SHARE = 0.50
"""Share from which on a label counts as supported."""


def answer_kind_stems(question: str) -> frozenset[str]:
    """Stems of the words right after "which" or "what": they name the kind of the answer, not the topic.

    >>> sorted(answer_kind_stems("Into which product do soybeans go?"))
    ['product']
    """
    kinds = set()
    for match in _ANSWER_KIND.finditer(question):
        for word in match[1].casefold().split():
            if word in STOP_WORDS:
                break
            kinds.add(stem(word))
    return frozenset(kinds)


@dataclass(frozen=True)
class Statement:
    """A clause of one evidence row, and verbatim the sentence around it, with the one before a pronoun."""

    evidence_id: str
    text: str
    quote: str
    is_denial: bool


def split_statements(item: EvidenceItem) -> Iterator[Statement]:
    """Statements of one evidence row: the clauses of its sentences, and its whole sentences where they have several."""
    if item.kind in ("triple", "path", "cell", "column", "row"):
        yield Statement(item.evidence_id, item.text, item.text, is_denial(item.text))
        return
    spans = sentence_spans(item.text)
    for number, (start, end) in enumerate(spans):
        if number and _PRONOUN.match(item.text, start):
            start = spans[number - 1][0]
            yield _statement(item, start, end, item.text[start:end])
            continue
        for clause in split_clauses(item.text[start:end]):
            yield _statement(item, start, end, clause)


def _statement(item: EvidenceItem, start: int, end: int, clause: str) -> Statement:
    return Statement(item.evidence_id, clause, item.text[start:end], is_denial(clause))


def is_yes_no_maybe(option: str) -> bool:
    """Whether an option is one of the three."""
    return option.strip().casefold() in YES_NO_MAYBE


def explain_yes_no_maybe(
    task: ExplainOption, nearness: Mapping[Statement, float], documents: Mapping[str, str]
) -> Chain:
    """The chain for one label: the share that it has, from the document whose statement is nearest to the question.

    A source without one of ``documents`` is its own. The share of a label l is the softmax of ``a_l + b_l·x`` with x
    the share of the document's findings that find nothing.
    """
    label = task.option.strip().casefold()
    source = {item.evidence_id: documents.get(item.source_id, item.source_id) for item in task.evidence}
    if not nearness:
        return Chain(task.hypothesis, (ChainStep("There is no evidence to conclude from."),), 0.0)
    nearest = max(nearness, key=lambda statement: nearness[statement])
    read = list({s.quote: s for s in nearness if source[s.evidence_id] == source[nearest.evidence_id]}.values())
    share = {s: 1.0 if _FINDING.search(s.quote) else NON_FINDING_WEIGHT for s in read}
    nothing = {s for s in read if _NO_FINDING.search(s.quote)}
    found_nothing = sum(share[s] for s in nothing) / sum(share.values())
    odds = {each: math.exp(LOG_ODDS_OFFSETS[each] + LOG_ODDS_SLOPES[each] * found_nothing) for each in YES_NO_MAYBE}
    support = round(odds[label] / sum(odds.values()), 6)
    telling = [s for s in read if share[s] == 1.0 and label != "maybe" and (s in nothing) == (label == "no")]
    if not telling:
        return Chain(task.hypothesis, (ChainStep(f"No finding of the evidence says “{label}”."),), support)
    best = max(telling, key=lambda statement: nearness[statement])
    told = "is found against it" if label == "no" else "is found"
    return Chain(
        task.hypothesis, (ChainStep(f"This {told}: {best.quote}", (best.evidence_id,), (best.quote,)),), support
    )


def choose_yes_no_maybe(task: ChooseAnswer, support: Mapping[str, float]) -> Choice:
    """The label with the greatest share; supported from :data:`MIN_SHARE` on."""
    weights = {label: math.log(max(support[label], 1e-6)) for label in task.labels}
    answer = max(task.labels, key=lambda label: weights[label])
    likely = support[answer] >= MIN_SHARE
    return Choice(answer, (answer,) if likely else (), "answered" if likely else "insufficient", weights=weights)


VERSION = "10"
"""Changes whenever a chain or a choice may."""

TEXT_KINDS = ("chunk", "sentence")

# Log odds, fitted on the first halves by id of OpenBookQA, ARC and CommonsenseQA: bench/measure_answers.py --fit.
STATEMENT_WEIGHT = 3.2
"""Weight of the cosine of the nearest statement, where the question has texts among its evidence."""
FACT_WEIGHT = 6.0
"""The same where it has triples and paths alone, times the share of the options that have none, as what every option
has tells none from the others. On CommonsenseQA with ConceptNet no weight is better than none (docs/measured.md)."""
ASSOCIATION_WEIGHT = 5.0
"""Weight of the cosine of question and option, where no text is among the evidence."""
LENGTH_WEIGHT = 3.1
"""Weight of an option's length from 20 to 120 characters, in forties, where the question has texts among its evidence:
authors who ask about a text word the right option more fully. It orders options and never supports one."""

MIN_CITED_COSINE = 0.35
"""Cosine under which a statement has nothing to do with question and option, and is not cited."""
MIN_SUPPORT_COSINE = 0.60
"""Cosine from which on a statement supports an option."""
MIN_LEAD = 0.06
"""By how much the support of an option must lead for the evidence to tell it from the next."""


class ExtractiveSolver:
    """Answers multiple-choice and graph questions by what the evidence states.

    Support of an option is the cosine of the question followed by the option with the nearest statement of its evidence
    that does not deny what it mentions. Its weight is ``3.2·support + 3.1·length`` where the question has texts among
    its evidence, the length only where the evidence does not tell; where it has none,
    ``5·cos(question, option) + 6·(1 − share)·support`` with the share of the options that have any support.

    ``documents``: The document of each of some chunks, by id; a chunk without one is its own.
    """

    name = "extractive"

    def __init__(
        self, encoder: Encoder, *, documents: Callable[[Sequence[str]], Mapping[str, str]] = lambda chunks: {}
    ) -> None:
        self.encoder, self.documents = encoder, documents
        self.model_id = f"extractive+{encoder.model_id}"
        self.version = f"{VERSION}-{encoder.revision}"

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        """One chain an option: the statement that comes nearest to it, quoted and cited."""
        read = [[s for item in task.evidence for s in split_statements(item)] for task in tasks]
        vectors = self._vectors(
            [
                *map(_question_and_option, tasks),
                *(task.question for task in tasks),
                *(s.text for group in read for s in group),
            ]
        )
        chunks = sorted({item.source_id for task in tasks if is_yes_no_maybe(task.option) for item in task.evidence})
        documents = self.documents(chunks) if chunks else {}
        results: list[Chain | Failure] = []
        for task, found in zip(tasks, read, strict=True):
            if is_yes_no_maybe(task.option):
                nearness = {s: float(vectors[s.text] @ vectors[task.question]) for s in found}
                results.append(explain_yes_no_maybe(task, nearness, documents))
            else:
                results.append(_explain_by_nearest(task, found, vectors))
        return results

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """The option with the greatest weight; the smallest where the question asks for the exception."""
        vectors = self._vectors(
            [text for task in tasks if not _has_relevant_text(task) for text in (task.question, *task.options)]
        )
        return [self._choice(task, vectors) for task in tasks]

    def _vectors(self, texts: Iterable[str]) -> dict[str, FloatArray]:
        """Unit vectors of texts, each encoded once; of one longer than the encoder reads, of its end."""
        distinct = list(dict.fromkeys(texts))
        counts = self.encoder.count_tokens(distinct)
        limit = self.encoder.max_tokens
        read = [text if count <= limit else self._end_of(text) for text, count in zip(distinct, counts, strict=True)]
        if not distinct:
            return {}
        return dict(zip(distinct, unit_rows(self.encoder.encode_sentences(read)), strict=True))

    def _end_of(self, text: str) -> str:
        """The last sentences that the encoder reads, else the last words: what is asked stands at the end."""
        ends = [text[start:] for start, _ in sentence_spans(text)]
        words = text.split()
        ends += [" ".join(words[-count:]) for count in (200, 100, 50, 25, 12)] + [text[-100:]]
        counts = self.encoder.count_tokens(ends)
        return next((end for end, n in zip(ends, counts, strict=True) if n <= self.encoder.max_tokens), text[-20:])

    def _choice(self, task: ChooseAnswer, vectors: Mapping[str, FloatArray]) -> Choice:
        support = {chain.hypothesis: chain.support or 0.0 for chain in task.chains}
        if all(map(is_yes_no_maybe, task.options)):
            return choose_yes_no_maybe(task, support)
        odd = task.negated or asks_for_exception(task.question)
        weights = self._weights(task, support, vectors, odd=odd)
        answer = max(task.labels, key=lambda label: weights[label])
        rest = {label: value for label, value in support.items() if label != answer}
        if odd:  # the exception is what the evidence of all others leaves over
            supported = tuple(label for label in task.labels if rest.get(label, 0) >= MIN_SUPPORT_COSINE)
            certain = bool(rest) and len(supported) == len(rest)
            lead = min(rest.values(), default=0) - support[answer]
        else:
            least = max(MIN_SUPPORT_COSINE, max(support.values()) - MIN_LEAD)
            supported = tuple(label for label in task.labels if support[label] >= least)
            certain, lead = answer in supported, support[answer] - max(rest.values(), default=0)
        status = "insufficient" if not certain else "answered" if lead >= MIN_LEAD else "ambiguous"
        return Choice(answer, supported, status, weights=weights)

    def _weights(
        self, task: ChooseAnswer, support: Mapping[str, float], vectors: Mapping[str, FloatArray], *, odd: bool
    ) -> dict[str, float]:
        texts = _has_relevant_text(task)
        without = sum(support[label] == 0 for label in task.labels) / len(task.labels)
        weights = {}
        for label, option in zip(task.labels, task.options, strict=True):
            if texts:
                weight = STATEMENT_WEIGHT * support[label]
                if not (odd or _has_clear_lead(support)):
                    weight += LENGTH_WEIGHT * length_feature(option)
            else:
                near = float(vectors[task.question] @ vectors[option])
                weight = ASSOCIATION_WEIGHT * near + FACT_WEIGHT * without * support[label]
            weights[label] = -weight if odd else weight
        return weights


def length_feature(option: str) -> float:
    """Characters of an option above 20 and up to 120, in forties."""
    return (min(max(len(option), 20), 120) - 20) / 40


def _question_and_option(task: ExplainOption) -> str:
    return f"{task.question} {task.option}"


def _has_clear_lead(support: Mapping[str, float]) -> bool:
    """Whether the evidence tells one option from all others."""
    best, second = sorted([*support.values(), 0.0], reverse=True)[:2]
    return best >= MIN_SUPPORT_COSINE and best - second >= MIN_LEAD


def _has_relevant_text(task: ChooseAnswer) -> bool:
    """Whether a text is among the evidence, and a statement near some option."""
    near = any(chain.support for chain in task.chains)
    return near and any(item.kind in TEXT_KINDS for items in task.evidence.values() for item in items)


def _explain_by_nearest(task: ExplainOption, found: Sequence[Statement], vectors: Mapping[str, FloatArray]) -> Chain:
    """The chain that quotes the statement nearest to question and option; a denial supports only a denial."""
    wanted, denial = vectors[_question_and_option(task)], is_denial(task.option)
    nearness = {s: float(vectors[s.text] @ wanted) for s in found if denial or not s.is_denial}
    best = max(nearness, key=lambda statement: nearness[statement], default=None)
    if best is None or nearness[best] < MIN_CITED_COSINE:
        return Chain(task.hypothesis, (ChainStep(f"No evidence links the question to “{task.option}”."),), 0.0)
    step = ChainStep(
        f"Nearest to “{task.option}” the evidence states: {best.quote}", (best.evidence_id,), (best.quote,)
    )
    return Chain(task.hypothesis, (step,), round(min(1.0, max(0.0, nearness[best])), 6))


TOP_SCORE_VERSION = "2"
TIE_MARGIN = 1e-9
"""Weights nearer than this are not told apart."""


class TopScoreSolver:
    """Names the option whose evidence was found with the highest score; the lowest where the exception is asked for.

    Scores have no scale that all selectors share: weights are their places between the lowest and the highest.
    """

    name = "best_found"
    model_id = "best_found"
    version = TOP_SCORE_VERSION

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        """A chain without a step for each option."""
        return [Chain(task.hypothesis, ()) for task in tasks]

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """One label a question; ``insufficient`` where no option has evidence, ``ambiguous`` where two are best."""
        return [self._choice(task) for task in tasks]

    def _choice(self, task: ChooseAnswer) -> Choice:
        scores = {
            label: max((item.score for item in task.evidence.get(label, ())), default=-math.inf)
            for label in task.labels
        }
        found = [score for score in scores.values() if score > -math.inf]
        if not found:
            return Choice(None, (), "insufficient")
        low, span = min(found), (max(found) - min(found)) or 1.0
        # An option without evidence is last, and the best exception.
        weights = {label: max(-1.0, (score - low) / span) for label, score in scores.items()}
        if task.negated or asks_for_exception(task.question):
            weights = {label: -weight for label, weight in weights.items()}
        answer = max(task.labels, key=lambda label: weights[label])
        near = tuple(label for label in task.labels if weights[answer] - weights[label] <= TIE_MARGIN)
        return Choice(answer, near, "answered" if len(near) == 1 else "ambiguous", weights=weights)
