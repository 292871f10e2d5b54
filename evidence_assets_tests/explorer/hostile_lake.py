"""A lake whose names and texts attack the pages that show them, and helpers to check pages and files."""

import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from evidence_assets.lake.lineage import DERIVED, edge
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import (
    chain,
    chunk,
    citation,
    counterfactual,
    evidence,
    prediction,
    question,
    write_answers,
)


class Page(HTMLParser):
    """Elements and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


ATTACK = "<script>alert('x')</script><img src=x onerror=\"alert(1)\">{{ 1234567 * 2 }}"
NAMES = (
    '"><svg onload=alert(1)>',
    "a/b?c=d&e#f",
    "../../etc/passwd",
    "%00%2e%2e",
    "javascript:alert(1)",
    "'; DROP TABLE x; --",
)


def write_hostile_lake(root: Path) -> Lake:
    """Two variants that differ on one of two questions; every text field has hostile text."""
    lake = Lake.create(root)
    questions = [question(1, text=f"Which buzzes? {ATTACK}", options=[f"bee {ATTACK}", "cat"]), question(2)]
    lake.write("questions/mcqa", "quiz|0", {"questions": questions})
    bees = chunk(1, f"Bees buzz. {ATTACK}", title=f"Bees {ATTACK}", source=NAMES[1], doc_id=NAMES[1])
    lake.write("corpus/c/chunks", "0", {"chunks": [bees, chunk(2, "Cats purr in the Straße.")]})
    cells = [{"row": 0, "column": 0, "text": ATTACK}, {"row": 0, "column": 1, "text": "5"}]
    table = {"table_id": NAMES[0], "benchmark": "quiz", "caption": ATTACK, "header": ["a", ATTACK], "n_rows": 1}
    table |= {"cells": cells, "content_hash": "h"}
    lake.write("tables", "quiz", {"tables": [table]})
    near, of_table = '{"rule": "<b>near</b>"}', {"kind": "cell", "source_kind": "table", "source_id": NAMES[0]}
    for selector, answer in (("s", "A"), ("t", "B")):
        rows = [
            evidence(1, 1, "Bees buzz.", selector, locator="0:10", why=near, content_hash=f"f{selector}"),
            evidence(1, 2, "5", selector, locator="r1c1", why=json.dumps({"rule": ATTACK}), **of_table),
        ]
        answer_chain = chain(1, answer, f"They do. {ATTACK}", [f"e-{selector}-1-1"], selector)
        quote = citation(answer_chain["chain_id"], f"e-{selector}-1-1", "verified", f"buzz {ATTACK}")
        derived = edge("evidence", f"e-{selector}-1-1", DERIVED, "chunk", "k1", "k1", 1)
        predicted = [
            prediction(1, answer, selector=selector, error=ATTACK, model_id=ATTACK),
            prediction(2, "A", selector=selector),
        ]
        write_answers(lake, rows, [answer_chain], predicted, [quote], [derived], selector=selector)
    lake.write("counterfactuals/mcqa/s", "quiz|0", {"counterfactuals": [counterfactual("fs")]})
    return lake


def words_of(page: str) -> str:
    """The text of a page without its head, with single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page[page.index("<main") :])).split())


def file_hashes(folder: Path) -> dict[str, str]:
    """Hashes of all files of a folder, by path."""
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}
