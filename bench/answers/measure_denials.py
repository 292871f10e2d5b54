"""What denied triplets are worth in an incomplete graph: "treats x but does not affect y" in UMLS's semantic types.

    EVIDENCE_DEV_DATA=<folder> python -m bench.answers.measure_denials

The questions are of the graph, not people's: a stated triplet and a denied one with the same variable, drawn at random
(seed 0), each stated triplet once, so that both hold for some node and only the stated one for another. Right answers
follow from all facts (train, valid and test), but the triplets are substituted over the facts of train alone, so that a
missing fact can be wrongly taken for a denial. Compared is F1 with and without the denied triplet, as written by hand:
nothing is parsed or tuned.

Also prints the queries of STaRK's bases with a word that counts or compares, which a triplet cannot say.
"""

from __future__ import annotations

import csv
import os
import random
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from bench.differences import format_difference
from evidence_assets.experiment.scores.metrics import paired_bootstrap
from evidence_assets.graphs.arrays import TypedGraph
from evidence_assets.graphs.substitution import Constant, TriplePattern, Variable, substitute

TARGET = Variable("x")
QUANTIFIERS = re.compile(
    r"\b(at least|at most|more than|fewer than|less than|exactly|only|most|fewest|least|every|all|each|none)\b",
    re.IGNORECASE,
)


def read_facts(folder: Path, *splits: str) -> set[tuple[str, str, str]]:
    lines = [line for split in splits for line in (folder / f"{split}.txt").read_text(encoding="utf-8").splitlines()]
    return {(head, relation, tail) for head, relation, tail in (line.split("\t") for line in lines)}


def f1(answers: set[int], gold: set[int]) -> float:
    return 2 * len(answers & gold) / (len(answers) + len(gold))


def print_quantified_queries(folder: Path) -> None:
    for file in sorted(folder.glob("*/stark_qa.csv")):
        queries = [row["query"] for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines())]
        quantified = [query for query in queries if QUANTIFIERS.search(query)]
        print(f"{file.parent.name}: {len(quantified)} of {len(queries)} queries have a word that counts or compares")
        print("".join(f"  {query}\n" for query in quantified), end="")


def main() -> None:
    print_quantified_queries(Path(os.environ["EVIDENCE_DEV_DATA"]) / "stark")
    folder = Path(os.environ["EVIDENCE_DEV_DATA"]) / "umls"
    all_facts, stored_facts = read_facts(folder, "train", "valid", "test"), sorted(read_facts(folder, "train"))
    nodes = {name: n for n, name in enumerate(sorted({end for head, _, tail in all_facts for end in (head, tail)}))}
    codes = {name: n for n, name in enumerate(sorted({relation for _, relation, _ in all_facts}))}
    columns = np.array([(nodes[head], codes[relation], nodes[tail]) for head, relation, tail in stored_facts]).T
    graph = TypedGraph(np.zeros(len(nodes), dtype=int), *columns)
    heads_of = defaultdict[tuple[int, int], set[int]](set)
    for head, relation, tail in all_facts:
        heads_of[codes[relation], nodes[tail]].add(nodes[head])
    random.seed(0)
    with_denial, without, wrong = list[float](), list[float](), 0
    fact_keys = sorted(heads_of)
    random.shuffle(fact_keys)
    for asserted in fact_keys:
        choices = [d for d in sorted(heads_of) if heads_of[asserted] & heads_of[d] and heads_of[asserted] - heads_of[d]]
        if not choices:
            continue
        denied = random.choice(choices)
        gold = heads_of[asserted] - heads_of[denied]
        patterns = [
            TriplePattern(TARGET, relation, Constant(str(node), (node,)), is_denied=is_denied)
            for (relation, node), is_denied in ((asserted, False), (denied, True))
        ]
        answers = [set(substitute(graph, each, TARGET).candidates.tolist()) for each in (patterns, patterns[:1])]
        with_denial.append(f1(answers[0], gold))
        without.append(f1(answers[1], gold))
        wrong += bool(answers[0] & heads_of[denied])
    half = len(with_denial) // 2
    print(f"{len(with_denial)} questions; a missing fact lets a denied node in for {wrong / len(with_denial):.1%}")
    for name, part in (("first half", slice(half)), ("second half", slice(half, None))):
        values, others = with_denial[part], without[part]
        d = paired_bootstrap(values, others)
        print(
            f"{name}: F1 {np.mean(values):.3f}, without the denial {np.mean(others):.3f}; "
            f"{format_difference(d)}, n = {d.n}"
        )


if __name__ == "__main__":
    main()
