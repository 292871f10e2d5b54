"""Scores other systems from their recorded answers or evidence, with the same code as our systems.

``raw/recorded/<benchmark>/<name>.jsonl`` in the lake has one line per question, with its id in the official files and
any of these fields::

    {"id": "7-980", "answer": "B", "ranked": ["n5", "n9"], "triples": [["bee", "is a", "insect"]]}

``answer`` is the label of an option or claim, or a short answer; ``ranked`` are nodes of a knowledge base, or short
answers, best first; ``triples`` are the retrieved triples, best first. ``<name>`` selects the published figures for
the comparison: the system, optionally ``+`` and the variant, optionally ``@`` and the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from evidence_assets.benchmarks.json_streams import jsonl_rows
from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.experiment.scores.metrics import Estimate
from evidence_assets.experiment.scores.retrieval_scores import triple_metrics
from evidence_assets.experiment.scores.scoring import answer_metrics, metric_rows
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.stored_rows import QuestionRow, typed_rows
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.schemas import TABLES
from evidence_assets.models.registry import get_encoder
from evidence_assets.reproduction.published_figures import RECORDED_ANSWERS, PublishedName
from evidence_assets.systems.baselines import VERSION

FOLDER = "recorded"
Rows = Sequence[dict[str, Any]]


def recorded_stages(variant: Variant) -> list[Stage]:
    """The stage that scores all recorded answers for the benchmarks of a family."""
    questions_asset = f"questions/{variant.family}"

    def make(context: StageContext) -> StageOutput:
        questions = context.read_input("questions")
        files = sorted(context.lake.raw_path(f"{FOLDER}/{context.benchmark.base_name}").glob("*.jsonl"))
        rows = [row for file in files for row in _score_file(context, file, questions)]
        return StageOutput(rows, metadata={"systems": len(files)})

    about, family, key = "Scores of other systems from recorded answers.", variant.family, f"scores/{variant.key}"
    reads = [StageInput(questions_asset, "benchmark"), StageInput(f"raw/{FOLDER}")]
    return [Stage(key, "scores", make, about, reads, VERSION, family=family, partitions="benchmarks", pool="gpu")]


def _score_file(context: StageContext, file: Path, questions: pl.DataFrame) -> Rows:
    name, _, model = file.stem.partition("@")
    system, _, variant = name.partition("+")
    published = [PublishedName(system, variant, model)]
    question_rows = typed_rows(questions, QuestionRow)
    rows = _match_rows(
        file,
        {q["source_id"]: q for q in question_rows},
        reject_unknown=context.benchmark_name == context.benchmark.base_name,
    )
    prediction_rows, evidence_rows = [], []
    for question, row in rows:
        ranking = list(row.texts("ranked")) if "ranked" in row.values else []
        # hits@k counts triples, so a short answer becomes the tail of one
        triples = [["", "", answer] for answer in ranking] if question["task"] == "kgqa" else []
        triples += [_check_triple(row, item) for item in row.values.get("triples") or []]
        for rank, triple in enumerate(triples, 1):
            about = {"question_id": question["question_id"], "kind": "triple", "rank": rank}
            text, why = " ".join(filter(None, triple)), json.dumps({"triple": triple})
            evidence_rows.append({**about, "text": text, "why": why})
        if "answer" in row.values or (ranking and question["task"] == "skb_search"):
            answer = row.text_or_none("answer") or next(iter(ranking), None)
            if answer is None:
                raise row.error("no answer, and nothing is ranked. Leave out the field", "answer")
            prediction = {"question_id": question["question_id"], "answer": answer, "ranked_answers": ranking}
            prediction_rows.append({**prediction, "status": "answered", "supported_answers": []})
    evidence, predictions = _read_as("evidence", evidence_rows), _read_as("predictions", prediction_rows)
    retrieval = (
        triple_metrics(question_rows, evidence, get_encoder(context.profile.token_encoder)) if evidence_rows else {}
    )
    metrics: dict[str, Estimate] = {}
    if prediction_rows:
        answers = {"predictions": predictions, "evidence": evidence.clear(), "citations": _read_as("citations", [])}
        metrics = answer_metrics({"questions": questions, **answers})
    return metric_rows(context.benchmark_name, name, RECORDED_ANSWERS, model, metrics | retrieval, published)


def _match_rows(
    file: Path, questions: Mapping[str, QuestionRow], reject_unknown: bool
) -> Iterator[tuple[QuestionRow, Row]]:
    """Each row with its question; rows of unknown questions are skipped or rejected."""
    ids = set()
    for row in jsonl_rows(file):
        row.check_field_names(("id", "answer", "ranked", "triples"))
        question_id = row.label("id")
        if question_id in ids:
            raise row.error(f"{question_id} appears twice. Remove one of the lines", "id")
        ids.add(question_id)
        if question_id in questions:
            yield questions[question_id], row
        elif reject_unknown:
            raise row.error(f"{question_id} is not a question of the benchmark. Use ids of the official files", "id")


def _check_triple(row: Row, value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(part, str) for part in value):
        raise row.error("expected a list of [head, relation, tail]", "triples")
    return value


def _read_as(table: str, rows: Rows) -> pl.DataFrame:
    """Rows of a table; columns that they lack are null, as no metric reads them."""
    return pl.DataFrame(rows, schema=pl.DataFrame(TABLES[table].arrow.empty_table()).schema)
