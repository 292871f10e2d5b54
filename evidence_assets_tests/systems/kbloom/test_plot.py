"""A plot is an image, and the same numbers give the same bytes."""

from __future__ import annotations

import base64
import re

from evidence_assets.systems.kbloom.plot import bars


def image(markdown: str) -> bytes:
    found = re.fullmatch(r"!\[(.*)\]\(data:image/png;base64,([A-Za-z0-9+/=]+)\)", markdown)
    assert found and found[1] == "precision@50"
    return base64.b64decode(found[2])


def test_bars_are_a_png_that_depends_on_the_numbers_alone() -> None:
    numbers = {"own": [(0.7, 0.6, 0.8), (None, None, None)], "other": [(0.2, None, None), (0.1, 0.0, 0.3)]}
    one = image(bars("precision@50", ["may treat", "café"], numbers))
    assert one.startswith(b"\x89PNG") and one == image(bars("precision@50", ["may treat", "café"], numbers))
    assert one != image(bars("precision@50", ["may treat", "café"], {"own": numbers["own"]}))
    assert image(bars("precision@50", [], {})).startswith(b"\x89PNG")
