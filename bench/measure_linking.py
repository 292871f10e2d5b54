"""Precision and recall of entity spans on the Mintaka development questions.

The names are the labels of the questions' and answers' Wikidata entities, first alone, then among the labels of the
T-REx subjects and objects and the nodes of the ConceptNet slice, which no question means: what is measured is finding
and telling apart of names, not coverage of Wikidata.

Run: ``EVIDENCE_DEV_DATA=… python bench/measure_linking.py``
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from evidence_assets.graphs.entity_linking import EntityLinker


def gold_entities(question: dict[str, Any]) -> list[dict[str, Any]]:
    return [e for e in question["questionEntity"] if e["entityType"] == "entity" and e.get("span") and e["name"]]


def measure(linker: EntityLinker, ids: list[str], questions: list[dict[str, Any]]) -> str:
    found = same_span = overlap = same_entity = gold = entity_recalled = 0
    for question in questions:
        expected = gold_entities(question)
        spans = linker.find_spans(question["question"])
        gold, found = gold + len(expected), found + len(spans)
        for span in spans:
            exact = [e for e in expected if (span.start, span.end) == tuple(e["span"])]
            touching = [e for e in expected if span.start < e["span"][1] and e["span"][0] < span.end]
            same_span, overlap = same_span + bool(exact), overlap + bool(touching)
            same_entity += any(e["name"] in {ids[n] for n in span.link.nodes} for e in touching)
        linked = {ids[node] for span in spans for node in span.link.nodes}
        entity_recalled += sum(e["name"] in linked for e in expected)
    return (
        f"spans found {found}, gold {gold}: precision exact span {same_span / found:.3f}, overlapping "
        f"{overlap / found:.3f}, right entity {same_entity / found:.3f}; recall exact span {same_span / gold:.3f}, "
        f"right entity {entity_recalled / gold:.3f}"
    )


def main() -> None:
    if not os.environ.get("EVIDENCE_DEV_DATA"):
        raise SystemExit("set EVIDENCE_DEV_DATA to the folder of the development data")
    data = Path(os.environ["EVIDENCE_DEV_DATA"])
    questions = json.loads((data / "mintaka" / "mintaka_dev.json").read_text(encoding="utf-8"))
    labels: dict[str, str] = {}
    for question in questions:
        for entity in gold_entities(question):
            labels[entity["name"]] = entity.get("label") or entity["mention"]
        answers = question["answer"]["answer"] if question["answer"]["answerType"] == "entity" else None
        for answer in answers or []:
            label = answer["label"]
            labels.setdefault(answer["name"], label["en"] if isinstance(label, dict) else label)
    print("own labels only:", measure(EntityLinker(list(labels.values())), list(labels), questions))
    wanted = {label.casefold() for label in labels.values()}
    others: dict[str, str] = {}
    for path in sorted((data / "lama" / "TREx").glob("P*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            fact = json.loads(line)
            for role in ("sub", "obj"):
                others[fact[f"{role}_uri"]] = fact[f"{role}_label"]
    for line in (data / "conceptnet" / "train_slice.txt").read_text(encoding="utf-8").splitlines():
        for name in line.split("\t")[1:3]:
            others[f"conceptnet:{name}"] = name
    merged = labels | {key: name for key, name in others.items() if key not in labels and name.casefold() not in wanted}
    print(f"among {len(merged) - len(labels):,} other names:",
          measure(EntityLinker(list(merged.values())), list(merged), questions))  # fmt: skip
    proper = {key: name for key, name in merged.items() if not key.startswith("conceptnet:")}
    print(f"among {len(proper) - len(labels):,} other Wikidata names:",
          measure(EntityLinker(list(proper.values())), list(proper), questions))  # fmt: skip


if __name__ == "__main__":
    main()
