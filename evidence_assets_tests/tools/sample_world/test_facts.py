"""The facts of the sample world, and that their tellings suit a small masked language model."""

from __future__ import annotations

from tools.sample_world.chains import Chain, KnownFacts, Step, wrong_options
from tools.sample_world.facts import load_world

WORLD = load_world()
STATED_FACTS = [fact for fact in WORLD.facts if fact.is_stated]


def test_a_wrong_option_is_never_a_fact_held_out_or_doubtful() -> None:
    known_facts = KnownFacts(WORLD, STATED_FACTS)
    for relation in WORLD.prompted():
        tails = sorted({fact.tail for fact in WORLD.by_relation[relation]})
        for tail in tails:
            for wrong in wrong_options(known_facts, Chain(tail, (Step(relation, False),)), [], 4):
                assert not WORLD.has(wrong, relation, tail)
                assert (wrong, relation, tail) not in WORLD.doubtful
