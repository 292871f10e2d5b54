"""View of one answer for the terminal, JSON, and the explorer's pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from evidence_assets.explorer.answers import AnswerRows, Row, read_answer
from evidence_assets.explorer.evidence_view import (
    SOURCE_COLUMNS,
    EvidenceView,
    Grid,
    build_grid,
    origins_by_cell,
    texts_by_cell,
)
from evidence_assets.explorer.pages import shorten
from evidence_assets.explorer.paths import read_walks
from evidence_assets.lake.catalogue import create_views
from evidence_assets.lake.row_locations import id_condition, query_rows
from evidence_assets.lake.schemas import KINDS
from evidence_assets.reasoning.confidence import RAW_SHARE
from evidence_assets.reasoning.questions import option_labels
from evidence_assets.reasoning.statements import TEXT_KINDS
from evidence_assets.reasoning.tasks import NOT_ENOUGH_INFORMATION, STATED_STATUS
from evidence_assets.text.markdown import plain_text
from evidence_assets.text.tokens import asks_for_several
from evidence_assets.text.words import stems

MAX_ALTERNATIVES = 5
"""Maximum further supported answers that are listed."""
MAX_CITES = 10
"""Maximum citations of a step that are listed."""
TABLE_KINDS = ("cell", "column", "caption")
NO_ANSWER = "No answer found with confidence"
NOTHING = "Nothing in the documents answers this"
NOT_SURE = "No sure answer in the documents"
MIN_SHARED_WORDS = 0.5
"""Minimum share of the question's content words in a statement that is shown as a near miss."""
NO_CELL = f"{NO_ANSWER}: no column or cell answers it. Use words of the table's header and cells, or give options."
SEVERAL_CELLS = "Several cells match the question"
_NO_STATEMENT = re.compile(r"#.*|.*\?\W*|\D*[^\W\d]", re.DOTALL)
"""A question or heading: it begins with "#", or has neither a digit nor a final mark ("Fish cake 9 euros" has one)."""
YES_OR_NO = {"SUPPORTS": "Yes", "REFUTES": "No", NOT_ENOUGH_INFORMATION: "not known"}
"""Verdicts on a claim, as answers to a question."""
MAX_LISTED = 20
"""Maximum further answers of a question for several."""
MIN_DECIMALS = 2
"""Decimals that a computed number keeps."""
_LONG_NUMBER = re.compile(r"-?[1-9]\d*\.\d{3,}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_YES_NO = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)\b", re.IGNORECASE)
_NO_NUMBER = re.compile(r"whom?\b|what (?:is|was|do|does|did)\b", re.IGNORECASE)
"""Questions that do not say whether they ask for one thing or several."""
NO_ANSWER_STATUSES = ("insufficient", "failed")


@dataclass(frozen=True)
class AnswerView(AnswerRows):
    """An answer with its question, options, chains and evidence.

    ``items``: Its evidence with the sources. ``name``: Name of the answer if it is a node; else empty.
    """

    items: list[EvidenceView] = field(default_factory=list)
    name: str = ""

    @property
    def options(self) -> list[Row]:
        """Each option with its support, its share of the solver's weights, and whether it is the answer or gold."""
        answer = self.prediction
        gold = self.question["gold"] or [] if self.question else []
        shares = dict(zip(answer["ranked_answers"], answer["probabilities"] or (), strict=False))
        support = {chain["hypothesis"]: chain["support"] for chain in self.chains}
        notes = {"the answer": [answer["answer"]], "gold": gold}
        return [
            {"label": label, "text": text, "support": support.get(label), "share": shares.get(label)}
            | {"notes": [note for note, labels in notes.items() if label in labels]}
            for label, text in option_texts(self.question).items()
        ]

    @property
    def confidence_name(self) -> str:
        """``probability`` if the confidence is fitted, ``similarity`` if it is a cosine, else ``share``."""
        if self.prediction.get("confidence_basis") not in (None, RAW_SHARE):
            return "probability"
        is_short = (self.question or {}).get("task") == "kgqa"
        if not is_short or self.prediction.get("reasoner") not in ("extractive", "prompted"):
            return "share"
        is_text = {item.row["kind"] in TEXT_KINDS for item in self.items if item.is_used}
        return "similarity" if len(is_text) > 1 else "probability"

    @property
    def _is_open(self) -> bool:
        """Whether the question has no options of its own; those of an ad hoc table are its cells."""
        question = self.question or {"options": []}
        if not question["options"] or self._asks_yes_or_no:
            return True
        return (question["source_id"][:6], question["task"]) == ("table=", "table_qa")

    @property
    def _asks_yes_or_no(self) -> bool:
        """Whether the question is put to a table and answered with yes or no, which a claim is not."""
        question = self.question
        if question is None or (question["source_id"][:6], question["task"]) != ("table=", "verification"):
            return False
        return question["text"].endswith("?") or _YES_NO.match(question["text"]) is not None

    @property
    def _option_texts(self) -> dict[str, str]:
        return YES_OR_NO if self._asks_yes_or_no else option_texts(self.question)

    @property
    def answer_text(self) -> str:
        """The answer as a sentence; without options and confident evidence, the closest statement."""
        row = self.prediction
        question = self.question
        if row["status"] == "failed":
            return f"No answer: {row['error']}"
        if question is None or not question["options"]:
            return self._short_answer()
        texts = self._option_texts
        text = texts.get(row["answer"], row["answer"] or "none")
        if self._is_open:
            if row["status"] == "ambiguous":
                labels = (row["supported_answers"] or ())[: MAX_ALTERNATIVES + 1]
                return f"{SEVERAL_CELLS}: {'; '.join(option_texts(question).get(label, label) for label in labels)}"
            if row["status"] != "answered":
                return NO_CELL
            others = [texts.get(label, label) for label in (row["supported_answers"] or ()) if label != row["answer"]]
            return _format_list([text, *others]) if others else self._round_computed(text)
        text = text if text == row["answer"] else f"{row['answer']}. {text}"
        is_guess = row["answer"] and row["status"] == "insufficient"
        return f"No option has enough support. Guess: {text}" if is_guess else text

    def _round_computed(self, text: str) -> str:
        """A computed number from 1 with the decimals of the cells that it is computed from, and at least two."""
        cells = [str(item.row["text"]) for item in self.items if item.row["kind"] == "cell"]
        if text in cells or not _LONG_NUMBER.fullmatch(text):
            return text
        decimals = (len(cell.partition(".")[2]) for cell in cells if _NUMBER.fullmatch(cell))
        return f"{round(float(text), max(MIN_DECIMALS, *decimals, 0)):.15g}"

    def _short_answer(self) -> str:
        row = self.prediction
        answer = plain_text(row["answer"] or "")
        status = row["status"]
        if not answer or status == "insufficient" or self._is_unconfirmed:
            if (item := self.closest_statement) is None:
                return f"{NOTHING if self._reads_documents else NO_ANSWER}."
            return f"{NOT_SURE}. Closest statement: “{shorten(item.text, 300)}” ({item.location})"
        if status == STATED_STATUS:
            used = next((item for item in self.items if item.is_used), None)
            return f"The text says: “{answer}”{f' ({used.location})' if used else ''}"
        others = _list_others(answer, map(plain_text, row["supported_answers"] or ()))
        text = f"{answer} (also supported: {', '.join(others[:MAX_ALTERNATIVES])})" if others else answer
        question = (self.question or {}).get("text", "")
        if others and (asks_for_several(question) or _NO_NUMBER.match(question)):
            text = _format_list([answer, *others])
        return f"The evidence does not decide. Closest answer: {text}" if status == "ambiguous" else text

    @property
    def has_answer(self) -> bool:
        """Whether ``answer_text`` is an answer, and not a sentence about its absence."""
        if self._is_unconfirmed:
            return False
        statuses = ("answered", STATED_STATUS) if self._is_open else ("answered", "ambiguous")
        return bool(self.name or (self.prediction["answer"] and self.prediction["status"] in statuses))

    @property
    def _is_unconfirmed(self) -> bool:
        """Whether a language model answered from facts that do not lead to its answer: a small one names any of them.

        The prediction keeps the answer, which a benchmark scores.
        """
        question = self.question or {"options": []}
        row = self.prediction
        return not question["options"] and row["status"] == "ambiguous" and row["confidence"] is None

    @property
    def _reads_documents(self) -> bool:
        """Whether the question was put to texts alone."""
        return all(item.row["kind"] in TEXT_KINDS for item in self.items)

    @property
    def closest_statement(self) -> EvidenceView | None:
        """The best sentence of the evidence, which an abstention without options quotes; None if all are unrelated.

        A title is none if it only repeats words of the question. A question or heading is the best only if there is no
        other sentence.
        """
        words = set(stems(self.question["text"])) if self.question else set[str]()
        texts = [
            item
            for item in self.items
            if item.row["kind"] in TEXT_KINDS
            and len(words.intersection(stems(item.text))) >= MIN_SHARED_WORDS * len(words)
            and not (words.issuperset(stems(item.row["text"])) and item.row["text"][-1:].isalnum())
        ]
        return min(texts, key=lambda item: _NO_STATEMENT.fullmatch(str(item.row["text"])) is not None, default=None)

    @property
    def headline(self) -> str:
        """The answer with its status and confidence."""
        row = self.prediction
        text = self.answer_text
        confidence = [] if row["confidence"] is None else [f"{self.confidence_name} {row['confidence']:.2f}"]
        if row["status"] == STATED_STATUS and text.endswith(")"):
            return "; ".join([text[:-1], *confidence]) + ")"  # beside the place of the statement
        if row["status"] == STATED_STATUS:
            return f"{text} ({confidence[0]})" if confidence else text
        if self.has_answer:
            name = f"{self.name}, {row['answer']}" if self.name else text
            return f"answer: {name} ({', '.join([row['status'], *confidence])})"
        is_guess = row["answer"] and row["status"] == "insufficient" and not self._is_open
        return f"{text} ({confidence[0]})" if confidence and is_guess else text

    @property
    def joined_text(self) -> str:
        """The tables of the joined table behind the answer; empty without one."""
        tables = (item.source for item in self.items if item.source is not None and item.source.get("origin_cells"))
        return next((str(table["caption"]) for table in tables), "")

    @property
    def stale_text(self) -> str:
        """A warning if sources of the evidence behind the answer are gone."""
        items = [item for item in self.key_evidence or self.items if item.row["source_kind"] in KINDS]
        gone = sum(item.source is None for item in items)
        return f"Out of date: {gone} of {len(items)} rows of its evidence are no longer in the lake." if gone else ""

    @property
    def counterfactual_text(self) -> str:
        """The answers without the cited evidence and with only that evidence; empty without a counterfactual."""
        row = self.counterfactual
        if row is None or self.answer_text == NO_CELL:
            return ""
        if row["necessary"] is None:
            return "The answer cites no evidence that could be removed."
        texts = self._option_texts
        without, only = (plain_text(str(texts.get(row[name], row[name]))) for name in ("without_cited", "only_cited"))
        first = "there would be no answer" if without in NO_ANSWER_STATUSES else f"the answer would be “{without}”"
        second = "no answer" if only in NO_ANSWER_STATUSES else f"“{only.rstrip('.')}”"
        return f"Without its evidence {first}; with only that evidence, {second}."

    @property
    def cited_chains(self) -> list[Row]:
        """The chains, with each step's first citations, numbered as the evidence that they name, and how many more."""
        numbers = {item.row["evidence_id"]: item.number for item in self.items}
        cites: dict[tuple[str, int], list[Row]] = {}
        for cite in self.citations:
            numbered = cite | {"number": numbers.get(cite["evidence_id"])}
            cites.setdefault((cite["chain_id"], cite["step"]), []).append(numbered)
        chains = []
        for chain in self.chains or self._sentences:
            steps = []
            for n, step in enumerate(chain["steps"]):
                places = {evidence_id: place for place, evidence_id in enumerate(step["cited"])}
                ordered = cites.get((chain["chain_id"], n), [])
                ordered.sort(key=lambda cite, places=places: places.get(cite["evidence_id"], 0))  # type: ignore[misc]
                counts = {"cites": ordered[:MAX_CITES], "n_more": len(ordered[MAX_CITES:])}
                steps.append(step | counts | {"text": plain_text(step["text"])})
            chains.append(chain | {"is_answer": chain["hypothesis"] == self.prediction["answer"], "steps": steps})
        return chains

    @property
    def _sentences(self) -> list[Row]:
        """The sentences of a short answer as a chain, if there are several; a single one is the answer itself."""
        row = self.prediction
        chain = row | {"chain_id": row["prediction_id"], "hypothesis": row["answer"], "support": None}
        return [chain] if len(row["steps"] or ()) > 1 else []

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each cited row, of an answer without chains: these have their own."""
        if self.cited_chains:
            return {}
        return {str(cite["evidence_id"]): str(cite["verdict"]) for cite in self.citations}

    @property
    def shown_chains(self) -> list[Row]:
        """The chain of the answer; all if the question is negated or has no answer, none if no cell answers it."""
        if self.answer_text == NO_CELL:
            return []
        chains = self.cited_chains
        is_negated = self.question and self.question["negated"]
        return [chain for chain in chains if chain["is_answer"] and not is_negated] or chains

    @property
    def evidence_outside_tables(self) -> list[EvidenceView]:
        """Evidence outside the drawn tables: used evidence first, then evidence for the answer."""
        rest = [item for item in self.items if item.row["kind"] not in TABLE_KINDS or item.source is None]
        answer = self.prediction["answer"]
        return sorted(rest, key=lambda item: (not item.is_used, item.row["option"] != answer, item.row["rank"]))

    @property
    def grids(self) -> list[Grid]:
        """The tables of the evidence with their cells marked."""
        cells = [item for item in self.items if item.row["kind"] in TABLE_KINDS]
        tables = {item.row["source_id"]: item.source for item in cells}
        quoted = {(c["evidence_id"], c["quoted"]) for c in self.citations if c["verdict"] == "verified"}
        return [
            build_grid(source, [item for item in cells if item.row["source_id"] == table], quoted)
            for table, source in sorted(tables.items())
            if source is not None
        ]

    @property
    def key_evidence(self) -> list[EvidenceView]:
        """The evidence behind the answer: what the shown chains cite or, without chains, what the answerer used.

        A text that several options share is listed once.
        """
        if not self.chains:
            used = {item.content_key: item for item in reversed(self.items) if item.is_used}
            return list(reversed(used.values()))
        numbers = {cite["number"] for chain in self.shown_chains for step in chain["steps"] for cite in step["cites"]}
        return [item for item in self.items if item.number in numbers]

    @property
    def other_evidence(self) -> list[EvidenceView]:
        """Evidence that is not key evidence; a text that several options share is listed once."""
        groups: dict[tuple[Any, ...], list[EvidenceView]] = {}
        for item in self.items:
            groups.setdefault(item.content_key, []).append(item)
        for printed in [*self.key_evidence, *([] if self.has_answer else [self.closest_statement])]:
            groups.pop(printed.content_key if printed else (), None)
        options = [dict.fromkeys(str(item.row["option"] or "") for item in items) for items in groups.values()]
        items = zip((items[0] for items in groups.values()), options, strict=True)
        return [replace(item, row=item.row | {"option": ", ".join(labels)}) for item, labels in items]

    def as_dict(self) -> dict[str, Any]:
        """The answer with its question, chains, checked citations and evidence, for JSON."""
        question = self.question or {}
        return {
            "question": question.get("text"),
            "options": question.get("options", []),
            "source_id": question.get("source_id"),
            **_columns(self.prediction, "prediction_id question_id answer supported_answers status confidence error"),
            **_columns(self.prediction, "confidence_basis selector reasoner model_id steps"),
            "confidence_name": self.confidence_name,
            "variant": self.variant,
            "answer_text": self.answer_text,
            "joined_tables": self.joined_text or None,
            "chains": [_columns(chain, "hypothesis support steps status") for chain in self.chains],
            "citations": [_columns(c, "chain_id step evidence_id quoted verdict") for c in self.citations],
            "evidence": [
                _columns(item.row, "evidence_id option kind text rank score source_kind source_id")
                | {"title": item.title, "location": item.location, "used": item.is_used}
                for item in self.items
            ],
            "counterfactual": self.counterfactual_text or None,
        }


def view_answer(connection: duckdb.DuckDBPyConnection, prediction: str) -> AnswerView:
    """The answer of a prediction, by its id or a unique prefix; raises UnknownId if there is none."""
    return view_answers(connection, [read_answer(connection, prediction)])[0]


def view_answers(connection: duckdb.DuckDBPyConnection, answers: Sequence[AnswerRows]) -> list[AnswerView]:
    """Answers with the sources of their evidence; each table is read once."""
    create_views(connection, "kg_nodes", "kg_edges")
    evidence = [row for rows in answers for row in rows.evidence]
    sources = _read_sources(connection, evidence)
    walks = read_walks(connection, [row["locator"] for row in evidence if row["kind"] == "path"])
    condition, ids = id_condition("node_id", sorted({str(rows.prediction["answer"]) for rows in answers}))
    names = dict(
        connection.execute(f"SELECT node_id, name FROM kg_nodes WHERE {condition} ORDER BY ALL", ids).fetchall()
    )
    views = []
    for rows in answers:
        items = [
            EvidenceView(
                row,
                number,
                row["evidence_id"] in rows.used_ids,
                sources.get((row["source_kind"], row["source_id"])),
                walks[row["locator"]] if row["kind"] == "path" else [],
            )
            for number, row in enumerate(rows.evidence, 1)
        ]
        views.append(AnswerView(**vars(rows), items=items, name=names.get(rows.prediction["answer"], "")))
    return views


def _read_sources(connection: duckdb.DuckDBPyConnection, evidence: Iterable[Row]) -> dict[tuple[str, str], Row]:
    """Source rows of evidence, by kind and id."""
    ids: dict[str, set[str]] = {}
    for row in evidence:
        ids.setdefault(row["source_kind"], set()).add(row["source_id"])
    sources = {}
    for kind in sorted(ids.keys() & SOURCE_COLUMNS.keys()):
        schema = KINDS[kind]
        create_views(connection, schema.name)
        condition, parameters = id_condition(f'"{schema.row_id}"', sorted(ids[kind]))
        columns = f'"{schema.row_id}" AS id, {SOURCE_COLUMNS[kind]}'
        sql = f'SELECT {columns} FROM "{schema.name}" WHERE {condition} ORDER BY ALL'
        for row in query_rows(connection, sql, **parameters):
            cells = {"texts": texts_by_cell(row), "origin_cells": origins_by_cell(row)} if kind == "table" else {}
            sources[kind, str(row["id"])] = row | cells
    return sources


def option_texts(question: Mapping[str, Any] | None) -> dict[str, str]:
    """Text of each option, by label."""
    if question is None:
        return {}
    return dict(zip(option_labels(question["task"], question["options"]), question["options"], strict=True))


def _format_list(texts: Sequence[str]) -> str:
    """A list of answers, with how many more there are."""
    more = f"; and {len(texts) - 1 - MAX_LISTED} more" if len(texts) - 1 > MAX_LISTED else ""
    return "; ".join(texts[: 1 + MAX_LISTED]) + more


def _list_others(answer: str, supported: Iterable[str]) -> list[str]:
    """The other supported answers; those that differ in case only are the same."""
    texts = {text.casefold(): text for text in reversed([answer, *supported])}
    return [text for text in reversed(texts.values()) if text != answer]


def describe_answer(question: Mapping[str, Any] | None, answer: str | None) -> str:
    """An answer with the text of its option."""
    if not answer:
        return "none"
    text = option_texts(question).get(answer)
    return plain_text(answer) if text in (None, answer) else f"{answer}. {text}"


def _columns(row: Row, names: str) -> Row:
    return {name: row[name] for name in names.split()}
