"""How often a question without options is answered, and rightly, by how far its best reading must be ahead.

The multiple-choice questions of a benchmark of the lake are asked without their options, as ``evidence ask`` asks
them, in a copy of the lake. An answer counts as right if it is a gold option or holds its text (so that other right
answers count as wrong); "among them" counts it, too, where a gold option is among the ends of the reading that
answered. The margin and the floors are chosen on the first split. Questions on other things, of which the sample knows
next to nothing, are asked besides where EVIDENCE_DEV_DATA holds them (Mintaka, HotpotQA, and OpenBookQA's that end in
a question mark): the even ones are the first split. What is answered there should be nothing.

    python -m bench.answers.measure_open --lake data_lake
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.cli.ask import select_clearest, select_variants
from evidence_assets.experiment import ad_hoc_questions as asked
from evidence_assets.experiment.ad_hoc_questions import QuestionSource
from evidence_assets.experiment.scores.metrics import accuracy, exact_match
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.stored_rows import PredictionRow
from evidence_assets.extractive import short_answers
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.store import Lake
from evidence_assets.text.negation import asks_for_exception

MARGINS = (0.01, 0.03, 0.06, 0.10)


def ask(lake: Lake, text: str, source: QuestionSource) -> PredictionRow:
    """The first answer of the variants in turn, as the command has it."""
    question = asked.build_question(text, (), source)
    asked.store_question(lake, question)
    context = (
        asked.answer_question(
            lake,
            question.question_id,
            question.task,
            source,
            build_stages(systems.open_method(v)),
            lambda message: None,
        )
        for v in select_variants("graph", source, "", "")
    )
    return select_clearest(context)


def on_other_things() -> list[tuple[str, list[str]]]:
    """Questions of other sets with their answers."""
    folder = os.environ.get("EVIDENCE_DEV_DATA")
    if not folder:
        return []
    root = Path(folder)
    mintaka = json.loads((root / "mintaka/mintaka_dev.json").read_text())
    hotpot = json.loads((root / "hotpotqa-100/hotpotqa_train.json").read_text())
    book = [json.loads(line) for line in (root / "obqa/Data/Main/dev.jsonl").read_text().splitlines()]
    questions = [(row["question"], [str(row["answer"]["mention"] or "")]) for row in mintaka]
    questions += [(row["question"], [row["answer"]]) for row in hotpot]
    for row in book:
        choices = {choice["label"]: choice["text"] for choice in row["question"]["choices"]}
        if row["question"]["stem"].rstrip().endswith("?"):
            questions.append((row["question"]["stem"], [choices[row["answerKey"]]]))
    return questions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--benchmark", default="sample_mcqa")
    parser.add_argument("--margins", type=float, nargs="+", default=MARGINS)
    chosen = parser.parse_args()
    lake, benchmark = Lake(chosen.lake or find_lake()), benchmarks()[chosen.benchmark]
    every = [
        (q.split, q.text, [q.options[ord(label) - ord("A")] for label in q.gold])
        for q in read_benchmark_questions(lake, benchmark)
        if q.gold and not asks_for_exception(q.text)
    ]
    every += [(("other, dev", "other, test")[n % 2], *question) for n, question in enumerate(on_other_things())]
    print("of               margin  split         answered  right  share right (95 %)    among them  statuses")
    for source in (asked.resolve_source(lake, benchmark.corpus, ""), QuestionSource(benchmark.corpus)):
        for margin in chosen.margins if source.graph else chosen.margins[:1]:
            short_answers.TIE_MARGIN = margin
            with tempfile.TemporaryDirectory() as folder:
                copy = Lake(Path(shutil.copytree(lake.root, Path(folder) / "lake")))
                for split in ("dev", "test", "other, dev", "other, test"):
                    split_questions = [q for q in every if q[0] == split]
                    right, among, statuses = [], [], Counter[str]()
                    for _, text, gold in split_questions:
                        row = ask(copy, text, source)
                        statuses[row["status"]] += 1
                        if row["status"] == "answered":
                            right.append(exact_match(row["answer"] or "", gold))
                            among.append(right[-1] or any(exact_match(s, gold) for s in row["supported_answers"]))
                    share, wider = accuracy(right), accuracy(among)
                    print(
                        f"{source!s:15}  {margin:.2f}    {split:11}  {len(right):3} of {len(split_questions):3}   "
                        f"{sum(right):3.0f}  {share.value:.2f} [{share.low:.2f}, {share.high:.2f}]     "
                        f"{wider.value:.2f} [{wider.low:.2f}, {wider.high:.2f}]  {dict(sorted(statuses.items()))}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
