"""Solvers of questions with options: the most similar statement, or the best retrieval score, of each option."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence_assets.extractive.spans.choice import load_span_weights, span_f1
from evidence_assets.extractive.spans.features import find_spans
from evidence_assets.extractive.spans.passages import Passage, split_passages
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.vectors import encode_ends
from evidence_assets.reasoning.statements import TEXT_KINDS, YES_NO_MAYBE, Statement, is_yes_no_maybe, split_statements
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Failure
from evidence_assets.text.negation import asks_for_exception, is_denial
from evidence_assets.text.words import stems

VERSION = "14"
"""Bump when equal input gives other chains or choices, also by other values in ``options.yaml``."""
WEIGHTS_FILE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True)
class OptionWeights:
    """Weights, in log odds, and thresholds; ``bench/answers/measure_answers.py`` writes them."""

    statement_weight: float
    """Of the cosine of the most similar statement, for questions with texts in their evidence."""
    length_weight: float
    """Of :func:`length_feature`, for the same questions: authors write the correct option in more detail. It ranks
    options and never supports one."""
    association_weight: float
    """Of the cosine of question and option, for evidence without texts."""
    fact_weight: float
    """Of the cosine of the most similar statement, for evidence without texts, multiplied by the share of options
    without evidence: evidence for all options does not rank them."""
    mention_weight: float
    """Of the cosine of a sentence that has the words of an option that is a name, where no likely span does."""
    log_support_weight: float
    log_support_offset: float
    """Weight of an option that is a name: ``log_support_weight · log(support + log_support_offset)``."""
    min_cited_cosine: float
    """Minimum cosine of a statement with question and option to be cited."""
    min_support_cosine: float
    """Minimum cosine of a statement that supports an option."""
    min_mention_support: float
    """Minimum support of a supported option that is a name."""
    min_lead: float
    """Minimum lead in support over the next option; below it the answer is ambiguous."""
    min_label_share: float
    """Minimum probability of a supported yes, no or maybe."""
    label_offsets: Mapping[str, float]
    label_slopes: Mapping[str, float]
    """Log odds of a label against yes, and what the share of negative findings adds to them."""


WEIGHTS = OptionWeights(**read_yaml_mapping(WEIGHTS_FILE)["values"])
NON_FINDING_WEIGHT = 0.1
"""Weight of a statement that is not a finding; a finding has weight 1."""
MIN_FINDINGS = 2
"""Minimum findings of a document that say yes or no: a note on other matters has one at most, by chance."""
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


def explain_yes_no_maybe(
    task: ExplainOption, cosines: Mapping[Statement, float], documents: Mapping[str, str]
) -> Chain:
    """The chain for one label, from the document with the statement most similar to the question.

    A document without :data:`MIN_FINDINGS` findings supports no label: it is no report of a study.

    A source that is not in ``documents`` is its own document. The support of label l is its probability, the softmax of
    ``a_l + b_l·x``, where x is the share of the document's findings that are negative.
    """
    if not cosines:
        return _build_chain(task, "There is no evidence to conclude from.", 0.0)
    statements = _select_document(task, cosines, documents)
    findings = [statement for statement in statements if _FINDING.search(statement.quote)]
    if len(findings) < MIN_FINDINGS:
        return _build_chain(task, "The evidence reports no findings that say yes or no.", 0.0)
    label = task.option.strip().casefold()
    negative = {statement for statement in statements if _NO_FINDING.search(statement.quote)}
    support = _label_probabilities(statements, set(findings), negative)[label]
    matching = [s for s in findings if label != "maybe" and (s in negative) == (label == "no")]
    if not matching:
        return _build_chain(task, f"No finding of the evidence says “{label}”.", support)
    best = max(matching, key=lambda statement: cosines[statement])
    verdict = "is found against it" if label == "no" else "is found"
    return _build_chain(task, f"This {verdict}: {best.quote}", support, best.evidence_id, best.quote)


def _select_document(
    task: ExplainOption, cosines: Mapping[Statement, float], documents: Mapping[str, str]
) -> list[Statement]:
    """Statements with distinct quotes from the document of the most similar statement."""
    source = {item.evidence_id: documents.get(item.source_id, item.source_id) for item in task.evidence}
    nearest = max(cosines, key=lambda statement: cosines[statement])
    document = source[nearest.evidence_id]
    return list({s.quote: s for s in cosines if source[s.evidence_id] == document}.values())


def _label_probabilities(
    statements: Sequence[Statement], findings: set[Statement], negative: set[Statement]
) -> dict[str, float]:
    """The softmax of the log odds of each label, given the weighted share of negative statements."""
    weights = {s: 1.0 if s in findings else NON_FINDING_WEIGHT for s in statements}
    negative_share = sum(weights[s] for s in statements if s in negative) / sum(weights.values())
    odds = {
        label: math.exp(WEIGHTS.label_offsets[label] + WEIGHTS.label_slopes[label] * negative_share)
        for label in YES_NO_MAYBE
    }
    total = sum(odds.values())
    return {label: round(value / total, 6) for label, value in odds.items()}


def choose_yes_no_maybe(task: ChooseAnswer, support: Mapping[str, float]) -> Choice:
    """The most probable label; supported if its probability is at least ``min_label_share``."""
    labels = task.question.labels
    weights = {label: math.log(max(support[label], 1e-6)) for label in labels}
    answer = max(labels, key=lambda label: weights[label])
    if support[answer] < WEIGHTS.min_label_share:
        return Choice(answer, (), "insufficient", weights=weights)
    return Choice(answer, (answer,), "answered", weights=weights)


def _build_chain(task: ExplainOption, text: str, support: float, evidence_id: str = "", quote: str = "") -> Chain:
    """A chain of one step, which quotes its evidence, if any."""
    step = ChainStep(text, (evidence_id,), (quote,)) if evidence_id else ChainStep(text)
    return Chain(task.hypothesis, (step,), support)


class ExtractiveSolver:
    """Answers multiple-choice and graph questions from the statements of their evidence.

    The support of an option is the cosine of question plus option with the most similar affirmative statement of its
    evidence. With texts in the evidence its weight is ``statement_weight·support + length_weight·length``, the length
    only if no option has a clear lead. If most options are names or numbers, the support is that of the spans that say
    them (:func:`_quote_mention`). Without texts the weight is ``association_weight·cos(question, option) +
    fact_weight·(1 − share)·support``, where share is the fraction of options with any support. The weights are those
    of :class:`OptionWeights`.

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
                *(task.question.query(task.option) for task in tasks),
                *(task.question.text for task in tasks),
                *(s.text for group in statement_lists for s in group),
            ],
        )
        chunks = sorted({item.source_id for task in tasks if is_yes_no_maybe(task.option) for item in task.evidence})
        documents = self.documents(chunks) if chunks else {}
        results: list[Chain | Failure] = []
        for task, statements in zip(tasks, statement_lists, strict=True):
            if is_yes_no_maybe(task.option):
                cosines = {s: float(vectors[s.text] @ vectors[task.question.text]) for s in statements}
                results.append(explain_yes_no_maybe(task, cosines, documents))
            elif task.question.has_names and _has_texts(task.evidence):
                results.append(_quote_mention(task, self.encoder))
            else:
                results.append(_quote_nearest(task, statements, vectors))
        return results

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """The option with the largest weight; with the smallest if the question asks for the exception."""
        vectors = encode_ends(
            self.encoder,
            [text for t in tasks if not _has_relevant_text(t) for text in (t.question.text, *t.question.options)],
        )
        return [self._choice(task, vectors) for task in tasks]

    def _choice(self, task: ChooseAnswer, vectors: Mapping[str, FloatArray]) -> Choice:
        support = {chain.hypothesis: chain.support or 0.0 for chain in task.chains}
        if all(map(is_yes_no_maybe, task.question.options)):
            return choose_yes_no_maybe(task, support)
        is_exception = task.question.negated or asks_for_exception(task.question.text)
        weights = self._weights(task, support, vectors, is_exception=is_exception)
        answer = max(task.question.labels, key=lambda label: weights[label])
        judge = _judge_exception if is_exception else _judge_answer
        supported, status = judge(task, answer, support)
        return Choice(answer, supported, status, weights=weights)

    def _weights(
        self, task: ChooseAnswer, support: Mapping[str, float], vectors: Mapping[str, FloatArray], *, is_exception: bool
    ) -> dict[str, float]:
        question = task.question
        has_text = _has_relevant_text(task)
        has_names = question.has_names
        counts_length = not is_exception and not _has_clear_lead(support)
        unsupported_share = sum(support[label] == 0 for label in question.labels) / len(question.labels)
        weights = {}
        for label, option in question.hypotheses:
            if has_text and has_names:
                weight = WEIGHTS.log_support_weight * math.log(support[label] + WEIGHTS.log_support_offset)
            elif has_text:
                weight = WEIGHTS.statement_weight * support[label]
                weight += WEIGHTS.length_weight * length_feature(option) if counts_length else 0.0
            else:
                cosine = float(vectors[question.text] @ vectors[option])
                weight = WEIGHTS.association_weight * cosine + WEIGHTS.fact_weight * unsupported_share * support[label]
            weights[label] = -weight if is_exception else weight
        return weights


def _judge_answer(task: ChooseAnswer, answer: str, support: Mapping[str, float]) -> tuple[tuple[str, ...], str]:
    """The options with the best support, and whether the answer is one of them and ahead."""
    threshold = max(_min_support(task), max(support.values()) - WEIGHTS.min_lead)
    supported = tuple(label for label in task.question.labels if support[label] >= threshold)
    lead = support[answer] - max((value for label, value in support.items() if label != answer), default=0)
    return supported, _status(answer in supported, lead)


def _judge_exception(task: ChooseAnswer, answer: str, support: Mapping[str, float]) -> tuple[tuple[str, ...], str]:
    """The options that the evidence supports, and whether these are all but the exception."""
    others = {label: value for label, value in support.items() if label != answer}
    min_support = _min_support(task)
    supported = tuple(label for label in task.question.labels if others.get(label, 0) >= min_support)
    lead = min(others.values(), default=0) - support[answer]
    return supported, _status(0 < len(others) == len(supported), lead)


def _min_support(task: ChooseAnswer) -> float:
    """Minimum support of a supported option; that of names in texts is measured by :func:`_quote_mention`."""
    has_mentions = task.question.has_names and any(map(_has_texts, task.evidence.values()))
    return WEIGHTS.min_mention_support if has_mentions else WEIGHTS.min_support_cosine


def _status(is_certain: bool, lead: float) -> str:
    if not is_certain:
        return "insufficient"
    return "answered" if lead >= WEIGHTS.min_lead else "ambiguous"


def length_feature(option: str) -> float:
    """Length of an option, clipped to 20–120 characters: (length − 20) / 40."""
    return (min(max(len(option), 20), 120) - 20) / 40


def _has_clear_lead(support: Mapping[str, float]) -> bool:
    """Whether the evidence supports one option more than all others."""
    best, second = sorted([*support.values(), 0.0], reverse=True)[:2]
    return best >= WEIGHTS.min_support_cosine and best - second >= WEIGHTS.min_lead


def _has_relevant_text(task: ChooseAnswer) -> bool:
    """Whether the evidence has a text, and some option has support."""
    return any(chain.support for chain in task.chains) and any(map(_has_texts, task.evidence.values()))


def _has_texts(evidence: Sequence[EvidenceItem]) -> bool:
    return any(item.kind in TEXT_KINDS for item in evidence)


@dataclass(frozen=True)
class _Mention:
    """A passage that says an option that is a name or a number."""

    passage: Passage
    weight: float


def _quote_mention(task: ExplainOption, encoder: Encoder) -> Chain:
    """The chain that quotes the sentence that says the option, which is a name or a number.

    Its support is the expected token F1 of the option with the span that answers the question, plus a share of the
    best weight of a passage that mentions the option (:func:`_find_mentions`).
    """
    question = task.question.text
    words = set(stems(task.option))
    words = words.difference(stems(question)) or words
    passages = _rank_passages(task, encoder)
    spans = _find_option_spans(task, words, passages, encoder)
    others = [item for item in task.evidence if item.kind not in TEXT_KINDS]
    passages += [Passage(item, item.text, 0) for item in others]
    mentions = _find_mentions(question, words, passages, encoder)
    best_mention = max((mention.weight for mention in mentions), default=0.0)
    support = math.fsum(span.weight for span in spans) + WEIGHTS.mention_weight * best_mention
    support = round(min(1.0, support), 6)
    if not (spans or mentions):
        return _build_chain(task, f"No evidence mentions “{task.option}”.", support)
    passage = max(spans or mentions, key=lambda mention: mention.weight).passage
    text = f"The evidence says about “{task.option}”: {passage.text}"
    return _build_chain(task, text, support, passage.item.evidence_id, passage.text)


def _rank_passages(task: ExplainOption, encoder: Encoder) -> list[Passage]:
    """The sentences of the texts, those of the texts most similar to the question first."""
    texts = [item for item in task.evidence if item.kind in TEXT_KINDS]
    question = task.question.text
    vectors = encode_ends(encoder, [question, *(item.text for item in texts)])
    return split_passages(sorted(texts, key=lambda item: -float(vectors[item.text] @ vectors[question])))


def _find_option_spans(
    task: ExplainOption, words: set[str], passages: Sequence[Passage], encoder: Encoder
) -> list[_Mention]:
    """Spans with words of the option; the weight is their probability times their token F1 with the option."""
    candidates = find_spans(task.question.text, passages, encoder)
    probabilities = load_span_weights().probabilities(candidates)
    gains = [
        _Mention(candidate.passage, float(probability) * span_f1(task.option, candidate.text))
        for candidate, probability in zip(candidates, probabilities, strict=True)
        if words.intersection(stems(candidate.text))
    ]
    return [gain for gain in gains if gain.weight > 0]


def _find_mentions(question: str, words: set[str], passages: Sequence[Passage], encoder: Encoder) -> list[_Mention]:
    """Passages with all words of an option; the weight is their cosine with the question, at least 0."""
    mentions = [passage for passage in passages if words <= set(stems(passage.text))]
    vectors = encode_ends(encoder, [question, *(passage.text for passage in mentions)])
    return [_Mention(p, max(0.0, float(vectors[p.text] @ vectors[question]))) for p in mentions]


def _quote_nearest(task: ExplainOption, statements: Sequence[Statement], vectors: Mapping[str, FloatArray]) -> Chain:
    """The chain that quotes the most similar statement; a negated statement supports only a negated option."""
    target = vectors[task.question.query(task.option)]
    is_negated = is_denial(task.option)
    cosines = {s: float(vectors[s.text] @ target) for s in statements if is_negated or not s.is_denial}
    best = max(cosines, key=lambda statement: cosines[statement], default=None)
    if best is None or cosines[best] < WEIGHTS.min_cited_cosine:
        return _build_chain(task, f"No evidence links the question to “{task.option}”.", 0.0)
    text = f"Nearest to “{task.option}” the evidence states: {best.quote}"
    support = round(min(1.0, max(0.0, cosines[best])), 6)
    return _build_chain(task, text, support, best.evidence_id, best.quote)


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
        labels = task.question.labels
        scores = {label: max((i.score for i in task.evidence.get(label, ())), default=-math.inf) for label in labels}
        known_scores = [score for score in scores.values() if score > -math.inf]
        if not known_scores:
            return Choice(None, (), "insufficient")
        lowest = min(known_scores)
        span = (max(known_scores) - min(known_scores)) or 1.0
        # An option without evidence ranks last, and first as an exception.
        weights = {label: max(-1.0, (score - lowest) / span) for label, score in scores.items()}
        if task.question.negated or asks_for_exception(task.question.text):
            weights = {label: -weight for label, weight in weights.items()}
        answer = max(labels, key=lambda label: weights[label])
        best_labels = tuple(label for label in labels if weights[answer] - weights[label] <= TIE_MARGIN)
        return Choice(answer, best_labels, "answered" if len(best_labels) == 1 else "ambiguous", weights=weights)
