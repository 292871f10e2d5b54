"""Where sentences and clauses end, no character of a text being lost or changed; and which language a text is in."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

Span = tuple[int, int]
"""Start and end within a text."""

_ABBREVIATION_LIST = """
    dr mr mrs ms prof st sr jr vs etc e.g i.e cf al fig figs eq no nos vol approx ca inc ltd co corp dept est
    gen rev hon capt lt sgt col jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k a.m p.m viz resp
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())
"""A full stop after one of these does not end a sentence."""
# Tried once a run of marks and without going back in it: a line of dots that fills a page would take the square of its length.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？]++[」』”’）]*+|\n\s*\n")
_WORD_BEFORE = re.compile(r"([\w.]+)\.$")


def sentence_spans(text: str) -> list[Span]:
    """Start and end of each sentence, without the white space between them.

    >>> [ "Dr. Ada wrote it. It ran!"[a:b] for a, b in sentence_spans("Dr. Ada wrote it. It ran!") ]
    ['Dr. Ada wrote it.', 'It ran!']
    """
    spans: list[Span] = []
    start = 0
    for match in _END.finditer(text):
        end = match.end()
        if match.group().startswith("."):
            before = _WORD_BEFORE.search(text[max(start, match.start() - 12) : match.start() + 1])
            word = before.group(1).lower() if before else ""
            following = text[end : end + 40].lstrip()[:1]
            initial = len(word) == 1 and word.isalpha() and match.group() == "."
            if (word in _ABBREVIATIONS or initial or following.islower()) and match.group().rstrip("\"'”’)]") == ".":
                continue
        spans.append((start, end))
        start = end
    spans.append((start, len(text)))
    return [(a, b) for a, b in (trimmed(text, span) for span in spans) if a < b]


def trimmed(text: str, span: Span) -> Span:
    """A span without the white space at its ends."""
    piece = text[span[0] : span[1]]
    left = len(piece) - len(piece.lstrip())
    return (span[0] + left, span[0] + max(left, len(piece.rstrip())))


_CLAUSE_END = re.compile(
    r";\s+|,\s+(?=(?:whereas|while|although|though|but|however|unlike)\b)|\s+(?=whereas\b)|,\s+(?=and\s+(?:\S+\s+){3})"
)


def clauses(sentence: str) -> list[str]:
    """The clauses of a sentence in order, each a part of it as it stands.

    >>> clauses("Iron rusts, whereas gold does not; both conduct.")
    ['Iron rusts', 'whereas gold does not', 'both conduct.']
    """
    return [clause for clause in _CLAUSE_END.split(sentence) if clause.strip()]


_SMALL_WORDS = {
    "English": "the of and to is in that it was for on are with as at be this have from by which what who how does do can an a they when or not where why much many long often has had did will would should must been there their its i you he she we if could about into than then so but no",
    "German": "der die das und ist von den nicht mit ein eine zu im für auf dem des sich welche welches welcher wer wie kann warum wo wann viel viele lange oft hat haben hatte wird werden wurde sind war bei nach aus als auch gibt können soll muss ihre seine dieser diese",
    "French": "le la les des est et une un dans que qui pour pas sur du au avec ce quel quelle quels comment peut sont il où quand pourquoi combien longtemps souvent a ont était être avoir par plus se cette ces aux doit peuvent",
    "Spanish": "el la los las de que en un una es por con para como del se qué cuál quién puede son no su al lo dónde cuándo cuánto cuántos cuánta cuántas cuáles tiene tienen ser fue más pueden debe hay este esta sus",
    "Italian": "il lo la gli le di che è un una per con del della nel sono quale quali chi come può non si da dei dove quando quanto quanti quanta quante perché ha hanno essere fu più possono deve questo questa alla nella",
    "Portuguese": "o a os as de que e do da em um uma é para com não qual quais quem como pode são no na dos onde quando quanto quantos quanta quantas porque tem têm ser foi mais podem deve este esta pela pelo ao",
    "Dutch": "de het een van en is dat niet op te met voor welke wie hoe kan zijn er aan om door wat bij uit waar wanneer waarom veel hoeveel vaak lang heeft hebben wordt worden waren naar ook deze dit kunnen moet",
    "Polish": "i w na z do nie się jest to że jak który która które kto czy może od po są przez dla gdzie kiedy dlaczego ile długo często ma mają był była być przy oraz jako tym tego można musi",
    "Swedish": "och att det är som en ett på för med av inte vilken vilket vem hur kan den till om har var när varför mycket många länge ofta hade blir vara från också denna detta kunna måste",
}
_WORDS = {language: frozenset(words.split()) for language, words in _SMALL_WORDS.items()}
_SCRIPTS = {
    "CYRILLIC": "Cyrillic script",
    "GREEK": "Greek",
    "ARABIC": "Arabic script",
    "HEBREW": "Hebrew",
    "CJK": "Chinese characters",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "DEVANAGARI": "Devanagari script",
    "THAI": "Thai",
}
LEAST, LEAD = 2, 1.5
"""Small words that a text must hold (one is enough in a question of four or five), and by how often the most fitting language must hold more than the next."""


def language_of(text: str) -> str:
    """The language, or the script where it is not Latin; empty where too little tells.

    >>> language_of("Welches Medikament kann gegen Gicht helfen und wie?")
    'German'
    >>> language_of("Which drug may treat gout?")
    'English'
    >>> language_of("Gicht?")
    ''
    """
    letters = [unicodedata.name(c, "").split(" ")[0].split("-")[0] for c in text[:2000] if c.isalpha()]
    if letters:
        script, count = Counter(letters).most_common(1)[0]
        if script in _SCRIPTS and count > len(letters) / 2:
            return _SCRIPTS[script]
    words = re.findall(r"[^\W\d_]+", text.casefold())
    counts = sorted(((sum(w in small for w in words), language) for language, small in _WORDS.items()), reverse=True)
    (most, language), (next_most, _) = counts[:2]
    wanted = 1 if len(words) in (4, 5) else LEAST  # of fewer words one may be a name
    return language if most >= wanted and most >= LEAD * next_most and most > next_most else ""
