"""The semi-structured knowledge base: typed nodes with documents, typed edges, and conjunctive questions.

The nodes are the names that hang together most densely in the biomedical facts. Each edge is stated in the
document of one of its ends only, so that a node's document holds about half of what its edges say of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tools.sample_world.chains import Chain, KnownFacts, Step, describe_chain
from tools.sample_world.facts import FAMILY, Fact, World, order_key
from tools.sample_world.questions import Question, finish, new_question
from tools.sample_world.wording import sentence, statement, type_phrase, wording_order

Edge = tuple[str, str, str]


@dataclass(frozen=True)
class KnowledgeBase:
    """Nodes in the order of their ids, the facts among them, and the id of each name."""

    nodes: list[dict[str, Any]]
    facts: list[Fact]
    ids: dict[str, str]

    @property
    def edges(self) -> list[Edge]:
        """Head id, edge type and tail id of every fact."""
        return [(self.ids[fact.head], fact.relation, self.ids[fact.tail]) for fact in self.facts]


def build(world: World, size: int) -> KnowledgeBase:
    """Build the knowledge base of the names that hang together most densely."""
    links = [fact for fact in world.facts if fact.collection == "biomedical" and not fact.held_out]
    names = _densest(links, size)
    ids = {name: f"n{number:04d}" for number, name in enumerate(names)}
    inside = sorted(fact for fact in links if fact.head in ids and fact.tail in ids)
    node_sentences: dict[str, list[str]] = {name: [] for name in names}
    for fact in inside:
        # each fact is stated in the document of one of its ends, in a wording that the questions do not use
        home = fact.head if int(order_key("home", *fact.triple), 16) % 2 else fact.tail
        order = wording_order(world, fact)
        node_sentences[home].append(sentence(statement(world, fact, order[1 % len(order)])))
    nodes = []
    for name in names:
        sentences = sorted(node_sentences[name], key=lambda text: order_key("document", name, text))
        document = " ".join([sentence(f"{name} is {type_phrase(world, name)}"), *sentences])
        nodes.append(
            {
                "node_id": ids[name],
                "type": world.types[name],
                "name": name,
                "aliases": world.aliases.get(name, []),
                "document": document,
            }
        )
    return KnowledgeBase(nodes, inside, ids)


def _densest(links: list[Fact], size: int) -> list[str]:
    """Take away the name with the fewest facts among those left, until so many are left."""
    links = list(links)
    while True:
        degree = Counter(name for fact in links for name in (fact.head, fact.tail))
        if len(degree) <= size:
            return sorted(degree)
        removed_names = set(
            sorted(degree, key=lambda name: (degree[name], order_key("node", name)))[: -(-(len(degree) - size) // 4)]
        )
        links = [fact for fact in links if not removed_names & {fact.head, fact.tail}]


def make_questions(world: World, base: KnowledgeBase, count: int) -> list[Question]:
    """Make conjunctive questions: two or three conditions on one node, some of them over two edges."""
    known_facts = KnownFacts(world, base.facts)
    singles: dict[str, list[Chain]] = {name: [] for name in base.ids}
    for fact in base.facts:
        singles[fact.tail].append(Chain(fact.head, (Step(fact.relation, True),)))
        singles[fact.head].append(Chain(fact.tail, (Step(fact.relation, False),)))
    doubles: dict[str, list[Chain]] = {name: [] for name in base.ids}
    for middle, chains in singles.items():
        for last in (chain for name in base.ids for chain in singles[name] if chain.start == middle):
            if last.steps[0] == Step(FAMILY, False):
                continue  # "a medicine from the (description) group" is no English
            for chain in chains:
                joined = Chain(chain.start, (*chain.steps, *last.steps))
                for answer in known_facts.follow(joined):
                    if joined not in doubles[answer]:
                        doubles[answer].append(joined)
    questions: list[Question] = []
    uses: Counter[str] = Counter()
    shapes: Counter[tuple[str, ...]] = Counter()
    pairs: set[tuple[str, ...]] = set()
    for name in sorted(base.ids, key=lambda name: order_key("skb", name)):
        for conditions in _candidates(name, singles[name], doubles[name]):
            # answers have the type that the question asks for
            answers = [
                {other for other in known_facts.follow(chain) if world.types[other] == world.types[name]}
                for chain in conditions
            ]
            right = set.intersection(*answers)
            shape = tuple(sorted(chain.steps[-1].relation for chain in conditions))
            # every condition has to matter: without it there would be more answers
            all_needed = all(
                len(set.intersection(*answers[:i], *answers[i + 1 :])) > len(right) for i in range(len(answers))
            )
            if name not in right or len(right) > 6 or not all_needed or uses[name] or len(conditions) < 2:
                continue
            phrases = [describe_chain(world, chain) for chain in conditions]
            text = f"Which {world.types[name]} is at once {', '.join(phrases[:-1])} and {phrases[-1]}?"
            key = tuple(sorted(phrases))
            if key in pairs or shapes[shape] > max(2, count // 8):
                continue
            pairs.add(key)
            uses[name] += 1
            shapes[shape] += 1
            paths = [
                path for chain in conditions for other in sorted(right) for path in known_facts.follow(chain)[other][:1]
            ]
            questions.append(
                new_question(
                    "sample_skb-000",
                    "skb_search",
                    text,
                    gold=sorted(base.ids[other] for other in right),
                    topic_entities=[chain.start for chain in conditions],
                    gold_evidence=[_row(base, path) for path in paths],
                )
            )
            break
        if len(questions) == count:
            break
    if len(questions) < count:
        raise ValueError(f"the knowledge base yields only {len(questions)} of {count} questions")
    return finish(questions)


def _candidates(name: str, singles: list[Chain], doubles: list[Chain]) -> list[tuple[Chain, ...]]:
    """Conditions on a name, two or three of them, those over two edges among the first."""
    ones = sorted(singles, key=lambda chain: order_key("one", name, chain))[:6]
    twos = [c for c in sorted(doubles, key=lambda chain: order_key("two", name, chain)) if c.start != name][:6]
    mixed = [(a, b) for a in ones for b in twos if a.start != b.start]
    plain = list(combinations(ones, 2))
    triple = list(combinations(ones, 3))
    kinds: list[list[tuple[Chain, ...]]] = [list(mixed), list(plain), list(triple)]
    first = int(order_key("first", name), 16) % 3
    return [conditions for turn in range(3) for conditions in kinds[(first + turn) % 3][:24]]


def _row(base: KnowledgeBase, path: list[Edge]) -> dict[str, Any]:
    edges = [[base.ids[head], relation, base.ids[tail]] for head, relation, tail in path]
    return {"kind": "path", "source": "skb", "locator": edges, "text": "; ".join(" ".join(edge) for edge in path)}
