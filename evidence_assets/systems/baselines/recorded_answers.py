"""Scores other systems from their recorded answers or evidence, with the same code as our systems.

``raw/recorded/<benchmark>/<name>.jsonl`` in the lake has one line per question, with its id in the official files and
any of these fields::

    {"id": "7-980", "answer": "B", "ranked": ["n5", "n9"], "triples": [["bee", "is a", "insect"]], "recalled": []}

``answer`` is the label of an option or claim, or a short answer, null if the system said that it has none; ``ranked``
are nodes of a knowledge base, or short answers, best first; ``triples`` are the retrieved triples, best first, and
``recalled`` those of them that a language model recalled. ``<name>`` selects the published figures for the comparison:
the system, optionally ``+`` and the variant, optionally ``@`` and the model, optionally ``~`` and one of several runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from evidence_assets.benchmarks.json_streams import jsonl_rows
from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.experiment.scores.metrics import Estimate
from evidence_assets.experiment.scores.retrieval_scores import triple_metrics
from evidence_assets.experiment.scores.scoring import answer_metrics, metric_rows
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.stored_rows import QuestionRow, typed_rows
from evidence_assets.experiment.variant_plan import SCORES_VERSION
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.schemas import TABLES
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder
from evidence_assets.reasoning.tasks import MODEL_KNOWLEDGE
from evidence_assets.reproduction.published_figures import RECORDED_ANSWERS, RUN_SEPARATOR, PublishedName
from evidence_assets.systems.baselines import VERSION

FOLDER = "recorded"


@dataclass
class _RecordedRows:
    """Rows of evidence and predictions from a file, with the columns that metrics read."""

    evidence: list[dict[str, object]] = field(default_factory=list)
    predictions: list[dict[str, object]] = field(default_factory=list)
    has_recalled: bool = False

    def add(self, question_id: str, task: str, row: Row) -> None:
        ranking = list(row.texts("ranked")) if "ranked" in row.values else []
        self._add_triples(question_id, task, row, ranking)
        if "answer" in row.values or (ranking and task == "skb_search"):
            self._add_answer(question_id, task, row, ranking)

    def _add_triples(self, question_id: str, task: str, row: Row, ranking: Sequence[str]) -> None:
        # hits@k counts triples, so a short answer becomes the tail of one
        triples = [["", "", answer] for answer in ranking] if task == "kgqa" else []
        triples += [_check_triple(row, item, "triples") for item in row.values.get("triples") or []]
        recalled = [_check_triple(row, item, "recalled") for item in row.values.get("recalled") or []]
        if other := next((triple for triple in recalled if triple not in triples), None):
            raise row.error(f"{other} is not among the triples. Add it there, too", "recalled")
        self.has_recalled |= "recalled" in row.values
        for rank, triple in enumerate(triples, 1):
            text = " ".join(filter(None, triple))
            why = json.dumps({"triple": triple} | ({"origin": MODEL_KNOWLEDGE} if triple in recalled else {}))
            self.evidence.append({"question_id": question_id, "kind": "triple", "rank": rank, "text": text, "why": why})

    def _add_answer(self, question_id: str, task: str, row: Row, ranking: Sequence[str]) -> None:
        answer = row.text_or_none("answer") or next(iter(ranking), None)
        if answer is None and not (task == "kgqa" and row.values["answer"] is None):
            raise row.error("no answer, and nothing is ranked. Leave out the field", "answer")
        status = "insufficient" if answer is None else "answered"
        prediction = {"question_id": question_id, "answer": answer, "ranked_answers": ranking}
        self.predictions.append({**prediction, "status": status, "supported_answers": []})


def recorded_stages(variant: Variant) -> list[Stage]:
    """The stage that scores all recorded answers for the benchmarks of a family."""
    questions_asset = f"questions/{variant.family}"

    def score_files(context: StageContext) -> StageOutput:
        questions = context.read_input("questions")
        files = sorted(context.lake.raw_path(f"{FOLDER}/{context.benchmark.base_name}").glob("*.jsonl"))
        rows = [row for file in files for row in _score_file(context, file, questions)]
        return StageOutput(rows, metadata={"systems": len(files)})

    stage = Stage(
        f"scores/{variant.key}",
        "scores",
        score_files,
        "Scores of other systems from recorded answers.",
        [StageInput(questions_asset, "benchmark"), StageInput(f"raw/{FOLDER}")],
        f"{VERSION}:{SCORES_VERSION}",
        family=variant.family,
        partitions="benchmarks",
        pool="gpu",
    )
    return [stage]


def _score_file(context: StageContext, file: Path, questions: pl.DataFrame) -> Sequence[dict[str, object]]:
    published, selector = parse_name(file)
    is_whole = context.benchmark_name == context.benchmark.base_name
    metrics = measure_file(file, questions, lambda: get_encoder(context.profile.token_encoder), reject_unknown=is_whole)
    return metric_rows(context.benchmark_name, selector, RECORDED_ANSWERS, published.model, metrics, [published])


def parse_name(file: Path) -> tuple[PublishedName, str]:
    """The printed system of a file, and the selector of its scores, which also names the run."""
    stem, separator, run = file.stem.partition(RUN_SEPARATOR)
    name, _, model = stem.partition("@")
    system, _, variant = name.partition("+")
    return PublishedName(system, variant, model), f"{name}{separator}{run}"


def measure_file(
    file: Path, questions: pl.DataFrame, open_encoder: Callable[[], Encoder] | None, *, reject_unknown: bool
) -> dict[str, Estimate]:
    """Every metric of the answers and triples of a file; questions without a line count as wrong.

    ``open_encoder``: Opens the encoder for the similarity of question and triples; not measured without it.
    """
    recorded = _read_file(file, questions, reject_unknown)
    evidence = _read_as("evidence", recorded.evidence)
    metrics: dict[str, Estimate] = {}
    if recorded.predictions:
        predictions = _read_as("predictions", recorded.predictions)
        answers = {"predictions": predictions, "evidence": evidence.clear(), "citations": _read_as("citations", [])}
        metrics = answer_metrics({"questions": questions, **answers})
    if recorded.evidence:
        rows = typed_rows(questions, QuestionRow)
        encoder = open_encoder() if open_encoder else None
        metrics |= triple_metrics(rows, evidence, encoder, recalled=recorded.has_recalled)
    return metrics


def _read_file(file: Path, questions: pl.DataFrame, reject_unknown: bool) -> _RecordedRows:
    """The rows of a file; lines of unknown questions are skipped or rejected."""
    columns = questions.select("source_id", "question_id", "task")
    questions_by_source = {source_id: (question_id, task) for source_id, question_id, task in columns.iter_rows()}
    recorded = _RecordedRows()
    ids = set()
    for row in jsonl_rows(file):
        row.check_field_names(("id", "answer", "ranked", "triples", "recalled"))
        source_id = row.label("id")
        if source_id in ids:
            raise row.error(f"{source_id} appears twice. Remove one of the lines", "id")
        ids.add(source_id)
        if source_id in questions_by_source:
            recorded.add(*questions_by_source[source_id], row)
        elif reject_unknown:
            raise row.error(f"{source_id} is not a question of the benchmark. Use ids of the official files", "id")
    return recorded


def _check_triple(row: Row, value: object, field: str) -> list[str]:
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(part, str) for part in value):
        raise row.error("expected a list of [head, relation, tail]", field)
    return value


def _read_as(table: str, rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    """Rows of a table; columns that they lack are null, as no metric reads them."""
    return pl.DataFrame(rows, schema=pl.DataFrame(TABLES[table].arrow.empty_table()).schema)
