"""What a model's reply answers: one of the labels, or a reason why the reply is unusable. Nothing is guessed.

In prose it is looked for in this order, the first that is there decides:

1. a JSON object with an answer field, whole, fenced or broken;
2. the last statement of an answer (``The answer is (B)``, ``\\boxed{B}``, ``I choose B``, ``B is correct``);
3. the whole reply, its first line or its last line as an answer (``B``, ``**B.** bee``, ``bee``);
4. the only bracketed or bold letter;
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
"""Characters of a statement that are looked at; the longest options known have a few hundred."""
MAX_SHORT_REPLY_CHARACTERS = 300
"""Characters up to which a reply may be read as nothing but an option's text in a sentence."""

_WHOLE_FENCE = re.compile(r"^```(?:json)?\s*\n(.*)\n```$", re.DOTALL)
_FIELD = re.compile(rf'["\'](?i:{ANSWER_FIELDS})["\']\s*:\s*(?P<value>"(?:[^"\\]|\\.)*"?|\'[^\']*\'|[^,}}\n]+)')
_FENCE = re.compile(r"```[\w-]*\n?(.*?)(?:```|$)", re.DOTALL)
_THOUGHT = re.compile(r"<(think|thinking|reasoning|scratchpad)>.*?(?:</\1>|$)", re.DOTALL | re.IGNORECASE)
_SAYS = (
    r"(?i:(?:\s*(?:is|are|was|be|must be|should be|would be|will be|as follows|es|est|ist|lautet|è|é|является"
    r"|to (?:this|the) question)\b"
    r"|\s*[:=：\-–—>]+|\s*(?:是|为|為|应为|は)|\s*[*_`]+)+)"
)
_STATEMENTS = re.compile(
    r"(?i:\b(?:answers?|choice|option|label|verdict|conclusion|prediction|respuesta(?: correcta)?|réponse(?: correcte)?"
    r"|antwort|risposta(?: corretta)?|resposta(?: correta)?|cevap|ответ|odpowiedź)\b)[*_`]*"
    + _SAYS
    + r"|(?:正确答案|答案|回答|正解|정답|답|उत्तर|الإجابة)(?:\s|[:：是为為はは은는*])*"
    r"|\\boxed\s*\{\s*(?:\\text\s*\{)?"
    r"|(?i:\b(?:choose|chose|pick|select|go with|going with|opt for|settle on|i'd say|i would say|i think|i believe"
    r"|therefore|thus|hence)\b)[\s,:]*(?i:(?:it is|it's|it must be|that it is)\s)?"
)
_RIGHT = re.compile(
    r"(?:^|[.!?:;,]\s|\n\s*|\b(?i:option|choice|answer|so|thus|therefore|hence|and|but|that|only)\s|[(\[*])[(\[*]{0,4}"
    r"(?P<letter>[A-Z])\b[)\]*.]*\s+(?i:is|must be|would be)\s+"
    r"(?i:the\s+)?(?i:(?:most\s+likely|most|only|single|clearly)\s+)?(?i:correct|right|best|answer)\b"
)
_LEAD = re.compile(
    r"^(?:(?i:the|la|le|el|die|der|option|options|choice|answer|letter|opción|opcion|opzione|opção|both|either|correct|most"
    r"|likely|probably|clearly|therefore|thus|definitely|certainly)\b[\s:]*|[\s\"'“”‘’*_`#>$:：«»]+|\\text\{)+"
)
_LETTER = re.compile(
    r"(?P<open>[(\[{<]?)(?P<letter>[A-Za-z])(?P<close>[)\]}>]?)(?![A-Za-z0-9_'’])(?!-\w)(?P<rest>.*)", re.DOTALL
)
_JOINED = re.compile(
    r"^[\s\"'*_`]*(?:/|&|\+|,|(?:,\s*)?(?i:and|or|und|oder|y|o|et|ou|e)\b)\s*"
    r"(?i:option\s+)?[(\[\"'*_`]*([A-Z])(?![\w'’-])"
)
_ENDS = re.compile(
    r"^[\s*_`\"'”’)\]}$>]*(?:$|[.,;:!?。，、)\n|(\[…]|[-–—]+\s|=>|です|입니다|이다|(?i:because|since|as|due|for|given)\b)"
)
_LINE_LETTER = re.compile(r"^[\s>*_`#-]*[(\[]?([A-Z])[)\].:](?=\s|\*|$)")
_MARKED = re.compile(r"\*\*\s*\(?([A-Z])\)?[.:]?\s*\*\*|\(([A-Z])\)|\[([A-Z])\]")


def parse_answer(
    reply: str, labels: Sequence[str], options: Sequence[str], *, several: Literal["refuse", "first"] = "refuse"
) -> str:
    """The label that ``reply`` answers with; for a claim the labels are the options.

    An answer that names ``several`` labels, such as ``A/B``, is refused, or the first taken, as some published scores
    do. Raises UnusableReply with the reason, when the reply does not name exactly one option.

    >>> parse_answer("I think so: the answer is (B).", "AB", ["ant", "bee"])
    'B'
    """
    named = _Reader(labels, options).read(reply)
    if len(named) == 1 or (named and several == "first"):
        return named[0]
    raise UnusableReply(f"the reply names several options: {', '.join(named)}")


def _folded(text: str) -> str:
    """Text as compared: compatible characters, case, spaces, outer quotes and closing marks made alike."""
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return text.strip(" \"'“”‘’*_`.,;:!?。").strip()


class _Reader:
    def __init__(self, labels: Sequence[str], options: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self.letters = {label for label in labels if len(label) == 1}
        forms = [(_folded(option), label) for label, option in zip(labels, options, strict=True)]
        forms += [(_folded(label), label) for label in labels if len(label) > 1]
        forms += [(form, label) for label in labels for form in CLAIM_FORMS.get(label, ())]
        self.forms = sorted({(form, label) for form, label in forms if form}, key=lambda entry: (-len(entry[0]), entry))

    def read(self, reply: str) -> tuple[str, ...]:
        """The labels that the reply answers with, one or more."""
        text = _THOUGHT.sub(" ", unicodedata.normalize("NFKC", reply)).strip()
        if not text:
            raise UnusableReply("the reply is empty")
        for fields in self._json_values(text):
            return self._value(fields)
        named = self._stated(text) or self._lines(text) or self._marked(text) or self._contained(text)
        if not named:
            raise UnusableReply("the reply names no option")
        return named

    def _json_values(self, text: str) -> Iterator[Any]:
        """The value of the last answer field, if there is one."""
        found = None
        for candidate in (text, *(match[1] for match in _FENCE.finditer(text)), *re.findall(r"\{[^{}]*\}", text)[::-1]):
            try:
                found = json.loads(candidate.strip())
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                fields = {str(key).strip().lower().replace(" ", "_"): value for key, value in found.items()}
                for name in ANSWER_FIELDS.split("|"):
                    if name in fields:
                        yield fields[name]
                        return
        for match in list(_FIELD.finditer(text))[-1:]:
            yield match["value"].strip().strip("\"'")

    def _value(self, value: Any) -> tuple[str, ...]:
        """The labels named by the value of an answer field."""
        if isinstance(value, dict):
            inner = next((value[name] for name in (*ANSWER_FIELDS.split("|"), "text") if name in value), None)
            return self._value(inner if inner is not None else list(value))
        if isinstance(value, list):
            return tuple(dict.fromkeys(label for item in value for label in self._value(item)))
        text = "" if value is None else str(value).strip()
        named = self._named(text) or self._stated(text) or self._contained(text)
        if not named:
            raise UnusableReply(f"the answer field names no option: {text[:60]!r}")
        return named

    def _stated(self, text: str) -> tuple[str, ...]:
        """What the last statement of an answer names that names anything."""
        right_ones = [match for match in _RIGHT.finditer(text) if match["letter"] in self.letters]
        matches = [*_STATEMENTS.finditer(text), *right_ones]
        for match in sorted(matches, key=lambda match: -match.start()):
            named = (match["letter"],) if match.re is _RIGHT else self._named(_line(text, match.end()))
            if named:
                return named
        return ()

    def _lines(self, text: str) -> tuple[str, ...]:
        whole = self._named(text)
        lines = [line for line in text.splitlines() if line.strip()]
        listed = {match[1] for line in lines if (match := _LINE_LETTER.match(line))}
        if len(listed) > 1:
            # The options are gone through one by one; only a last line with nothing but an answer counts.
            last = self._named(lines[-1])
            return last if last and not _LINE_LETTER.match(lines[-1]) else ()
        return whole or self._named(lines[0]) or self._named(lines[-1])

    def _marked(self, text: str) -> tuple[str, ...]:
        """The only letter in bold, else in brackets."""
        letters = {letter for match in _MARKED.finditer(text) for letter in match.groups() if letter in self.letters}
        return tuple(letters) if len(letters) == 1 and not has_exclusion(text) else ()

    def _contained(self, text: str) -> tuple[str, ...]:
        folded = _folded(text)
        if len(folded) > MAX_SHORT_REPLY_CHARACTERS or has_exclusion(folded):
            return ()
        taken: list[tuple[int, int]] = []
        found: dict[str, None] = {}
        for form, label in self.forms:
            for match in re.finditer(rf"(?<!\w){re.escape(form)}(?!\w)", folded) if len(form) > 2 else ():
                inside = any(start <= match.start() and match.end() <= end for start, end in taken)
                if not inside or (match.start(), match.end()) in taken:
                    taken.append((match.start(), match.end()))
                    found[label] = None
        return tuple(found) if len(found) == 1 else ()

    def _named(self, fragment: str) -> tuple[str, ...]:
        """The labels that a fragment begins with: an option's text, else letters; none if it goes on otherwise."""
        raw = fragment.strip()[:MAX_STATEMENT_CHARACTERS]
        bare = _LEAD.sub("", raw) or raw
        for text in dict.fromkeys((raw, bare)):
            by_text = self._by_text(text)
            if by_text:
                return by_text
        return self._by_letter(bare)

    def _by_text(self, text: str) -> tuple[str, ...]:
        folded = _folded(text)
        best = 0
        found: dict[str, None] = {}
        for form, label in self.forms:
            if folded.startswith(form) and len(form) >= max(best, 1):
                rest = folded[len(form) :]
                alone = not rest or (len(form) > 1 and _ENDS.match(rest))
                if alone:
                    best = len(form)
                    found[label] = None
        if len(found) > 1:
            return self._by_letter(text)  # options with the same text: only a letter tells them apart
        (label,) = found or ("",)
        # An option whose text is a letter may be meant, or the option of that letter.
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
        named = [letter.upper()]
        while joined := _JOINED.match(rest):
            named.append(joined[1])
            rest = rest[joined.end() :]
        own = [form for form, label in self.forms if label == named[0]]
        follows = _folded(rest.lstrip(" .:)-–—"))
        if not (_ENDS.match(rest) or match["close"] or any(follows.startswith(form) for form in own)):
            return ()
        others = [label for form, label in self.forms if form == follows and form not in own]
        return tuple(dict.fromkeys(label for name in (*named, *others) for label in self._known(name)))

    def _known(self, letter: str) -> tuple[str, ...]:
        if letter in self.letters:
            return (letter,)
        if not self.letters:
            return ()
        raise UnusableReply(f"the reply names {letter!r}, which is not one of {', '.join(self.labels)}")


def _line(text: str, start: int) -> str:
    """The rest of the line at ``start``, or the next line that is not blank."""
    return text[start : start + MAX_STATEMENT_CHARACTERS].lstrip(" \t*_`:：\n").partition("\n")[0]


def parse_json_object(reply: str) -> dict[str, Any]:
    """The JSON object that a reply consists of, alone or in one fenced block; UnusableReply if it is anything else."""
    fenced = _WHOLE_FENCE.match(reply.strip())
    try:
        value = json.loads(fenced[1] if fenced else reply)
    except (ValueError, RecursionError):
        raise UnusableReply(f"it is not valid JSON: {reply[:60]!r}") from None
    if not isinstance(value, dict):
        raise UnusableReply(f"it is no JSON object: {reply[:60]!r}")
    return value


def parse_label(reply: str, labels: Sequence[str]) -> str:
    """The one label that a reply consists of; case, quotes and a closing full stop are forgiven, nothing else.

    >>> parse_label(" refutes.", ("SUPPORTS", "REFUTES"))
    'REFUTES'
    """
    bare = " ".join(reply.strip().strip("\"'“”`*().:").split()).casefold()
    matches = [label for label in labels if label.casefold() == bare]
    if len(matches) != 1:
        raise UnusableReply(f"the reply {reply.strip()[:80]!r} is not exactly one of {', '.join(labels)}")
    return matches[0]
