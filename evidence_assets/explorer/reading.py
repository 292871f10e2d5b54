"""One answer as text for a terminal: the question, the chain of the answer, and the evidence that it cites.

The short form of an evidence card (``explorer.cards``): what the answer rests on, word for word and with the verdict on
every citation, and no more. All text is data and is printed as it stands.
"""

from __future__ import annotations

import textwrap

import duckdb

from evidence_assets.benchmarks.records import option_labels
from evidence_assets.explorer.answers import AnswerRows, Row, answer_rows, places_of, stands
from evidence_assets.explorer.drawing import text_of
from evidence_assets.explorer.path_reading import reasons, walked
from evidence_assets.lake.catalogue import need
from evidence_assets.lake.places import rows_of
from evidence_assets.reasoning.extractive import TEXT_KINDS
from evidence_assets.reasoning.short_answers import ExtractiveShortAnswers

WIDTH = 110


def reading(connection: duckdb.DuckDBPyConnection, prediction: str) -> str:
    """The answer named by a prediction's id, or the beginning of it, as lines of text."""
    rows = answer_rows(connection, prediction)
    need(connection, "subgraphs", "kg_nodes", "kg_edges")
    blocks = [
        _question(rows),
        _concepts(connection, rows),
        _answer(connection, rows),
        *_chains(rows),
        *_evidence(connection, rows),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def as_dict(connection: duckdb.DuckDBPyConnection, prediction: str) -> dict[str, object]:
    """The same as plain values: the answer with its question, chains, checked citations, evidence and its places."""
    rows = answer_rows(connection, prediction)
    question, places = rows.question or {}, places_of(connection, rows.evidence)
    return {
        "question": question.get("text"),
        "options": question.get("options", []),
        "asked_of": question.get("source_id"),
        **{name: rows.prediction[name] for name in _TOLD},
        "variant": rows.variant,
        "says": says(rows),
        "chains": [
            {name: chain[name] for name in ("hypothesis", "support", "steps", "status")} for chain in rows.chains
        ],
        "citations": [
            {name: c[name] for name in ("chain_id", "step", "evidence_id", "quoted", "verdict")} for c in rows.citations
        ],
        "evidence": [
            {
                name: row[name]
                for name in ("evidence_id", "option", "kind", "text", "rank", "score", "source_kind", "source_id")
            }
            | {"title": places[row["evidence_id"]].title, "where": places[row["evidence_id"]].where}
            | {"used": row["evidence_id"] in rows.used}
            for row in rows.evidence
        ],
        "removal_test": stands(rows.counterfactual) or None,
    }


_TOLD = (
    "prediction_id",
    "question_id",
    "answer",
    "supported_answers",
    "status",
    "confidence",
    "error",
    "selector",
    "reasoner",
    "model_id",
)
_LIKEWISE = 5
"""Further answers that the same reading of the evidence leads to, of which so many are told."""


def says(rows: AnswerRows) -> str:
    """The answer in words; that the evidence does not say, where it does not and nothing was offered to choose from."""
    answer, question = rows.prediction["answer"], rows.question
    if rows.prediction["status"] == "failed":
        return f"no answer: {rows.prediction['error']}"
    if question is None or not question["options"]:
        if not answer or rows.prediction["status"] == "insufficient":
            return "the evidence does not say"
        if _quotes_a_text(rows):
            return f"nearest statement: “{answer}”"
        likewise = [one for one in rows.prediction["supported_answers"] or () if one != answer]
        told = f"{answer} (likewise: {', '.join(likewise[:_LIKEWISE])})" if likewise else str(answer)
        return f"the evidence does not decide; nearest is {told}" if rows.prediction["status"] == "ambiguous" else told
    options = dict(zip(option_labels(question["task"], question["options"]), question["options"], strict=True))
    text = str(options.get(answer, answer or "none"))
    if question["source_id"].partition("=")[0] == "table" and question["task"] == "table_qa":
        return text if rows.prediction["status"] == "answered" else "the evidence does not say"
    return text if text == answer else f"{answer}. {text}"


def _quotes_a_text(rows: AnswerRows) -> bool:
    """Whether the answer is a sentence of a text, word for word, which no model read any further."""
    return rows.prediction["reasoner"] == ExtractiveShortAnswers.name and any(
        str(rows.prediction["answer"]) in row["text"] and row["kind"] in TEXT_KINDS
        for row in rows.evidence
        if row["evidence_id"] in rows.used
    )


def _wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    following = " " * len(first) if rest is None else rest
    plain = " ".join(text.split())
    return textwrap.wrap(plain, WIDTH, initial_indent=first, subsequent_indent=following) or [first.rstrip()]


def _question(rows: AnswerRows) -> list[str]:
    question = rows.question
    if question is None:
        return [f"question {rows.prediction['question_id']}, which is no longer in the lake"]
    lines = _wrapped(question["text"])
    if question["negated"]:
        lines.append("(asks for the option that does not hold)")
    for label, option in zip(option_labels(question["task"], question["options"]), question["options"], strict=True):
        notes = ["the answer"] * (label == rows.prediction["answer"]) + ["gold"] * (label in question["gold"])
        note = f" [{', '.join(notes)}]" if notes else ""
        lines += _wrapped(f"{option}{note}", "  " if label == option else f"  {label}. ")
    return lines


def _concepts(connection: duckdb.DuckDBPyConnection, rows: AnswerRows) -> list[str]:
    """What the question and its options name in the graph, where evidence is paths of one."""
    if not any(row["kind"] == "path" for row in rows.evidence):
        return []
    found = rows_of(
        connection,
        "SELECT concepts, targets FROM subgraphs WHERE question_id = $id LIMIT 1",
        id=rows.prediction["question_id"],
    )
    if not found:
        return []

    def said(links: list[Row]) -> str:
        return ", ".join(f"“{link['phrase']}” ({link['rule']} match)" for link in links) or "nothing"

    lines = _wrapped(said(found[0]["concepts"]), "named in the question: ", "  ")
    labels = option_labels(rows.question["task"], rows.question["options"]) if rows.question else ()
    for label in labels:
        own = [link for link in found[0]["targets"] if link["option"] == label]
        lines += _wrapped(said(own), f"named in {label}: ", "  ")
    return lines


def _answer(connection: duckdb.DuckDBPyConnection, rows: AnswerRows) -> list[str]:
    answer = rows.prediction
    named = rows_of(connection, "SELECT name FROM kg_nodes WHERE node_id = $id LIMIT 1", id=answer["answer"])
    told_as = f"{named[0]['name']}, {answer['answer']}" if named else says(rows)
    confidence = "" if answer["confidence"] is None else f", probability {answer['confidence']:.3f}"
    lines = [f"answer: {told_as} ({answer['status']}{confidence})"]
    if rows.question and rows.question["options"] and answer["answer"] and answer["status"] == "insufficient":
        lines.append("this is the best of what was offered; the evidence does not support it")
    lines.append(f"by {answer['reasoner']} ({answer['model_id']}), evidence by {answer['selector']}")
    if answer["error"]:
        lines += _wrapped(answer["error"], "why it failed: ", "  ")
    told = stands(rows.counterfactual)
    if told:
        lines += _wrapped(told, "asked again: ", "  ")
    lines.append(f"prediction {answer['prediction_id']}")
    return lines


def _shown(rows: AnswerRows) -> list[Row]:
    """The chain of the answer; all of them where the question asks for the exception or nothing was answered."""
    own = [chain for chain in rows.chains if chain["hypothesis"] == rows.prediction["answer"]]
    exception = rows.question is not None and rows.question["negated"]
    return own if own and not exception else rows.chains


def _chains(rows: AnswerRows) -> list[list[str]]:
    blocks = []
    shown = _shown(rows)
    numbers = {row["evidence_id"]: number for number, row in enumerate(_cited(rows), 1)}
    for chain in shown:
        support = "" if chain["support"] is None else f" (support {chain['support']:.3f})"
        lines = [f"chain for {chain['hypothesis'] or 'the answer'}{support}"]
        if chain["status"] == "failed":
            lines += _wrapped(chain["error"] or "", "  failed: ")
        for number, step in enumerate(chain["steps"]):
            lines += _wrapped(step["text"], f"  {number + 1}. ")
            own = [c for c in rows.citations if c["chain_id"] == chain["chain_id"] and c["step"] == number]
            cited = [f"[{numbers.get(c['evidence_id'], c['evidence_id'][:12])}] {c['verdict']}" for c in own]
            lines += [f"     cites {', '.join(cited)}"] if cited else []
        blocks.append(lines)
    others = [chain for chain in rows.chains if chain not in shown]
    if others:
        told = (f"{c['hypothesis']} {c['support']:.3f}" for c in others if c["support"] is not None)
        blocks.append([f"support of the others: {', '.join(told)}"])
    return blocks


def _cited(rows: AnswerRows) -> list[Row]:
    """The rows of evidence that the shown chains cite; all that the answer used where it has no chains."""
    if not rows.chains:
        return rows.evidence
    shown = {chain["chain_id"] for chain in _shown(rows)}
    cited = {c["evidence_id"] for c in rows.citations if c["chain_id"] in shown}
    return [row for row in rows.evidence if row["evidence_id"] in cited]


def _evidence(connection: duckdb.DuckDBPyConnection, rows: AnswerRows) -> list[list[str]]:
    chosen = _cited(rows)
    walks = walked(connection, [row["locator"] for row in chosen if row["kind"] == "path"])
    places = places_of(connection, chosen)
    blocks = []
    for number, row in enumerate(chosen, 1):
        about = f" for {row['option']}" if row["option"] else ""
        lines = [f"[{number}] {row['kind']}, rank {row['rank']}{about}"]
        lines += _wrapped(text_of(row), "    ")
        if row["kind"] == "path":
            for heading, said in reasons(row["why"], walks[row["locator"]]).items():
                lines += [f"    {heading}:"]
                for line in said:
                    lines += _wrapped(line, "      ", "        ")
        else:
            place = places[row["evidence_id"]]
            lines += _wrapped(f"“{place.title}”: {place.where}", "    stands in ")
        blocks.append(lines)
    return blocks
