"""The shipped sample: the generator's bytes, and every piece of gold evidence where it is said to be."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from evidence_assets.assets.raw_files import copy_sample
from evidence_assets_tests.conftest import REPOSITORY
from tools.sample_world.__main__ import SHIPPED
from tools.sample_world.chains import KnownFacts
from tools.sample_world.facts import Fact, load_world
from tools.sample_world.question_forms import question_forms
from tools.sample_world.tables import FINDERS, Finder, load_tables
from tools.sample_world.wording import statement

FULL, SMALL = SHIPPED / "full", SHIPPED / "small"
BENCHMARKS = [f"sample_{name}" for name in ("mcqa", "claims", "tables", "graph", "kgqa", "skb")]
FIELDS = {
    "question_id",
    "split",
    "task",
    "text",
    "options",
    "gold",
    "gold_also",
    "table_id",
    "topic_entities",
    "gold_evidence",
    "answerable",
    "negated",
    "hops",
}


def read(folder: Path, name: str) -> list[Any]:
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def triples(folder: Path, name: str) -> list[tuple[str, ...]]:
    return [tuple(line.split("\t")) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_generator_writes_the_shipped_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "tools.sample_world", str(tmp_path)],
        check=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
    )
    shipped = digest(SHIPPED)
    del shipped["README.md"]
    assert digest(tmp_path) == shipped


def test_the_asset_copies_whole_files_and_leaves_others(tmp_path: Path) -> None:
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "mine.yaml").write_text("mine")
    (tmp_path / "held_out.tsv").write_text("half of a f")
    names = copy_sample("small", tmp_path)
    assert names == sorted(digest(SMALL))
    assert digest(tmp_path) == digest(SMALL) | {"seeds/mine.yaml": hashlib.sha256(b"mine").hexdigest()}


def test_forms_of_a_relation() -> None:
    treats = {"desc_head": "a medicine prescribed for {t}", "ask_head": ["Which medicine would fight {t}?"]}
    kept = {"desc_head": "something that {is} kept in {at}", "no_form": "x", "desc_tail": "no slot"}
    assert question_forms({"treats": treats, "in": kept}) == [
        {"phrase": "a medicine prescribed for {}", "edge_type": "treats", "asked": "head"},
        {"phrase": "Which medicine would fight {}?", "edge_type": "treats", "asked": "head"},
        {"phrase": "something that is kept in {}", "edge_type": "in", "asked": "head"},
    ]


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("world", [FULL, SMALL], ids=["full", "small"])
def test_questions_are_well_formed(benchmark: str, world: Path) -> None:
    questions = read(world, f"benchmarks/{benchmark}.jsonl")
    assert len({question["question_id"] for question in questions}) == len(questions)
    assert len({question["text"] for question in questions}) == len(questions)
    for question in questions:
        assert set(question) >= FIELDS
        assert question["split"] in ("dev", "test")
        assert len(set(question["options"])) == len(question["options"])
        assert not re.search(r"\ba something|\bthe the\b|\ba a\b|\ba an\b|[{}]", question["text"]), question["text"]
        if question["task"] in ("mcqa", "table_qa", "verification"):
            right = [question["gold"], *question["gold_also"]]
            assert len(set(right)) == len(right)
            assert 3 <= len(question["options"]) <= 4
            if question["gold"] is None:
                assert not question["answerable"]
            else:
                assert all(0 <= index < len(question["options"]) for index in right)
        elif question["answerable"]:
            assert question["gold"] and question["options"] == []
        assert bool(question["gold_evidence"]) == question["answerable"]


def normalised(option: str) -> str:
    """An option as a reader compares it: letters and digits alone, a number by its value."""
    number = option.replace(",", "").replace("−", "-").strip()
    if re.fullmatch(r"-?\d+(\.\d+)?", number):
        return f"{float(number):g}"
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", option).casefold())
    return " ".join(word for word in words if word not in ("a", "an", "the"))


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("world", [FULL, SMALL], ids=["full", "small"])
def test_no_two_options_are_the_same_to_a_reader(benchmark: str, world: Path) -> None:
    other_names = {
        normalised(alias): normalised(name) for name, aliases in load_world().aliases.items() for alias in aliases
    }
    for question in read(world, f"benchmarks/{benchmark}.jsonl"):
        options = [normalised(option) for option in question["options"]]
        assert all(options), question["question_id"]
        assert len({other_names.get(option, option) for option in options}) == len(options), question


@pytest.mark.parametrize("finder", FINDERS)
def test_whatever_is_drawn_from_a_table_its_options_differ(finder: Finder) -> None:
    """The questions of one rendering are a few of those that the tables could yield; this draws many others."""
    drawn = [found for table in load_tables() for turn in range(40) if (found := finder(table, f"draw {turn}"))]
    assert drawn
    for found in drawn:
        options = [normalised(option) for option in (found.answer, *found.wrong)]
        assert len(set(options)) == len(options), found
        assert found.statement != found.false_statement


def test_gold_sentences_stand_at_their_offsets_and_state_the_answer() -> None:
    articles = {article["doc_id"]: article["text"] for article in read(FULL, "corpus/sample/articles.jsonl")}
    for question in read(FULL, "benchmarks/sample_mcqa.jsonl"):
        named: set[str] = set()
        for row in question["gold_evidence"]:
            at = row["locator"]
            assert row["kind"] == "sentence" and row["source"] == at["doc_id"]
            assert articles[at["doc_id"]][at["char_start"] : at["char_end"]] == row["text"]
            assert row["text"].endswith(".") and row["text"][0].isupper()
            head, _, tail = row["fact"]
            assert head.lower() in row["text"].lower() and tail.lower() in row["text"].lower()
            named |= {head, tail}
        if question["answerable"]:
            right = {question["options"][i] for i in [question["gold"], *question["gold_also"]]}
            wrong = set(question["options"]) - right
            # the facts name every right option and no wrong one; for the odd one out it is the other way round
            assert (
                (wrong <= named and not right & named)
                if question["negated"]
                else (right <= named and not wrong & named)
            )


def test_gold_paths_are_in_the_graph_and_lead_to_the_answer() -> None:
    graph = set(triples(FULL, "graphs/biomedical.tsv") + triples(FULL, "graphs/commonsense.tsv"))
    for benchmark in ("sample_graph", "sample_kgqa"):
        for question in read(FULL, f"benchmarks/{benchmark}.jsonl"):
            ends = set()
            for row in question["gold_evidence"]:
                at = question["topic_entities"][0]
                assert len(row["locator"]) == question["hops"]
                for head, relation, tail in row["locator"]:
                    assert (head, relation, tail) in graph
                    assert at in (head, tail)
                    at = tail if at == head else head
                ends.add(at)
            if not question["answerable"]:
                continue
            if benchmark == "sample_kgqa":
                assert ends == set(question["gold"])
                assert set(question["gold_aliases"]) <= set(question["gold"])
            else:
                right = {question["options"][i] for i in [question["gold"], *question["gold_also"]]}
                assert ends == (set(question["options"]) - right if question["negated"] else right)


def test_gold_cells_hold_their_text() -> None:
    tables = {table["table_id"]: table for table in read(FULL, "tables/tables.jsonl")}
    for table in tables.values():
        assert all(len(row) == len(table["header"]) for row in table["rows"])
    for benchmark in ("sample_claims", "sample_tables"):
        for question in read(FULL, f"benchmarks/{benchmark}.jsonl"):
            for row in question["gold_evidence"]:
                at = row["locator"]
                assert at["table_id"] == question["table_id"]
                assert tables[at["table_id"]]["rows"][at["row"]][at["column"]] == row["text"]
            if question.get("operation") == "look-up" and benchmark == "sample_tables":
                cells = {row["text"] for row in question["gold_evidence"]}
                named = {
                    tables[question["table_id"]]["rows"][row["locator"]["row"]][0] for row in question["gold_evidence"]
                }
                assert question["options"][question["gold"]] in cells | named


def test_claims_follow_from_their_cells_as_labelled() -> None:
    """Decide the claims again from the numbers of their gold cells, by reading the claim's text."""
    tables = {table["table_id"]: table for table in read(FULL, "tables/tables.jsonl")}
    decided = 0
    for claim in read(FULL, "benchmarks/sample_claims.jsonl"):
        cells, text = claim["gold_evidence"], claim["text"]
        if claim["options"][claim["gold"]] == "NOT ENOUGH INFORMATION":
            assert not cells
            continue
        if claim["operation"] == "comparison":
            one, two = (float(cell["text"]) for cell in cells)
            holds = (one > two) == bool(re.search("a (greater|later) value", text))
        elif claim["operation"] == "difference":
            one, two = (float(cell["text"]) for cell in cells)
            told = re.search(r"lie ([\d.]+)", text)
            assert told
            holds = abs(abs(one - two) - float(told.group(1))) < 0.006
        elif claim["operation"] == "ratio":
            one, two = (float(cell["text"]) for cell in cells)
            told = re.search(r"about (\d+) times", text)
            assert told
            holds = abs(one / two - int(told.group(1))) < 0.1
        elif claim["operation"] == "count" and "'" in text.split("have ")[1][:1]:
            value, number = re.findall(r"have '([^']+)'", text)[0], int(re.findall(r"Exactly (\d+)", text)[0])
            holds = sum(cell["text"] == value for cell in cells) == number
        elif claim["operation"] == "look-up":
            holds = all(cell["text"] in text for cell in cells)
            if not text.startswith("For "):  # the cells are told rightly; of which row?
                row = tables[claim["table_id"]]["rows"][cells[0]["locator"]["row"]]
                holds = text.startswith(row[0])
        else:
            continue
        decided += 1
        assert claim["options"][claim["gold"]] == ("SUPPORTS" if holds else "REFUTES"), text
    assert decided >= 40


def test_labels_are_balanced_in_every_operation() -> None:
    labels: dict[str, list[int]] = defaultdict(list)
    for claim in read(FULL, "benchmarks/sample_claims.jsonl"):
        labels[claim["operation"]].append(claim["gold"])
    for operation, golds in labels.items():
        assert operation == "unknown" or {0, 1} <= set(golds), operation
    assert [sum(golds.count(label) for golds in labels.values()) for label in range(3)] == [40, 40, 20]


def test_knowledge_base_gold_is_all_that_answers_and_of_the_kind_asked_for() -> None:
    """Enumerate every node against every condition, from the rendered files alone.

    A condition is read off a gold path: the node it starts from, and its relations with their directions.
    """
    nodes = {node["node_id"]: node for node in read(FULL, "skb/sample/nodes.jsonl")}
    edges = triples(FULL, "skb/sample/edges.tsv")
    both_ways = {"interacts_with", "may_be_allelic_with", "see_also"}

    def step(at: str, relation: str, forward: bool) -> set[str]:
        ahead = {tail for head, kind, tail in edges if (head, kind) == (at, relation)}
        behind = {head for head, kind, tail in edges if (tail, kind) == (at, relation)}
        return ahead | behind if relation in both_ways else ahead if forward else behind

    def reach(at: str, steps: list[tuple[str, bool]], seen: frozenset[str]) -> set[str]:
        if not steps:
            return {at}
        return set().union(*(reach(to, steps[1:], seen | {to}) for to in step(at, *steps[0]) - seen))

    for question in read(FULL, "benchmarks/sample_skb.jsonl"):
        rows, gold = question["gold_evidence"], question["gold"]
        answering = []
        for number, topic in enumerate(question["topic_entities"]):
            at = start = next(id_ for id_, node in nodes.items() if node["name"] == topic)
            steps = []
            for head, relation, tail in rows[number * len(gold)]["locator"]:
                steps.append((relation, head == at))
                at = tail if head == at else head
            answering.append(reach(start, steps, frozenset({start})))
        assert len(rows) == len(answering) * len(gold)
        found = re.match(r"Which (.+) is at once ", question["text"])
        assert found
        of_kind = {id_ for id_, node in nodes.items() if node["type"] == found.group(1)}
        assert set(gold) == set.intersection(*answering) & of_kind, question["text"]
        for left_out in range(len(answering)):
            others = answering[:left_out] + answering[left_out + 1 :]
            assert len(set.intersection(*others) & of_kind) > len(gold), "every condition matters"


def test_held_out_facts_are_nowhere() -> None:
    held_out = triples(FULL, "held_out.tsv")
    assert len(held_out) >= 100
    graph = set(triples(FULL, "graphs/biomedical.tsv") + triples(FULL, "graphs/commonsense.tsv"))
    assert not graph & set(held_out)
    names = {node["node_id"]: node["name"] for node in read(FULL, "skb/sample/nodes.jsonl")}
    assert not {(names[h], r, names[t]) for h, r, t in triples(FULL, "skb/sample/edges.tsv")} & set(held_out)
    for path in sorted((FULL / "seeds").iterdir()):
        seed = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert not {(head, seed["id"], tail) for head, tail in seed["pairs"]} & set(held_out)
    world = load_world()
    texts = [article["text"].lower() for article in read(FULL, "corpus/sample/articles.jsonl")]
    texts += [node["document"].lower() for node in read(FULL, "skb/sample/nodes.jsonl")]
    everything = "\n".join(texts)
    known = KnownFacts(world, [fact for fact in world.facts if fact.told])
    for head, relation, tail in held_out:
        for number in range(len(world.relations[relation]["wordings"])):
            stated = statement(world, Fact(relation, head, tail, "", ""), number).lower()
            assert not (stated in everything and re.search(rf"\b{re.escape(stated)}\b", everything)), stated
        # both names are known from other facts, so that the control is a fair one
        assert any(head in (fact.head, fact.tail) for fact in known.facts)
        assert any(tail in (fact.head, fact.tail) for fact in known.facts)


def test_seed_files() -> None:
    seeds = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((FULL / "seeds").iterdir())]
    assert len(seeds) >= 16
    assert sum(seed["collection"] == "biomedical" for seed in seeds) >= 10
    for seed in seeds:
        assert set(seed) <= {"id", "collection", "prompt", "pairs", "template", "symmetric", "functional", "inverse"}
        assert seed["prompt"].count("<HEAD>") == seed["prompt"].count("<TAIL>") == 1
        assert seed["template"].count("<HEAD>") == seed["template"].count("<TAIL>") == 1
        assert len(seed["pairs"]) == 5
        for head, tail in seed["pairs"]:
            assert load_world().holds(head, seed["id"], tail)
