"""From names and templates to English: articles, plurals, sentences, and the phrases that questions are made of."""

from __future__ import annotations

from tools.sample_world.facts import Fact, World, capital, order_key

VOWELS = "aeiou"
DETERMINERS = ("a", "an", "the", "something", "what")
SOUNDS_LIKE_CONSONANT = ("unicycle", "uranium", "uni", "eu", "one", "u-")
SOUNDS_LIKE_VOWEL = ("HIV", "hour", "honest", "heir")


def with_article(world: World, name: str) -> str:
    """Return the name with "a", "an", "the" or nothing before it, as English wants it."""
    lexicon = world.lexicon
    if name in lexicon["the"]:
        return f"the {name}"
    if name in lexicon["bare"] or name in lexicon["plural"] or name.split()[0] in DETERMINERS:
        return name
    if name.startswith(SOUNDS_LIKE_VOWEL):
        return f"an {name}"
    if name.startswith(SOUNDS_LIKE_CONSONANT):
        return f"a {name}"
    return f"{'an' if name[0].lower() in VOWELS else 'a'} {name}"


def fill(world: World, template: str, head: str = "", tail: str = "", *, relation: str = "") -> str:
    """Put names into a template: {h}, {t} bare; {ah}, {at} with an article; {is}, {s} … agree with the head."""
    plural = head in world.lexicon["plural"]
    bare_tail = bool(relation) and bool(world.relations[relation].get("plain_tail")) and tail.endswith("s")
    slots = {
        "{h}": head,
        "{t}": tail,
        "{ah}": with_article(world, head) if head else "",
        "{at}": tail if bare_tail else (with_article(world, tail) if tail else ""),
        "{is}": "are" if plural else "is",
        "{has}": "have" if plural else "has",
        "{do}": "do" if plural else "does",
        "{go}": "go" if plural else "goes",
        "{s}": "" if plural else "s",
    }
    for slot, text in slots.items():
        template = template.replace(slot, text)
    return template


def statement(world: World, fact: Fact, wording: int) -> str:
    """Return the fact in one of its relation's wordings, without capital and full stop."""
    wordings = world.relations[fact.relation]["wordings"]
    return fill(world, wordings[wording % len(wordings)], fact.head, fact.tail, relation=fact.relation)


def wording_order(world: World, fact: Fact) -> list[int]:
    """Return the wordings of the fact in the order of their use: the prompt's own first, then the others shuffled."""
    count = len(world.relations[fact.relation]["wordings"])
    return [0, *sorted(range(1, count), key=lambda number: order_key("wording", *fact.triple, number))]


def sentence(text: str) -> str:
    """Return the text with a capital first letter and a full stop."""
    return capital(text) + "."


def ask(world: World, relation: str, form: str, head: str = "", tail: str = "", *, pick: str = "") -> str:
    """Return a question of the relation in the form ask_head, ask_tail, not_head or not_tail."""
    forms = world.relations[relation][form]
    return capital(fill(world, forms[int(order_key("ask", pick), 16) % len(forms)], head, tail, relation=relation))


def describe(world: World, relation: str, known_name: str, *, forward: bool) -> str:
    """Name the unknown end of a triple by the known one: its tail where forward, else its head."""
    relation_entry = world.relations[relation]
    if forward:
        return fill(world, relation_entry["desc_tail"], head=known_name, relation=relation)
    return fill(world, relation_entry["desc_head"], tail=known_name, relation=relation)


def type_phrase(world: World, name: str) -> str:
    """Return "a drug", "an ingredient" … for a name."""
    kind = world.types.get(name, "topic")
    return f"{'an' if kind[0] in VOWELS else 'a'} {kind}"
