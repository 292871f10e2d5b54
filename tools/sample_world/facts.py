"""The facts of the sample world: reading the compact files, and asking what is true, false or left open.

What belongs here: facts, names, types and the rules that keep a wrong option wrong. What does not: sentences
(`wording`), articles and questions.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

INPUTS = Path(__file__).parent / "inputs"
"""The folder of facts and lexicon."""
HELD_OUT_SHARE = 0.10
"""Share of the facts of each prompted relation that no document, graph or knowledge base states."""
LEFT_OUT_OF_GRAPH = 0.06
"""Share of the remaining facts that the graph lacks: a real graph is never complete."""
STATED_SHARE = 0.85
"""Share of the facts of relations without prompt that the articles tell."""


def order_key(*parts: object) -> str:
    """Return a hash that orders things at random, yet alike on every machine and in every process."""
    return hashlib.blake2b("\x1f".join(str(word) for word in parts).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, order=True)
class Fact:
    """One true statement (head, relation, tail) and where it can be checked."""

    relation: str
    head: str
    tail: str
    collection: str = field(compare=False)
    check: str = field(compare=False)
    held_out: bool = field(compare=False, default=False)
    in_graph: bool = field(compare=False, default=True)
    is_stated: bool = field(compare=False, default=True)

    @property
    def triple(self) -> tuple[str, str, str]:
        """Head, relation and tail, as a graph file has them."""
        return self.head, self.relation, self.tail


@dataclass
class World:
    """All facts, with indexes, and the lists that keep doubtful pairs out of the wrong options.

    `possible` holds the facts and the doubtful pairs: what a wrong option must not rest on.
    """

    facts: list[Fact]
    relations: dict[str, dict[str, Any]]
    aliases: dict[str, list[str]]
    lexicon: dict[str, Any]
    doubtful: set[tuple[str, str, str]]

    def __post_init__(self) -> None:
        self.by_relation: dict[str, list[Fact]] = defaultdict(list)
        self.possible = [*self.facts, *(Fact(r, h, t, "", "") for h, r, t in sorted(self.doubtful))]
        self._tails: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._heads: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.clusters: dict[str, set[str]] = defaultdict(set)
        self.types: dict[str, str] = {}
        for fact in self.facts:
            self.by_relation[fact.relation].append(fact)
            self._tails[fact.head, fact.relation].append(fact.tail)
            self._heads[fact.tail, fact.relation].append(fact.head)
            self.types.setdefault(fact.head, self.relations[fact.relation]["head_type"])
            self.types.setdefault(fact.tail, self.relations[fact.relation]["tail_type"])
        for name, members in self.lexicon["clusters"].items():
            for member in members:
                self.clusters[member].add(name)
        for fact in self.by_relation["belongs_to_the_category_of"]:
            self.clusters[fact.head].add(f"category {fact.tail}")

    def prompted(self) -> list[str]:
        """Relations that have a seed prompt, in file order."""
        return [name for name, relation in self.relations.items() if "prompt" in relation]

    def tails(self, head: str, relation: str) -> list[str]:
        """Every tail that is true of the head, the head side of a symmetric relation included."""
        tails = list(self._tails[head, relation])
        if self.relations[relation].get("symmetric"):
            tails += self._heads[head, relation]
        return tails

    def heads(self, tail: str, relation: str) -> list[str]:
        """Every head that is true of the tail, the tail side of a symmetric relation included."""
        heads = list(self._heads[tail, relation])
        if self.relations[relation].get("symmetric"):
            heads += self._tails[tail, relation]
        return heads

    def has(self, head: str, relation: str, tail: str) -> bool:
        """Say whether the triple is among the facts, held-out ones included."""
        return tail in self.tails(head, relation)

    def may_hold(self, head: str, relation: str, tail: str) -> bool:
        """Say whether the triple is true, doubtful or close to a true one, and so unfit for a wrong option."""
        if head == tail or self.has(head, relation, tail):
            return True
        if (head, relation, tail) in self.doubtful or (tail, relation, head) in self.doubtful:
            return True
        if any(self.clusters[other] & self.clusters[tail] for other in self.tails(head, relation)):
            return True
        if relation in ("may_treat", "may_contraindicate", "interacts_with"):
            # a fact about one medicine is often true of its family
            for drug, other in ((head, tail), (tail, head)):
                family = {
                    sister
                    for group in self.tails(drug, FAMILY)
                    for sister in self.heads(group, FAMILY)
                    if sister != drug
                }
                if any(self.has(sister, relation, other) or self.has(other, relation, sister) for sister in family):
                    return True
        if relation == "is_a_subtype_of":
            return bool(set(self.tails(head, relation)) & set(self.heads(tail, relation)))
        return False

    def too_general(self, name: str, relation: str) -> bool:
        """Say whether the name could be right nearly anywhere in this relation."""
        return name in self.lexicon["too_general"].get(relation, ())

    def of_type(self, name: str, kind: str) -> bool:
        """Say whether the name fills a slot of this type in any relation."""
        return self.types.get(name) == kind


FAMILY = "belongs_to_the_drug_family_of"


def read_input(name: str) -> dict[str, Any]:
    """Read a YAML file of the inputs."""
    content: dict[str, Any] = yaml.safe_load((INPUTS / name).read_text(encoding="utf-8"))
    return content


def read_triples(path: Path) -> list[tuple[str, str, str, str]]:
    """Read (head, relation, tail, check) from a grouped file.

    A line ``## relation <tab> check`` opens a group and gives the place to check its facts; ``{head}``, ``{Tail}`` …
    stand for the names. A line ``anchor > a; b`` has the anchor as head, ``anchor < a; b`` as tail; a fourth column
    overrides the place to check.
    """
    rows: list[tuple[str, str, str, str]] = []
    relation = check = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if line.startswith("## "):
            relation, check = cells[0][3:].strip(), (cells[1].strip() if len(cells) > 1 else "")
            continue
        if len(cells) not in (3, 4) or cells[1] not in "<>" or not relation:
            raise ValueError(f"{path.name}, line {number}: expected 'name <tab> > or < <tab> names', got {line!r}")
        for other in cells[2].split("; "):
            head, tail = (cells[0], other) if cells[1] == ">" else (other, cells[0])
            place = cells[3] if len(cells) == 4 else check
            names = {"{head}": head, "{tail}": tail, "{Head}": capital(head), "{Tail}": capital(tail)}
            for slot, name in names.items():
                place = place.replace(slot, name)
            rows.append((head, relation, tail, place))
    return rows


def capital(text: str) -> str:
    """Return the text with a capital first letter and the rest as it is."""
    return text[:1].upper() + text[1:]


def _choose_held_out(rows: list[tuple[str, str, str, str]], prompted: set[str]) -> set[tuple[str, str, str]]:
    """Choose the facts that nothing states; each of their names stays known from at least one other fact."""
    mentions: dict[str, int] = defaultdict(int)
    groups: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for head, relation, tail, _ in rows:
        # only facts that are certain to be stated keep a name
        if relation in prompted:
            mentions[head] += 1
            mentions[tail] += 1
            groups[relation].append((head, relation, tail))
    selection: set[tuple[str, str, str]] = set()
    for relation in sorted(groups):
        held_out_count = round(HELD_OUT_SHARE * len(groups[relation]))
        for triple in sorted(groups[relation], key=lambda triple: order_key("held out", *triple)):
            if held_out_count and mentions[triple[0]] > 1 and mentions[triple[2]] > 1:
                selection.add(triple)
                mentions[triple[0]] -= 1
                mentions[triple[2]] -= 1
                held_out_count -= 1
    return selection


@cache
def load_world() -> World:
    """Read the whole sample world."""
    relations = read_input("lexicon/relations.yaml")
    lexicon = read_input("lexicon/entities.yaml")
    rows = read_triples(INPUTS / "facts" / "biomedical.tsv") + read_triples(INPUTS / "facts" / "commonsense.tsv")
    if len({row[:3] for row in rows}) != len(rows):
        duplicates = sorted({row[:3] for row in rows if sum(other[:3] == row[:3] for other in rows) > 1})
        raise ValueError(f"a fact is given twice: {duplicates[:3]}")
    prompted = {name for name, relation in relations.items() if "prompt" in relation}
    held_out = _choose_held_out(rows, prompted)
    facts = []
    for head, relation, tail, check in rows:
        hidden = (head, relation, tail) in held_out
        in_graph = not hidden and int(order_key("graph", head, relation, tail), 16) % 1000 >= 1000 * LEFT_OUT_OF_GRAPH
        is_stated = not hidden and (
            relation in prompted or int(order_key("told", head, relation, tail), 16) % 1000 < 1000 * STATED_SHARE
        )
        facts.append(Fact(relation, head, tail, relations[relation]["collection"], check, hidden, in_graph, is_stated))
    doubtful = {(head, relation, tail) for head, relation, tail, _ in read_triples(INPUTS / "facts" / "unsure.tsv")}
    return World(facts, relations, lexicon["aliases"], lexicon, doubtful)
