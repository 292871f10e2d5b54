"""Words of degree and of operation: "deeper", "second largest", "twice", "altogether", "rises", "sorted by".

What belongs here: general English, the same for every table; which column an adjective may measure is told by the words
that such a column's header tends to hold. Positions are offsets in the reading copy of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from evidence_assets.reasoning.tables.text import stem, tokens

VERSION = "2"

# Adjective: direction of the greater degree in numbers, and what headers of such columns say; TIME marks dates.
TIME = "*time*"
PRICE = "price cost fare fee rent toll"
PEOPLE = "population inhabitants passengers visitors"
_ADJECTIVES = {
    "high": (1, "height elevation altitude"), "low": (-1, "height elevation altitude"), "tall": (1, "height"),
    "short": (-1, "length height duration distance span"), "long": (1, "length duration distance span"),
    "large": (1, "area size extent surface"), "big": (1, "area size diameter mass"), "great": (1, ""),
    "small": (-1, "area size diameter extent surface"), "huge": (1, "area size"), "tiny": (-1, "size"),
    "deep": (1, "depth"), "shallow": (-1, "depth"), "wide": (1, "width"), "broad": (1, "width"),
    "narrow": (-1, "width"), "thick": (1, "thickness"), "thin": (-1, "thickness"),
    "heavy": (1, "weight mass"), "light": (-1, "weight mass"), "dense": (1, "density"),
    "hot": (1, "temperature"), "warm": (1, "temperature"), "cold": (-1, "temperature"), "cool": (-1, "temperature"),
    "fast": (1, "speed velocity pace"), "quick": (1, "speed velocity"), "slow": (-1, "speed velocity pace"),
    "hard": (1, "hardness"), "soft": (-1, "hardness"), "loud": (1, "loudness volume"), "bright": (1, "brightness"),
    "cheap": (-1, PRICE), "expensive": (1, PRICE), "costly": (1, PRICE), "dear": (1, PRICE),
    "populous": (1, "population inhabitants"), "rich": (1, "income wealth gdp"), "poor": (-1, "income wealth gdp"),
    "far": (1, "distance"), "near": (-1, "distance"), "close": (-1, "distance"), "distant": (1, "distance"),
    "strong": (1, "strength"), "weak": (-1, "strength"), "steep": (1, "slope gradient"), "numerous": (1, "number count"),
    "lengthy": (1, "length duration"), "brief": (-1, "length duration"), "massive": (1, "mass weight"),
    "spacious": (1, "area size"), "populated": (1, "population inhabitants"), "crowded": (1, "density population"),
    "frequent": (1, "frequency"), "common": (1, "frequency share"), "rare": (-1, "frequency share"),
    "powerful": (1, "power"), "valuable": (1, "value price"), "salty": (1, "salinity salt"), "remote": (1, "distance"),
    "quiet": (-1, "loudness volume"), "noisy": (1, "loudness volume"), "wealthy": (1, "income wealth gdp"),
    "late": (1, TIME), "recent": (1, TIME), "new": (1, TIME), "early": (-1, TIME), "modern": (1, TIME),
    "old": (1, "age " + TIME), "young": (-1, "age " + TIME), "many": (1, ""), "much": (1, ""), "little": (-1, ""),
    "few": (-1, ""),
}  # fmt: skip
# Of dated things the older has the smaller number.
_TURNED_IN_TIME = frozenset({"old", "young"})
_IRREGULAR = {
    "many": ("more", "most"), "much": ("more", "most"), "little": ("less", "least"), "few": ("fewer", "fewest"),
    "far": ("farther", "farthest"), "late": ("later", "latest"),
}  # fmt: skip
_DOUBLED = frozenset({"big", "hot", "thin"})
_PERIPHRASTIC = frozenset(
    {"expensive", "costly", "populous", "populated", "distant", "numerous", "recent", "massive", "spacious", "crowded",
     "frequent", "common", "powerful", "valuable", "remote", "modern"}
)  # fmt: skip
_FURTHER = {"further": "far", "furthest": "far", "lesser": "little"}
_ORDINALS = {
    "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5, "6th": 6,
}  # fmt: skip
# Superlatives without an adjective of their own.
_EXTREMES = {
    "best": 1, "worst": -1, "maximum": 1, "maximal": 1, "max": 1, "peak": 1, "top": 1, "minimum": -1, "minimal": -1, "min": -1, "bottom": -1,
}  # fmt: skip
# Verbs and prepositions that set one thing above or below another, with the headers that some of them point to.
_VERBS = re.compile(
    r"\b(?:(?P<above>exceed(?:s|ed)?|surpass(?:es|ed)?|outnumber(?:s|ed)?|outstrip(?:s|ped)?|outdo(?:es)?|outdid|"
    r"outclass(?:es|ed)?|outrank(?:s|ed)?|dwarfs?|above|ahead of)|"
    r"(?P<below>trail(?:s|ed)?|lag(?:s|ged)?(?: behind)?|fall(?:s)? (?:short of|behind)|fell (?:short of|behind)|"
    r"below|beneath|behind)|"
    r"(?P<weight>outweigh(?:s|ed)?)|(?P<life>outlive(?:s|d)?|outlast(?:s|ed)?)|(?P<sold>outsell(?:s)?|outsold)|"
    r"(?P<speed>outpace(?:s|d)?|outrun(?:s)?|outran)|(?P<height>outgrow(?:s)?|outgrew|overtop(?:s|ped)?|tower(?:s|ed)? over))\b",
    re.IGNORECASE,
)
_VERB_HINTS = {
    "weight": "weight mass", "life": "life lifespan duration length", "sold": "sales sold", "speed": "speed velocity pace",
    "height": "height",
}  # fmt: skip
# First and last places, said without an adjective.
_PLACES = re.compile(
    r"\b(?:(?:rank|come|place|finish|stand)(?:s|es|ed|d)? (?:(?P<last>last)|(?P<place>first|second|third|fourth|fifth|sixth))"
    r"|(?P<rank>second|third|fourth|fifth|sixth)(?= (?:in|by|for) )"
    r"|(?P<before_last>penultimate|(?:second|next)[ -]to[ -]last|last but one)|(?P<runner_up>runners?[ -]up)"
    r"|(?P<lead>(?:leads|tops)(?! (?:to|up)\b)|at the (?:very )?top)|(?P<end>at the (?:very )?bottom))\b",
    re.IGNORECASE,
)
_NOT_AS = re.compile(
    r"\b(?:not|isn't|aren't|wasn't|weren't) (?:(?:quite|nearly|even|half) )?(?:as|so) (?P<adjective>\w+)\b(?=.* as\b)",
    re.IGNORECASE,
)
# Words of a sentence that point to a column without its name: verbs, and other nouns for the same.
_POINTERS = {
    "weigh": "weight mass", "weighs": "weight mass", "weighed": "weight mass", "outweigh": "weight mass",
    "outweighs": "weight mass", "cost": PRICE, "costs": PRICE, "pay": PRICE, "lives": "life lifespan",
    "live": "life lifespan", "lasts": "duration length", "lasted": "duration length",
    "inhabitants": "population inhabitants", "residents": "population", "people": PEOPLE,
    "populous": "population inhabitants", "nation": "country", "covers": "area", "aged": "age", "priced": PRICE,
    "worth": "value price cost", "lived": "life lifespan", "populated": "population", "moves": "speed", "runs": "speed",
}  # fmt: skip
_UNITS = {
    "kilogram": "kg", "gram": "g", "tonne": "t", "kilometre": "km", "kilometer": "km", "metre": "m", "meter": "m",
    "centimetre": "cm", "centimeter": "cm", "millimetre": "mm", "millimeter": "mm", "nanometre": "nm", "kelvin": "K",
    "percent": "%", "euro": "EUR", "dollar": "USD", "year": "years", "day": "days", "hour": "h", "minute": "min",
}  # fmt: skip
# Headers of columns that hold years, whatever the numbers are.
_DATED_LIST = """
    year born died founded built opened established discovered invented launched completed finished introduced released
    admitted joined independent appeared published date isolated adopted constructed
"""
_DATED = frozenset(stem(word) for word in _DATED_LIST.split())


@dataclass(frozen=True)
class Degree:
    """A word of degree: its direction in numbers, its rank ("second largest" is 2), and the headers it points to."""

    kind: Literal["comparative", "superlative", "positive"]
    direction: int
    start: int
    end: int
    rank: int = 1
    hints: frozenset[str] = frozenset()
    in_time: int = 0
    """Direction among dates, 0 where the word does not speak of time."""
    verb: bool = False
    """Whether no "than" leads to what is exceeded."""
    judging: bool = False
    """Whether it turns round where less is better: the best time is the shortest."""


def _forms() -> dict[str, tuple[Literal["comparative", "superlative"], str]]:
    found: dict[str, tuple[Literal["comparative", "superlative"], str]] = {}
    for base in _ADJECTIVES:
        if base in _PERIPHRASTIC:
            continue
        root = base[:-1] + "i" if base.endswith("y") else base[:-1] if base.endswith("e") else base
        root += base[-1] if base in _DOUBLED else ""
        more, most = _IRREGULAR.get(base, (root + "er", root + "est"))
        # "more" and "less" serve two bases each; the first is as good as the other.
        found.setdefault(more, ("comparative", base))
        found.setdefault(most, ("superlative", base))
    for word, base in _FURTHER.items():
        found[word] = ("superlative" if word.endswith("est") else "comparative", base)
    return found


_FORMS = _forms()
_WORD = re.compile(r"[^\W_]+(?:-[^\W\d_]+)?")
_QUANTITIES = {"more": 1, "most": 1, "less": -1, "least": -1}


def _degree(
    kind: Literal["comparative", "superlative", "positive"],
    base: str,
    sign: int,
    start: int,
    end: int,
    rank: int,
    instead: Sequence[str] = (),
) -> Degree:
    direction, hints = _ADJECTIVES[base]
    words = instead or hints.split()
    time = sign * direction * (-1 if base in _TURNED_IN_TIME else 1) if TIME in words else 0
    named = frozenset(stem(word) for word in words if word != TIME)
    return Degree(kind, sign * direction, start, end, rank, named, time)


def degrees(text: str, masked: Callable[[int], bool] = lambda _: False) -> tuple[Degree, ...]:
    """Words of degree in order, those at masked positions left out.

    Examples
    --------
    >>> [(d.kind, d.direction, d.rank) for d in degrees("Is the second deepest lake colder than the others?")]
    [('superlative', 1, 2), ('comparative', -1, 1)]
    """
    words = [(match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(text)]
    words = [word for word in words if not masked(word[1])]
    found: list[Degree] = []
    skip = -1
    for k, (word, start, end) in enumerate(words):
        if k <= skip:
            continue
        before = words[k - 1][0] if k else ""
        following = words[k + 1] if k + 1 < len(words) else ("", 0, 0)
        rank = _ORDINALS.get(before, 1)
        lead, _, last = word.rpartition("-")
        if lead in _ORDINALS:
            rank, word = _ORDINALS[lead], last
        if word in _QUANTITIES and following[0] in _ADJECTIVES:
            kind: Literal["comparative", "superlative"] = "comparative" if word in {"more", "less"} else "superlative"
            found.append(_degree(kind, following[0], _QUANTITIES[word], start, following[2], rank))
            skip = k + 1
        elif lead in _FORMS:
            # "The longest-lived", "the best-selling": what is measured is told by the second part.
            kind, base = _FORMS[lead]
            found.append(_degree(kind, base, 1, start, end, rank, _POINTERS.get(last, "").split()))
        elif word in _FORMS:
            kind, base = _FORMS[word]
            if word == "further" and following[0] != "than":
                continue
            found.append(_degree(kind, base, 1, start, end, rank))
        elif word in _EXTREMES and not (word == "top" and following[0] in {"of", "to"}) and word != "bottom":
            judging = word in {"best", "worst"}
            found.append(Degree("superlative", _EXTREMES[word], start, end, rank, judging=judging))
    for match in _VERBS.finditer(text):
        hints = frozenset(stem(hint) for hint in _VERB_HINTS.get(match.lastgroup or "", "").split())
        if not masked(match.start()):
            direction = -1 if match["below"] else 1
            found.append(Degree("comparative", direction, match.start(), match.end(), 1, hints, 0, True))
    for match in _PLACES.finditer(text):
        direction = -1 if match["last"] or match["before_last"] or match["end"] else 1
        rank = (
            2
            if match["before_last"] or match["runner_up"]
            else _ORDINALS.get((match["place"] or match["rank"] or "").lower(), 1)
        )
        if not masked(match.start()) and not any(
            degree.start <= match.end() and match.start() <= degree.end for degree in found
        ):
            found.append(Degree("superlative", direction, match.start(), match.end(), rank))
    for match in _NOT_AS.finditer(text):
        base = match["adjective"].lower()
        if base in _ADJECTIVES and not masked(match.start()):
            found.append(_degree("comparative", base, -1, match.start(), match.end(), 1))
    for match in re.finditer(r"\b(before|after)\b", text, re.IGNORECASE):
        sign = -1 if match.group().lower() == "before" else 1
        if not masked(match.start()):
            found.append(Degree("comparative", sign, match.start(), match.end(), 1, frozenset(), sign, True))
    return tuple(sorted(found, key=lambda degree: degree.start))


def pointed_at(text: str) -> frozenset[str]:
    """Header words that other words than degrees point to: "weighs", "inhabitants", "how deep", "as tall as".

    Examples
    --------
    >>> sorted(pointed_at("Is it as deep as it weighs?"))
    ['depth', 'mass', 'weight']
    """
    found: set[str] = set()
    for word in _WORD.findall(text.lower()):
        found |= {stem(hint) for hint in _POINTERS.get(word, "").split()}
    for match in re.finditer(r"\b(?:how|as) (\w+)", text, re.IGNORECASE):
        if match[1].lower() in _ADJECTIVES:
            found |= _degree("positive", match[1].lower(), 1, 0, 0, 1).hints
    return frozenset(found)


def is_pointer(word: str) -> bool:
    """Whether a word, in small letters, points to a column."""
    return word in _POINTERS


def units_in_words(text: str) -> frozenset[str]:
    """Signs of the units that a text spells out: "kilograms" is "kg"."""
    words = (word.removesuffix("s") for word in _WORD.findall(text.lower()))
    return frozenset(_UNITS[word] for word in words if word in _UNITS)


def names_a_date(header: str) -> bool:
    """Whether a header says that its column holds years: "Founded", "Year of birth"."""
    return bool(_DATED & {stem(token) for token in tokens(header)})


GO_INTO = re.compile(r"\bhow often\b.*\b(?:go|goes|fit|fits) into\b", re.IGNORECASE)
DIFFERENCE = re.compile(
    r"\b(?:differ(?:s|ed|ence|ences)?|apart(?! from)|gap|margin|separat\w+|minus|subtract\w*|distance between|"
    r"(?:pass(?:ed)?|elapsed?|lie|lay|went by|go by) between|by how (?:much|many|far))\b|"
    r"\bhow (?:much|many|far)\b.*\bbetween\b.*\band\b",
    re.IGNORECASE,
)
HOW_MUCH_MORE = re.compile(r"\bhow (?:much|many|far)\b", re.IGNORECASE)
RATIO = re.compile(
    r"\b(?:times(?! (?:as|more) often)|\w+-?fold|ratio|divid\w+|quotient|twice|thrice|double|triple|quadruple|half|"
    r"multiple of|(?:a|one)[ -](?:third|quarter|fifth|tenth) (?:of|as)|(?:two[ -]thirds|three[ -]quarters) (?:of|as)|"
    r"(?:what|which) (?:fraction|proportion) of|by (?:what|which) factor)\b|"
    r"\bper ?cent(?:age)? of\b|%\s+of\b|\bhow often\b.*\b(?:go|goes|fit|fits) into\b",
    re.IGNORECASE,
)
FIXED_RATIOS = {
    "twice": 2.0, "double": 2.0, "thrice": 3.0, "triple": 3.0, "quadruple": 4.0, "half": 0.5,
    "(?:a|one)[ -]third (?:of|as)": 1 / 3, "(?:a|one)[ -]quarter (?:of|as)": 0.25, "(?:a|one)[ -]fifth (?:of|as)": 0.2,
    "(?:a|one)[ -]tenth (?:of|as)": 0.1, "two[ -]thirds (?:of|as)": 2 / 3, "three[ -]quarters (?:of|as)": 0.75,
}  # fmt: skip
SUM = re.compile(
    r"\b(?:total|totals|sum|altogether|combined|together|in all|all told|added|add(?:s)? up|overall number|between them)\b",
    re.IGNORECASE,
)
MEAN = re.compile(r"\b(?:averages?|averaged|(?:the|a|arithmetic) mean|mean (?:of|value))\b", re.IGNORECASE)
COUNT = re.compile(r"\b(?:how many|(?:the|what|what's the) number of|count(?: of)?)\b", re.IGNORECASE)
DISTINCT = re.compile(r"\b(?:different|distinct|unique)\b", re.IGNORECASE)
ROWS = re.compile(r"\b(?:rows?|entries|entry|lines?|items?|records?|of (?:them|these|those))\b", re.IGNORECASE)
ALL = re.compile(
    r"\b(?:all|every|each|both|always|throughout|steadily|consistently|without exception)\b", re.IGNORECASE
)
NONE = re.compile(r"\b(?:no|none|neither|nobody|nothing|not one|not any)\b", re.IGNORECASE)
NOT = re.compile(
    r"\b(?:not(?! only)|never|cannot|isn't|aren't|wasn't|weren't|doesn't|don't|didn't|hasn't|far from|"
    r"fail(?:s|ed)? to|(?:false|untrue|wrong|incorrect)(?: to say)? that|hardly|anything but)\b|n't\b",
    re.IGNORECASE,
)
SAME = re.compile(
    r"\b(?:same|equal(?:s|led)?|identical|equally|alike|as (?:many|much) \w+ as|tied?|ties|"
    r"shares? (?:its|their|his|her))\b",
    re.IGNORECASE,
)
_ONLY = re.compile(r"\b(?:the (?:only|sole)|no other|no one else|none but)\b", re.IGNORECASE)
# How large a part of the rows is spoken of: at least, or at most, which share of them, and whether that share itself counts.
PARTS = (
    (re.compile(r"\b(?:most of|(?:the|a) majority of|(?:more than|over) half (?:of )?)", re.IGNORECASE), ">", 0.5),
    (
        re.compile(r"\b(?:(?:the|a) minority of|(?:less|fewer) than half (?:of )?|under half (?:of )?)", re.IGNORECASE),
        "<",
        0.5,
    ),
    (re.compile(r"\b(?:exactly )?(?:one )?half of", re.IGNORECASE), "=", 0.5),
    (re.compile(r"\b(?:exactly )?(?:a|one)[ -]third of", re.IGNORECASE), "=", 1 / 3),
    (re.compile(r"\b(?:exactly )?(?:a|one)[ -]quarter of", re.IGNORECASE), "=", 0.25),
)
# What is left out of a comparison: "apart from Lima", "the highest after La Paz".
EXCEPT = re.compile(
    r"\b(?:other than|apart from|aside from|besides|except(?: for)?|excluding|not counting|leaving out|after|next to|behind)"
    r"(?: the)?\s*$",
    re.IGNORECASE,
)
LACKS = re.compile(
    r"\b(?:no|without|lack(?:s|ed|ing)?|(?:does not|doesn't|do not|don't|did not|didn't) (?:have|own|offer)|has no|have no)(?: an?| any| the)?\s*$",
    re.IGNORECASE,
)
ORDERED = re.compile(
    r"\b(?:sort\w*|order\w*|rank\w*|arrang\w*|going)\b[^,;.]{0,20}?\b(?:by|along|on|according to)\b|"
    r"\b(?:as|when|while|whenever|with)\b(?! (?:well|many|much|few))|\bfor\b(?= (?:increas|grow|ris|larg|high|great))",
    re.IGNORECASE,
)
TREND = re.compile(
    r"\btrend\b|\bfrom (?:one )?row to (?:the next )?row\b|\bdown the (?:table|rows)\b|\bchang\w*", re.IGNORECASE
)
EVERY_STEP = re.compile(
    r"\b(?:every (?:time|step|row)|each (?:time|step|row)|always|throughout|steadily|consistently|monoton\w*|"
    r"continu\w+|never|without exception)\b",
    re.IGNORECASE,
)
_MOVES = re.compile(
    r"\b(?:(?P<up>ris(?:es|e|ing|en)|rose|grow\w*|grew|increas\w*|climb\w*|go(?:es|ing)? up|went up|gain\w*|upwards?|"
    r"soar\w*|surg(?:es|ed|ing)|mount(?:s|ed|ing)|swell\w*|expand\w*)|"
    r"(?P<down>fall\w*|fell|drop\w*|declin\w*|decreas\w*|shrink\w*|shrank|go(?:es|ing)? down|went down|sink\w*|sank|"
    r"diminish\w*|downwards?|dwindl\w*|plung\w*|tumbl\w*|lessen\w*)|"
    r"(?P<level>constant|unchanged|level|stays? the same|flat)|(?P<mixed>irregular\w*|no (?:clear )?(?:pattern|trend|order)|"
    r"up and down|neither|fluctuat\w*|var(?:y|ies)))\b",
    re.IGNORECASE,
)


def moves(text: str) -> tuple[tuple[int, int], ...]:
    """Movements that a text speaks of, as (offset, sign): 1 up, -1 down, 0 level, 2 none that can be told.

    Examples
    --------
    >>> [sign for _, sign in moves("it first falls and then rises")]
    [-1, 1]
    """
    signs = {"up": 1, "down": -1, "level": 0, "mixed": 2}
    return tuple((match.start(), signs[match.lastgroup or "mixed"]) for match in _MOVES.finditer(text))


def only_of(text: str, start: int, end: int) -> bool:
    """Whether a text says something only of the name at a place; "has only three" says how many.

    Examples
    --------
    >>> only_of("Only Como is deep.", 5, 9), only_of("Como has only three.", 0, 4), only_of("Como is the only one.", 0, 4)
    (True, False, True)
    """
    before = re.search(r"\b(?:only|solely)(?: the)?\s*$", text[:start], re.IGNORECASE)
    behind = re.match(r"\s*alone\b", text[end:], re.IGNORECASE)
    return bool(before or behind or _ONLY.search(text))


def pattern_of(text: str) -> tuple[int, ...]:
    """The movements of a text in order, each once in a row."""
    return squeezed([sign for _, sign in moves(text)])


def squeezed(signs: Sequence[int]) -> tuple[int, ...]:
    """Signs with repeats in a row left out."""
    return tuple(sign for k, sign in enumerate(signs) if k == 0 or sign != signs[k - 1])
