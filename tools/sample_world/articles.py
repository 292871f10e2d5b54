"""The articles: where and how each fact is stated, with the character offsets of every sentence.

Each fact of a prompted relation is stated four times in four wordings: in its prompt's wording in an article on its
head, in an article on its tail, together with another fact of its relation ("..., whereas ..."), and among
notes. The third way puts the answer to one question beside the answer to another, so that counting shared words does
not find the right one. Facts of other relations are stated once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tools.sample_world.facts import Fact, World, capital, order_key
from tools.sample_world.wording import fill, sentence, statement, type_phrase, wording_order

LONGEST = 12
"""Sentences in an article at most, the opening one included."""
OWN_PAGE = 6
"""An entity with this many sentences has its own page."""
SHORTEST = 5
"""Pages with fewer sentences are joined with those of other kinds."""
MIXED = "several things"
CONTRASTS = ("{}, whereas {}", "{}, while {}", "{}; by comparison, {}", "{}, and for its part {}")
PAIRS = ("{}; likewise, {}", "{}, and {}", "{}; besides, {}")


@dataclass(frozen=True)
class ArticleSentence:
    """One sentence and the facts that it states; `denies` is a false triple that it speaks against."""

    text: str
    facts: tuple[Fact, ...] = ()
    denies: tuple[str, str, str] | None = None


@dataclass
class Article:
    """A short text; sentences are joined by one space, so offsets follow from their lengths."""

    doc_id: str
    title: str
    sentences: list[ArticleSentence] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The sentences as running text."""
        return " ".join(entry.text for entry in self.sentences)

    def spans(self) -> list[tuple[int, int, ArticleSentence]]:
        """Start, end and content of every sentence."""
        spans, start = [], 0
        for entry in self.sentences:
            spans.append((start, start + len(entry.text), entry))
            start += len(entry.text) + 1
        return spans


def tell_once(world: World, fact: Fact, wording: int) -> ArticleSentence:
    """Tell the fact in one wording."""
    return ArticleSentence(sentence(statement(world, fact, wording)), (fact,))


def deny(world: World, head: str, relation: str, tail: str) -> ArticleSentence:
    """Tell that a near miss is not so."""
    text = fill(world, world.relations[relation]["denied"], head, tail, relation=relation)
    return ArticleSentence(sentence(text), (), (head, relation, tail))


def _pair_up(facts: list[Fact]) -> list[tuple[Fact, Fact | None]]:
    """Pair facts so that the two of a pair share neither head nor tail where that is possible."""
    waiting = list(facts)
    pairs: list[tuple[Fact, Fact | None]] = []
    while waiting:
        first = waiting.pop(0)
        index = next(
            (i for i, other in enumerate(waiting) if not {first.head, first.tail} & {other.head, other.tail}), None
        )
        pairs.append((first, None if index is None else waiting.pop(index)))
    return pairs


def _tell_pair(world: World, pair: tuple[Fact, Fact | None], use: int, joints: tuple[str, ...]) -> ArticleSentence:
    """State two facts in one sentence, each in its own next wording."""
    first, second = pair
    first_sentence = statement(world, first, wording_order(world, first)[use])
    if second is None:
        return ArticleSentence(sentence(first_sentence), (first,))
    other = statement(world, second, wording_order(world, second)[use])
    joint = joints[int(order_key("joint", *first.triple, use), 16) % len(joints)]
    return ArticleSentence(sentence(joint.format(first_sentence, other)), (first, second))


def _pages(title: str, opening: str, entries: list[ArticleSentence], *, numbered: bool = False) -> list[Article]:
    """Cut a list of sentences into articles of even length, each with its opening sentence."""
    count = -(-len(entries) // (LONGEST - 1))
    articles = []
    for number in range(count):
        share = entries[number * len(entries) // count : (number + 1) * len(entries) // count]
        name = title if count == 1 and not numbered else f"{title}, part {number + 1}"
        articles.append(Article("", name, [ArticleSentence(opening), *share]))
    return articles


def _entity_articles(world: World, sentences: dict[str, list[ArticleSentence]]) -> list[Article]:
    """Write a page for every entity with much to tell, and shared pages, by type, for the others."""
    articles: list[Article] = []
    shared: dict[str, list[tuple[str, list[ArticleSentence]]]] = defaultdict(list)
    for name in sorted(sentences, key=lambda name: (name.lower(), name)):
        entries = sorted(sentences[name], key=lambda entry: order_key("place", name, entry.text))
        if len(entries) < OWN_PAGE:
            shared[world.types[name]].append((name, entries))
            continue
        also = world.aliases.get(name)
        opening = f"this page is about {name}, {type_phrase(world, name)}"
        opening += f" that is also called {also[0]}" if also else ""
        articles += _pages(capital(name), sentence(opening), entries)
    for kind in [*sorted(shared), MIXED]:
        number = 0
        for batch in _packed(shared[kind]):
            if sum(len(entries) for _, entries in batch) < SHORTEST and kind != MIXED:
                shared[MIXED] += batch
                continue
            number += 1
            names = [name for name, _ in batch]
            listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
            opening = sentence(f"these short entries on {kind} deal with {listed}")
            entries = [entry for _, entries in batch for entry in entries]
            articles.append(Article("", f"Short entries: {kind} {number}", [ArticleSentence(opening), *entries]))
    return articles


def _packed(entries: list[tuple[str, list[ArticleSentence]]]) -> list[list[tuple[str, list[ArticleSentence]]]]:
    """Pack entries onto pages, the longest first, each on the first page that has room."""
    batches: list[list[tuple[str, list[ArticleSentence]]]] = []
    for entry in sorted(entries, key=lambda entry: (-len(entry[1]), order_key("shared", entry[0]))):
        fits = (batch for batch in batches if sum(len(other) for _, other in [*batch, entry]) < LONGEST)
        batch = next(fits, None)
        if batch is None:
            batches.append([entry])
        else:
            batch.append(entry)
    for batch in batches:
        # the last page may be left with a single sentence: fuller pages give it their shortest entries
        fullest = max(batches, key=_sentences)
        if _sentences(batch) < SHORTEST <= _sentences(fullest) - 1:
            batch.append(fullest.pop())
    return batches


def _sentences(batch: list[tuple[str, list[ArticleSentence]]]) -> int:
    return sum(len(entries) for _, entries in batch)


def write_articles(world: World, facts: list[Fact], near_misses: list[tuple[str, str, str]]) -> list[Article]:
    """Write the articles that tell the given facts.

    Parameters
    ----------
    world
        the facts and the lexicon
    facts
        the facts to tell, held-out ones excluded
    near_misses
        false triples; each is denied in one sentence on the page of its tail
    """
    on_page: dict[str, list[ArticleSentence]] = defaultdict(list)
    by_relation: dict[str, list[Fact]] = defaultdict(list)
    prompted = set(world.prompted())
    for fact in facts:
        order = wording_order(world, fact)
        if fact.relation not in prompted:
            on_page[fact.head].append(
                tell_once(world, fact, order[int(order_key("once", *fact.triple), 16) % len(order)])
            )
            continue
        on_page[fact.head].append(tell_once(world, fact, order[0]))
        on_page[fact.tail].append(tell_once(world, fact, order[1]))
        by_relation[fact.relation].append(fact)
    for head, relation, tail in near_misses:
        on_page[tail].append(deny(world, head, relation, tail))
    articles = _entity_articles(world, on_page)
    everything: list[Fact] = []
    for relation, group in by_relation.items():
        group = sorted(group, key=lambda fact: order_key("survey", *fact.triple))
        entries = [_tell_pair(world, pair, 2, CONTRASTS) for pair in _pair_up(group)]
        entry = world.relations[relation]
        title = f"Side by side: {entry['head_type']} and {entry['tail_type']}"
        opening = sentence(f"this survey sets cases of {entry['head_type']} and {entry['tail_type']} side by side")
        articles += _pages(title if entry["collection"] == "biomedical" else f"{title} ({relation})", opening, entries)
        everything += group
    for collection, place in (("biomedical", "ward"), ("commonsense", "household")):
        group = sorted(
            (f for f in everything if f.collection == collection), key=lambda f: order_key("notes", *f.triple)
        )
        entries = [_tell_pair(world, pair, 3, PAIRS) for pair in _pair_up(group)]
        articles += _pages(
            f"Notes from the {place}", f"This page of the {place} diary keeps mixed notes.", entries, numbered=True
        )
    for number, article in enumerate(articles, 1):
        article.doc_id = f"sample-{number:04d}"
    return articles


def sentences_of(articles: list[Article]) -> dict[tuple[str, str, str], list[dict[str, object]]]:
    """For every stated triple, the sentences that state it, as gold evidence rows."""
    sentences: dict[tuple[str, str, str], list[dict[str, object]]] = defaultdict(list)
    for article in articles:
        for start, end, entry in article.spans():
            for fact in entry.facts:
                sentences[fact.triple].append(
                    {
                        "kind": "sentence",
                        "source": article.doc_id,
                        "locator": f"{start}:{end}",
                        "text": entry.text,
                        "fact": list(fact.triple),
                    }
                )
    return sentences
