"""English negation: in clauses, in replies about options, and in questions that ask for the exception."""

from __future__ import annotations

import re

from evidence_assets.text.sentences import sentence_spans

_NOT = r"not|no|nobody|never|none|neither|nor|cannot|without"
_SHORT_NOT = r"n['’]t\b"
_DENIAL = re.compile(
    rf"\b(?:{_NOT}|hardly|contrary|false|untrue|wrong(?:ly)?|myth|unable|fails?|denie[ds]|disproved)\b|{_SHORT_NOT}",
    re.IGNORECASE,
)
_EXCLUSION = re.compile(rf"\b(?:{_NOT}|except|incorrect|wrong|unlikely)\b|{_SHORT_NOT}", re.IGNORECASE)

_EXCEPTION = (
    r"\b(?:NOT|EXCEPT)\b",
    r"(?i:\b(?:all|any|each|every\w*|both|following)\b[^?]*\b(?:except|but one)\b)",
    r"(?i:\bthe exception\b)",
    r"(?i:\bexcept(?:ing)?(?:\s+(?:for|one))?\W*$)",
    r"(?i:(?<!\bat )\bleast\s+(?:likely|probabl[ey]|plausible|apt|true|accurate|correct|appropriate|suit(?:able|ed)"
    r"|applicable|advisable|relevant|related|associated|consistent|compatible|characteristic|typical|representative"
    r"|convenient|helpful|useful|necessary|needed|important|essential|often|commonly)\b)",
    r"(?i:^\W*(?:not\s+(?:true|correct|a|an|the|associated|seen|found)|false|incorrect|untrue|wrong)\b)",
    r"(?i:\b(?:which|what)\b.*\b(?:is|are)\s+(?:false|incorrect|untrue|wrong|not\s+(?:true|correct))\b)",
)
"""A match in the asking sentence means that it asks for the exception. "Least" does so only before a word that says how
well an option fits: "the least amount of pollution" is a property that evidence supports."""
_CONDITION = re.compile(r"^\s*(?:if|when|while|although|though|because|since|after|before)\b[^,]*,", re.IGNORECASE)
_QUESTION_CLAUSE = re.compile(r"\b(?:which|what)\b(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_CLAUSE = re.compile(
    r"\b(?:who|whose|which|that|if|unless|when|where|while|because|although|though|since|so|after|before|but|yet|and)\b"
    r"|[,;]",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:is|are|was|were|do|does|did|has|have|would|will)(?:\s+(?:\w+ly\s+)?(?:not|never)\b|n['’]t\b)", re.IGNORECASE
)


_OPPOSITES = (("open", "closed"), ("included", "excluded"), ("required", "optional"))
OPPOSITES = {one: other for pair in _OPPOSITES for one, other in (pair, pair[::-1])}
"""Words of which a statement that says one denies the other."""


def is_denial(clause: str) -> bool:
    """Whether a clause is negated; two negations, as in "without it there is no ...", affirm.

    >>> is_denial("Aspirin does not lower glucose."), is_denial("Without insulin there is no cure.")
    (True, False)
    """
    return len(_DENIAL.findall(clause)) % 2 == 1


def has_exclusion(reply: str) -> bool:
    """Whether a reply may mention an option only to rule it out ("it is unlikely to be B")."""
    return _EXCLUSION.search(reply) is not None


def asks_for_exception(question: str) -> bool:
    """Whether a question asks which option is false, for benchmarks that do not mark such questions.

    Only the asking sentence counts, because "does not smoke" in a case description is a finding. A contraindication
    ("which drug should not be given?") is not an exception: evidence supports it like any other fact.

    >>> asks_for_exception("Which of these is NOT a mammal?"), asks_for_exception("All are mammals except:")
    (True, True)
    >>> asks_for_exception("He does not smoke. What is the diagnosis?"), asks_for_exception("Why do cats not swim?")
    (False, False)
    """
    sentences = [question[a:b] for a, b in sentence_spans(question)]
    question_numbers = [number for number, text in enumerate(sentences) if "?" in text] or [len(sentences) - 1]
    question_text = " ".join(sentences[question_numbers[-1] :])
    # In "Each of these is a mammal except one. Which?" the previous sentence states the exception.
    if len(question_text.split()) < 3 and question_numbers[-1]:
        question_text = " ".join(sentences[question_numbers[-1] - 1 :])
    question_text = _CONDITION.sub("", question_text)
    if any(re.search(pattern, question_text, re.DOTALL) for pattern in _EXCEPTION):
        return True
    match = _QUESTION_CLAUSE.search(question_text)
    # A negation in another clause ("a man who does not smoke", "flies but has no wings") is a property of the option.
    return bool(match and _DENIED.search(_CLAUSE.split(match["rest"], maxsplit=1)[0]))
