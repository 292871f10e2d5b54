"""Parsing a model's reply into a label, or a reason why the reply is unusable. The parser never guesses.

It tries these forms in order; the first that names an option decides:

1. a JSON object with an answer field, plain, fenced or truncated;
2. an answer line (``Answer: B``, ``**Final answer:** B``, ``The answer is B``): the first line, else the last one;
3. the last statement of an answer in a sentence (``so the answer is (B)``, ``\\boxed{B}``, ``B is correct``);
4. a line that is an answer (``B``, ``**B.** bee``, ``bee``): the first line, else the last line;
5. the only letter in brackets or bold;
6. in a short reply, or a last sentence that begins with a word such as "therefore", the only option whose text occurs,
   if nothing is negated.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning.tasks import NOT_ENOUGH_INFORMATION
from evidence_assets.text.negation import has_exclusion

ANSWER_FIELDS = (
    "final_answer|answer_choice|answer|correct_answer|correct_option|choice|option|label|verdict|prediction|response"
)
LABEL_FORMS = {
    "SUPPORTS": ("supports", "supported", "support"),
    "REFUTES": ("refutes", "refuted", "refute"),
    NOT_ENOUGH_INFORMATION: ("not enough information", "not enough info", "not_enough_info", "nei"),
    "correct": ("true", "yes"),
    "wrong": ("incorrect", "not correct", "false", "not true", "no"),
    "INSUFFICIENT": ("insufficient evidence", "the evidence is insufficient", "not enough evidence"),
}
"""Other forms of a label."""
INSUFFICIENT_EVIDENCE = re.compile(
    r"insufficient|n(?:o|['’])t (?:\w+ ){0,3}(?:enough|sufficient|support|mention|contain|specif)|none of the"
    r"|no (?:passage|answer)|cannot (?:be determined|answer)|unknown\W*$|\bn/a\b",
    re.IGNORECASE,
)
"""What a model says instead of an answer."""
MAX_STATEMENT_CHARACTERS = 2000
"""Longer statements are truncated before parsing; the longest options have a few hundred characters."""
MAX_SHORT_REPLY_CHARACTERS = 300
"""Longer replies are not searched for the text of an option."""

_DECODER = json.JSONDecoder()
_FIELD = re.compile(rf'["\'](?i:{ANSWER_FIELDS})["\']\s*:\s*(?P<value>"(?:[^"\\]|\\.)*"?|\'[^\']*\'|[^,}}\n]+)')
_THOUGHT = re.compile(r"<(think|thinking|reasoning|scratchpad)>.*?(?:</\1>|$)", re.DOTALL | re.IGNORECASE)
_VERB = (
    r"(?i:(?:\s*(?:is|are|was|be|must be|should be|would be|will be|as follows|es|est|ist|lautet|è|é|является"
    r"|to (?:this|the) question)\b"
    r"|\s*[:=：\-–—>]+|\s*(?:是|为|為|应为|は)|\s*[*_`]+)+)"
)
_ANSWER = (
    r"(?:(?i:\b(?:answers?|choice|option|label|verdict|decision|conclusion|prediction|respuesta(?: correcta)?"
    r"|réponse(?: correcte)?|antwort|risposta(?: corretta)?|resposta(?: correta)?|cevap|ответ|odpowiedź)\b)[*_`]*"
    rf"(?:{_VERB}|\s*$)|(?:正确答案|答案|答え|答|回答|正解|정답|답|उत्तर|الإجابة)(?:\s|[:：是为為はは은는*])*)"
)
ANSWER_LINE = re.compile(
    r"^[^\w\n]*(?:(?i:the|my|so|therefore|thus|hence|final|correct|right|best|most|likely|plausible|accurate|overall"
    rf"|supported|appropriate|suitable|selected|chosen|answer)[ \t,-]+){{0,5}}{_ANSWER}",
    re.MULTILINE,
)
_STATEMENTS = re.compile(
    rf"{_ANSWER}|\\boxed\s*\{{\s*(?:\\text\s*\{{)?"
    r"|(?i:\b(?:choose|chose|pick|select|go with|going with|opt for|settle on|i'd say|i would say|i think|i believe)\b)"
    r"[\s,:]*(?i:(?:it is|it's|it must be|that it is)\s)?",
    re.MULTILINE,
)
_LEADING_WORDS = re.compile(
    r"^(?:(?i:the|la|le|el|die|der|option|options|choice|answer|letter|opción|opcion|opzione|opção|both|either|correct"
    r"|most|likely|probably|clearly|so|hence|therefore|thus|definitely|certainly)\b[\s:,]*"
    r"|[\s\"'“”‘’*_`#>$:：«»•-]+|\\text\{)+"
)
_LETTER = re.compile(
    r"(?P<open>[(\[{<]?)(?P<letter>[A-Za-z])(?P<close>[)\]}>]?)(?![A-Za-z0-9_'’])(?!-\w)(?P<rest>.*)", re.DOTALL
)
_NEXT_LETTER = re.compile(
    r"^[\s\"'*_`]*(?:/|&|\+|,|(?:,\s*)?(?i:and|or|und|oder|y|o|et|ou|e)\b)\s*"
    r"(?i:option\s+)?[(\[\"'*_`]*([A-Z])(?![\w'’-])"
)
_ENDS = re.compile(
    r"^[\s*_`\"'”’)\]}$>]*(?:$|[.,;:!。，、)\n|(\[…<]|[-–—]+\s|=>|です|입니다|이다"
    r"|(?i:because|since|as|due|for|given|(?:and )?not|rather than)\b"
    r"|(?i:is|was) (?i:the )?(?i:correct|right|best)(?i: answer| option| choice)?[*_]*(?:[.,;:!]|$))"
)


def parse_answer(reply: str, labels: Sequence[str], options: Sequence[str]) -> str:
    """The label that ``reply`` selects; for a claim the labels are the options.

    Raises UnusableReply with the reason if the reply does not select exactly one option.

    >>> parse_answer("I think so: the answer is (B).", "AB", ["ant", "bee"])
    'B'
    """
    answer_labels = _AnswerParser(labels, options).parse(reply)
    if len(answer_labels) == 1:
        return answer_labels[0]
    raise UnusableReply(f"the reply names several options: {', '.join(answer_labels)}")


def parse_answers(reply: str, labels: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """All labels that ``reply`` selects, in its order: ``A, B``, or one option on each line.

    >>> parse_answers("A) ant\\nC) cat", "ABC", ["ant", "bee", "cat"])
    ('A', 'C')
    """
    by_line = {_folded(f"{label}{mark}"): label for label in labels for mark in ("", ")", ".")}
    for label, option in zip(labels, options, strict=True):
        by_line |= {_folded(text): label for text in (option, f"{label}) {option}", f"{label}. {option}")}
    lines = [_folded(line) for line in reply.splitlines() if line.strip()]
    if len(lines) > 1 and by_line.keys() >= set(lines):
        return tuple(dict.fromkeys(by_line[line] for line in lines))
    return _AnswerParser(labels, options).parse(reply)


def _folded(text: str) -> str:
    """Normalized text for comparison: NFKC, case-folded, single spaces, without outer quotes and closing marks."""
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return text.strip(" \"'“”‘’*_`.,;:!?。").strip()


class _AnswerParser:
    def __init__(self, labels: Sequence[str], options: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self.letters = {label for label in labels if len(label) == 1}
        forms = [(_folded(option), label) for label, option in zip(labels, options, strict=True)]
        forms += [(_folded(label), label) for label in labels if len(label) > 1]
        forms += [(form, label) for label in labels for form in LABEL_FORMS.get(label, ())]
        self.forms = sorted({(form, label) for form, label in forms if form}, key=lambda entry: (-len(entry[0]), entry))

    def parse(self, reply: str) -> tuple[str, ...]:
        """The labels that the reply selects, at least one."""
        text = _THOUGHT.sub(" ", unicodedata.normalize("NFKC", reply)).strip()
        if not text:
            raise UnusableReply("the reply is empty")
        found_labels = (
            self._from_json(text)
            or self._from_answer_lines(text)
            or self._from_statements(text)
            or self._from_lines(text)
            or self._from_contained_text(text)
        )
        if not found_labels:
            raise UnusableReply("the reply names no option")
        for label in found_labels:
            if label not in self.labels:
                raise UnusableReply(f"the reply names {label!r}, which is not one of {', '.join(self.labels)}")
        return found_labels

    def _from_json(self, text: str) -> tuple[str, ...]:
        """The labels in the first answer field of a JSON object; raises UnusableReply if the field names none."""
        for item in _json_objects(text):
            fields = {str(key).strip().lower().replace(" ", "_"): value for key, value in item.items()}
            for name in ANSWER_FIELDS.split("|"):
                if name in fields:
                    return self._from_value(fields[name])
        matches = list(_FIELD.finditer(text))
        return self._from_value(matches[-1]["value"].strip().strip("\"'")) if matches else ()

    def _from_value(self, value: Any) -> tuple[str, ...]:
        """The labels in the value of an answer field."""
        if isinstance(value, dict):
            inner = next((value[name] for name in (*ANSWER_FIELDS.split("|"), "text") if name in value), None)
            return self._from_value(inner if inner is not None else list(value))
        if isinstance(value, list):
            return tuple(dict.fromkeys(label for item in value for label in self._from_value(item)))
        text = "" if value is None else str(value).strip()
        found_labels = self._leading_labels(text) or self._from_statements(text) or self._from_contained_text(text)
        if not found_labels:
            raise UnusableReply(f"the answer field names no option: {text[:60]!r}")
        return found_labels

    def _from_answer_lines(self, text: str) -> tuple[str, ...]:
        """The labels in the first line if it is an answer line, else in the last answer line that has any."""
        matches = list(ANSWER_LINE.finditer(text))
        in_first_line = [match for match in matches[:1] if match.start() == 0]
        return self._first_labels(_line(text, match.end()) for match in (*in_first_line, *reversed(matches)))

    def _from_statements(self, text: str) -> tuple[str, ...]:
        """The labels in the last statement of an answer that has any."""
        return self._first_labels(_line(text, match.end()) for match in reversed(list(_STATEMENTS.finditer(text))))

    def _first_labels(self, fragments: Iterable[str]) -> tuple[str, ...]:
        return next(filter(None, map(self._leading_labels, fragments)), ())

    def _from_lines(self, text: str) -> tuple[str, ...]:
        """The label of the first or last line, if no other line has another label.

        A reply that discusses the options one by one has several lines with labels.
        """
        lines = [line for line in text.splitlines() if line.strip()]
        labels = {line: named for line in lines if (named := self._leading_labels(line))}
        if len(lines) > 1:
            labels = {line: named for line, named in labels.items() if set(named) <= set(self.labels)}
        is_leading = lines[0] in labels or lines[-1] in labels
        return next(iter(labels.values())) if len(set(labels.values())) == 1 and is_leading else ()

    def _from_contained_text(self, text: str) -> tuple[str, ...]:
        """The only option whose text occurs in a short reply."""
        rest = _folded(text)
        if len(rest) > MAX_SHORT_REPLY_CHARACTERS:
            return ()
        matches: set[str] = set()
        for form in dict.fromkeys(form for form, _ in self.forms if len(form) > 2):
            pattern = re.compile(rf"(?<!\w){re.escape(form)}(?!\w)")
            if match := pattern.search(rest):
                if self._is_list(rest[match.end() :]):
                    return ()
                rest = pattern.sub(" ", rest)
                matches |= {label for other, label in self.forms if other == form}
        return tuple(matches) if len(matches) == 1 and not has_exclusion(rest) else ()

    def _leading_labels(self, fragment: str) -> tuple[str, ...]:
        """The labels at the start of a fragment: an option's text, else letters; none if other text follows."""
        raw = fragment.strip()[:MAX_STATEMENT_CHARACTERS]
        bare = _LEADING_WORDS.sub("", raw) or raw
        for text in dict.fromkeys((raw, bare)):
            by_text = self._by_text(text)
            if by_text:
                return by_text
        return self._by_letter(bare)

    def _by_text(self, text: str) -> tuple[str, ...]:
        folded = _folded(text)
        best_length = 0
        matches: dict[str, None] = {}
        for form, label in self.forms:
            if folded.startswith(form) and len(form) >= max(best_length, 1):
                rest = folded[len(form) :]
                is_complete = not rest or (len(form) > 1 and _ENDS.match(rest) and not self._is_list(rest))
                if is_complete:
                    best_length = len(form)
                    matches[label] = None
        if len(matches) > 1:
            return self._by_letter(text)  # options with equal texts differ only by letter
        (label,) = matches or ("",)
        # Ambiguous: the option whose text is this letter, or the option labelled with it.
        if label and len(folded) == 1 and folded.upper() in self.letters - {label}:
            return label, folded.upper()
        return (label,) if label else ()

    def _is_list(self, rest: str) -> bool:
        """Whether another option follows, as in "vitamin C, D and K" after "vitamin C"."""
        match = re.match(r",\s*(?:(?:and|or)\s+)?(?P<next>.*)", rest)
        return match is not None and bool(
            re.match(r"(?![ai]\b)[a-z]\b", match["next"])
            or any(len(form) > 1 and match["next"].startswith(form) for form, _ in self.forms)
        )

    def _by_letter(self, text: str) -> tuple[str, ...]:
        match = _LETTER.match(text)
        if not match or not self.letters or re.match(r"(?i)n/a\b", text):
            return ()
        letter = match["letter"]
        rest = match["rest"]
        if letter.islower() and not (match["close"] or not rest.strip(" .!*_`\"'")):
            return ()
        letters = [letter.upper()]
        while next_letter := _NEXT_LETTER.match(rest):
            letters.append(next_letter[1])
            rest = rest[next_letter.end() :]
        own_forms = [form for form, label in self.forms if label == letters[0]]
        follows = _folded(rest.lstrip(" .:)-–—"))
        if not (_ENDS.match(rest) or match["close"] or any(follows.startswith(form) for form in own_forms)):
            return ()
        others = [label for form, label in self.forms if form == follows and form not in own_forms]
        return tuple(dict.fromkeys((*letters, *others)))


def _line(text: str, start: int) -> str:
    """The rest of the line at ``start``, or the next line that is not blank."""
    return text[start : start + MAX_STATEMENT_CHARACTERS].lstrip(" \t*_`:：\n").partition("\n")[0]


def _json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text, fenced or with other text around them."""
    start = text.find("{")
    while start >= 0:
        end = start + 1
        try:
            value, end = _DECODER.raw_decode(text, start)
            yield value
        except ValueError:
            pass
        except RecursionError:
            return
        start = text.find("{", end)


def parse_json_object(reply: str) -> dict[str, Any]:
    """The first JSON object in a reply, which may have text around it; raises UnusableReply if there is none."""
    for value in _json_objects(re.sub(r",(?=\s*[}\]])", "", reply)):  # some models leave a comma before the end
        return value
    raise UnusableReply(f"it is not valid JSON: {reply[:60]!r}")
