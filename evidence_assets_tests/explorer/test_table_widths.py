"""Tables of the explorer in Chromium: at 1,280 pixels none scrolls sideways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.pages import STATIC
from evidence_assets.explorer.site import Site
from evidence_assets.lake.store import Lake
from evidence_assets_tests.browser import BROWSER_MARKS, CHROMIUM, FLAGS
from evidence_assets_tests.lake_rows import chain, evidence, prediction, question, write_answers, write_harvest

pytestmark = [*BROWSER_MARKS, pytest.mark.slow]
LONG = "hydrochlorothiazide_and_pseudohypoparathyroidism"
VARIANTS = [f"selector_with_a_long_name_{n}" for n in range(12)]
HEADER = ["Planet", "Distance from the Sun", "Diameter (km)", "Moons", "Year (days)", "Discovered by", LONG, "Notes"]
SCROLLING = """[...document.querySelectorAll('.wide')].filter(e => e.getClientRects().length)
    .filter(e => e.scrollWidth > e.clientWidth).map(e => `${e.getAttribute('aria-label')}: ${e.scrollWidth}`)"""


def score(variant: str) -> dict[str, Any]:
    """A score with a published figure."""
    row = {"score_id": variant, "scope_kind": "benchmark", "scope_id": "quiz", "selector": variant}
    row |= {"reasoner": "extractive_short_answers", "model_id": LONG, "metric": "accuracy"}
    values = {"value": 0.5, "low": 0.25, "high": 0.75, "n": 50, "published": 0.7}
    return row | values | {"published_source": f"table 7.5 of {LONG}, row 12"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Twelve variants on two questions of a table with 50 rows, their scores, and 50 triples."""
    lake = Lake.create(tmp_path_factory.mktemp("widths") / "data_lake")
    cells = [
        {"row": row, "column": column, "text": LONG if (row + column) % 9 == 0 else f"{row * column} and more words"}
        for row in range(50)
        for column in range(len(HEADER))
    ]
    table = {"table_id": "t1", "benchmark": "quiz", "caption": LONG, "header": HEADER, "n_rows": 50, "cells": cells}
    lake.write("tables", "quiz", {"tables": [table | {"content_hash": "h"}]})
    many = [f"option {LONG} {n}" for n in range(26)]
    few = many[:4]
    questions = [question(n, options=options, table_id="t1") for n, options in ((1, many), (2, few))]
    lake.write("questions/mcqa", "quiz|0", {"questions": questions})
    for variant in VARIANTS:
        place = {"kind": "cell", "source_kind": "table", "source_id": "t1", "locator": "r3c1"}
        rows = [evidence(n, 1, LONG, variant, **place) for n in (1, 2)]
        labels = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        chains = [chain(1, label, LONG, [], variant) for label in labels] + [
            chain(2, label, LONG, [], variant) for label in labels[:4]
        ]
        write_answers(lake, rows, chains, [prediction(n, "A", selector=variant) for n in (1, 2)], selector=variant)
        lake.write(f"scores/mcqa/{variant}", "quiz", {"scores": [score(variant)]})
    write_harvest(lake, 50, suffix=f" {LONG}")
    return lake


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


@pytest.fixture(scope="module")
def show(lake: Lake, browser_page: Any) -> Callable[[str], Any]:
    """A function that shows a page of the explorer in the browser."""
    site = Site(LakeReader(lake.root))

    def show_page(path: str, **query: str) -> Any:
        status, html = site.reply(path, query)
        assert status == 200, html
        browser_page.set_content(html)
        browser_page.add_style_tag(path=STATIC / "explorer.css")
        return browser_page

    return show_page


@pytest.mark.parametrize(
    "path", ["/", "/scores", "/question/q1", "/question/q2", "/relation/may_treat", "/source/table/t1"]
)
def test_no_table_scrolls_sideways(show: Callable[[str], Any], path: str) -> None:
    page = show(path)
    assert page.evaluate(SCROLLING) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
