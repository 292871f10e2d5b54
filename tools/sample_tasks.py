"""Tasks for language models from the sample's questions, the same on every call: thirty of each prompted task.

The evidence of a text question is up to three sentences that state its answer and three of the next question, mixed.
That of a table question is the whole table. Sentences are reworded; facts are judged, every second one with the
head of another.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

import evidence_assets
from evidence_assets import systems
from evidence_assets.benchmarks.knowledge_bases import read_knowledge_base
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning import published_prompts as _published  # noqa: F401  registers its tasks
from evidence_assets.reasoning import short_choices as _choices  # noqa: F401  registers its task
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_answers import ShortFact, ShortTask
from evidence_assets.reasoning.tasks import Chain, ChainStep, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.reasoning.written_answers import RowCheck
from evidence_assets.reasoning.yes_no_answers import ORDERS, RowQuestion
from evidence_assets.systems.background.recall import NamesTask, TriplesTask
from evidence_assets.systems.four_step_focus.grading import NodeCard
from evidence_assets.systems.four_step_focus.triplets import Schema

SAMPLE = Path(evidence_assets.__file__).parent / "sample" / "full"
TASKS = 30
SENTENCES = 3

for _module in pkgutil.walk_packages(systems.__path__, "evidence_assets.systems."):
    importlib.import_module(_module.name)  # registers its tasks


@cache
def read_rows(path: str) -> tuple[dict[str, Any], ...]:
    """The records of a file of the sample."""
    return tuple(pl.read_ndjson(SAMPLE / path, infer_schema_length=None).iter_rows(named=True))


def to_question(row: dict[str, Any], *, with_options: bool = True) -> Question:
    """A question of a sample's benchmark."""
    options = tuple(row["options"]) if with_options else ()
    task = row["task"] if with_options else "kgqa"
    return Question(row["source_id"], "sample", task, row["text"], options, negated=row["negated"])


def gold_label(row: dict[str, Any]) -> str:
    """The label of the right option."""
    label: str = to_question(row).labels[row["gold"][0]]
    return label


@cache
def text_rows() -> tuple[dict[str, Any], ...]:
    """Questions on text that have an answer, and one more."""
    return tuple(row for row in read_rows("benchmarks/sample_mcqa.jsonl") if row["gold"])[: TASKS + 1]


@cache
def mixed_sentences(number: int) -> tuple[EvidenceItem, ...]:
    """Sentences that state the answer of a question on text, and as many of the next one."""
    rows = text_rows()
    items_by_id: dict[str, EvidenceItem] = {}
    for row in (rows[number], rows[number + 1]):
        for gold in row["gold_evidence"][:SENTENCES]:
            item = EvidenceItem(content_id(gold["text"]), "chunk", gold["source"], gold["locator"], gold["text"])
            items_by_id.setdefault(item.evidence_id, item)
    items = list(items_by_id.values())
    random.Random(number).shuffle(items)
    return tuple(items)


@cache
def table_cells(table_id: str) -> tuple[EvidenceItem, ...]:
    """The cells of a table; row 0 has its heads."""
    [table] = [row for row in read_rows("tables/tables.jsonl") if row["table_id"] == table_id]
    return tuple(
        EvidenceItem(f"r{line}c{column}", "cell", table_id, f"r{line}c{column}", cell)
        for line, cells in enumerate([table["header"], *table["rows"]])
        for column, cell in enumerate(cells)
    )


def table_rows() -> list[dict[str, Any]]:
    """Claims and table questions in turn."""
    pairs = zip(read_rows("benchmarks/sample_claims.jsonl"), read_rows("benchmarks/sample_tables.jsonl"), strict=True)
    return [row for pair in pairs for row in pair][:TASKS]


def text_explanations() -> Iterator[ExplainOption]:
    """Of the right option, or of the first, in turn."""
    for number, row in enumerate(text_rows()[:TASKS]):
        question = to_question(row)
        label = gold_label(row) if number % 2 else question.labels[0]
        yield ExplainOption(question, label, mixed_sentences(number))


def table_explanations() -> Iterator[ExplainOption]:
    """Of the right label or option, or of the first, in turn; each for a claim and a question."""
    for number, row in enumerate(table_rows()):
        question = to_question(row)
        label = gold_label(row) if number % 4 > 1 else question.labels[0]
        yield ExplainOption(question, label, table_cells(row["table_id"]))


def alternate(first: Iterator[Any], second: Iterator[Any]) -> list[Any]:
    """The even ones of the first tasks and the odd ones of the second."""
    return [(one, other)[number % 2] for number, (one, other) in enumerate(zip(first, second, strict=True))]


def stated_chain(label: str, items: Sequence[EvidenceItem]) -> Chain:
    """A chain that cites one sentence."""
    return Chain(label, (ChainStep(items[0].text, (items[0].evidence_id,)),))


def text_choices(*, with_chains: bool) -> Iterator[ChooseAnswer]:
    """With the evidence of all options, and a chain that states a sentence for each, if they are to have some."""
    for number, row in enumerate(text_rows()[:TASKS]):
        question, items = to_question(row), mixed_sentences(number)
        rotated = [items[shift % len(items) :] for shift in range(len(question.labels))]
        chains = [stated_chain(label, rest) for label, rest in zip(question.labels, rotated, strict=True)]
        yield ChooseAnswer(question, tuple(chains) if with_chains else (), dict.fromkeys(question.labels, items))


def closed_choices() -> Iterator[ChooseAnswer]:
    return (ChooseAnswer(to_question(row), ()) for row in text_rows()[:TASKS])


def table_choices() -> Iterator[ChooseAnswer]:
    for row in table_rows():
        question = to_question(row)
        yield ChooseAnswer(question, (), dict.fromkeys(question.labels, table_cells(row["table_id"])))


@cache
def graph_rows() -> tuple[dict[str, Any], ...]:
    """Questions on the graph that have an answer, and one more."""
    return tuple(row for row in read_rows("benchmarks/sample_kgqa.jsonl") if row["gold_evidence"])[: TASKS + 1]


def graph_facts(number: int) -> Iterator[ShortFact]:
    """The triples of a question on the graph and of the next one."""
    rows = graph_rows()[number : number + 2]
    triples = dict.fromkeys(
        tuple(triple) for row in rows for gold in row["gold_evidence"] for triple in gold["locator"]
    )
    for head, relation, tail in triples:
        words = " ".join(relation.replace("_", " ").split())
        yield ShortFact(content_id(head, relation, tail), head, relation, tail, f"{head} {words} {tail}")


def short_tasks() -> list[ShortTask]:
    """On triples and on sentences in turn."""
    rows = graph_rows()[:TASKS]
    of_graph = (ShortTask(to_question(row), tuple(graph_facts(number))) for number, row in enumerate(rows))
    return alternate(of_graph, written_tasks())


def written_tasks() -> Iterator[ShortTask]:
    for number, row in enumerate(text_rows()[:TASKS]):
        yield ShortTask(to_question(row, with_options=False), (), mixed_sentences(number))


def row_checks() -> Iterator[RowCheck]:
    """A question on text with sentences of its own or of other questions."""
    for number, row in enumerate(text_rows()[:TASKS]):
        yield RowCheck(row["text"], mixed_sentences(number - number % 2)[:SENTENCES])


def yes_no_tasks() -> Iterator[RowQuestion]:
    """Whether the right option, or the first one, answers a question on text, to a sentence; orders in turn."""
    for number, row in enumerate(text_rows()[:TASKS]):
        option = row["options"][row["gold"][0] if number % 2 else 0]
        text = f"Is {option} the answer to this: {row['text']}"
        yield RowQuestion(text, mixed_sentences(number)[0], ORDERS[number // 2 % len(ORDERS)])


def name_tasks() -> Iterator[NamesTask]:
    for number, row in enumerate(graph_rows()[:TASKS]):
        yield NamesTask(row["text"], "relations" if number % 2 else "entities")


def triple_tasks() -> Iterator[TriplesTask]:
    for row in graph_rows()[:TASKS]:
        relations = tuple(relation for _, relation, _ in row["gold_evidence"][0]["locator"])
        yield TriplesTask(row["text"], tuple(row["topic_entities"]), relations)


def node_cards() -> Iterator[tuple[str, NodeCard]]:
    """A right node and the node after it, in turn."""
    base = read_knowledge_base(SAMPLE / "skb" / "sample")
    nodes = list(base.nodes.iter_rows(named=True))
    places = {node["node_id"]: place for place, node in enumerate(nodes)}
    names = {node["node_id"]: node["name"] for node in nodes}
    for number, row in enumerate(read_rows("benchmarks/sample_skb.jsonl")[:TASKS]):
        node = nodes[(places[row["gold"][0]] + number % 2) % len(nodes)]
        edges = base.edges.filter((pl.col("head_id") == node["node_id"]) | (pl.col("tail_id") == node["node_id"]))
        relations = tuple((names[head], relation, names[tail]) for head, relation, tail in edges.iter_rows())
        yield row["text"], NodeCard(node["name"], node["type"], node["document"], relations)


def searches() -> Iterator[tuple[str, Schema]]:
    base = read_knowledge_base(SAMPLE / "skb" / "sample")
    node_types = tuple(base.nodes["type"].unique().sort())
    schema = Schema(node_types, tuple(base.edges["relation"].unique().sort()))
    return ((row["text"], schema) for row in read_rows("benchmarks/sample_skb.jsonl")[:TASKS])


def statements() -> list[str]:
    return [row["gold_evidence"][0]["text"] for row in text_rows()[:TASKS]]


def judged_statements() -> Iterator[str]:
    """A stated fact, or one with the head of the next fact, in turn."""
    facts = [row["gold_evidence"][0]["fact"] for row in text_rows()]
    for number, (_, relation, tail) in enumerate(facts[:TASKS]):
        head = facts[number + number % 2][0]
        yield f"{head} {relation.replace('_', ' ')} {tail}"


BUILDERS: dict[str, Callable[[], Iterable[Any]]] = {
    "explain": lambda: alternate(text_explanations(), table_explanations()),
    "published_chain": text_explanations,
    "published_case": table_explanations,
    "choose": lambda: alternate(text_choices(with_chains=False), table_choices()),
    "choose_letter": lambda: alternate(closed_choices(), text_choices(with_chains=False)),
    "published_choice": lambda: text_choices(with_chains=True),
    "published_answer": lambda: text_choices(with_chains=False),
    "published_question": closed_choices,
    "published_verdict": table_choices,
    "published_verdict_several": table_choices,
    "short_answer": short_tasks,
    "written": written_tasks,
    "check_written": row_checks,
    "yes_no": yes_no_tasks,
    "recall_names": name_tasks,
    "recall_triples": triple_tasks,
    "grade": node_cards,
    "triplets": searches,
    "judge": judged_statements,
    "reword": statements,
}
"""The inputs of each prompted task."""


def build_tasks(name: str) -> list[Any]:
    """Thirty inputs of a prompted task."""
    return list(BUILDERS[name]())
