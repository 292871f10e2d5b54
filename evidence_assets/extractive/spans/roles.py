"""Whether a statement with the content words of a question gives them the same roles.

"The museum is bigger than the library" does not say that the library is, "above the mat" is not under it, and the shop
of a museum may open when the museum does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import zip_longest

from evidence_assets.text.tokens import AUXILIARIES, DETERMINERS, LISTS, PREPOSITIONS, Word, split_tokens

_KINDS = dict(pair.split("=") for pair in LISTS["preposition_kinds"])
"""Prepositions that exclude others, by one of those that say the same."""
_POSSESSIVE = frozenset(("'s", "’s"))
_VERBS = AUXILIARIES - _POSSESSIVE | {"cannot"}
_DEFINITE_DETERMINERS = DETERMINERS - {"a", "an", "any", "some", "each", "every", "no"}
"""Before a noun, these say that a known thing is meant, whatever adjectives it has."""
_Key = tuple[str, bool]
MIN_ORDERED = 3
"""Minimum words without a preposition whose first and last may be exchanged: subject, verb and object."""


def key(word: Word) -> _Key:
    """What equal words have in common; the month May is no modal verb."""
    return word.stem, word.is_month


def have_equal_roles(question: str, statement: str) -> bool:
    """Whether the words of a question have, in a statement with all of them, the same prepositions, order and owners.

    >>> have_equal_roles("Is the key under the mat?", "The key is under the mat.")
    True
    >>> have_equal_roles("Is the key under the mat?", "The key is above the mat.")
    False
    """
    words = split_tokens(question)
    others = split_tokens(statement)
    question_keys = {key(word) for word in words if word.is_content}
    return (
        _have_equal_prepositions(words, others)
        and _are_in_order(words, others, question_keys)
        and _are_agents_first(words, others)
        and _are_agents_first(others, words)
        and not _is_of_another(others, question_keys)
    )


def have_equal_prepositions(a: str, b: str) -> bool:
    """Whether no content word of both texts has a preposition in one that says another thing in the other.

    >>> have_equal_prepositions("Can I pay before the tour?", "Can I pay after the tour?")
    False
    """
    return _have_equal_prepositions(split_tokens(a), split_tokens(b))


def _have_equal_prepositions(words: Sequence[Word], others: Sequence[Word]) -> bool:
    first = _find_kinds(words)
    second = _find_kinds(others)
    if "than" in {*first.values(), *second.values()}:
        return first == {word: kind for word, kind in second.items() if word in first}
    shared = first.keys() & second.keys()
    return all(first[word] == second[word] or not (first[word] and second[word]) for word in shared)


def _find_kinds(words: Sequence[Word]) -> dict[_Key, str]:
    """Each content word with what its preposition says; an empty text if it excludes no other, or without one."""
    return {word: _KINDS.get(preposition, "") for word, preposition in _find_prepositions(words)}


def _find_prepositions(words: Sequence[Word]) -> Iterator[tuple[_Key, str]]:
    """Each content word with the preposition before its noun, or an empty text."""
    preposition = ""
    has_noun = False
    for word, next_word in zip_longest(words, words[1:]):
        if word.is_content:
            yield key(word), "" if preposition in ("from", "to") and _is_time(word) else preposition
            has_noun = True
        elif word.lower in PREPOSITIONS:
            preposition = "" if _is_infinitive(word, next_word) else word.lower
            has_noun = False
        elif word.is_mark or word.lower in AUXILIARIES or (has_noun and word.lower in DETERMINERS):
            preposition = ""


def _is_time(word: Word) -> bool:
    """Whether a word is a day, month or number: "on Mondays" is within "from Monday to Friday"."""
    return word.is_number or not (LISTS["days"] | LISTS["months"]).isdisjoint(
        (word.lower, word.lower.removesuffix("s"))
    )


def _is_infinitive(word: Word, next_word: Word | None) -> bool:
    """Whether "to" may begin an infinitive: "allowed to use"."""
    return word.lower == "to" and next_word is not None and next_word.is_content and not next_word.is_capital


def _are_in_order(words: Sequence[Word], others: Sequence[Word], question_keys: set[_Key]) -> bool:
    """Whether subject and object, which have no preposition, are not exchanged."""
    first = _list_without_preposition(words, question_keys)
    second = _list_without_preposition(others, question_keys)
    shared = [word for word in first if word in second]
    places = [second.index(word) for word in shared]
    return len(shared) < MIN_ORDERED or places[0] < places[-1]


def _are_agents_first(words: Sequence[Word], others: Sequence[Word]) -> bool:
    """Whether what "by" names in one text is the subject of the other: "built by Marta" and "Marta built"."""
    prepositions = dict(_find_prepositions(words))
    shared = {word: preposition for word, preposition in _find_prepositions(others) if word in prepositions}
    agents = {word for word, preposition in shared.items() if prepositions[word] == "by" and not preposition}
    return {*list(shared)[: len(agents)]} == agents


def _list_without_preposition(words: Sequence[Word], question_keys: set[_Key]) -> list[_Key]:
    """The words of the question that have no preposition, each once."""
    pairs = _find_prepositions(words)
    return list(dict.fromkeys(word for word, preposition in pairs if word in question_keys and not preposition))


def _is_of_another(words: Sequence[Word], question_keys: set[_Key]) -> bool:
    """Whether a statement is about something of what is asked for, or about some of it: "Small dogs are admitted"."""
    kinds = [_Kind.of(word, question_keys) for word in words]
    if any(kind is _Kind.OF_QUESTION and _owns_another(words[n + 1 :], kinds[n + 1 :]) for n, kind in enumerate(kinds)):
        return True
    start = kinds.index(_Kind.OF_QUESTION)
    is_verb = [word.lower in _VERBS for word in words]
    if not any(is_verb[start:]):
        return False
    end = is_verb.index(True, start)
    is_name = start > 0 and _are_one_name(words[start - 1], words[start])
    return (not is_name and _is_some(words[:start], kinds[:start])) or _is_qualified(words[start:end], kinds[start:end])


class _Kind(Enum):
    """What a word of a statement is to a question."""

    OF_QUESTION = "of the question"
    OTHER = "another content word"
    FUNCTION = "a function word, mark or number"

    @classmethod
    def of(cls, word: Word, question_keys: set[_Key]) -> _Kind:
        if key(word) in question_keys:
            return cls.OF_QUESTION
        return cls.OTHER if word.is_content and not word.is_number else cls.FUNCTION


def _are_one_name(word: Word, next_word: Word) -> bool:
    """Whether two adjacent words are of one name: "Albert Einstein"."""
    return word.is_capital and next_word.is_capital


def _owns_another(words: Sequence[Word], kinds: Sequence[_Kind]) -> bool:
    """Whether "'s" and another content word follow: "Anna's sister"."""
    return len(words) > 1 and words[0].lower in _POSSESSIVE and kinds[1] is _Kind.OTHER


def _is_some(before: Sequence[Word], kinds: Sequence[_Kind]) -> bool:
    """Whether the words before a noun restrict it: "small", unless it is known, as in "the small"."""
    is_restricted = bool(kinds) and kinds[-1] is _Kind.OTHER
    return is_restricted and not any(word.lower in _DEFINITE_DETERMINERS for word in before)


def _is_qualified(subject: Sequence[Word], kinds: Sequence[_Kind]) -> bool:
    """Whether another noun, or a preposition with another word, follows a word of the question before the verb."""
    for n, kind in enumerate(kinds[:-1]):
        if kind is not _Kind.OF_QUESTION:
            continue
        next_word = subject[n + 1]
        is_noun = not (_are_one_name(subject[n], next_word) or next_word.lower.endswith("ly"))
        if kinds[n + 1] is _Kind.OTHER and is_noun:
            return True
        rest = zip(subject[n + 2 :], kinds[n + 2 :], strict=True)
        if next_word.lower in PREPOSITIONS and any(k is _Kind.OTHER or word.is_number for word, k in rest):
            return True
    return False
