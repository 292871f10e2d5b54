"""Parsing a model's reply into a label, or a reason why the reply is unusable. The parser never guesses.

It tries these forms in order; the first match decides:

1. a JSON object with an answer field, plain, fenced or truncated;
2. the last statement of an answer (``The answer is (B)``, ``\\boxed{B}``, ``I choose B``, ``B is correct``);
3. the complete reply, its first line or its last line as an answer (``B``, ``**B.** bee``, ``bee``);
4. the only letter in brackets or bold;
5. in a short reply without a negation, the only option whose text occurs.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.text.negation import has_exclusion

ANSWER_FIELDS = (
    "final_answer|answer_choice|answer|correct_answer|correct_option|choice|option|label|verdict|prediction|response"
)
CLAIM_FORMS = {
    "SUPPORTS": ("supports", "supported", "support"),
    "REFUTES": ("refutes", "refuted", "refute"),
    "NOT ENOUGH INFORMATION": ("not enough information", "not enough info", "not_enough_info", "nei"),
}
MAX_STATEMENT_CHARACTERS = 2000
"""Longer statements are truncated before parsing; the longest options have a few hundred characters."""
MAX_SHORT_REPLY_CHARACTERS = 300
"""Longer replies are not searched for the text of an option."""

_WHOLE_FENCE = re.compile(r"^```(?:json)?\s*\n(.*)\n```$", re.DOTALL)
_FIELD = re.compile(rf'["\'](?i:{ANSWER_FIELDS})["\']\s*:\s*(?P<value>"(?:[^"\\]|\\.)*"?|\'[^\']*\'|[^,}}\n]+)')
_FENCE = re.compile(r"```[\w-]*\n?(.*?)(?:```|$)", re.DOTALL)
_THOUGHT = re.compile(r"<(think|thinking|reasoning|scratchpad)>.*?(?:</\1>|$)", re.DOTALL | re.IGNORECASE)
_VERB = (
    r"(?i:(?:\s*(?:is|are|was|be|must be|should be|would be|will be|as follows|es|est|ist|lautet|è|é|является"
    r"|to (?:this|the) question)\b"
    r"|\s*[:=：\-–—>]+|\s*(?:是|为|為|应为|は)|\s*[*_`]+)+)"
)
_STATEMENTS = re.compile(
    r"(?i:\b(?:answers?|choice|option|label|verdict|conclusion|prediction|respuesta(?: correcta)?|réponse(?: correcte)?"
    r"|antwort|risposta(?: corretta)?|resposta(?: correta)?|cevap|ответ|odpowiedź)\b)[*_`]*"
    + _VERB
    + r"|(?:正确答案|答案|回答|正解|정답|답|उत्तर|الإجابة)(?:\s|[:：是为為はは은는*])*"
    r"|\\boxed\s*\{\s*(?:\\text\s*\{)?"
    r"|(?i:\b(?:choose|chose|pick|select|go with|going with|opt for|settle on|i'd say|i would say|i think|i believe"
    r"|therefore|thus|hence)\b)[\s,:]*(?i:(?:it is|it's|it must be|that it is)\s)?"
)
_CORRECTNESS_CLAIM = re.compile(
    r"(?:^|[.!?:;,]\s|\n\s*|\b(?i:option|choice|answer|so|thus|therefore|hence|and|but|that|only)\s|[(\[*])[(\[*]{0,4}"
    r"(?P<letter>[A-Z])\b[)\]*.]*\s+(?i:is|must be|would be)\s+"
    r"(?i:the\s+)?(?i:(?:most\s+likely|most|only|single|clearly)\s+)?(?i:correct|right|best|answer)\b"
)
_LEADING_WORDS = re.compile(
    r"^(?:(?i:the|la|le|el|die|der|option|options|choice|answer|letter|opción|opcion|opzione|opção|both|either|correct|most"
    r"|likely|probably|clearly|therefore|thus|definitely|certainly)\b[\s:]*|[\s\"'“”‘’*_`#>$:：«»]+|\\text\{)+"
)
_LETTER = re.compile(
    r"(?P<open>[(\[{<]?)(?P<letter>[A-Za-z])(?P<close>[)\]}>]?)(?![A-Za-z0-9_'’])(?!-\w)(?P<rest>.*)", re.DOTALL
)
_NEXT_LETTER = re.compile(
    r"^[\s\"'*_`]*(?:/|&|\+|,|(?:,\s*)?(?i:and|or|und|oder|y|o|et|ou|e)\b)\s*"
    r"(?i:option\s+)?[(\[\"'*_`]*([A-Z])(?![\w'’-])"
)
_ENDS = re.compile(
    r"^[\s*_`\"'”’)\]}$>]*(?:$|[.,;:!?。，、)\n|(\[…]|[-–—]+\s|=>|です|입니다|이다|(?i:because|since|as|due|for|given)\b)"
)
_LINE_LETTER = re.compile(r"^[\s>*_`#-]*[(\[]?([A-Z])[)\].:](?=\s|\*|$)")
_MARKED_LETTER = re.compile(r"\*\*\s*\(?([A-Z])\)?[.:]?\s*\*\*|\(([A-Z])\)|\[([A-Z])\]")


def parse_answer(
    reply: str, labels: Sequence[str], options: Sequence[str], *, several: Literal["refuse", "first"] = "refuse"
) -> str:
    """The label that ``reply`` selects; for a claim the labels are the options.

    ``several`` decides about replies such as ``A/B``: refuse them, or use the first label, as some published scores do.
    Raises UnusableReply with the reason if the reply does not select exactly one option.

    >>> parse_answer("I think so: the answer is (B).", "AB", ["ant", "bee"])
    'B'
    """
    answer_labels = _AnswerParser(labels, options).parse(reply)
    if len(answer_labels) == 1 or (answer_labels and several == "first"):
        return answer_labels[0]
    raise UnusableReply(f"the reply names several options: {', '.join(answer_labels)}")


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
        forms += [(form, label) for label in labels for form in CLAIM_FORMS.get(label, ())]
        self.forms = sorted({(form, label) for form, label in forms if form}, key=lambda entry: (-len(entry[0]), entry))

    def parse(self, reply: str) -> tuple[str, ...]:
        """The labels that the reply selects, at least one."""
        text = _THOUGHT.sub(" ", unicodedata.normalize("NFKC", reply)).strip()
        if not text:
            raise UnusableReply("the reply is empty")
        for fields in self._json_values(text):
            return self._from_value(fields)
        found_labels = (
            self._from_statement(text)
            or self._from_lines(text)
            or self._from_marked_letter(text)
            or self._from_contained_text(text)
        )
        if not found_labels:
            raise UnusableReply("the reply names no option")
        return found_labels

    def _json_values(self, text: str) -> Iterator[Any]:
        """Yield the value of the last answer field, if there is one."""
        parsed = None
        for candidate in (text, *(match[1] for match in _FENCE.finditer(text)), *re.findall(r"\{[^{}]*\}", text)[::-1]):
            try:
                parsed = json.loads(candidate.strip())
            except (ValueError, RecursionError):
                continue
            if isinstance(parsed, dict):
                fields = {str(key).strip().lower().replace(" ", "_"): value for key, value in parsed.items()}
                for name in ANSWER_FIELDS.split("|"):
                    if name in fields:
                        yield fields[name]
                        return
        for match in list(_FIELD.finditer(text))[-1:]:
            yield match["value"].strip().strip("\"'")

    def _from_value(self, value: Any) -> tuple[str, ...]:
        """The labels in the value of an answer field."""
        if isinstance(value, dict):
            inner = next((value[name] for name in (*ANSWER_FIELDS.split("|"), "text") if name in value), None)
            return self._from_value(inner if inner is not None else list(value))
        if isinstance(value, list):
            return tuple(dict.fromkeys(label for item in value for label in self._from_value(item)))
        text = "" if value is None else str(value).strip()
        found_labels = self._leading_labels(text) or self._from_statement(text) or self._from_contained_text(text)
        if not found_labels:
            raise UnusableReply(f"the answer field names no option: {text[:60]!r}")
        return found_labels

    def _from_statement(self, text: str) -> tuple[str, ...]:
        """The labels in the last statement of an answer that has any."""
        correctness_claims = [match for match in _CORRECTNESS_CLAIM.finditer(text) if match["letter"] in self.letters]
        matches = [*_STATEMENTS.finditer(text), *correctness_claims]
        for match in sorted(matches, key=lambda match: -match.start()):
            found_labels = (
                (match["letter"],) if match.re is _CORRECTNESS_CLAIM else self._leading_labels(_line(text, match.end()))
            )
            if found_labels:
                return found_labels
        return ()

    def _from_lines(self, text: str) -> tuple[str, ...]:
        whole_text = self._leading_labels(text)
        lines = [line for line in text.splitlines() if line.strip()]
        line_letters = {match[1] for line in lines if (match := _LINE_LETTER.match(line))}
        if len(line_letters) > 1:
            # The reply discusses the options one by one; only a last line that is just an answer counts.
            last_labels = self._leading_labels(lines[-1])
            return last_labels if last_labels and not _LINE_LETTER.match(lines[-1]) else ()
        return whole_text or self._leading_labels(lines[0]) or self._leading_labels(lines[-1])

    def _from_marked_letter(self, text: str) -> tuple[str, ...]:
        """The only letter in bold, else in brackets."""
        letters = {x for match in _MARKED_LETTER.finditer(text) for x in match.groups() if x in self.letters}
        return tuple(letters) if len(letters) == 1 and not has_exclusion(text) else ()

    def _from_contained_text(self, text: str) -> tuple[str, ...]:
        folded = _folded(text)
        if len(folded) > MAX_SHORT_REPLY_CHARACTERS or has_exclusion(folded):
            return ()
        matched_spans: list[tuple[int, int]] = []
        matches: dict[str, None] = {}
        for form, label in self.forms:
            for match in re.finditer(rf"(?<!\w){re.escape(form)}(?!\w)", folded) if len(form) > 2 else ():
                is_inside = any(start <= match.start() and match.end() <= end for start, end in matched_spans)
                if not is_inside or (match.start(), match.end()) in matched_spans:
                    matched_spans.append((match.start(), match.end()))
                    matches[label] = None
        return tuple(matches) if len(matches) == 1 else ()

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
                is_complete = not rest or (len(form) > 1 and _ENDS.match(rest))
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

    def _by_letter(self, text: str) -> tuple[str, ...]:
        match = _LETTER.match(text)
        if not match or not self.letters or re.match(r"(?i)n/a\b", text):
            return ()
        letter, rest = match["letter"], match["rest"]
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
        return tuple(dict.fromkeys(label for name in (*letters, *others) for label in self._check_letter(name)))

    def _check_letter(self, letter: str) -> tuple[str, ...]:
        if letter in self.letters:
            return (letter,)
        if not self.letters:
            return ()
        raise UnusableReply(f"the reply names {letter!r}, which is not one of {', '.join(self.labels)}")


def _line(text: str, start: int) -> str:
    """The rest of the line at ``start``, or the next line that is not blank."""
    return text[start : start + MAX_STATEMENT_CHARACTERS].lstrip(" \t*_`:：\n").partition("\n")[0]


def parse_json_object(reply: str) -> dict[str, Any]:
    """Parse a reply that is one JSON object, plain or in a fenced block; raises UnusableReply otherwise."""
    fenced = _WHOLE_FENCE.match(reply.strip())
    try:
        value = json.loads(fenced[1] if fenced else reply)
    except (ValueError, RecursionError):
        raise UnusableReply(f"it is not valid JSON: {reply[:60]!r}") from None
    if not isinstance(value, dict):
        raise UnusableReply(f"it is no JSON object: {reply[:60]!r}")
    return value


def parse_label(reply: str, labels: Sequence[str]) -> str:
    """Parse a reply that is exactly one label, ignoring case, quotes and a final full stop.

    >>> parse_label(" refutes.", ("SUPPORTS", "REFUTES"))
    'REFUTES'
    """
    bare = " ".join(reply.strip().strip("\"'“”`*().:").split()).casefold()
    matches = [label for label in labels if label.casefold() == bare]
    if len(matches) != 1:
        raise UnusableReply(f"the reply {reply.strip()[:80]!r} is not exactly one of {', '.join(labels)}")
    return matches[0]
