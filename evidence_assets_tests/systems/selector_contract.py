"""The contract of selectors: one class that tests of a method inherit, and where evidence says it is from."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl
import pytest

from evidence_assets import systems
from evidence_assets.experiment.evidence.selection import Selector
from evidence_assets.experiment.evidence_rows import evidence_rows, read_item
from evidence_assets.experiment.methods import AnySelectionMethod, SelectionMethod
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import Variant
from evidence_assets.explorer.evidence_view import texts_by_cell
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.schemas import KINDS, TABLES
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.paths import parse_path_locator
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import CAPTION
from evidence_assets_tests.lake_rows import as_stored

N_QUESTIONS = 3
NAME = "selector"


class SourceRows:
    """Rows that evidence can come from, by kind and id."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._rows: dict[str, dict[str, dict[str, Any]]] = {}

    def find(self, kind: str, row_id: str) -> dict[str, Any]:
        if kind not in self._rows:
            schema = KINDS[kind]
            self._rows[kind] = {row[schema.row_id]: row for row in self._lake.read(schema.name).to_dicts()}
        return self._rows[kind][row_id]

    def find_text(self, row: Mapping[str, Any]) -> str | None:
        """The text at the location of an evidence row; None if the row is not a quotation of its source."""
        source, locator = self.find(row["source_kind"], row["source_id"]), row["locator"]
        if row["kind"] == "path":
            assert all(self.find("edge", edge) for edge, _ in parse_path_locator(locator))
            return None
        if row["source_kind"] == "table":
            return _find_table_text(source, locator)
        document = source.get("text", source.get("document"))
        if span := re.fullmatch(r"(\d+):(\d+)", locator):
            assert document is not None
            return str(document[int(span[1]) : int(span[2])])
        assert locator == ""
        return str(document) if row["source_kind"] == "chunk" else None


def _find_table_text(table: Mapping[str, Any], locator: str) -> str:
    if locator == CAPTION:
        return str(table["caption"]).strip()
    texts = texts_by_cell(table)
    if locator.startswith("c"):
        cells = [texts.get((row, int(locator[1:])), "") for row in range(table["n_rows"] + 1)]
        return "\n".join(cells)
    row, column = map(int, locator[1:].split("c"))
    return texts[row, column]


@dataclass(frozen=True)
class SelectorCase:
    """A variant on a benchmark of a lake, with an open selector and a few questions."""

    variant: Variant
    context: StageContext
    sources: SourceRows
    questions: list[Question]

    @classmethod
    def open(cls, variant: Variant, lake: Lake, benchmark: str) -> "SelectorCase":
        stage = build_stages(systems.open_method(variant))[0]
        context = stage.prepare(StageContext(lake, "evidence", stage.key, f"{benchmark}|0"))
        questions = build_questions(context.read_input("questions"))[:N_QUESTIONS]
        return cls(variant, context, SourceRows(lake), questions)

    @property
    def method(self) -> AnySelectionMethod:
        method = systems.open_method(self.variant)
        assert isinstance(method, SelectionMethod)
        return method

    @cached_property
    def selector(self) -> Selector:
        return self.method.open_selector(self.context)

    @cached_property
    def rows(self) -> pl.DataFrame:
        return self.select(self.questions)

    def select(self, questions: list[Question]) -> pl.DataFrame:
        """The evidence rows of these questions, as the lake stores them."""
        return as_stored("evidence", evidence_rows(NAME, self.selector, questions).rows)


class SelectorContract:
    """Properties of every selector; a subclass has a fixture ``case``, and says which methods select nothing."""

    selects_nothing: frozenset[str] = frozenset()
    selects_nearest_edges: frozenset[str] = frozenset()
    """Methods that rank all edges of a graph by similarity, so that the nearest ones answer anything."""

    @pytest.fixture
    def case(self) -> SelectorCase:
        raise NotImplementedError

    def test_rows_have_the_declared_columns_and_ranks_without_gaps(self, case: SelectorCase) -> None:
        assert case.rows.columns == list(TABLES["evidence"].names)
        assert case.rows.is_empty() == (case.method.name in self.selects_nothing)
        for (_, _), rows in case.rows.group_by("question_id", "option"):
            assert sorted(rows["rank"]) == list(range(1, rows.height + 1))

    def test_rows_are_for_an_option_and_have_a_finite_score(self, case: SelectorCase) -> None:
        labels = {question.question_id: {"", *question.labels} for question in case.questions}
        for row in case.rows.to_dicts():
            assert row["option"] in labels[row["question_id"]] and row["kind"] and math.isfinite(row["score"])

    def test_every_location_resolves_to_its_source(self, case: SelectorCase) -> None:
        for row in case.rows.to_dicts():
            if not read_item(row).is_sourced:
                continue
            text = case.sources.find_text(row)
            if text is not None and row["kind"] == "column":  # its header, and the cells that were kept
                header, *cells = row["text"].split("\n")
                assert header == text.split("\n")[0] and set(cells) <= set(text.split("\n"))
            else:
                assert text is None or text == row["text"]

    def test_the_same_questions_twice_give_the_same_rows(self, case: SelectorCase) -> None:
        assert case.select(case.questions).equals(case.rows)

    def test_rows_do_not_depend_on_the_order_and_number_of_questions(self, case: SelectorCase) -> None:
        """The last digits of scores may."""
        exact = pl.exclude("score", "why")
        assert case.select(case.questions[::-1]).select(exact).equals(case.rows.select(exact))
        alone = case.select(case.questions[-1:])
        rows = case.rows.filter(pl.col("question_id") == case.questions[-1].question_id)
        assert alone.select(exact).equals(rows.select(exact))

    def test_nothing_to_select_from_gives_no_rows(self, case: SelectorCase) -> None:
        assert list(case.selector.select([])) == []
        strange = replace(
            case.questions[0],
            question_id="strange",
            text="Xyzzy qwfpg?",
            options=tuple(f"zxcvb{number}" for number in range(len(case.questions[0].options))),
            table_id="",
            topic_entities=(),
        )
        rows = case.select([strange])
        kinds = set(rows["source_kind"])
        nearest = {"chunk", "node"} | ({"edge"} if case.method.name in self.selects_nearest_edges else set())
        assert kinds <= nearest, "the nearest texts of a corpus, but nothing of a graph or table"

    def test_an_unknown_setting_is_refused(self, case: SelectorCase) -> None:
        parameters = {**case.variant.parameters, "no_such_setting": 1}
        with pytest.raises(BadInput, match=f"{case.variant.key} has no parameter 'no_such_setting'"):
            systems.open_method(case.variant.model_copy(update={"parameters": parameters}))

    def test_rows_and_stage_depend_on_the_versions(self, case: SelectorCase, monkeypatch: pytest.MonkeyPatch) -> None:
        version = case.selector.version
        assert isinstance(version, str) and case.method.open_selector(case.context).version == version
        for row in case.rows.to_dicts():
            assert row["input_hash"] == content_id(row["question_id"], NAME, version)
        stage = build_stages(case.method)[0]
        monkeypatch.setattr(type(case.method), "version", f"{case.method.version} changed")
        assert build_stages(case.method)[0].version != stage.version
