"""Questions that ask for a definition, and sentences that give it: "What is a milk run?", "A milk run is a trip"."""

from __future__ import annotations

import re

from evidence_assets.text.tokens import AUXILIARIES, DETERMINERS, PREPOSITIONS, Word, is_verb_form, split_tokens

MAX_TERM_WORDS = 4
_QUESTION = re.compile(
    r"\s*what(?:(?: is| are|['’]s)\s+(?:an? |(?P<one>the ))?(?P<term>[^?]+)"
    r"|(?: does| do)\s+(?:an? )?(?P<meant>[^?]+?)\s+mean)"
    r"\s*\?*\s*",
    re.IGNORECASE,
)
_DEFINED = (
    r"(?:\s+(?:is|are)\s+(?:an?|the|any|one|each|every|what|when|where|how)\b"
    r"|\s+(?:means?|refers? to|denotes?|stands? for)\b|(?::|\s+[–—-])\s+\S+\s+\S+\s+\S)"
)
"""What follows a term that a sentence defines: "is a", "means", or a colon or dash and three words."""
_MARKUP = re.compile(r"[*_`\"“”]")


def asked_term(question: str, *, is_one_thing: bool = False) -> list[Word]:
    """The words of the term whose definition a question asks for; empty if it asks for something else.

    ``is_one_thing``: "The" may precede the term, as in "What is the Parson?", which may ask for an attribute instead.

    >>> [[word.text for word in asked_term(q)] for q in ("What is a milk run?", "What is the price of milk?")]
    [['milk', 'run'], []]
    """
    match = _QUESTION.fullmatch(question)
    if match is None or (match["one"] and not is_one_thing):
        return []
    words = split_tokens(match["term"] or match["meant"])
    others = DETERMINERS | PREPOSITIONS | AUXILIARIES
    if len(words) > MAX_TERM_WORDS or any(word.is_mark or word.lower in others for word in words):
        return []
    return [] if len(words) == 1 and is_verb_form(words[0]) else words  # "What is allowed?"


def defines(sentence: str, term: list[Word]) -> bool:
    """Whether a sentence starts with a term and says what it is.

    >>> defines("- **Milk run**: a round trip to suppliers", asked_term("What is a milk run?"))
    True
    """
    name = r"\W+".join(re.escape(word.text) for word in term)
    pattern = rf"\W*(?:(?:an?|the)\s+)?{name}s?{_DEFINED}"
    return bool(term) and re.match(pattern, _MARKUP.sub("", sentence), re.IGNORECASE) is not None
