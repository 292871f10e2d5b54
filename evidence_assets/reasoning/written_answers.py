"""Written answers: at most three sentences of a language model, each checked against the evidence that it cites.

A small model rarely names the row that it reads, so each sentence is aligned with the row that carries it, and dropped
if there is none. The model is then asked whether the cited rows alone state what the question asks for. The answer is
given if its probability, by a logistic regression on :func:`answer_signals`, suffices. Otherwise the rules answer,
unless the model doubts that their rows state it. Questions for yes or no go to :mod:`.yes_no_answers`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, combinations, islice, pairwise
from pathlib import Path

from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.confidence import MAX_LOGIT, Fit, Signals
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.reply_parsing import INSUFFICIENT_EVIDENCE, parse_answer
from evidence_assets.reasoning.short_answers import NO_ANSWER, ShortAnswer, ShortAnswerSolver, ShortTask
from evidence_assets.reasoning.short_choices import LETTER_TOKENS
from evidence_assets.reasoning.tables.cell_text import NUMBER_WORDS
from evidence_assets.reasoning.tasks import ChainStep, EvidenceItem, Failure, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template
from evidence_assets.reasoning.yes_no_answers import YES_NO, YesNoAnswers, needs_verdict
from evidence_assets.text.definitions import asked_term
from evidence_assets.text.negation import is_denial
from evidence_assets.text.sentences import sentence_spans, split_clauses
from evidence_assets.text.tokens import DETERMINERS, LISTS, Word, asks_yes_or_no, split_tokens

VERSION = "8"
"""Raise it whenever equal replies may become other answers."""
DECISION_FILE = Path(__file__).with_suffix(".yaml")
WRITTEN = Template.load(__package__, "written", "lines question")
MAX_ROWS = 8
"""Maximum rows of evidence in a prompt."""
MAX_SENTENCES = 3
UNRATED = 2.0
"""Log odds of a judgement that a server gives no probability."""
MIN_LOG_ODDS = 0.2
"""Minimum log odds that the rows of an answer of the rules state what is asked for; chosen on development questions."""
MAX_TOKENS = 96
CHECK = Template.load(__package__, "check_written", "text question letters")
JUDGEMENTS = ("A", "B")
"""Letters of a judgement: the rows state what is asked for, or not."""
SIGNALS = ("lead", "missing", "carried", "one_row", "stated")
"""Names of :func:`answer_signals`."""
MIN_NEW_WORDS = 0.8
"""Minimum share of a sentence's content words, without those of the question, that its rows have."""
_CITATION = re.compile(r"\s*[\[(](?:lines? )?(\d+(?:\s*(?:,|and)\s*\d+)*)[\])]", re.IGNORECASE)
_MISSING = re.compile(r"n\s*/?\s*a\b\W*", re.IGNORECASE)
_SAYS_NOTHING = re.compile(
    r"\b(?:lines?|texts?|documents?) (?:do|does)(?: not|n['’]t) (?:\w+ ){0,2}?(?:give|provide|state|say|mention)",
    re.IGNORECASE,
)
_VERDICT = re.compile(r"\W*(?:yes|no)\b(?:[,.:;–]\s*|$)", re.IGNORECASE)
"""At the start of a reply; "No pets are allowed" begins with no verdict."""
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_ABOUT_LINES = re.compile(
    r"(?:the |these )?(?:lines?|texts?|documents?)(?: \d+)? (?:\w+ly )?"
    r"(?:give|state|say|mention|show|indicate)s? (?:(?:the )?(?:reason|information) )?that ",
    re.IGNORECASE,
)
_PART = re.compile(r"[,;:](?!\d)|\band (?=(?:is|are|was|were|has|have|had|do|does|did|can|may|must|will|should)\b)")
"""What separates the parts of a clause, of which one may be denied and the other not."""
_NO_DENIAL = re.compile(
    r"\b(?:not (?:only|just)|whether or not|no (?:doubt|matter)|without (?:delay|fail|exception))\b", re.IGNORECASE
)
"""Phrases with a negation that deny nothing. "No more than two" is none: it denies "more than two"."""
_EQUAL_STEMS = {"€": "euro", "eur": "euro", "£": "pound", "gbp": "pound", "$": "dollar", "usd": "dollar"}
_EQUAL_STEMS |= {word: str(number) for number, word in enumerate(NUMBER_WORDS) if word != "one"}  # "the old one"
_EQUAL_STEMS |= {"p.m": "pm", "a.m": "am"}
_EQUAL_STEMS |= {"meter": "metr", "kilomet": "kilometr", "centimet": "centimetr", "liter": "litr", "color": "colour"}
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_CLOCK = re.compile(r"\b([ap])\. m\b", re.IGNORECASE)
"""A small model separates the letters of "p.m."."""
_PROPOSAL = re.compile(
    r"\b(?:propos|suggest|recommend|offer|plan|want|hope|wish|ask|refus|declin|reject)\w*(?= (?:to|that)\b)",
    re.IGNORECASE,
)
"""What follows need not be so."""
_LINKS = {"due", "because"}
"""Words that give a reason; a row that states it may lack them."""
_FREQUENCY = {"daily", "weekly", "monthly", "yearly", "annually", "hourly", "every", "each", "once", "twice", "times"}


@dataclass(frozen=True)
class WrittenSentence:
    """A sentence of a reply and the positions of the rows that it cites, from 0."""

    text: str
    cited: tuple[int, ...]


@dataclass(frozen=True)
class CheckedReply:
    """The sentences of a reply that their rows carry."""

    sentences: tuple[WrittenSentence, ...]

    @property
    def cited(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(position for sentence in self.sentences for position in sentence.cited))

    @property
    def text(self) -> str:
        """The answer; short forms of a list are joined by semicolons."""
        texts = [sentence.text for sentence in self.sentences]
        is_list = len(texts) > 1 and not any(text.endswith(".") for text in texts)
        return ("; " if is_list else " ").join(texts)


def list_rows(task: ShortTask) -> Sequence[EvidenceItem]:
    """The rows of a prompt, in rank order."""
    return task.texts[:MAX_ROWS]


def written_request(task: ShortTask, prompts: Prompts = PACKAGED) -> Request:
    """Request an answer from numbered rows."""
    lines = (f"[{number}] {' '.join(item.text.split())}" for number, item in enumerate(list_rows(task), 1))
    question = json.dumps(task.question.text, ensure_ascii=False)
    return prompts.customize(WRITTEN).request(MAX_TOKENS, lines="\n".join(lines), question=question)


def parse_written(text: str) -> tuple[WrittenSentence, ...]:
    """The sentences of a reply with their citations; none if it says that the rows do not answer."""
    text = re.sub(r"^\W*answer\W*:\s*", "", text.strip(" \n*`"), flags=re.IGNORECASE)
    text = _CLOCK.sub(r"\1.m", text)
    is_missing = INSUFFICIENT_EVIDENCE.search(text) or _SAYS_NOTHING.search(text)
    if _MISSING.match(text) or (is_missing and not _CITATION.search(text)):
        return ()
    verdict = _VERDICT.match(text)
    body = text[verdict.end() :] if verdict else text
    body = _CITATION.sub("", body, count=1) if _CITATION.match(body) and _CITATION.sub("", body).strip() else body
    return tuple(_split_reply(body))[:MAX_SENTENCES]


def _find_cited(text: str) -> tuple[int, ...]:
    """Positions of the rows whose numbers a text has."""
    return tuple(int(number) - 1 for number in re.findall(r"\d+", text))


def _split_reply(text: str) -> Iterator[WrittenSentence]:
    """The sentences of a reply; a citation belongs to all sentences between it and the one before."""
    parts = _CITATION.split(text)
    for piece, numbers in zip(parts[::2], [*parts[1::2], ""], strict=True):
        cited = _find_cited(numbers)
        for line in piece.split("\n"):
            line = _clean_line(line)
            for start, end in sentence_spans(line):
                if any(letter.isalnum() for letter in line[start:end]) and not _MISSING.fullmatch(line[start:end]):
                    yield WrittenSentence(line[start:end], cited)


def _clean_line(line: str) -> str:
    """A line without its bullet, and without "The lines say that"."""
    line = _BULLET.sub("", line.lstrip(" .;,"))
    start = _ABOUT_LINES.match(line)
    if start is None:
        return line
    rest = line[start.end() :]
    return rest[:1].upper() + rest[1:]


def check_reply(sentences: Sequence[WrittenSentence], question: str, rows: Sequence[EvidenceItem]) -> CheckedReply:
    """The reply without the sentences that no row carries, and no two of a document.

    A sentence with a wrong citation cites those that do.
    """
    checked = []
    for sentence in sentences:
        cited = tuple(position for position in sentence.cited if position < len(rows))
        pairs = combinations(range(len(rows)), 2)
        needed = [pair for pair in pairs if _are_needed(sentence.text, question, rows[pair[0]], rows[pair[1]])]
        places = [cited, *((position,) for position in range(len(rows))), *needed]
        place = next((p for p in places if p and is_carried(sentence.text, question, [rows[n] for n in p])), ())
        if place:
            checked.append(WrittenSentence(sentence.text, place))
    return CheckedReply(tuple(checked))


def is_carried(sentence: str, question: str, rows: Sequence[EvidenceItem]) -> bool:
    """Whether rows say what a sentence adds to its question: all numbers and names, nearly all words, and the polarity.

    Rows may have other words than the question, which an answer often repeats: "The first drill was on 18 September".

    >>> rows = [EvidenceItem("e", "sentence", "s", "", "The kiln was not built before 1911.")]
    >>> [is_carried(t, "When was the kiln built?", rows) for t in ("Not before 1911.", "1911.", "1912.")]
    [True, False, False]
    """
    words = [word for word in split_tokens(sentence) if word.is_content and word.lower not in _LINKS]
    row_stems = _row_stems(rows)
    question_stems = _stems(split_tokens(question))
    new_words = [word for word in words if _stem(word) not in question_stems]
    exact = [word for word in words if _is_exact_number(word)]
    exact += [word for word in new_words if word.is_capital]
    if not words or any(_stem(word) not in row_stems for word in exact):
        return False
    if _share_met(new_words or words, row_stems) < MIN_NEW_WORDS:
        return False
    return all(_has_polarity(sentence, question, new_words or words, row) for row in rows)


def _are_needed(sentence: str, question: str, first: EvidenceItem, second: EvidenceItem) -> bool:
    """Whether each of two rows of a document has a word of the sentence that neither the other nor the question has."""
    added = _stems(_content(sentence)) - _stems(split_tokens(question))
    stems = _row_stems([first]) & added
    other_stems = _row_stems([second]) & added
    return first.title == second.title and bool(stems - other_stems) and bool(other_stems - stems)


def _has_polarity(sentence: str, question: str, words: Sequence[Word], row: EvidenceItem) -> bool:
    """Whether a row denies, or only proposes, what a sentence does with its words that the row has."""
    stems = _row_stems([row])
    words_of_row = [word for word in words if _stem(word) in stems]
    if not words_of_row:
        return True
    clause = _nearest_clause(words_of_row, row.text)
    if _PROPOSAL.search(clause) and not _PROPOSAL.search(sentence):
        return False
    is_denied = _is_denied(clause)
    says_denied = _is_denied(_nearest_clause(words_of_row, sentence))
    # "What does a repair cost that isn't covered?" may be answered by a clause that repeats its denial.
    return says_denied == is_denied or (is_denied and _is_denied(question))


def _is_exact_number(word: Word) -> bool:
    """Whether it is a number that an answer may not change; "first" and "one" often are none."""
    return word.is_number and word.lower not in LISTS["ordinals"] | {"one"}


def _stem(word: Word) -> str:
    """The stem of a word: one for names of a currency, a number in words and digits, and American and British units."""
    if _THOUSANDS.fullmatch(word.text):
        return word.text.replace(",", "")
    return _EQUAL_STEMS.get(word.lower) or _EQUAL_STEMS.get(word.stem, word.stem)


def _stems(words: Iterable[Word]) -> set[str]:
    return {_stem(word) for word in words}


def _row_stems(rows: Sequence[EvidenceItem]) -> set[str]:
    return {stem for row in rows for stem in _stems(_row_words(row))}


def _share_met(words: Sequence[Word], stems: set[str]) -> float:
    return sum(_stem(word) in stems for word in words) / len(words) if words else 1.0


def _row_words(row: EvidenceItem) -> list[Word]:
    return split_tokens(f"{row.title} {row.referent} {row.text}")


def _nearest_clause(words: Sequence[Word], text: str) -> str:
    """The shortest clause of a text, or part of one, with most of these words."""
    stems = _stems(words)
    clauses = [*split_clauses(text), text]
    clauses += [part for clause in clauses for part in _PART.split(clause)]
    return max(clauses, key=lambda clause: (len(stems & _stems(split_tokens(clause))), -len(clause)))


def _is_denied(text: str) -> bool:
    has_prohibition = not LISTS["prohibitions"].isdisjoint(word.lower for word in split_tokens(text))
    return is_denial(_NO_DENIAL.sub("", text)) != has_prohibition


def is_answer_to(checked: CheckedReply, question: str, rows: Sequence[EvidenceItem]) -> bool:
    """Whether what is left of a reply has what the question asks for; its document must have the question's names."""
    if not checked.sentences:
        return False
    titles = {rows[position].title for position in checked.cited}
    if not _has_all(_names(question), _row_stems([row for row in rows if row.title in titles])):
        return False
    return _has_kind([word.lower for word in split_tokens(question)], split_tokens(checked.text.replace("-", " ")))


def _names(question: str) -> list[Word]:
    """Names, numbers and the term to define, without the first word, which is always capital."""
    words = [word for word in split_tokens(question)[1:] if word.is_content]
    return [*(word for word in words if word.is_capital or _is_exact_number(word)), *asked_term(question)]


def _has_kind(question_words: Sequence[str], answer: Sequence[Word]) -> bool:
    """Whether an answer has a number for "how many", a time for "when", a name or "the …" for "who", and so on."""
    text = " ".join(question_words)
    lowers = {word.lower for word in answer}
    has_number = any(word.is_number or word.text[0].isdigit() for word in answer)
    if "how often" in text:
        return not _FREQUENCY.isdisjoint(lowers)
    if re.search(r"\bhow (?:many|much|long|old|far|high|tall|deep|heavy|big|large|fast)\b", text):
        return has_number or not lowers.isdisjoint({"free", "nothing", "none", "no"})
    if "when" in question_words[:2] or re.search(r"\b(?:what|which) (?:time|year|date|day|month)\b", text):
        times = LISTS["months"] | LISTS["days"] | LISTS["clock_words"] | {"after", "before", "during", "until", "when"}
        return has_number or not lowers.isdisjoint(times | {f"{day}s" for day in LISTS["days"]})
    new_words = [word for word in answer if word.is_content and word.lower not in question_words]
    if {"who", "whom", "whose"}.isdisjoint(question_words[:2]):
        return bool(new_words)
    things = [word for before, word in pairwise(answer) if before.lower in DETERMINERS]
    return any(word.is_capital or word in things for word in new_words)


@dataclass(frozen=True)
class Decision:
    """Weights of the signals and the minimum probability; fitted by ``bench/answers/fit_written.py``."""

    weights: Signals
    min_probability: float

    @property
    def version(self) -> str:
        return content_id("written decision", sorted(self.weights.items()), self.min_probability)

    def probability(self, signals: Signals) -> float:
        return Fit(self.weights, {}).probability(signals)


@lru_cache
def load_decision() -> Decision:
    """The packaged weights."""
    return Decision(**read_yaml_mapping(DECISION_FILE)["values"])


@dataclass(frozen=True)
class RowCheck:
    """A question and the rows that may state what it asks for."""

    question: str
    rows: tuple[EvidenceItem, ...]
    in_context: bool = False
    """Whether the rows are read with the heading and the sentence before them."""

    @property
    def text(self) -> str:
        """The rows as the model reads them."""
        return "\n".join(row.text_in_context if self.in_context else row.titled_text for row in self.rows)

    @property
    def forms(self) -> tuple[RowCheck, ...]:
        """The rows alone and, if they have another text there, in their context."""
        read_in_context = replace(self, in_context=True)
        return (self,) if read_in_context.text == self.text else (self, read_in_context)


@dataclass(frozen=True)
class Draft:
    """A checked reply that has what the question asks for, before it is known how probable it is."""

    task: ShortTask
    checked: CheckedReply

    @property
    def check(self) -> RowCheck:
        """The question with the rows that it cites."""
        rows = list_rows(self.task)
        return RowCheck(self.task.question.text, tuple(rows[position] for position in self.checked.cited))

    @property
    def text(self) -> str:
        return self.checked.text

    @property
    def steps(self) -> list[ChainStep]:
        """Its sentences with their rows, and of each row the part that carries the sentence."""
        rows = list_rows(self.task)
        steps = []
        for sentence in self.checked.sentences:
            cited = [rows[position] for position in sentence.cited]
            quoted = tuple(_quote(sentence, row) for row in cited)
            steps.append(ChainStep(sentence.text, tuple(row.evidence_id for row in cited), quoted))
        return steps


def _quote(sentence: WrittenSentence, row: EvidenceItem) -> str:
    """The part of a row that carries a sentence; all of it if only its title does."""
    words = _content(sentence.text)
    if _stems(words).isdisjoint(_stems(split_tokens(row.text))):
        return row.text
    return _nearest_clause(words, row.text).strip()


def answer_signals(draft: Draft, stated_log_odds: float) -> dict[str, float]:
    """What tells whether a draft answers its question.

    ``lead``: The best retrieval score of a cited row, less that of the other rows, if there are any.
    ``missing``: Number of content words of the question that no cited row has. Its weight is positive: the model says
    too easily that a row with the question's own words states what is asked for.
    ``carried``: The cited rows have all content words of its sentences. Otherwise it may assert what only the question
    says: "The lamb pie costs EUR 70" from a row about a camp.
    ``one_row``: It cites one row.
    ``stated``: Log odds that the cited rows state what is asked for, by the model. It is not shown the answer: a small
    model takes any number for the one that is asked for.
    """
    cited = draft.check.rows
    best = max(row.score for row in cited)
    best_other = max((row.score for row in list_rows(draft.task) if row not in cited), default=best)
    stems = _row_stems(cited)
    is_carried_whole = all(_has_all(_content(sentence.text), stems) for sentence in draft.checked.sentences)
    return {
        "lead": round(best - best_other, 6),
        "missing": float(sum(_stem(word) not in stems for word in _content(draft.check.question))),
        "carried": float(is_carried_whole),
        "one_row": float(len(cited) == 1),
        "stated": round(stated_log_odds, 6),
    }


def _content(text: str) -> list[Word]:
    return [word for word in split_tokens(text) if word.is_content]


def _has_all(words: Iterable[Word], stems: set[str]) -> bool:
    """Whether all words are among these."""
    return _stems(words) <= stems


def find_draft(reply: Sequence[WrittenSentence], task: ShortTask) -> Draft | None:
    """The checked reply, unless it lacks what the question asks for."""
    rows = list_rows(task)
    checked = check_reply(reply, task.question.text, rows)
    return Draft(task, checked) if is_answer_to(checked, task.question.text, rows) else None


def settle_answer(draft: Draft, by_rules: ShortAnswer, stated_log_odds: float, decision: Decision) -> ShortAnswer:
    """The answer of the model if it is probable enough, else that of the rules."""
    probability = decision.probability(answer_signals(draft, stated_log_odds))
    if probability < decision.min_probability:
        return by_rules
    return ShortAnswer.of_steps(draft.steps, probability, draft.text)


def _parse_reply(text: str, task: ShortTask) -> tuple[WrittenSentence, ...]:
    return parse_written(text)


def check_request(check: RowCheck, prompts: Prompts = PACKAGED) -> Request:
    """Request a judgement whether rows state what a question asks for."""
    request = prompts.customize(CHECK).request(
        LETTER_TOKENS,
        JUDGEMENTS,
        text=check.text,
        question=json.dumps(check.question, ensure_ascii=False),
        letters="A) yes\nB) no",
    )
    return replace(request, rates_choices=True)


def parse_judgement(text: str, check: RowCheck) -> bool:
    """Whether a reply says that the rows state it."""
    return parse_answer(text, JUDGEMENTS, ("yes", "no")) == JUDGEMENTS[0]


WRITTEN_ANSWER = PromptedTask("written", (WRITTEN,), written_request, _parse_reply, accepts_truncated=True)
WRITTEN_CHECK = PromptedTask("check_written", (CHECK,), check_request, parse_judgement, accepts_truncated=True)
WRITTEN_TASKS = (WRITTEN_ANSWER, WRITTEN_CHECK, YES_NO)


def log_odds(is_stated: bool, cost: ReplyCost | None) -> float:
    """Log odds of a judgement: of its letters or, from a server that rates none, ±:data:`UNRATED`."""
    if cost and cost.choice_log_probs:
        yes, no = cost.choice_log_probs
        return max(-MAX_LOGIT, min(MAX_LOGIT, yes - no))
    return UNRATED if is_stated else -UNRATED


def judge_rows(model: LanguageModel, checks: Sequence[RowCheck]) -> list[tuple[float | Failure, ReplyCost | None]]:
    """Log odds that rows state what their question asks for: the mean of those without and with their context.

    In its context, "It has forty-two members" says who has; but a small model then takes more rows for an answer.
    """
    forms = [check.forms for check in checks]
    judgements = iter(WRITTEN_CHECK.ask_with_cost(model, list(chain.from_iterable(forms))))
    judged: list[tuple[float | Failure, ReplyCost | None]] = []
    for each in forms:
        replies = list(islice(judgements, len(each)))
        failure = next((result for result, _ in replies if isinstance(result, Failure)), None)
        odds = [log_odds(result, cost) for result, cost in replies if not isinstance(result, Failure)]
        cost = ReplyCost.total([cost for _, cost in replies])
        judged.append((failure or sum(odds) / len(odds), cost))
    return judged


class CheckedRules:
    """The answers of rules, without those whose rows, by a language model, do not state what is asked for.

    Yes and no stay: the rules give them for statements with all words of the question.
    """

    name = "checked"

    def __init__(self, model: LanguageModel, rules: ShortAnswerSolver) -> None:
        self._model = model
        self._rules = rules
        self.model_id = model.model_id
        self.version = content_id(
            "checked", VERSION, WRITTEN_CHECK.version_with(model.prompts), model.version, rules.version
        )

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        """One answer per task, in order; each answer from texts is a call."""
        results = self._rules.answer(tasks)
        checks: dict[int, RowCheck] = {}
        for number, (task, result) in enumerate(zip(tasks, results, strict=True)):
            if isinstance(result, ShortAnswer) and result.answer not in (None, "yes", "no"):
                rows = tuple(row for row in task.texts if row.evidence_id in result.evidence_ids)
                if rows:
                    checks[number] = RowCheck(task.question.text, rows)
        judgements = judge_rows(self._model, list(checks.values()))
        for number, (stated_log_odds, cost) in zip(checks, judgements, strict=True):
            by_rules = results[number]
            if isinstance(stated_log_odds, Failure):
                by_rules = stated_log_odds
            elif stated_log_odds < MIN_LOG_ODDS:
                by_rules = NO_ANSWER
            results[number] = replace(by_rules, reply=ReplyCost.total([by_rules.reply, cost]))
        return results


class WrittenAnswers:
    """Asks a language model for a few sentences, checks them, and asks it whether the cited rows state what is asked.

    ``rules`` answer where the model does not. Each question is one call, and another one for a usable reply and for an
    answer of the rules. Where the rules have no yes or no, the model chooses it, row by row.
    """

    name = "written"

    def __init__(self, model: LanguageModel, rules: ShortAnswerSolver) -> None:
        self._model = model
        self._rules = CheckedRules(model, rules)
        self._yes_no = YesNoAnswers(model)
        self._decision = load_decision()
        self.model_id = model.model_id
        solvers = (self._rules.version, self._yes_no.version, self._decision.version)
        versions = [task.version_with(model.prompts) for task in (WRITTEN_ANSWER, WRITTEN_CHECK)]
        self.version = content_id("written", VERSION, *versions, *solvers)

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        """One answer per task, in order; a task without evidence is not sent."""
        results = self._rules.answer(tasks)
        yes_no_tasks: dict[int, ShortTask] = {}
        open_tasks: dict[int, ShortTask] = {}
        for number, (task, by_rules) in enumerate(zip(tasks, results, strict=True)):
            if isinstance(by_rules, Failure) or not task.texts:
                continue
            if needs_verdict(task, by_rules):
                yes_no_tasks[number] = task
            elif not asks_yes_or_no(task.question.text):
                open_tasks[number] = task
        self._choose_verdicts(yes_no_tasks, results)
        self._write_answers(open_tasks, results)
        return results

    def _choose_verdicts(self, tasks: Mapping[int, ShortTask], results: list[ShortAnswer | Failure]) -> None:
        """Replace the results by yes or no where the model knows it; costs are added."""
        for number, answer in zip(tasks, self._yes_no.answer([*tasks.values()]), strict=True):
            by_rules = results[number]
            result = by_rules if answer == NO_ANSWER else answer
            results[number] = replace(result, reply=ReplyCost.total([by_rules.reply, answer.reply]))

    def _write_answers(self, tasks: Mapping[int, ShortTask], results: list[ShortAnswer | Failure]) -> None:
        """Replace the results by the drafts that are probable; costs are added."""
        drafts: dict[int, Draft] = {}
        replies = WRITTEN_ANSWER.ask_with_cost(self._model, [*tasks.values()])
        for number, (reply, cost) in zip(tasks, replies, strict=True):
            by_rules = results[number]
            result = reply if isinstance(reply, Failure) else by_rules
            results[number] = replace(result, reply=ReplyCost.total([by_rules.reply, cost]))
            draft = None if isinstance(reply, Failure) else find_draft(reply, tasks[number])
            if draft:
                drafts[number] = draft
        self._judge_drafts(drafts, results)

    def _judge_drafts(self, drafts: Mapping[int, Draft], results: list[ShortAnswer | Failure]) -> None:
        """Replace the results by their drafts, if these are probable enough; costs are added."""
        judgements = judge_rows(self._model, [draft.check for draft in drafts.values()])
        for (number, draft), (stated_log_odds, cost) in zip(drafts.items(), judgements, strict=True):
            by_rules = results[number]
            answer: ShortAnswer | Failure = by_rules
            if isinstance(stated_log_odds, Failure):
                answer = stated_log_odds
            elif isinstance(by_rules, ShortAnswer):
                answer = settle_answer(draft, by_rules, stated_log_odds, self._decision)
            results[number] = replace(answer, reply=ReplyCost.total([by_rules.reply, cost]))
