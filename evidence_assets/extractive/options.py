"""Solvers of questions with options: the most similar statement, or the best retrieval score, of each option."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from evidence_assets.extractive.spans.choice import load_span_weights, span_f1
from evidence_assets.extractive.spans.features import find_spans
from evidence_assets.extractive.spans.passages import Passage, split_passages
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.vectors import encode_ends
from evidence_assets.reasoning.statements import TEXT_KINDS, YES_NO_MAYBE, Statement, is_yes_no_maybe, split_statements
from evidence_assets.reasoning.tasks import (
    Chain,
    ChainStep,
    Choice,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
    Failure,
    are_names,
)
from evidence_assets.text.negation import asks_for_exception, is_denial
from evidence_assets.text.words import stems

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
"""Weight of a statement that is not a finding; a finding has weight 1."""
MIN_FINDINGS = 2
"""Minimum findings of a document that say yes or no: a note on other matters has one at most, by chance."""
# Log odds against yes, fitted on the first half of PubMedQA's development questions by measure_answers.py --fit.
LOG_ODDS_OFFSETS = {"yes": 0.0, "no": -0.68, "maybe": -1.50}
LOG_ODDS_SLOPES = {"yes": 0.0, "no": 2.06, "maybe": -0.34}
MIN_SHARE = 0.50
"""Minimum probability of a supported label."""


def explain_yes_no_maybe(
    task: ExplainOption, cosines: Mapping[Statement, float], documents: Mapping[str, str]
) -> Chain:
    """The chain for one label, from the document with the statement most similar to the question.

    A document without :data:`MIN_FINDINGS` findings supports no label: it is no report of a study.

    A source that is not in ``documents`` is its own document. The support of label l is its probability, the softmax of
    ``a_l + b_l·x``, where x is the share of the document's findings that are negative.
    """
    label = task.option.strip().casefold()
    source = {item.evidence_id: documents.get(item.source_id, item.source_id) for item in task.evidence}
    if not cosines:
        return Chain(task.hypothesis, (ChainStep("There is no evidence to conclude from."),), 0.0)
    nearest = max(cosines, key=lambda statement: cosines[statement])
    document = list({s.quote: s for s in cosines if source[s.evidence_id] == source[nearest.evidence_id]}.values())
    weights = {s: 1.0 if _FINDING.search(s.quote) else NON_FINDING_WEIGHT for s in document}
    if sum(weight == 1.0 for weight in weights.values()) < MIN_FINDINGS:
        return Chain(task.hypothesis, (ChainStep("The evidence reports no findings that say yes or no."),), 0.0)
    negative = {s for s in document if _NO_FINDING.search(s.quote)}
    negative_share = sum(weights[s] for s in negative) / sum(weights.values())
    odds = {name: math.exp(LOG_ODDS_OFFSETS[name] + LOG_ODDS_SLOPES[name] * negative_share) for name in YES_NO_MAYBE}
    support = round(odds[label] / sum(odds.values()), 6)
    matching = [s for s in document if weights[s] == 1.0 and label != "maybe" and (s in negative) == (label == "no")]
    if not matching:
        return Chain(task.hypothesis, (ChainStep(f"No finding of the evidence says “{label}”."),), support)
    best = max(matching, key=lambda statement: cosines[statement])
    verdict = "is found against it" if label == "no" else "is found"
    step = ChainStep(f"This {verdict}: {best.quote}", (best.evidence_id,), (best.quote,))
    return Chain(task.hypothesis, (step,), support)


def choose_yes_no_maybe(task: ChooseAnswer, support: Mapping[str, float]) -> Choice:
    """The most probable label; supported if its probability is at least :data:`MIN_SHARE`."""
    weights = {label: math.log(max(support[label], 1e-6)) for label in task.labels}
    answer = max(task.labels, key=lambda label: weights[label])
    is_supported = support[answer] >= MIN_SHARE
    status = "answered" if is_supported else "insufficient"
    return Choice(answer, (answer,) if is_supported else (), status, weights=weights)


VERSION = "14"
"""Bump when equal input gives other chains or choices."""

# Log odds, fitted on the first halves by id of OpenBookQA, ARC and CommonsenseQA by measure_answers.py --fit.
STATEMENT_WEIGHT = 3.2
"""Weight of the cosine of the most similar statement, for questions with texts in their evidence."""
FACT_WEIGHT = 6.0
"""Weight of that cosine for evidence of triples and paths only, multiplied by the share of options without evidence:
evidence for all options does not rank them. On CommonsenseQA with ConceptNet no weight beats 0 (docs/measured.md)."""
ASSOCIATION_WEIGHT = 5.0
"""Weight of the cosine of question and option, for evidence without texts."""
LENGTH_WEIGHT = 3.1
"""Weight of an option's length from 20 to 120 characters, divided by 40, for questions with texts in their evidence:
authors write the correct option in more detail. It ranks options and never supports one."""

MIN_CITED_COSINE = 0.35
"""Minimum cosine of a statement with question and option to be cited."""
MIN_SUPPORT_COSINE = 0.60
"""Minimum cosine of a statement that supports an option."""
MIN_LEAD = 0.06
"""Minimum lead in support over the next option; below it the answer is ambiguous."""

# For options that are names or numbers; tuned on two articles of SQuAD with names of their paragraphs as options, and
# on the first half of HotpotQA-100.
MENTION_WEIGHT = 0.1
"""Weight of a sentence that has the words of the option, where no likely span does."""
MIN_MENTION_SUPPORT = 0.15
"""Minimum support of a supported option."""
LOG_SUPPORT_WEIGHT = 1.6
LOG_SUPPORT_OFFSET = 0.01


class ExtractiveSolver:
    """Answers multiple-choice and graph questions from the statements of their evidence.

    The support of an option is the cosine of question plus option with the most similar affirmative statement of its
    evidence. With texts in the evidence its weight is ``3.2·support + 3.1·length``, the length only if no option has a
    clear lead. If most options are names or numbers, the support is that of the spans that say them
    (:func:`_quote_mention`). Without texts the weight is ``5·cos(question, option) +
    6·(1 − share)·support``, where share is the fraction of options with any support.

    ``documents``: Returns the document of each chunk id; a chunk without one is its own document.
    """

    name = "extractive"

    def __init__(
        self, encoder: Encoder, *, documents: Callable[[Sequence[str]], Mapping[str, str]] = lambda chunks: {}
    ) -> None:
        self.encoder = encoder
        self.documents = documents
        self.model_id = f"extractive+{encoder.model_id}"
        self.version = f"{VERSION}-{load_span_weights().version[:8]}-{encoder.revision}"

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        """One chain per option: its most similar statement, quoted and cited."""
        statement_lists = [[s for item in task.evidence for s in split_statements(item)] for task in tasks]
        vectors = encode_ends(
            self.encoder,
            [
                *map(_question_and_option, tasks),
                *(task.question for task in tasks),
                *(s.text for group in statement_lists for s in group),
            ],
        )
        chunks = sorted({item.source_id for task in tasks if is_yes_no_maybe(task.option) for item in task.evidence})
        documents = self.documents(chunks) if chunks else {}
        results: list[Chain | Failure] = []
        for task, statements in zip(tasks, statement_lists, strict=True):
            if is_yes_no_maybe(task.option):
                cosines = {s: float(vectors[s.text] @ vectors[task.question]) for s in statements}
                results.append(explain_yes_no_maybe(task, cosines, documents))
            elif task.names and _has_texts(task.evidence):
                results.append(_quote_mention(task, self.encoder))
            else:
                results.append(_quote_nearest(task, statements, vectors))
        return results

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """The option with the largest weight; with the smallest if the question asks for the exception."""
        vectors = encode_ends(
            self.encoder, [text for t in tasks if not _has_relevant_text(t) for text in (t.question, *t.options)]
        )
        return [self._choice(task, vectors) for task in tasks]

    def _choice(self, task: ChooseAnswer, vectors: Mapping[str, FloatArray]) -> Choice:
        support = {chain.hypothesis: chain.support or 0.0 for chain in task.chains}
        if all(map(is_yes_no_maybe, task.options)):
            return choose_yes_no_maybe(task, support)
        is_exception = task.negated or asks_for_exception(task.question)
        min_support = MIN_MENTION_SUPPORT if _names_in_texts(task) else MIN_SUPPORT_COSINE
        weights = self._weights(task, support, vectors, is_exception=is_exception)
        answer = max(task.labels, key=lambda label: weights[label])
        others = {label: value for label, value in support.items() if label != answer}
        if is_exception:  # the evidence supports all options but the exception
            supported = tuple(label for label in task.labels if others.get(label, 0) >= min_support)
            is_certain = bool(others) and len(supported) == len(others)
            lead = min(others.values(), default=0) - support[answer]
        else:
            threshold = max(min_support, max(support.values()) - MIN_LEAD)
            supported = tuple(label for label in task.labels if support[label] >= threshold)
            is_certain = answer in supported
            lead = support[answer] - max(others.values(), default=0)
        status = "insufficient" if not is_certain else "answered" if lead >= MIN_LEAD else "ambiguous"
        return Choice(answer, supported, status, weights=weights)

    def _weights(
        self, task: ChooseAnswer, support: Mapping[str, float], vectors: Mapping[str, FloatArray], *, is_exception: bool
    ) -> dict[str, float]:
        has_text = _has_relevant_text(task)
        unsupported_share = sum(support[label] == 0 for label in task.labels) / len(task.labels)
        weights = {}
        for label, option in zip(task.labels, task.options, strict=True):
            if has_text and are_names(task.options):
                weight = LOG_SUPPORT_WEIGHT * math.log(support[label] + LOG_SUPPORT_OFFSET)
            elif has_text:
                weight = STATEMENT_WEIGHT * support[label]
                if not (is_exception or _has_clear_lead(support)):
                    weight += LENGTH_WEIGHT * length_feature(option)
            else:
                cosine = float(vectors[task.question] @ vectors[option])
                weight = ASSOCIATION_WEIGHT * cosine + FACT_WEIGHT * unsupported_share * support[label]
            weights[label] = -weight if is_exception else weight
        return weights


def length_feature(option: str) -> float:
    """Length of an option, clipped to 20–120 characters: (length − 20) / 40."""
    return (min(max(len(option), 20), 120) - 20) / 40


def _question_and_option(task: ExplainOption) -> str:
    return f"{task.question} {task.option}"


def _has_clear_lead(support: Mapping[str, float]) -> bool:
    """Whether the evidence supports one option more than all others."""
    best, second = sorted([*support.values(), 0.0], reverse=True)[:2]
    return best >= MIN_SUPPORT_COSINE and best - second >= MIN_LEAD


def _has_relevant_text(task: ChooseAnswer) -> bool:
    """Whether the evidence has a text, and some option has support."""
    return any(chain.support for chain in task.chains) and any(map(_has_texts, task.evidence.values()))


def _has_texts(evidence: Sequence[EvidenceItem]) -> bool:
    return any(item.kind in TEXT_KINDS for item in evidence)


def _names_in_texts(task: ChooseAnswer) -> bool:
    """Whether the support of the options was measured by :func:`_quote_mention`."""
    return are_names(task.options) and any(map(_has_texts, task.evidence.values()))


def _quote_mention(task: ExplainOption, encoder: Encoder) -> Chain:
    """The chain that quotes the sentence that says the option, which is a name or a number.

    Its support is the expected token F1 of the option with the span that answers the question, plus a tenth of a
    cosine: that of the question with the most similar sentence of a text, or other evidence, that has all words of the
    option but those of the question.
    """
    texts = [item for item in task.evidence if item.kind in TEXT_KINDS]
    vectors = encode_ends(encoder, [task.question, *(item.text for item in texts)])
    passages = split_passages(sorted(texts, key=lambda item: -float(vectors[item.text] @ vectors[task.question])))
    candidates = find_spans(task.question, passages, encoder)
    probabilities = load_span_weights().probabilities(candidates)
    words = set(stems(task.option))
    words = words.difference(stems(task.question)) or words
    gains = [
        float(p) * span_f1(task.option, c.text) if words.intersection(stems(c.text)) else 0.0
        for c, p in zip(candidates, probabilities, strict=True)
    ]
    others = [item for item in task.evidence if item.kind not in TEXT_KINDS]
    passages += [Passage(item.evidence_id, item.source_id, item.text, 0) for item in others]
    mentions = [passage for passage in passages if words <= set(stems(passage.text))]
    vectors = encode_ends(encoder, [task.question, *(passage.text for passage in mentions)])
    cosines = [max(0.0, float(vectors[passage.text] @ vectors[task.question])) for passage in mentions]
    support = round(min(1.0, math.fsum(gains) + MENTION_WEIGHT * max(cosines, default=0.0)), 6)
    if any(gains):
        passage = candidates[gains.index(max(gains))].passage
    elif mentions:
        passage = mentions[cosines.index(max(cosines))]
    else:
        return Chain(task.hypothesis, (ChainStep(f"No evidence mentions “{task.option}”."),), support)
    text = f"The evidence says about “{task.option}”: {passage.text}"
    return Chain(task.hypothesis, (ChainStep(text, (passage.evidence_id,), (passage.text,)),), support)


def _quote_nearest(task: ExplainOption, statements: Sequence[Statement], vectors: Mapping[str, FloatArray]) -> Chain:
    """The chain that quotes the most similar statement; a negated statement supports only a negated option."""
    target = vectors[_question_and_option(task)]
    is_negated = is_denial(task.option)
    cosines = {s: float(vectors[s.text] @ target) for s in statements if is_negated or not s.is_denial}
    best = max(cosines, key=lambda statement: cosines[statement], default=None)
    if best is None or cosines[best] < MIN_CITED_COSINE:
        return Chain(task.hypothesis, (ChainStep(f"No evidence links the question to “{task.option}”."),), 0.0)
    step = ChainStep(
        f"Nearest to “{task.option}” the evidence states: {best.quote}", (best.evidence_id,), (best.quote,)
    )
    return Chain(task.hypothesis, (step,), round(min(1.0, max(0.0, cosines[best])), 6))


TOP_SCORE_VERSION = "3"
TIE_MARGIN = 1e-9
"""Weights with a smaller difference are tied."""


class TopScoreSolver:
    """Selects the option whose evidence has the highest score; the lowest for exception questions.

    Selectors use different scales, so weights are scores normalized between the lowest and the highest.
    """

    name = "best_found"
    model_id = "best_found"
    version = TOP_SCORE_VERSION

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        """A chain without steps for each option."""
        return [Chain(task.hypothesis, ()) for task in tasks]

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """One label per question; ``insufficient`` without any evidence, ``ambiguous`` for ties."""
        return [self._choice(task) for task in tasks]

    def _choice(self, task: ChooseAnswer) -> Choice:
        scores = {
            label: max((i.score for i in task.evidence.get(label, ())), default=-math.inf) for label in task.labels
        }
        known_scores = [score for score in scores.values() if score > -math.inf]
        if not known_scores:
            return Choice(None, (), "insufficient")
        lowest = min(known_scores)
        span = (max(known_scores) - min(known_scores)) or 1.0
        # An option without evidence ranks last, and first as an exception.
        weights = {label: max(-1.0, (score - lowest) / span) for label, score in scores.items()}
        if task.negated or asks_for_exception(task.question):
            weights = {label: -weight for label, weight in weights.items()}
        answer = max(task.labels, key=lambda label: weights[label])
        best_labels = tuple(label for label in task.labels if weights[answer] - weights[label] <= TIE_MARGIN)
        return Choice(answer, best_labels, "answered" if len(best_labels) == 1 else "ambiguous", weights=weights)
