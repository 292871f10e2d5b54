"""A little English that is the same for every table: irregular verbs, and closed classes such as the months.

What belongs here: word lists without operations. Words that call for an operation are in `degrees`.
"""

from __future__ import annotations

VERSION = "1"

# Verbs whose past is no ending, as headers have it ("Built", "Sold") and sentences do not.
_PAST_LIST = """
    built build sold sell grew grow grown grow won win held hold made make paid pay taught teach caught catch bought buy
    brought bring wrote write written write spoke speak spoken speak took take taken take gave give given give knew know
    known know flew fly flown fly drove drive driven drive rose rise risen rise fell fall fallen fall began begin begun
    begin drew draw drawn draw lost lose spent spend sent send stood stand ran run swam swim sang sing sung sing wore wear
    ate eat eaten eat drank drink sank sink slept sleep kept keep felt feel met meet said say told tell thought think
"""
_PAST = dict(zip(_PAST_LIST.split()[::2], _PAST_LIST.split()[1::2], strict=True))


def irregular_base(word: str) -> str:
    """The verb that an irregular past belongs to; any other word as it is."""
    return _PAST.get(word, word)


_CLASSES = (
    frozenset(
        "january february march april may june july august september october november december".split()  # noqa: SIM905
    ),
    frozenset("monday tuesday wednesday thursday friday saturday sunday".split()),  # noqa: SIM905
    frozenset({"north", "south", "east", "west"}),
    frozenset({"spring", "summer", "autumn", "winter"}),
)


def excludes(said: frozenset[str], text: str) -> bool:
    """Whether words name another month, weekday, quarter or season than a text that is one.

    Examples
    --------
    >>> excludes(frozenset({"april"}), "March"), excludes(frozenset({"april"}), "Sunday")
    (True, False)
    """
    kind = next((kind for kind in _CLASSES if text.strip().lower() in kind), frozenset[str]())
    return bool(said & kind) and text.strip().lower() not in said
