"""How often a question without options is answered, and rightly, by how near a statement must come to it.

The multiple-choice questions of a benchmark of the lake are put without their options; an answer counts as right if it
holds the text of a right option, so that other right answers count as wrong. The floor is chosen on the first split.

    python bench/measure_open.py --lake data_lake
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import polars as pl

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.declared import benchmarks
from evidence_assets.benchmarks.readers import questions_of
from evidence_assets.benchmarks.rows import question_rows
from evidence_assets.experiment.scores.metrics import accuracy, exact_match
from evidence_assets.experiment.selection import asked
from evidence_assets.experiment.short_answering import short_task
from evidence_assets.experiment.step import Step
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.store import Lake
from evidence_assets.models.in_use import encoder
from evidence_assets.reasoning import short_answers
from evidence_assets.reasoning.short_answers import ExtractiveShortAnswers, ShortAnswer

FLOORS = (0.60, 0.65, 0.70, 0.72, 0.75, 0.80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--benchmark", default="sample_mcqa")
    chosen = parser.parse_args()
    lake, benchmark = Lake(chosen.lake or find_lake()), benchmarks()[chosen.benchmark]
    variant = next(v for v in variants() if v.place == "graph/uscrake")
    method = systems.load(variant.system).method_of(variant)
    step = Step(lake, "evidence", "evidence/graph/uscrake", f"{benchmark.name}|0")
    selector = method.open(variant.name, step, method.settings_of(variant))  # type: ignore[union-attr]
    solver = ExtractiveShortAnswers(encoder(profiles.load().encoder))
    every = list(questions_of(lake, benchmark))
    print("floor  split   facts   answered  right  share right (95 %)")
    for split in ("dev", "test"):
        rows = pl.DataFrame(question_rows(every, split, 0, 1), infer_schema_length=None)
        known = {row["question_id"]: row for row in rows.to_dicts() if row["gold"] and not row["negated"]}
        questions = [replace(q, options=()) for q in asked(rows) if q.question_id in known]
        tasks = []
        for question, picks in zip(questions, selector.select(questions), strict=True):
            made = [{"evidence_id": str(n), "kind": p.kind, "source_id": p.parents[0].id, "locator": p.locator, "text": p.text,
                     "why": p.why} for n, p in enumerate(picks)]  # fmt: skip
            tasks.append(short_task(question, made))
        for beside, own in (("with", tasks), ("without", [replace(task, facts=()) for task in tasks])):
            for floor in FLOORS:
                short_answers.TEXT_FLOOR = floor
                right = []
                for question, said in zip(questions, solver.answer(own), strict=True):
                    if isinstance(said, ShortAnswer) and said.answer is not None and said.status == "answered":
                        row = known[question.question_id]
                        gold = [row["options"][ord(label) - ord("A")] for label in row["gold"]]
                        right.append(exact_match(said.answer, gold))
                share = accuracy(right)
                print(f"{floor:.2f}   {split:5}  {beside:8} {len(right):3} of {len(own):3}   {sum(right):3}  "
                      f"{share.value:.2f} [{share.low:.2f}, {share.high:.2f}]")  # fmt: skip


if __name__ == "__main__":
    main()
