"""Whether a question's entities are found in its text and led to the right node: Mintaka's, which people marked.

    EVIDENCE_DEV_DATA=<folder> python -m bench.measure_linking

The candidate names are the labels and mentions of all entities of the 100 development questions and of their
answers, and, so that there is something to confuse them with, the labels of the 4,000 facts of T-REx: no whole Wikidata
is at hand, so recall says how names are found in a text that a graph knows, not how many a graph knows. A question's
own mentions are left out of the names, so that it is found by a label or by how others wrote it. Concepts are chosen
and linked by the function that the assets call; MedQA's phrases are measured by them (``graph_linking_*`` in
``scores``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bench.minilm import MiniLm
from evidence_assets.experiment.evidence.question_concepts import LinkedPhrase, link_concepts
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.graphs.entity_linking import EntityLinker, NameVectors
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph


@dataclass(frozen=True)
class Marked:
    """A question with the entities that people marked in it: (start, end, Wikidata id)."""

    question_id: str
    text: str
    entities: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Rows:
    """The rows of a matrix nearest to a query, by inner product."""

    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        scores = queries @ self.vectors.T
        best_columns = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, best_columns, axis=1), best_columns


def marked(rows: Iterable[dict[str, Any]]) -> list[Marked]:
    marked_entities = []
    for row in rows:
        entities = [e for e in row["questionEntity"] if e["entityType"] == "entity" and e.get("span")]
        spans = tuple((e["span"][0], e["span"][1], e["name"]) for e in entities)
        if spans:
            marked_entities.append(Marked(row["id"], row["question"], spans))
    return marked_entities


def names_of(rows: Sequence[dict[str, Any]], facts: Path) -> dict[tuple[str, str], set[str]]:
    """Each (name, Wikidata id) that may be meant, with the questions that alone write it so; an empty id is a label."""
    names: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        for entity in row["questionEntity"]:
            if entity["entityType"] == "entity":
                names.setdefault((entity.get("label") or entity["mention"], entity["name"]), set()).add("")
                names.setdefault((entity["mention"], entity["name"]), set()).add(row["id"])
        for answer in row["answer"]["answer"] or ():
            if isinstance(answer, dict) and answer.get("label"):
                label = answer["label"]
                names.setdefault((label["en"] if isinstance(label, dict) else label, answer["name"]), set()).add("")
    for path in sorted(facts.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            fact = json.loads(line)
            for side in ("sub", "obj"):
                names.setdefault((fact[f"{side}_label"], fact[f"{side}_uri"]), set()).add("")
    return names


def concepts(
    question: Marked, names: dict[tuple[str, str], set[str]], encode: MiniLm
) -> list[tuple[LinkedPhrase, set[str]]]:
    """What the product finds a question to name, each with its Wikidata ids."""
    known_names = [key for key, writers in names.items() if writers != {question.question_id}]
    ids = {uri: number for number, uri in enumerate(dict.fromkeys(uri for _, uri in known_names))}
    linker = EntityLinker([name for name, _ in known_names], [ids[uri] for _, uri in known_names])
    near = NameVectors(Rows(encode.encode_sentences([name for name, _ in known_names])), encode.encode_sentences)
    graph = SimpleNamespace(linker=linker, vectors=SimpleNamespace(encode=encode.encode_sentences), near=near)
    question_to_link = Question(question.question_id, "mintaka", "kgqa", question.text)
    (linked_concepts,) = link_concepts([question_to_link], cast(KnowledgeGraph, graph))
    uris = list(ids)
    return [(each, {uris[node] for node in each.nodes}) for each in linked_concepts.concepts]


def line(name: str, hits: Sequence[bool]) -> str:
    share = accuracy(hits)
    return f"  {name:58s} {100 * share.value:5.1f} ({100 * share.low:.1f}–{100 * share.high:.1f}) of {share.n}"


def main() -> None:
    folder = Path(os.environ["EVIDENCE_DEV_DATA"])
    rows = json.loads((folder / "mintaka" / "mintaka_dev.json").read_text(encoding="utf-8"))
    questions, names, encode = marked(rows), names_of(rows, folder / "lama" / "TREx"), MiniLm()
    print(f"{len(questions)} questions, {sum(len(q.entities) for q in questions)} entities, {len(names):,} names")
    for title, rules in (("all rules", None), ("by spelling alone", {"exact", "normalised", "fuzzy"})):
        touched, led, precise, right = [], [], [], []
        for question in questions:
            pairs = [pair for pair in concepts(question, names, encode) if rules is None or pair[0].rule in rules]
            places = [(question.text.find(each.phrase), each, uris) for each, uris in pairs]
            spans = [(start, start + len(each.phrase), uris) for start, each, uris in places if start >= 0]
            for start, end, uri in question.entities:
                touching = [uris for a, b, uris in spans if a < end and start < b]
                touched.append(bool(touching))
                led.append(any(uri in uris for uris in touching))
            for a, b, uris in spans:
                meant = [uri for start, end, uri in question.entities if a < end and start < b]
                precise.append(bool(meant))
                right.append(any(uri in uris for uri in meant))
        print(title)
        print(line("recall: an entity's words are touched by a concept", touched))
        print(line("recall: and lead to its node", led))
        print(line("precision: a concept touches an entity's words", precise))
        print(line("precision: and leads to its node", right))


if __name__ == "__main__":
    main()
