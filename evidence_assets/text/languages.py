"""Which language a text is in, as far as its script or its smallest words tell; for telling a question from a corpus.

Nothing here needs a model: a handful of the most frequent words of each language decides, and where they do not, nothing
is said.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

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
    "CYRILLIC": "Cyrillic script", "GREEK": "Greek", "ARABIC": "Arabic script", "HEBREW": "Hebrew", "CJK": "Chinese characters",
    "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean", "DEVANAGARI": "Devanagari script", "THAI": "Thai",
}  # fmt: skip
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
