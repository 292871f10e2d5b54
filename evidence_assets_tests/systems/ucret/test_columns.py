"""Column selection equals plain loops and has defined results for edge cases."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.experiment.variants import variants_of
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.systems import find_method
from evidence_assets.systems.ucret.column_repair import (
    TableWords,
    find_needed_columns,
    restore_columns,
    score_option_columns,
)
from evidence_assets.systems.ucret.columns import KeptLine, Lines, Selection, UcretSettings, select_lines
from evidence_assets_tests.systems.ucret.naive_columns import naive_select

PUBLISHED, PUBLISHED_JS = (find_method(f"table/{n}").settings for n in ("ucret_published", "ucret_js_published"))
LOOSE = UcretSettings(tau=0.2, theta=0.1)
SHARP_JS = UcretSettings("jsd", tau=0.2, eta=0.3, temperature=0.2)
RAW_JS, DISTANCE_JS = (find_method(f"table/ucret_js_{name}").settings for name in ("raw", "distance"))
SHARP_DISTANCE = replace(SHARP_JS, eta_bounds="distance")


def _pair(seed: int) -> tuple[frozenset[str], np.ndarray, Lines]:
    generator = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(12)]
    width = int(generator.integers(1, 8))
    vectors = generator.normal(size=(width, 6))
    if width > 2:
        vectors[1] = vectors[0]  # equal columns must not depend on the last bits
    tokens = tuple(frozenset(generator.choice(words, size=4).tolist()) for _ in range(width))
    return frozenset(generator.choice(words, size=4).tolist()), generator.normal(size=6), Lines(tokens, vectors)


def _select(pairs: list[tuple[frozenset[str], np.ndarray, Lines]], column_settings: UcretSettings) -> list[Selection]:
    tokens, vectors, lines = zip(*pairs, strict=True)
    return select_lines(tokens, np.array(vectors), range(len(pairs)), lines, column_settings)


@pytest.mark.parametrize(
    "column_settings",
    [PUBLISHED, PUBLISHED_JS, LOOSE, SHARP_JS, RAW_JS, DISTANCE_JS, SHARP_DISTANCE],
    ids=["published", "published_js", "loose", "sharp_js", "raw_js", "distance_js", "sharp_distance"],
)
def test_equals_the_plain_loops(column_settings: UcretSettings) -> None:
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


def test_published_settings_are_as_printed() -> None:
    assert (PUBLISHED.clusters, PUBLISHED.theta, PUBLISHED.tau) == (2, 0.60, 0.25)
    assert (PUBLISHED_JS.clusters, PUBLISHED_JS.eta, PUBLISHED_JS.tau) == (2, 0.30, 0.20)


def test_at_temperature_one_the_gate_always_passes_and_the_nearest_cluster_is_kept() -> None:
    pairs = [_pair(seed) for seed in range(40)]
    for column_settings in (PUBLISHED_JS, DISTANCE_JS):
        selections = _select(pairs, column_settings)
        rules = [item.rule for selection in selections for item in selection.kept_lines]
        assert "cluster" in rules and "fallback" not in rules
        assert any(len(selection.kept_lines) < selection.width for selection in selections), "not every column is kept"


def _rule_of_vectors(text: list[float], column: list[float], column_settings: UcretSettings) -> str:
    """The rule that keeps a column without words in common."""
    pair = frozenset({"y"}), np.array(text), Lines((frozenset({"x"}),), np.array([column]))
    return _select([pair], column_settings)[0].kept_lines[0].rule


def test_the_gate_bounds_the_divergence_or_its_root() -> None:
    # softmax of these vectors: (0.73, 0.27) and (0.27, 0.73), with a divergence of 0.11 and a distance of 0.33.
    assert [_rule_of_vectors([1.0, 0.0], [0.0, 1.0], s) for s in (PUBLISHED_JS, DISTANCE_JS)] == ["cluster", "fallback"]


def test_the_softmax_reads_vectors_of_any_length_or_of_length_one() -> None:
    rules = [_rule_of_vectors([9.0, 0.0], [0.0, 9.0], column_settings) for column_settings in (PUBLISHED_JS, RAW_JS)]
    assert rules == ["cluster", "fallback"], "far apart only at their own length"


GRIDS = {
    variant.name: variant
    for variant in variants_of("ucret")
    if variant.name == "ucret_published"
    or any(name.variant.startswith(("k=", "theta=")) for name in variant.printed.figures)
}


def test_the_grids_of_figures_3_4_and_3_5_select_with_the_printed_values() -> None:
    printed = sorted(name.variant for v in GRIDS.values() for name in v.printed.figures if "=" in name.variant)
    thetas = [f"theta={t};tau={u}" for t in ("0.55", "0.60", "0.65") for u in ("0.20", "0.25", "0.30")]
    assert printed == ["k=2", "k=3", "k=4", *thetas]
    pairs = [_pair(seed) for seed in range(150)]
    selected = {}
    for variant in GRIDS.values():
        for name in variant.printed.figures:
            if "=" not in name.variant:
                continue
            values = {key: float(value) for key, value in (part.split("=") for part in name.variant.split(";"))}
            k, theta, tau = int(values.get("k", 2)), values.get("theta", 0.60), values.get("tau", 0.25)
            column_settings = find_method(variant.key).settings
            assert column_settings == UcretSettings("cosine", tau, k, theta), variant.name
            expected = [
                naive_select(tokens, vector.tolist(), lines.tokens, lines.vectors.tolist(), column_settings)
                for tokens, vector, lines in pairs
            ]
            results = [[(i.line, i.rule) for i in s.kept_lines] for s in _select(pairs, column_settings)]
            assert results == expected, variant.name
            selected[name.variant] = str(results)
    assert len({selected[k] for k in ("k=2", "k=3", "k=4")}) == 3, "k changes what is selected"
    assert len({selected[name] for name in thetas}) == 9, "so do both thresholds"


# Repair of column selections


HEADER = ["Animal", "", "Diet", "Weight"]
COLUMNS = [["Buffalo", "Arctic fox", "Fox"], ["eats", "eats", "eats"], ["plants", "meat", "meat"], ["900", "5", "7"]]
WORDS = TableWords.of(HEADER, COLUMNS)
NONE = Selection((), 4)


def _rules(selection: Selection) -> dict[int, str]:
    return {item.line: item.rule for item in selection.kept_lines}


def test_a_number_in_the_claim_restores_its_column() -> None:
    selection = Selection((KeptLine(0, "cluster", 0.7),), 4)
    assert _rules(restore_columns(selection, WORDS, "The buffalo weighs 900.")) == {0: "cluster", 3: "number"}


def test_a_name_and_a_header_restore_their_columns() -> None:
    assert _rules(restore_columns(NONE, WORDS, "What is the diet of the arctic fox?")) == {0: "entity", 2: "header"}


def test_options_restore_their_column() -> None:
    restored = restore_columns(NONE, WORDS, "What does a fox eat?", ["meat", "plants"])
    assert _rules(restored) == {0: "entity", 2: "option"}
    assert set(score_option_columns(WORDS.rate_options(["meat", "plants"]))) == {2}


def test_fallback_columns_stay_only_if_nothing_else_is_kept() -> None:
    fallback = Selection((KeptLine(1, "fallback", 0.1),), 4)
    assert _rules(restore_columns(fallback, WORDS, "It weighs 900.", needed={0: "row_header"})) == {
        0: "row_header",
        3: "number",
    }
    assert _rules(restore_columns(fallback, WORDS, "Nothing here.", needed={0: "row_header"})) == {
        0: "row_header",
        1: "fallback",
    }


def test_a_question_keeps_the_columns_that_it_may_compare() -> None:
    header = ["Train", "From", "To", "Leaves", "Bikes"]
    rows = [["Comet", "Lyon", "Nice", "08:10", "yes"], ["Arrow", "Nice", "Lyon", "09:40", "no"]]
    view = TableView.of("", header, rows)
    words = TableWords.of(header, [list(column) for column in zip(*rows, strict=True)])

    def needed(text: str) -> set[int]:
        return set(find_needed_columns(view, words, text, has_options=True))

    assert needed("Which train is slow?") == {4}, "the column of yes and no"
    assert needed("Which train goes from Lyon to Nice?") == {1, 2, 4}, "a name in several columns"
    assert needed("Which train leaves the earliest?") == needed("Which train leaves after 9:00?") == {3, 4}
    assert set(find_needed_columns(view, words, "The Comet leaves Lyon.", has_options=False)) == set(view.row_headers)


def test_a_text_in_many_rows_does_not_restore_its_column() -> None:
    columns = [[f"lake {i}" for i in range(20)], ["north"] * 15 + ["south"] * 5]
    words = TableWords.of(["Lake", "Side"], columns)
    assert restore_columns(Selection((), 2), words, "north").indices == ()
    assert restore_columns(Selection((), 2), words, "south").indices == (1,)


def test_a_name_of_a_row_without_an_option_is_kept() -> None:
    columns = [["Como", "Garda", "Iseo"], ["425", "346", "251"], ["Lombardy", "Veneto", "Lombardy"]]
    words = TableWords.of(["Lake", "Depth", "Region"], columns)
    restored = restore_columns(Selection((), 3), words, "How much deeper is Como than Garda?", ["251", "79"])
    assert _rules(restored) == {0: "entity", 1: "option"}


WORD = st.sampled_from(["red", "green", "blue", "north", "south", "old", "new", "tin", "iron"])
TABLE = st.integers(1, 5).flatmap(
    lambda height: st.lists(st.lists(WORD, min_size=height, max_size=height), min_size=1, max_size=5)
)


@given(TABLE, st.lists(WORD, min_size=1, max_size=6), st.lists(WORD, min_size=1, max_size=4))
def test_with_options_rows_are_distinguishable_and_all_options_are_kept(
    columns: list[list[str]], text: list[str], options: list[str]
) -> None:
    words = TableWords.of([""] * len(columns), columns)
    indices = restore_columns(Selection((), len(columns)), words, " ".join(text), options).indices
    differing = [j for j, column in enumerate(columns) if len(column) == 1 or len(set(column)) > 1]
    assert len(set(indices) & set(differing)) >= min(2, len(differing))
    for option in options:
        homes = {j for j, column in enumerate(columns) if option in column}
        assert not homes or homes & set(indices)
