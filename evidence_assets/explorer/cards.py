"""Evidence cards: one prediction as one HTML page that needs nothing else, for whoever has to judge an answer.

Shown are the question and its options, the chains with their citations as they were checked, every row of evidence with
its source and why it was picked, and the lineage below the answer. All text is data: it is escaped, and the page
forbids itself scripts and requests.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

import duckdb

from evidence_assets.benchmarks.records import option_labels
from evidence_assets.explorer.answers import answer_rows, rows_of, stands
from evidence_assets.explorer.path_reading import WalkedEdge, reasons, walked
from evidence_assets.lake import lineage
from evidence_assets.lake.schemas import KINDS

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2330; background: #f5f6f8; margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; border-bottom: 1px solid #cdd3dc; }
section.card { background: #fff; border: 1px solid #d9dde4; border-radius: .5rem; padding: .2rem 1rem; margin: .8rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dt { color: #586273; } dd { margin: 0; }
ol.options { list-style: none; padding: 0; } ol.options li { padding: .25rem .6rem; border-left: .3rem solid transparent; }
li.chosen { border-color: #2f5fd0 !important; background: #eaf0fd; } .note { color: #586273; font-size: .85rem; }
.verdict { border-radius: .3rem; padding: 0 .4rem; font-size: .85rem; text-decoration: none; color: #fff; }
.verified { background: #1d7a43; } .absent { background: #b3261e; } .misquoted { background: #9a5b00; }
blockquote { margin: .4rem 0; padding: .1rem .8rem; border-left: .2rem solid #cdd3dc; white-space: pre-wrap;
  overflow-wrap: anywhere; } pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
:target { outline: 3px solid #2f5fd0; } ul { padding-left: 1.2rem; } code { font-size: .85rem; overflow-wrap: anywhere; }
"""


class Html(str):
    """Text that is markup already; every other text is escaped where it is put into a page."""


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element; children that are no ``Html`` are escaped, and so are attributes (``class_`` stands for class).

    >>> tag("p", "a < b", class_="x")
    '<p class="x">a &lt; b</p>'
    """
    stated = "".join(f' {key.rstrip("_")}="{escape(str(value))}"' for key, value in attributes.items() if value != "")
    return Html(f"<{name}{stated}>{_inside(children)}</{name}>")


def _inside(children: object) -> str:
    if isinstance(children, Html):
        return str(children)
    if isinstance(children, list | tuple):
        return "".join(map(_inside, children))
    return "" if children is None else escape(str(children))


def card(connection: duckdb.DuckDBPyConnection, prediction: str) -> str:
    """The page of one prediction, named by its id or the beginning of it.

    Raises
    ------
    UnknownId
        Where no row has this id, or one that is no prediction.
    """
    rows = answer_rows(connection, prediction)
    answer, question, chains, evidence = rows.prediction, rows.question, rows.chains, rows.evidence
    identifier, numbers, citations = answer["prediction_id"], rows.numbers, rows.citations
    walks = walked(connection, [row["locator"] for row in evidence if row["kind"] == "path"])
    body = [
        tag(
            "h1", question["text"] if question else f"question {answer['question_id']}, which is no longer in the lake"
        ),
        _answer(question, answer, stands(rows.counterfactual)),
        tag("h2", "Chains"),
        [_chain(row, citations, numbers) for row in chains] or tag("p", "There is none.", class_="note"),
        tag("h2", "Evidence"),
        [_evidence(row, numbers, _source(connection, row), walks.get(row["locator"])) for row in evidence]
        or tag("p", "There is none.", class_="note"),
        tag("h2", "Lineage"),
        tag("p", "What the answer was made from, down to documents, tables, triples and seeds.", class_="note"),
        tag("ul", _lineage(lineage.trace(connection, identifier), set())),
    ]
    head = [
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width">'),
        Html("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"),
        tag("title", f"Evidence card {identifier[:12]}"),
        tag("style", Html(STYLE)),
    ]
    return "<!doctype html>\n" + tag("html", tag("head", head), tag("body", tag("main", body)), lang="en") + "\n"


def _facts(pairs: dict[str, object]) -> Html:
    return tag("dl", [(tag("dt", name), tag("dd", value)) for name, value in pairs.items() if value not in (None, "")])


def _answer(question: dict[str, Any] | None, answer: dict[str, Any], asked_again: str) -> Html:
    options = question["options"] if question else []
    gold = question["gold"] if question else []
    sure = dict(zip(answer["ranked_answers"], answer["probabilities"] or (), strict=False))
    shown = []
    for label, option in zip(option_labels(question["task"] if question else "", options), options, strict=True):
        notes = ["chosen"] * (label == answer["answer"]) + ["gold"] * (label in gold)
        notes += ["supported by evidence"] * (label in answer["supported_answers"])
        notes += [f"probability {sure[label]:.2f}"] if label in sure else []
        text = option if label == option else f"{label}. {option}"
        note = tag("span", f" ({', '.join(notes)})" if notes else "", class_="note")
        shown.append(tag("li", text, note, class_="chosen" if label == answer["answer"] else ""))
    confidence = answer["confidence"]
    facts: dict[str, object] = {
        "answer": answer["answer"],
        "status": answer["status"],
        "why it failed": answer["error"],
        "ranked answers": ", ".join(answer["ranked_answers"]),
        "gold": ", ".join(gold),
        "confidence": None if confidence is None else f"{confidence:.3f}",
        "asked again": asked_again,
        "benchmark": answer["benchmark"],
        "selector": answer["selector"],
        "reasoner": f"{answer['reasoner']} ({answer['model_id']})",
        "prediction": tag("code", answer["prediction_id"]),
    }
    return tag("section", tag("ol", shown, class_="options"), _facts(facts), class_="card")


def _chain(chain: dict[str, Any], citations: list[dict[str, Any]], numbers: dict[str, int]) -> Html:
    own = [c for c in citations if c["chain_id"] == chain["chain_id"]]
    steps = [
        tag("li", step["text"], " ", [_citation(c, numbers) for c in own if c["step"] == number])
        for number, step in enumerate(chain["steps"])
    ]
    support = "" if chain["support"] is None else f", support {chain['support']:.3f}"
    heading = tag("h3", f"For {chain['hypothesis'] or 'the answer'}", tag("span", support, class_="note"))
    failed = tag("p", f"Failed: {chain['error']}", class_="note") if chain["status"] == "failed" else ""
    body = tag("ol", steps) if steps else tag("p", "No step: nothing was found to say.", class_="note")
    return tag("section", heading, failed or body, class_="card")


def _citation(citation: dict[str, Any], numbers: dict[str, int]) -> Html:
    number = numbers.get(citation["evidence_id"])
    quoted = f" “{citation['quoted']}”" if citation["quoted"] else ""
    text = f"{citation['verdict']}: {number or citation['evidence_id'][:12]}{quoted}"
    target = f"#e{number}" if number else ""
    return tag("a" if number else "span", text, href=target, class_=f"verdict {citation['verdict']}")


def _source(connection: duckdb.DuckDBPyConnection, row: dict[str, Any]) -> dict[str, object]:
    """What is known of the row that a piece of evidence stands in."""
    schema = KINDS.get(row["source_kind"])
    if schema is None:
        return {}
    shown = {
        "chunks": ("title", "doc_id", "source"), "tables": ("caption", "benchmark"),
        "triples": ("head", "relation", "tail", "origin", "source", "licence"),
        "kg_edges": ("relation", "sources", "licences"), "kg_nodes": ("name", "type"),
    }.get(schema.name, ())  # fmt: skip
    if not shown:
        return {}
    columns = ", ".join(f'"{name}"' for name in shown)
    found = rows_of(
        connection, f'SELECT {columns} FROM "{schema.name}" WHERE "{schema.row_id}" = $id LIMIT 1', id=row["source_id"]
    )
    values = found[0] if found else {}
    return {name: ", ".join(v) if isinstance(v, list) else v for name, v in values.items()}


def _evidence(
    row: dict[str, Any], numbers: dict[str, int], source: dict[str, object], walk: list[WalkedEdge] | None
) -> Html:
    number = numbers[row["evidence_id"]]
    about = f" for {row['option']}" if row["option"] else ""
    facts: dict[str, object] = {"rank": f"{row['rank']}{about}, score {row['score']:.4g}"}
    if walk:
        facts |= {
            name: lines[0] if len(lines) == 1 else tag("ul", [tag("li", line) for line in lines])
            for name, lines in reasons(row["why"], walk).items()
        }
    else:
        place = f", {row['locator']}" if row["locator"] else ""
        facts |= {"stands in": f"{row['source_kind']} {row['source_id']}{place}", **source, "why": _why(row["why"])}
    facts["evidence"] = tag("code", row["evidence_id"])
    heading = tag("h3", f"{number}. {row['kind']}")
    return tag("section", heading, tag("blockquote", row["text"]), _facts(facts), class_="card", id=f"e{number}")


def _why(stated: str | None) -> object:
    """Why a row was picked, set out legibly where it is JSON, as it stands where it is not."""
    if not stated:
        return None
    try:
        return tag("pre", json.dumps(json.loads(stated), indent=1, ensure_ascii=False))
    except ValueError:
        return tag("pre", stated)


def _lineage(node: lineage.Node, shown: set[int]) -> Html:
    """A row and what it was made from, as nested lists that open; what is shown above is only named."""
    said = ", ".join(f"{name}: {' '.join(str(v).split())}" for name, v in node.content.items() if v is not None)
    said = said if len(said) <= 200 else said[:199] + "…"
    line = [f"{node.relation.replace('_', ' ')} " if node.relation else "", tag("b", node.kind), " "]
    line += [tag("code", node.id[:12]), f" {said}"]
    if not node.next or id(node.next) in shown:
        return tag("li", line, " (as above)" if node.next else "")
    shown.add(id(node.next))
    return tag("li", tag("details", tag("summary", line), tag("ul", [_lineage(child, shown) for child in node.next])))
