"""Whether a question's entities are found in its text and led to the right node: Mintaka's, which people marked.

    EVIDENCE_DEV_DATA=<folder> python -m bench.graphs.measure_linking

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

from bench.differences import format_difference
from bench.minilm import MiniLm
from evidence_assets.experiment.evidence.question_concepts import LinkedPhrase, link_concepts
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.scores.metrics import accuracy, paired_bootstrap
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


NEAREST = (0, 1, 3, 10)
"""Names that stand for a constant without a node of its spelling (``nearest_nodes`` of 4StepFocus)."""


@dataclass(frozen=True)
class Names:
    """The names that a question may mean, without those that it alone writes, and the Wikidata id of each."""

    uris: list[str]
    linker: EntityLinker
    rows: Rows
    encode: MiniLm

    @classmethod
    def of(cls, question: Marked, names: dict[tuple[str, str], set[str]], encode: MiniLm) -> Names:
        known_names = [key for key, writers in names.items() if writers != {question.question_id}]
        ids = {uri: number for number, uri in enumerate(dict.fromkeys(uri for _, uri in known_names))}
        linker = EntityLinker([name for name, _ in known_names], [ids[uri] for _, uri in known_names])
        rows = Rows(encode.encode_sentences([name for name, _ in known_names]))
        return cls([uri for _, uri in known_names], linker, rows, encode)

    def concepts(self, question: Marked) -> list[tuple[LinkedPhrase, set[str]]]:
        """What the product finds a question to name, each with its Wikidata ids."""
        encode = self.encode.encode_sentences
        near = NameVectors(self.rows, encode)  # type: ignore[arg-type]
        graph = SimpleNamespace(linker=self.linker, vectors=SimpleNamespace(encode=encode), name_vectors=near)
        question_to_link = Question(question.question_id, "mintaka", "kgqa", question.text)
        (linked_concepts,) = link_concepts([question_to_link], cast(KnowledgeGraph, graph))
        return [(each, self._named(each.nodes)) for each in linked_concepts.concepts]

    def constants(self, question: Marked, nearest: int) -> list[set[str]]:
        """What 4StepFocus takes for each entity's own words: its nodes by spelling or, if none, the nearest names."""
        words = [question.text[start:end] for start, end, _ in question.entities]
        _, rows = self.rows.search(self.encode.encode_sentences(words), nearest)
        return [
            self._named(link.nodes) or {self.uris[row] for row in near.tolist()}
            for link, near in zip(self.linker.link_many(words), rows, strict=True)
        ]

    def _named(self, nodes: Sequence[int]) -> set[str]:
        uris = list(dict.fromkeys(self.uris))
        return {uris[node] for node in nodes}


def line(name: str, hits: Sequence[bool]) -> str:
    share = accuracy(hits)
    return f"  {name:58s} {100 * share.value:5.1f} ({100 * share.low:.1f}–{100 * share.high:.1f}) of {share.n}"


def main() -> None:
    folder = Path(os.environ["EVIDENCE_DEV_DATA"])
    rows = json.loads((folder / "mintaka" / "mintaka_dev.json").read_text(encoding="utf-8"))
    questions, names, encode = marked(rows), names_of(rows, folder / "lama" / "TREx"), MiniLm()
    print(f"{len(questions)} questions, {sum(len(q.entities) for q in questions)} entities, {len(names):,} names")
    linked = []
    for question in questions:
        question_names = Names.of(question, names, encode)
        linked.append(
            (question, question_names.concepts(question), {n: question_names.constants(question, n) for n in NEAREST})
        )
    hits = {
        n: [
            uri in uris
            for question, _, constants in linked
            for (_, _, uri), uris in zip(question.entities, constants[n], strict=True)
        ]
        for n in NEAREST
    }
    print("constants of triplets")
    for n, outcomes in hits.items():
        print(line(f"an entity's words lead to its node or {n} nearest names", outcomes))
        print(f"    − spelling: {format_difference(paired_bootstrap(outcomes, hits[0]), '.1%')}")
    for title, rules in (("all rules", None), ("by spelling alone", {"exact", "normalised", "fuzzy"})):
        touched, led, precise, right = [], [], [], []
        for question, all_pairs, _ in linked:
            pairs = [pair for pair in all_pairs if rules is None or pair[0].rule in rules]
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
