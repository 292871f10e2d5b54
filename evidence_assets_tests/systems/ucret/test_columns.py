"""Column selection equals plain loops and has defined results for edge cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.systems import load_settings
from evidence_assets.systems.ucret.columns import ColumnSettings, Lines, Selection, select_lines, split_column_text
from evidence_assets_tests.systems.ucret.naive_columns import naive_select

PUBLISHED, PUBLISHED_JS = (load_settings(f"table/{name}").columns for name in ("ucret_published", "ucret_js_published"))
JACCARD_ONLY, KEEP_ALL = (load_settings(f"table/{name}").columns for name in ("jaccard_only", "keep_all"))
LOOSE = ColumnSettings("cosine", jaccard=0.2, gate=0.1)
SHARP_JS = ColumnSettings("jsd", jaccard=0.2, gate=0.3, temperature=0.2)


def _pair(seed: int) -> tuple[frozenset[str], np.ndarray, Lines]:
    generator = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(12)]
    width = int(generator.integers(1, 8))
    vectors = generator.normal(size=(width, 6))
    if width > 2:
        vectors[1] = vectors[0]  # equal columns must not depend on the last bits
    tokens = tuple(frozenset(generator.choice(words, size=4).tolist()) for _ in range(width))
    return frozenset(generator.choice(words, size=4).tolist()), generator.normal(size=6), Lines(tokens, vectors)


def _select(pairs: list[tuple[frozenset[str], np.ndarray, Lines]], column_settings: ColumnSettings) -> list[Selection]:
    tokens, vectors, lines = zip(*pairs, strict=True)
    return select_lines(tokens, np.array(vectors), range(len(pairs)), lines, column_settings)


@pytest.mark.parametrize(
    "column_settings",
    [PUBLISHED, PUBLISHED_JS, LOOSE, SHARP_JS],
    ids=["published", "published_js", "loose", "sharp_js"],
)
def test_equals_the_plain_loops(column_settings: ColumnSettings) -> None:
    pairs = [_pair(seed) for seed in range(150)]
    rules = set()
    for (tokens, vector, lines), selection in zip(pairs, _select(pairs, column_settings), strict=True):
        kept_columns = [(item.line, item.rule) for item in selection.kept_lines]
        assert kept_columns == naive_select(
            tokens, vector.tolist(), lines.tokens, lines.vectors.tolist(), column_settings
        )
        rules |= {rule for _, rule in kept_columns}
    if column_settings in (LOOSE, SHARP_JS):
        assert rules == {"lexical", "cluster", "fallback"}


@given(st.lists(st.integers(0, 500), min_size=1, max_size=12, unique=True))
@settings(max_examples=25, deadline=None)
def test_a_pair_does_not_depend_on_its_neighbours(seeds: list[int]) -> None:
    pairs = [_pair(seed) for seed in seeds]
    for pair, selection in zip(pairs, _select(pairs, SHARP_JS), strict=True):
        assert _select([pair], SHARP_JS) == [selection]


def test_published_settings_are_as_printed() -> None:
    assert (PUBLISHED.clusters, PUBLISHED.gate, PUBLISHED.jaccard, PUBLISHED.fallback) == (2, 0.60, 0.25, 2)
    assert (PUBLISHED_JS.clusters, PUBLISHED_JS.gate, PUBLISHED_JS.jaccard) == (2, 0.30, 0.20)


def test_no_clustering_if_all_columns_are_lexical() -> None:
    same = frozenset({"a"})
    selection = select_lines([same], np.ones((1, 2)), [0], [Lines((same, same), np.eye(2))], PUBLISHED)[0]
    assert {item.rule for item in selection.kept_lines} == {"lexical"}


def test_at_temperature_one_every_column_passes() -> None:
    pairs = [_pair(seed) for seed in range(40)]
    selections = _select(pairs, PUBLISHED_JS)
    assert not any(item.rule == "fallback" for selection in selections for item in selection.kept_lines)


def test_keep_all_and_jaccard_only_select_without_vectors() -> None:
    tokens = (frozenset({"a", "b"}), frozenset({"c"}), frozenset({"d"}))
    lines = Lines(tokens, np.zeros((3, 1)))
    assert select_lines([frozenset({"a", "b"})], np.zeros((1, 1)), [0], [lines], KEEP_ALL)[0].indices == (0, 1, 2)
    lexical = select_lines([frozenset({"a", "b"})], np.zeros((1, 1)), [0], [lines], JACCARD_ONLY)[0]
    assert [(k.line, k.rule) for k in lexical.kept_lines] == [(0, "lexical")]
    fallback = select_lines([frozenset({"z"})], np.zeros((1, 1)), [0], [lines], JACCARD_ONLY)[0]
    assert [(k.line, k.rule) for k in fallback.kept_lines] == [(0, "fallback"), (1, "fallback")]


@given(st.text(max_size=30), st.lists(st.text(max_size=60), max_size=6), st.integers(20, 60))
@settings(max_examples=80, deadline=None)
def test_pieces_are_within_the_limit_and_have_all_characters(header: str, cells: list[str], limit: int) -> None:
    pieces = split_column_text(header, cells, limit)
    assert pieces
    assert all(len(piece) <= limit for piece in pieces)
    text = "".join(pieces)
    for cell in cells:
        # A long cell continues in the next piece after the header, so only its characters are compared.
        assert set(cell) <= set(text)
