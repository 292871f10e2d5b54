"""Questions on texts and graphs: multiple choice (one hop, chained, negated, two right, unanswerable), short answers.

Every question carries its gold evidence: sentences for the ones on texts, paths for the ones on the graph. Evidence
rows with the same `fact` are alternatives; one row of each fact is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

from tools.sample_world.chains import Chain, KnownFacts, Step, Triple, describe_chain, question_text, wrong_options
from tools.sample_world.facts import World, capital, order_key, read_input

Question = dict[str, Any]

Evidence = Callable[[Iterable[Triple]], list[dict[str, Any]]]


@cache
def load_chains() -> dict[str, list[tuple[Step, ...]]]:
    """The chains that questions follow, by field: "may_treat <" is a step from tail to head."""
    chains: dict[str, list[tuple[Step, ...]]] = {}
    for field, lines in read_input("questions.yaml")["chains"].items():
        words_by_line = [line.split() for line in lines]
        chains[field] = [tuple(map(Step, words[::2], (mark == ">" for mark in words[1::2]))) for words in words_by_line]
    return chains


def new_question(source_id: str, task: str, text: str, **fields: Any) -> Question:
    """A question with default values for all other fields, in the order of the file."""
    return {
        "source_id": source_id,
        "split": "",
        "task": task,
        "text": text,
        "options": [],
        "gold": None,
        "table_id": None,
        "topic_entities": [],
        "gold_evidence": [],
        "answerable": True,
        "negated": False,
        **fields,
    }


class QuestionMaker:
    """Makes questions from the facts of one source, each topic and answer used sparingly.

    Parameters
    ----------
    known
        the facts that the source states
    hidden
        the held-out facts: true, but stated nowhere
    evidence
        turns the triples that a question needs into gold evidence rows
    """

    def __init__(self, known_facts: KnownFacts, hidden: KnownFacts, evidence: Evidence, benchmark: str) -> None:
        self.known_facts, self.hidden, self.evidence, self.benchmark = known_facts, hidden, evidence, benchmark
        self.world: World = known_facts.world
        self.questions: list[Question] = []
        self.near_misses: list[Triple] = []
        self._used: Counter[str] = Counter()
        self._texts: set[str] = set()

    def _starts(self, steps: Sequence[Step], source: KnownFacts) -> list[Chain]:
        first = steps[0]
        symmetric = bool(self.world.relations[first.relation].get("symmetric"))
        names: set[str] = set()
        for fact in source.facts:
            if fact.relation == first.relation:
                names |= {fact.head, fact.tail} if symmetric else {fact.head if first.forward else fact.tail}
        chains = [Chain(name, tuple(steps)) for name in names]
        return sorted(chains, key=lambda chain: order_key(self.benchmark, chain))

    def _add(self, text: str, task: str, **fields: Any) -> bool:
        if text in self._texts:
            return False
        self._texts.add(text)
        number = len(self.questions) + 1
        self.questions.append(new_question(f"{self.benchmark}-{number:03d}", task, text, **fields))
        return True

    def _offer(self, text: str, chain: Chain, true: list[str], n_wrong: int) -> tuple[list[str], list[str]]:
        """Options in random order, true and wrong ones, and the wrong ones alone; none where they do not suffice."""
        wrong = wrong_options(self.known_facts, chain, true, n_wrong)
        # a name of the question among the options would give it away or away from it
        if len(wrong) < n_wrong or any(option.lower() in text.lower() for option in (*true, *wrong)):
            return [], []
        return sorted([*true, *wrong], key=lambda option: order_key("options", text, option)), wrong

    def choice(self, steps: Sequence[Step], *, right: int = 1, reuse: int = 1) -> bool:
        """Add one question whose options hold so many right answers and three (or two) wrong ones."""
        for chain in self._starts(steps, self.known_facts):
            answers = self.known_facts.follow(chain)
            usable = [name for name in sorted(answers) if self._used[name] < reuse and name != chain.start]
            if len(usable) < right or self._used[chain.start] >= reuse:
                continue
            gold = sorted(usable, key=lambda name: order_key("gold", chain, name))[:right]
            text = question_text(self.world, chain)
            options, wrong_answers = self._offer(text, chain, gold, 4 - right)
            paths = [path for name in gold for path in answers[name][:1]]
            added = bool(options) and self._add(
                text,
                "mcqa",
                options=options,
                gold=[options.index(name) for name in gold],
                topic_entities=[chain.start],
                gold_evidence=self._rows(paths),
            )
            if added:
                self._used.update([chain.start, *gold])
                self._remember_miss(chain, wrong_answers)
                return True
        return False

    def _remember_miss(self, chain: Chain, wrong: list[str]) -> None:
        if len(chain.steps) > 1 or "denied" not in self.world.relations[chain.steps[0].relation]:
            return
        step = chain.steps[0]
        miss = wrong[-1]
        self.near_misses.append(
            (chain.start, step.relation, miss) if step.forward else (miss, step.relation, chain.start)
        )

    def odd_one_out(self, steps: Sequence[Step]) -> bool:
        """Add one question for the option that does not hold; the evidence is what shows that the others do."""
        for chain in self._starts(steps, self.known_facts):
            answers = self.known_facts.follow(chain)
            true = sorted(answers, key=lambda name: order_key("odd", chain, name))[:3]
            if len(true) < 3 or self._used[f"odd {chain.start}"]:
                continue
            text = question_text(self.world, chain, negated=True)
            options, odd = self._offer(text, chain, true, 1)
            added = bool(options) and self._add(
                text,
                "mcqa",
                options=options,
                gold=[options.index(odd[0])],
                topic_entities=[chain.start],
                negated=True,
                gold_evidence=self._rows([answers[name][0] for name in true]),
            )
            if added:
                self._used[f"odd {chain.start}"] += 1
                return True
        return False

    def unanswerable(self, step: Step) -> bool:
        """Add one question whose true answer is a held-out fact, so that no evidence can settle it."""
        for chain in self._starts([step], self.hidden):
            if self._used[f"hidden {chain.start}"] or self.known_facts.follow(chain):
                continue
            gold = sorted(self.hidden.follow(chain))[:1]
            text = question_text(self.world, chain)
            options, _ = self._offer(text, chain, gold, 3)
            if options and self._add(text, "mcqa", options=options, topic_entities=[chain.start], answerable=False):
                self._used[f"hidden {chain.start}"] += 1
                return True
        return False

    def short_answer(self, steps: Sequence[Step], *, most: int = 6, hidden: bool = False) -> bool:
        """Add one question without options; every right answer of the source is gold."""
        for chain in self._starts(steps, self.hidden if hidden else self.known_facts):
            answers = self.known_facts.follow(chain)
            if self._used[chain.start] or hidden == bool(answers) or len(answers) > most:
                continue
            text = f"Name {describe_chain(self.world, chain)}."
            gold = sorted(answers)
            aliases = [self.world.aliases.get(name, []) for name in gold]
            paths = [path for name in gold for path in answers[name]]
            added = self._add(
                text,
                "kgqa",
                gold=gold or None,
                aliases=aliases if any(aliases) else [],
                topic_entities=[chain.start],
                answerable=not hidden,
                gold_evidence=self._rows(paths),
            )
            if added:
                self._used[chain.start] += 1
                return True
        return False

    def _rows(self, paths: list[list[Triple]]) -> list[dict[str, Any]]:
        return [row for path in paths for row in self.evidence(path)]


def fact_evidence(path: Iterable[Triple]) -> list[dict[str, Any]]:
    """Return one row for each fact of the path, to be replaced by the sentences that state it once they are written."""
    return [{"fact": triple} for triple in path]


def path_evidence(path: Iterable[Triple]) -> list[dict[str, Any]]:
    """Return the gold evidence row of a path in a graph."""
    triples = [list(triple) for triple in path]
    return [{"kind": "path", "source": "graph", "locator": triples, "text": "; ".join(" ".join(t) for t in triples)}]


def _round_robin(count: int, makers: Sequence[Callable[[], bool]], what: str) -> None:
    """Call the makers in turn until so many questions are made; a maker that can make no more is left out."""
    alive = list(makers)
    finished_count = 0
    while finished_count < count and alive:
        for maker in list(alive):
            if finished_count == count:
                break
            if maker():
                finished_count += 1
            else:
                alive.remove(maker)
    if finished_count < count:
        raise ValueError(f"the facts yield only {finished_count} of {count} questions of the kind: {what}")


def _single(
    world: World, maker: Callable[[Step], bool], form: str, collections: Sequence[str]
) -> list[Callable[[], bool]]:
    makers: list[Callable[[], bool]] = []
    for name in world.prompted():
        relation = world.relations[name]
        for forward in (False, True):
            if relation["collection"] in collections and f"{form}_{'tail' if forward else 'head'}" in relation:
                makers.append(partial(maker, Step(name, forward)))
    return makers


def split_of(number: int, total: int) -> str:
    """Return the split of a question: the first half is for tuning, the second for reporting."""
    return "dev" if number < total / 2 else "test"


def finish(questions: list[Question]) -> list[Question]:
    """Order the questions at random, number them and give them their split."""
    ordered = sorted(questions, key=lambda question: order_key("order", question["text"]))
    for number, question in enumerate(ordered):
        name = question["source_id"].rsplit("-", 1)[0]
        question["source_id"] = f"{name}-{number + 1:03d}"
        question["split"] = split_of(number, len(ordered))
        question["text"] = capital(question["text"])
    return ordered


def make_mcqa(maker: QuestionMaker, counts: dict[str, int]) -> None:
    """Make the questions on texts: one hop, chained, odd one out, two right, unanswerable."""
    world, both = maker.world, ("biomedical", "commonsense")
    pairs = zip(load_chains()["medical"], load_chains()["common"], strict=False)  # the longer list's last are left out
    chains = [steps for pair in pairs for steps in pair]
    _round_robin(counts["chained"], [partial(maker.choice, steps, reuse=2) for steps in chains], "chained")
    _round_robin(counts["one_hop"], _single(world, lambda step: maker.choice([step], reuse=2), "ask", both), "one hop")
    _round_robin(counts["negated"], _single(world, lambda step: maker.odd_one_out([step]), "not", both), "odd one out")
    _round_robin(
        counts["two_right"], _single(world, lambda s: maker.choice([s], right=2, reuse=3), "ask", both), "two right"
    )
    _round_robin(counts["unanswerable"], _single(world, maker.unanswerable, "ask", both), "unanswerable")


def make_graph(maker: QuestionMaker, counts: dict[str, int]) -> None:
    """Make the medical questions on the graph: one to three hops, odd one out, two right, unanswerable."""
    world, medical = maker.world, ("biomedical",)
    for kind, chains in (("three_hop", load_chains()["long"]), ("two_hop", load_chains()["medical"])):
        makers = [partial(maker.choice, steps, reuse=3) for steps in chains]
        _round_robin(counts[kind], makers, kind)
    _round_robin(
        counts["one_hop"], _single(world, lambda step: maker.choice([step], reuse=2), "ask", medical), "one hop"
    )
    _round_robin(
        counts["negated"], _single(world, lambda step: maker.odd_one_out([step]), "not", medical), "odd one out"
    )
    two = [partial(maker.odd_one_out, steps) for steps in load_chains()["medical"] if _has_not(world, steps[-1])]
    _round_robin(counts["negated_two_hop"], two, "odd one out over two hops")
    _round_robin(
        counts["two_right"], _single(world, lambda s: maker.choice([s], right=2, reuse=4), "ask", medical), "two right"
    )
    _round_robin(counts["unanswerable"], _single(world, maker.unanswerable, "ask", medical), "unanswerable")


def _has_not(world: World, step: Step) -> bool:
    return f"not_{'tail' if step.forward else 'head'}" in world.relations[step.relation]


def make_kgqa(maker: QuestionMaker, counts: dict[str, int]) -> None:
    """Make the questions with short answers: one hop, two hops, unanswerable."""
    world = maker.world
    names = [name for name in world.relations if name not in ("is_a_category",)]
    singles = [partial(maker.short_answer, [Step(name, forward)]) for forward in (True, False) for name in names]
    doubles = [partial(maker.short_answer, steps) for field in ("medical", "common") for steps in load_chains()[field]]
    hidden = [partial(maker.short_answer, [Step(name, True)], hidden=True) for name in world.prompted()]
    _round_robin(counts["two_hop"], doubles, "short answer over two hops")
    _round_robin(counts["one_hop"], singles, "short answer")
    _round_robin(counts["unanswerable"], hidden, "unanswerable short answer")
