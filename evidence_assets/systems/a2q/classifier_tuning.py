"""The relevance classifier of Attention2Query, tuned: what it learns from, and when it need not learn again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.records import Question, option_labels
from evidence_assets.experiment.metrics import normalise_answer
from evidence_assets.experiment.selection import Pick
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.ids import content_id
from evidence_assets.models import reranker_training
from evidence_assets.models.reranker_training import Labelled, TuningSettings, tune_reranker
from evidence_assets.models.weights import folder_revision

VERSION = reranker_training.VERSION
_REPORT = "tuning.json"


def labelled_triples(questions: Sequence[Question], picks: Sequence[Sequence[Pick]]) -> list[Labelled]:
    """Each question with each of its triples; relevant are those that a right answer is an end of.

    Questions of which no triple or every triple is relevant teach nothing about ranking and are left out.
    """
    pairs = []
    for question, own in zip(questions, picks, strict=True):
        told = dict(zip(option_labels(question.task, question.options), question.options, strict=True))
        forms = [*(told.get(g, g) for g in question.gold), *(form for forms in question.aliases for form in forms)]
        wanted = {normalise_answer(form) for form in forms}
        made = []
        for pick in own:
            head, _, tail = json.loads(pick.why or "{}")["triple"]
            relevant = bool({normalise_answer(head), normalise_answer(tail)} & wanted)
            made.append(Labelled(question.text, pick.text, relevant))
        if len({pair.relevant for pair in made}) == 2:
            pairs += made
    return pairs


def tuned(folder: Path, base: str, pairs: Sequence[Labelled], settings: TuningSettings) -> dict[str, Any]:
    """Tune into ``folder``, or leave what lies there where it was tuned on the same; returns what is to say of it."""
    wanted = content_id("tuned classifier", VERSION, base, [asdict(pair) for pair in pairs], asdict(settings))
    kept = folder / _REPORT
    if kept.exists():
        report: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if report["input_hash"] == wanted:
            return report
    with replacing_folder(folder) as temporary:
        losses = tune_reranker(base, pairs, temporary, settings)
        report = {
            "input_hash": wanted,
            "pairs": len(pairs),
            "relevant": sum(pair.relevant for pair in pairs),
            "losses": [round(loss, 4) for loss in losses],
        }
        (temporary / _REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


def model_row(folder: Path, name: str, report: dict[str, Any]) -> dict[str, Any]:
    """A row of ``models``."""
    vocabulary = json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    revision = folder_revision(folder)
    return {
        "model_id": f"{name}@{revision}",
        "name": name,
        "revision": revision,
        "task": "relevance classifier",
        "vocabulary": vocabulary,
        "sentences": report["pairs"],
        "input_hash": report["input_hash"],
    }
