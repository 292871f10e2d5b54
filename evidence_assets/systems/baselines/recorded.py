"""Systems of others, scored from what they once answered or retrieved, by the code that scores ours.

In the lake, ``raw/recorded/<benchmark>/<name>.jsonl`` holds a question a line, under its id in the official files,
with what the system has of these::

    {"id": "7-980", "answer": "B", "ranked": ["n5", "n9"], "triples": [["bee", "is a", "insect"]]}

``answer`` is the label of an option or claim, or a short answer; ``ranked`` are nodes of a knowledge base, or short
answers, best first; ``triples`` are what was retrieved, best first. ``<name>`` is what the figures are printed for
that it is compared with: the system, ``+`` and the variant where one is named, ``@`` and the model where one is.

For `evidence replay`, a folder with ``index.tsv`` (``path, dataset, question_id, model, mode, gold, question, A, B,
C, D``; unquoted, tabs and line ends of texts written as spaces) and one file an answer: a JSON list with one string,
the model's reply, which is meant to be JSON itself and often is not. A reply that cannot be used is a failed row with
its reason and counts as wrong; a file that is no such list is bad input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from evidence_assets.benchmarks import checks
from evidence_assets.benchmarks.official.choices import one_of
from evidence_assets.benchmarks.reading import Row, headed_rows
from evidence_assets.benchmarks.reading_json import json_items, jsonl
from evidence_assets.benchmarks.records import Question
from evidence_assets.experiment.scores.published_figures import RECORDED, PrintedAs
from evidence_assets.experiment.scores.retrieval_scores import retrieval_metrics
from evidence_assets.experiment.scores.scoring import metric_rows, score_rows
from evidence_assets.experiment.stage import Read, Stage, StageContext, StageOutput
from evidence_assets.experiment.system import NoSettings
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput, UnusableReply
from evidence_assets.lake.rows import prepare
from evidence_assets.models.in_use import encoder
from evidence_assets.reasoning.answers import parse_answer
from evidence_assets.systems.baselines import VERSION

FOLDER, INDEX = "recorded", "index.tsv"
Rows = Sequence[dict[str, Any]]


def recorded_stages(variant: Variant, settings: NoSettings) -> list[Stage]:
    """Scores of all files of the benchmarks of a family."""
    asked = f"questions/{variant.family}"

    def make(step: StageContext) -> StageOutput:
        questions = step.read_benchmark("questions", asked)
        files = sorted(step.lake.raw_place(f"{FOLDER}/{step.benchmark.whole}").glob("*.jsonl"))
        rows = [row for file in files for row in _scores(step, file, questions)]
        return StageOutput(rows, metadata={"systems": len(files)})

    return [
        Stage(
            f"scores/{variant.place}",
            "scores",
            make,
            "What systems of others reach by their recorded answers",
            [Read(asked, "benchmark"), Read(f"raw/{FOLDER}")],
            VERSION,
            family=variant.family,
            partitions="benchmarks",
            pool="gpu",
        )
    ]


def _scores(step: StageContext, file: Path, questions: pl.DataFrame) -> Rows:
    name, _, model = file.stem.partition("@")
    system, _, variant = name.partition("+")
    printed, asked = [PrintedAs(system, variant, model)], questions.to_dicts()
    rows = _rows(file, {q["source_id"]: q for q in asked}, refuse=step.benchmark_name == step.benchmark.whole)
    answers, facts = [], []
    for question, row in rows:
        ranked = list(row.texts("ranked")) if "ranked" in row.values else []
        # hits are counted over triples: a short answer is the end of one
        triples = [["", "", answer] for answer in ranked] if question["task"] == "kgqa" else []
        triples += [_triple(row, one) for one in row.values.get("triples") or []]
        facts += [_fact(question, rank, triple) for rank, triple in enumerate(triples, 1)]
        if "answer" in row.values or (ranked and question["task"] == "skb_search"):
            answers.append(_answer(question, row.text_or_none("answer") or ranked[0], ranked))
    evidence, predictions = (
        pl.DataFrame(prepare(table, found)) for table, found in (("evidence", facts), ("predictions", answers))
    )
    more = retrieval_metrics(asked, evidence, encoder(step.profile.token_encoder)) if facts else {}
    if not answers:
        return metric_rows(step.benchmark_name, name, RECORDED, model, more, printed)
    tables = {"questions": questions, "predictions": predictions, "evidence": evidence.clear()}
    tables["citations"] = pl.DataFrame(prepare("citations", []))
    return score_rows(step.benchmark_name, name, RECORDED, model, tables, printed, more)


def _rows(file: Path, known: Mapping[str, dict[str, Any]], refuse: bool) -> Iterator[tuple[dict[str, Any], Row]]:
    """Each row with its question; of a part of a benchmark, rows of other questions are passed over."""
    seen = set()
    for row in jsonl(file):
        row.only(("id", "answer", "ranked", "triples"))
        name = row.label("id")
        if name in seen:
            raise row.bad(f"{name} comes twice", "id")
        seen.add(name)
        if name in known:
            yield known[name], row
        elif refuse:
            raise row.bad(f"{name} is no question of the benchmark", "id")


def _triple(row: Row, stated: Any) -> list[str]:
    if not isinstance(stated, list) or len(stated) != 3 or not all(isinstance(part, str) for part in stated):
        raise row.bad("expected [head, relation, tail] each", "triples")
    return stated


def _fact(question: Mapping[str, Any], rank: int, triple: Sequence[str]) -> dict[str, Any]:
    """A row of ``evidence``."""
    return {
        "evidence_id": f"{question['question_id']}-{rank}",
        "question_id": question["question_id"],
        "benchmark": question["benchmark"],
        "option": "",
        "selector": RECORDED,
        "kind": "triple",
        "source_kind": "edge",
        "source_id": RECORDED,
        "locator": "",
        "text": " ".join(filter(None, triple)),
        "rank": rank,
        "score": -float(rank),
        "why": json.dumps({"triple": list(triple)}),
        "content_hash": "",
        "input_hash": "",
    }


def _answer(question: Mapping[str, Any], answer: str, ranked: Sequence[str]) -> dict[str, Any]:
    """A row of ``predictions``."""
    return {
        "prediction_id": question["question_id"],
        "question_id": question["question_id"],
        "benchmark": question["benchmark"],
        "selector": RECORDED,
        "reasoner": RECORDED,
        "model_id": "",
        "answer": answer,
        "ranked_answers": list(ranked),
        "supported_answers": [],
        "status": "answered",
        "content_hash": "",
        "input_hash": "",
    }


@dataclass(frozen=True)
class Scored:
    """What a model once replied to a question in one mode of prompting, and the label that it names.

    ``answer`` is None if the reply is unusable, with the reason in ``error``.
    """

    question: Question
    model: str
    mode: str
    path: str
    reply: str
    answer: str | None
    error: str

    @property
    def correct(self) -> bool:
        return self.answer in self.question.gold


def score_recording(folder: Path, several: Literal["refuse", "first"] = "first") -> Iterator[Scored]:
    """The recorded answers in the order of the index; each path, and each question of a model and mode, comes once.

    ``several`` as in :func:`parse_answer`: the scores published beside recordings take the first of several letters.
    """
    seen: set[tuple[str, ...]] = set()
    columns = ("path", "dataset", "question_id", "model", "mode", "gold", "question")
    for row in headed_rows(folder / INDEX, columns, "\t", quoted=False):
        letters = [name for name in row.values if len(name) == 1 and name.isupper()]
        options = tuple(row.text(letter) for letter in letters if row.text_or_none(letter))
        _, asked = checks.question(
            row,
            benchmark=row.text("dataset"),
            source_id=row.text("question_id"),
            split="test",
            task="mcqa",
            text=row.text("question"),
            options=options,
            gold=(one_of(row, "gold", options),),
        )
        path, model, mode = row.text("path"), row.text("model"), row.text("mode")
        for key in (("path", path), ("answer", asked.benchmark, asked.source_id, model, mode)):
            if key in seen:
                raise row.bad(f"{' / '.join(key[1:])} comes twice", "path" if key[0] == "path" else "question_id")
            seen.add(key)
        reply, answer, error = _reply(folder, path, row), None, ""
        try:
            answer = parse_answer(reply, asked.labels, asked.options, several=several)
        except UnusableReply as unusable:
            error = str(unusable)
        yield Scored(asked, model, mode, path, reply, answer, error)


def _reply(folder: Path, path: str, row: Row) -> str:
    file = folder / path
    if not file.resolve().is_relative_to(folder.resolve()):
        raise row.bad("lies outside the recording", "path")
    items = list(json_items(file))
    if len(items) != 1 or items[0][1] or not isinstance(items[0][2], str):
        raise BadInput("expected a list with one text: the reply", file=file, line=1)
    return items[0][2]
