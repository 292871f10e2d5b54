"""Whether a question asks for the option that does *not* hold, told from its words.

For benchmarks that do not mark such questions. English only; the question itself is looked at (its last sentences),
not the case that is described before it, where "does not smoke" is a finding and no exception.
"""

from __future__ import annotations

import re

from evidence_assets.reasoning.statements import sentence_spans

VERSION = "1"

_ANYWHERE = re.compile(
    r"\b(?:NOT|EXCEPT|LEAST)\b|"
    r"\b(?:all|any|each|every(?:thing|one)?|both)\b[^.?!]*\b(?:except|but one|other than)\b|"
    r"\bexcept(?:ing)?(?:\s+(?:for|one))?\s*[:?.…_-]*\s*$|\bwith the exception\b|\bis (?:the|an) exception\b"
)
_ASKED = re.compile(
    r"\b(?:which|what|who|whom|whose|where|when)\b(?P<rest>.*)|(?P<blank>.*)(?:__+|…|:)\s*$", re.IGNORECASE | re.DOTALL
)
_DENIED = re.compile(
    r"^[^,;]*?\b(?:is|are|was|were|do|does|did|has|have|had|can|could|would|should|will|may|might|must)"
    r"(?:\s+(?:\w+ly\s+)?(?:not|never)\b|n['’]t\b)|^[^,;]*?\bcannot\b|"
    r"\bleast\s+(?:likely|probable|appropriate|suitable|useful|helpful|effective|consistent|common|important|accurate"
    r"|relevant|associated)\b|"
    r"\b(?:is|are)\s+(?:the\s+)?(?:least|incorrect|false|untrue|wrong|contraindicated|unlikely|inappropriate)\b|"
    r"^\s*(?:of\s+(?:the|these)\s+)?(?:following\s+)?(?:statements?\s+|options?\s+|answers?\s+)?(?:is|are)\s+not\b|"
    r"\bexcept\b|\bexcluding\b|\bother than\b",
    re.IGNORECASE,
)
_BECAUSE = re.compile(r"\b(?:why|because|if|unless|when|although|since|who|that|who)\b", re.IGNORECASE)


def asks_for_exception(question: str) -> bool:
    """Whether the question asks which option does not hold.

    >>> asks_for_exception("Which of these is NOT a mammal?"), asks_for_exception("All are mammals except:")
    (True, True)
    >>> asks_for_exception("He does not smoke. What is the diagnosis?"), asks_for_exception("Why do cats not swim?")
    (False, False)
    """
    spans = sentence_spans(question)
    if not spans:
        return False
    asked = next((question[a:b] for a, b in reversed(spans) if "?" in question[a:b]), question[slice(*spans[-1])])
    if _ANYWHERE.search(asked):
        return True
    match = _ASKED.search(asked)
    if match is None:
        return False
    rest = match["rest"] if match["rest"] is not None else match["blank"]
    # What stands in a clause of its own ("what happens if it does not rain") denies nothing of the options.
    return bool(_DENIED.search(_BECAUSE.split(rest, maxsplit=1)[0]))
