"""Chains of one to three facts: the question they ask, its answers and its wrong options.

A chain starts at a known name and takes steps; a step follows a relation from head to tail (forward) or back. The last
step is the one asked about; the earlier ones only describe where it starts ("a medicine prescribed for gout").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from tools.sample_world.facts import Fact, World, order_key
from tools.sample_world.wording import ask, describe

Triple = tuple[str, str, str]


@dataclass(frozen=True)
class Step:
    """Follow a relation: from head to tail where forward, else from tail to head."""

    relation: str
    forward: bool


@dataclass(frozen=True)
class Chain:
    """A known name and the steps that lead from it to the answers."""

    start: str
    steps: tuple[Step, ...]


class KnownFacts:
    """The facts that a source states (a corpus, a graph), indexed for following chains."""

    def __init__(self, world: World, facts: Iterable[Fact]) -> None:
        self.world = world
        self.facts = list(facts)
        self._joined = {frozenset((fact.head, fact.tail)) for fact in self.facts}
        self._next: dict[tuple[str, str, bool], list[tuple[str, Triple]]] = defaultdict(list)
        for fact in self.facts:
            self._next[fact.head, fact.relation, True].append((fact.tail, fact.triple))
            self._next[fact.tail, fact.relation, False].append((fact.head, fact.triple))
            if world.relations[fact.relation].get("symmetric"):
                self._next[fact.tail, fact.relation, True].append((fact.head, fact.triple))
                self._next[fact.head, fact.relation, False].append((fact.tail, fact.triple))

    def follow(self, chain: Chain) -> dict[str, list[list[Triple]]]:
        """Return every answer of the chain with the paths that lead to it; no path meets a name twice."""
        fronts: list[tuple[str, list[Triple], tuple[str, ...]]] = [(chain.start, [], (chain.start,))]
        for step in chain.steps:
            fronts = [
                (name, [*path, triple], (*visited, name))
                for at, path, visited in fronts
                for name, triple in self._next[at, step.relation, step.forward]
                if name not in visited
            ]
        answers: dict[str, list[list[Triple]]] = defaultdict(list)
        for name, path, _ in fronts:
            if path not in answers[name]:
                answers[name].append(path)
        return dict(answers)

    @cached_property
    def truth(self) -> KnownFacts:
        """All that is or may be true, stated or not."""
        return KnownFacts(self.world, self.world.possible)

    def are_connected(self, name: str, other: str) -> bool:
        """Say whether any fact joins the two names, whatever its relation."""
        return frozenset((name, other)) in self._joined

    def before_last(self, chain: Chain) -> list[str]:
        """Return the names from which the last step is taken."""
        if len(chain.steps) == 1:
            return [chain.start]
        return sorted(self.follow(Chain(chain.start, chain.steps[:-1])))


def describe_chain(world: World, chain: Chain) -> str:
    """Name the answer of the chain by its start: "a medicine prescribed for the illness suggested by tophi"."""
    text = chain.start
    for step in chain.steps:
        text = describe(world, step.relation, text, forward=step.forward)
    return text


def question_text(world: World, chain: Chain, *, negated: bool = False) -> str:
    """Ask for the answer of the chain, or for the one option that is no answer."""
    step = chain.steps[-1]
    known_part = describe_chain(world, Chain(chain.start, chain.steps[:-1]))
    form = f"{'not' if negated else 'ask'}_{'tail' if step.forward else 'head'}"
    names = {"head": known_part} if step.forward else {"tail": known_part}
    return ask(world, step.relation, form, **names, pick=known_part + step.relation)


def wrong_options(known_facts: KnownFacts, chain: Chain, gold: Iterable[str], count: int) -> list[str]:
    """Choose wrong options that look right: named beside the start, of the gold one's shape, or of its neighbourhood.

    Every candidate fills the same slot of the last relation elsewhere, and is true, doubtful or nearly true of none of
    the names from which the last step is taken, held-out facts included.
    """
    world, step = known_facts.world, chain.steps[-1]
    # an end that nearly everything could be joined to leaves no option that is surely wrong
    if world.too_general(chain.start, chain.steps[0].relation):
        return []
    # what a held-out or doubtful fact may make true must not be a wrong option, though nothing states it
    sources = known_facts.truth.before_last(chain)
    gold = list(gold)
    excluded = {chain.start, *gold, *sources}
    slot = sorted(
        {fact.tail if step.forward else fact.head for fact in known_facts.facts if fact.relation == step.relation}
    )
    if world.relations[step.relation].get("symmetric"):
        slot = sorted(
            {name for fact in known_facts.facts if fact.relation == step.relation for name in (fact.head, fact.tail)}
        )
    if not step.forward and step.relation == "may_treat":
        # a medicine that brings the illness about or must not be given in it is the most tempting wrong remedy
        slot = sorted({*slot, *(fact.head for fact in known_facts.facts if world.types[fact.head] == "drug")})
    slot = world.lexicon["safe_wrong"].get(step.relation, slot)
    kinds = {world.types[name] for name in gold}
    candidates = []
    for name in slot:
        triples = [
            (source, step.relation, name) if step.forward else (name, step.relation, source) for source in sources
        ]
        if (
            name in excluded
            or world.too_general(name, step.relation)
            or any(world.may_hold(*triple) for triple in triples)
        ):
            continue
        if step.relation == "may_treat" and not step.forward and not world.tails(name, "may_treat"):
            continue
        neighbour_count = sum(known_facts.are_connected(name, source) for source in [chain.start, *sources])
        alike = max((SequenceMatcher(None, name, right).ratio() for right in gold), default=0.0)
        same_kind = world.types[name] in kinds
        candidates.append((-(2 * neighbour_count + alike + same_kind), order_key("wrong", chain, name), name))
    # the most tempting ones first, yet not always the same: half of the places go to chance
    candidates.sort()
    tempting = [name for _, _, name in candidates[: (count + 1) // 2]]
    others = sorted((key, name) for _, key, name in candidates[(count + 1) // 2 :])
    return [*tempting, *(name for _, name in others)][:count]
