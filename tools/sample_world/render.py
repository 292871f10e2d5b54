"""Write the raw inputs of the embedded default: articles, seeds, graphs, tables, benchmarks, a knowledge base.

The same facts always give the same bytes. ``evidence_assets/sample/README.md`` describes every file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import yaml

from tools.sample_world import skb
from tools.sample_world.articles import sentences_of, write_articles
from tools.sample_world.chains import KnownFacts
from tools.sample_world.facts import Fact, World, load_world, order_key, read_input
from tools.sample_world.questions import (
    Question,
    QuestionMaker,
    fact_evidence,
    finish,
    make_graph,
    make_kgqa,
    make_mcqa,
    path_evidence,
)
from tools.sample_world.table_questions import make_claims, make_table_questions
from tools.sample_world.tables import load_tables

Size = Literal["full", "small"]
SEED_PAIRS = 5

SMALL_CORES = ("tuberculosis", "gout", "epilepsy", "peptic ulcer", "bat", "camel", "hot")
"""The small world holds the facts near these names."""


def render(folder: Path, size: Size = "full") -> None:
    """Write the sample world into the folder; files of an earlier rendering are replaced.

    Parameters
    ----------
    folder
        created where it does not exist
    size
        ``full``, or ``small``: about two dozen articles and a handful of questions, for tests
    """
    world = load_world() if size == "full" else _small_world(load_world())
    counts = read_input("questions.yaml")["counts"][size]
    stated_facts = [fact for fact in world.facts if fact.is_stated]
    graph = [fact for fact in world.facts if fact.in_graph]
    hidden = [fact for fact in world.facts if fact.held_out]

    mcqa = QuestionMaker(KnownFacts(world, stated_facts), KnownFacts(world, hidden), fact_evidence, "sample_mcqa")
    make_mcqa(mcqa, counts["mcqa"])
    articles = write_articles(world, stated_facts, mcqa.near_misses)
    sentences = sentences_of(articles)
    for question in mcqa.questions:
        # until here the evidence names the facts; now it names the sentences that state them
        triples = dict.fromkeys(row["fact"] for row in question["gold_evidence"])
        question["gold_evidence"] = [row for triple in triples for row in sentences[triple]]
    _jsonl(folder, "corpus/sample/articles.jsonl", [_article_row(a.doc_id, a.title, a.text) for a in articles])
    _seeds(folder, world)
    for name in ("biomedical", "commonsense"):
        _lines(folder, f"graphs/{name}.tsv", ["\t".join(f.triple) for f in sorted(graph) if f.collection == name])
    _lines(folder, "held_out.tsv", ["\t".join(triple) for triple in sorted(fact.triple for fact in hidden)])
    _lines(folder, "stated.tsv", ["\t".join(fact.triple) for fact in sorted(stated_facts)])

    tables = load_tables() if size == "full" else [t for t in load_tables() if t.table_id == "planets"]
    _jsonl(folder, "tables/tables.jsonl", [_table_row(table) for table in tables])

    graph_facts, hidden_facts = KnownFacts(world, graph), KnownFacts(world, hidden)
    graph_maker = QuestionMaker(graph_facts, hidden_facts, path_evidence, "sample_graph")
    make_graph(graph_maker, counts["graph"])
    kgqa = QuestionMaker(graph_facts, hidden_facts, path_evidence, "sample_kgqa")
    make_kgqa(kgqa, counts["kgqa"])
    # conjunctive questions need a dense net: the small knowledge base is drawn from the whole world
    base = skb.build(load_world(), counts["other"]["nodes"])
    _jsonl(folder, "skb/sample/nodes.jsonl", base.nodes)
    _lines(folder, "skb/sample/edges.tsv", ["\t".join(edge) for edge in sorted(base.edges)])

    benchmarks: dict[str, list[Question]] = {
        "sample_mcqa": finish(mcqa.questions),
        "sample_claims": make_claims(tables, counts["other"]["claims"]),
        "sample_tables": make_table_questions(tables, counts["other"]["tables"]),
        "sample_graph": finish(graph_maker.questions),
        "sample_kgqa": finish(kgqa.questions),
        "sample_skb": skb.make_questions(load_world(), base, counts["other"]["skb"]),
    }
    for name, questions in benchmarks.items():
        _jsonl(folder, f"benchmarks/{name}.jsonl", questions)


def _small_world(world: World) -> World:
    """State only the facts about a few names and their neighbours; the others stay true but unstated."""
    near = set(SMALL_CORES)
    ring = [fact for fact in world.facts if near & {fact.head, fact.tail}]
    near |= {name for fact in ring for name in (fact.head, fact.tail)}
    facts = [
        fact if fact.head in near else replace(fact, is_stated=False, in_graph=False, held_out=False)
        for fact in world.facts
    ]
    return World(facts, world.relations, world.aliases, world.lexicon, world.doubtful)


def _seeds(folder: Path, world: World) -> None:
    """Write one seed file for each prompted relation that has more facts than seed pairs."""
    for relation in world.prompted():
        facts = [fact for fact in world.by_relation[relation] if fact.is_stated]
        if len(facts) <= SEED_PAIRS:
            continue
        entry = world.relations[relation]
        seeds: list[Fact] = []
        for fact in sorted(facts, key=lambda fact: order_key("seed", *fact.triple)):
            # five pairs that share no name say more about a relation than five about one thing
            if len(seeds) < SEED_PAIRS and not {fact.head, fact.tail} & {n for s in seeds for n in (s.head, s.tail)}:
                seeds.append(fact)
        content: dict[str, Any] = {
            "id": relation,
            "collection": entry["collection"],
            "prompt": entry["prompt"],
            "pairs": [[fact.head, fact.tail] for fact in seeds],
            "template": entry["template"].replace("{head}", "<HEAD>").replace("{tail}", "<TAIL>"),
        }
        content |= {key: entry[key] for key in ("symmetric", "functional", "inverse") if key in entry}
        path = _path(folder, f"seeds/{relation}.yaml")
        path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _article_row(doc_id: str, title: str, text: str) -> dict[str, str]:
    return {"doc_id": doc_id, "title": title, "text": text}


def _table_row(table: Any) -> dict[str, Any]:
    rows = [list(row) for row in table.rows]
    return {"table_id": table.table_id, "caption": table.caption, "header": list(table.header), "rows": rows}


def _path(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _lines(folder: Path, name: str, lines: Iterable[str]) -> None:
    lines = list(lines)
    _path(folder, name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _jsonl(folder: Path, name: str, rows: Iterable[dict[str, Any]]) -> None:
    _lines(folder, name, (json.dumps(row, ensure_ascii=False) for row in rows))
