"""Systems of others, scored from what they once answered or retrieved, by the code that scores ours.

In the lake, ``raw/recorded/<benchmark>/<name>.jsonl`` holds a question a line, under its id in the official files,
with what the system has of these::

    {"id": "7-980", "answer": "B", "ranked": ["n5", "n9"], "triples": [["bee", "is a", "insect"]]}

``answer`` is the label of an option or claim, or a short answer; ``ranked`` are nodes of a knowledge base, or short
answers, best first; ``triples`` are what was retrieved, best first. ``<name>`` is what the figures are printed for
that it is compared with: the system, ``+`` and the variant where one is named, ``@`` and the model where one is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from evidence_assets.benchmarks.json_streams import jsonl_rows
from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.experiment.scores.published_figures import RECORDED_ANSWERS, PublishedName
from evidence_assets.experiment.scores.retrieval_scores import retrieval_metrics
from evidence_assets.experiment.scores.scoring import metric_rows, score_rows
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.system import NoSettings
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.models.registry import get_encoder
from evidence_assets.systems.baselines import VERSION

FOLDER = "recorded"
Rows = Sequence[dict[str, Any]]


def recorded_stages(variant: Variant, settings: NoSettings) -> list[Stage]:
    """Scores of all files of the benchmarks of a family."""
    asked = f"questions/{variant.family}"

    def make(step: StageContext) -> StageOutput:
        questions = step.read_benchmark("questions", asked)
        files = sorted(step.lake.raw_path(f"{FOLDER}/{step.benchmark.base_name}").glob("*.jsonl"))
        rows = [row for file in files for row in _scores(step, file, questions)]
        return StageOutput(rows, metadata={"systems": len(files)})

    about, family, key = (
        "What systems of others reach by their recorded answers",
        variant.family,
        f"scores/{variant.key}",
    )
    reads = [StageInput(asked, "benchmark"), StageInput(f"raw/{FOLDER}")]
    return [Stage(key, "scores", make, about, reads, VERSION, family=family, partitions="benchmarks", pool="gpu")]


def _scores(step: StageContext, file: Path, questions: pl.DataFrame) -> Rows:
    name, _, model = file.stem.partition("@")
    system, _, variant = name.partition("+")
    printed, asked = [PublishedName(system, variant, model)], questions.to_dicts()
    rows = _rows(file, {q["source_id"]: q for q in asked}, refuse=step.benchmark_name == step.benchmark.base_name)
    answers, facts = [], []
    for question, row in rows:
        ranked = list(row.texts("ranked")) if "ranked" in row.values else []
        # hits are counted over triples: a short answer is the end of one
        triples = [["", "", answer] for answer in ranked] if question["task"] == "kgqa" else []
        triples += [_triple(row, one) for one in row.values.get("triples") or []]
        facts += [_fact(question, rank, triple) for rank, triple in enumerate(triples, 1)]
        if "answer" in row.values or (ranked and question["task"] == "skb_search"):
            answers.append(_answer(question, row.text_or_none("answer") or ranked[0], ranked))
    evidence, predictions, citations = (
        pl.DataFrame(prepare_rows(table, found))
        for table, found in (("evidence", facts), ("predictions", answers), ("citations", []))
    )
    more = retrieval_metrics(asked, evidence, get_encoder(step.profile.token_encoder)) if facts else {}
    if not answers:
        return metric_rows(step.benchmark_name, name, RECORDED_ANSWERS, model, more, printed)
    tables = {"questions": questions, "predictions": predictions, "evidence": evidence.clear(), "citations": citations}
    return score_rows(step.benchmark_name, name, RECORDED_ANSWERS, model, tables, printed, more)


def _rows(file: Path, known: Mapping[str, dict[str, Any]], refuse: bool) -> Iterator[tuple[dict[str, Any], Row]]:
    """Each row with its question; of a part of a benchmark, rows of other questions are passed over."""
    seen = set()
    for row in jsonl_rows(file):
        row.check_field_names(("id", "answer", "ranked", "triples"))
        name = row.label("id")
        if name in seen:
            raise row.error(f"{name} comes twice", "id")
        seen.add(name)
        if name in known:
            yield known[name], row
        elif refuse:
            raise row.error(f"{name} is no question of the benchmark", "id")


def _triple(row: Row, stated: Any) -> list[str]:
    if not isinstance(stated, list) or len(stated) != 3 or not all(isinstance(part, str) for part in stated):
        raise row.error("expected [head, relation, tail] each", "triples")
    return stated


def _fact(question: Mapping[str, Any], rank: int, triple: Sequence[str]) -> dict[str, Any]:
    """A row of ``evidence``."""
    return {
        "evidence_id": f"{question['question_id']}-{rank}",
        "question_id": question["question_id"],
        "benchmark": question["benchmark"],
        "option": "",
        "selector": RECORDED_ANSWERS,
        "kind": "triple",
        "source_kind": "edge",
        "source_id": RECORDED_ANSWERS,
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
        "selector": RECORDED_ANSWERS,
        "reasoner": RECORDED_ANSWERS,
        "model_id": "",
        "answer": answer,
        "ranked_answers": list(ranked),
        "supported_answers": [],
        "status": "answered",
        "content_hash": "",
        "input_hash": "",
    }
