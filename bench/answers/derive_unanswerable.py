"""Derive questions that the pages of ``bench/answers/pages`` do not answer, and write ``unanswerable.jsonl``.

    python -m bench.answers.derive_unanswerable            # write them
    python -m bench.answers.derive_unanswerable --measure  # count what is answered of them without a language model

Three kinds: another entity (a name of an answerable question replaced by a name of another set of pages), another
attribute (of a name that the pages have), and a false premise (an event that the pages do not report). A question is
kept only if the word that makes it unanswerable is nowhere in its pages.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bench.answers.short_answer_questions import (
    PAGE_SETS,
    PAGES,
    AnswerableQuestion,
    build_lake,
    read_pages,
    run_stages,
)
from bench.measuring import make_parser
from evidence_assets.text.tokens import split_tokens

FILE = Path(__file__).with_name("unanswerable.jsonl")
PER_SET = 6
"""Questions of each kind by set of pages."""
ATTRIBUTES = {
    "e-mail": "What is the e-mail address of {name}?",
    "nationality": "What is the nationality of {name}?",
    "salary": "How much salary does {name} receive?",
    "siblings": "How many siblings does {name} have?",
    "born": "When was {name} born?",
    "nickname": "What is the nickname of {name}?",
    "husband": "Who is the husband of {name}?",
    "allergic": "What is {name} allergic to?",
}
PREMISES = {
    "resign": "Why did {name} resign?",
    "arrested": "Where was {name} arrested?",
    "bankrupt": "When did {name} go bankrupt?",
    "canada": "Who accompanied {name} to Canada?",
    "prize": "Which prize did {name} win?",
    "apologise": "Why did {name} apologise?",
    "hospital": "How long was {name} in hospital?",
    "sued": "Who sued {name}?",
}
_NAME = re.compile(r"(?<=[a-z,] )(?:[A-Z][a-zé]+ )(?:[A-Z][a-zé]+)\b")


class UnanswerableQuestion(NamedTuple):
    """A question that the pages of a set do not answer."""

    corpus: str
    kind: str
    question: str


def read_unanswerable() -> list[UnanswerableQuestion]:
    """The derived questions."""
    return [UnanswerableQuestion(**json.loads(line)) for line in FILE.read_text(encoding="utf-8").splitlines()]


def derive_questions() -> Iterator[UnanswerableQuestion]:
    """The questions of all sets; the same in each run."""
    texts = {
        name: "\n".join(f.read_text(encoding="utf-8") for f in sorted((PAGES / name).iterdir())) for name in PAGE_SETS
    }
    names = {name: list(dict.fromkeys(_NAME.findall(text))) for name, text in texts.items()}
    answerable = [question for question in read_pages()[1] if question.golds]
    for number, name in enumerate(PAGE_SETS):
        random_source = random.Random(name)
        other_names = names[PAGE_SETS[(number + 1) % len(PAGE_SETS)]]
        questions = [question.text for question in answerable if question.corpus == f"pages_{name}"]
        kinds = {
            "other entity": _replace_names(questions, other_names, texts[name], random_source),
            "other attribute": _fill_templates(ATTRIBUTES, names[name], texts[name], random_source),
            "false premise": _fill_templates(PREMISES, names[name], texts[name], random_source),
        }
        for kind, derived in kinds.items():
            yield from (UnanswerableQuestion(f"pages_{name}", kind, text) for text in islice(derived, PER_SET))


def _replace_names(questions: list[str], names: list[str], text: str, random_source: random.Random) -> Iterator[str]:
    """Questions with one name inside replaced by a name that the text lacks."""
    missing = [name for name in names if not any(word in text for word in name.split())]
    for question in random_source.sample(questions, len(questions)):
        inner = [word for word in split_tokens(question)[1:] if word.is_capital and word.lower not in ("i", "i'm")]
        if inner and missing:
            start, end = _widen(question, inner[0].start, inner[0].end)
            yield question[:start] + random_source.choice(missing) + question[end:]


def _widen(text: str, start: int, end: int) -> tuple[int, int]:
    """A capitalized word with those that follow it."""
    next_words = re.compile(r"(?: [A-Z][\w’]*)*").match(text, end)
    return start, next_words.end() if next_words else end


def _fill_templates(
    templates: dict[str, str], names: list[str], text: str, random_source: random.Random
) -> Iterator[str]:
    """A template with a name of the text, for each template whose keyword the text lacks."""
    usable = [template for keyword, template in templates.items() if keyword not in text.casefold()]
    for template in random_source.sample(usable, len(usable)):
        yield template.format(name=random_source.choice(names))


def measure() -> None:
    """Print the status of the answers by kind of question, and what was answered."""
    derived = read_unanswerable()
    records = [AnswerableQuestion(question.question, (), question.corpus, question.kind, 1) for question in derived]
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        lake = build_lake(Path(folder), read_pages()[0])
        for question, rows in run_stages(lake, records, "predictions"):
            status = next((row["status"] for row in rows), "missing")
            counts.setdefault(question.kind, Counter())[status] += 1
            if status != "insufficient":
                print(f"  {status}: {question.text} {rows[0]['answer']!r}")
    for kind, count in counts.items():
        print(f"{kind}: {', '.join(f'{n} {status}' for status, n in sorted(count.items()))}")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--measure", action="store_true")
    if parser.parse_args().measure:
        measure()
        return
    lines = [json.dumps(question._asdict(), ensure_ascii=False) + "\n" for question in derive_questions()]
    FILE.write_text("".join(lines), encoding="utf-8")
    print(f"wrote {len(lines)} questions to {FILE.name}")


if __name__ == "__main__":
    main()
