"""Training pairs of the relevance classifier, and reuse of a tuned one."""

import json
from pathlib import Path

from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.models.rerankers import LabelledPair, TuningSettings
from evidence_assets.systems.a2q.classifier_tuning import build_model_row, label_triples, tune_classifier
from evidence_assets_tests.models.tiny import make_encoder


def make_evidence(head: str, relation: str, tail: str) -> SelectedEvidence:
    return SelectedEvidence(
        "", "triple", (), "", f"{head} {relation} {tail}", 1.0, json.dumps({"triple": [head, relation, tail]})
    )


TREATS, SHOWS = make_evidence("Aspirin", "treats", "fever"), make_evidence("fever", "shows", "heat")


def make_question(
    text: str, gold: str, options: tuple[str, ...] = (), aliases: tuple[tuple[str, ...], ...] = ()
) -> QuestionRecord:
    return QuestionRecord("own", text, "dev", "mcqa" if options else "kgqa", text, options, (gold,), aliases=aliases)


def test_triples_whose_head_or_tail_is_a_correct_answer_are_relevant() -> None:
    by_name = label_triples([make_question("What treats fever?", "aspirin")], [[TREATS, SHOWS]])
    assert by_name == [
        LabelledPair("What treats fever?", "Aspirin treats fever", True),
        LabelledPair("What treats fever?", "fever shows heat", False),
    ]
    by_alias = label_triples(
        [make_question("What treats fever?", "ASA", aliases=(("the aspirin",),))], [[TREATS, SHOWS]]
    )
    assert [pair.relevant for pair in by_alias] == [True, False]
    by_tail = label_triples([make_question("What does fever show?", "heat")], [[TREATS, SHOWS]])
    assert [pair.relevant for pair in by_tail] == [False, True]
    by_option = label_triples([make_question("What treats fever?", "B", ("heat", "aspirin"))], [[TREATS, SHOWS]])
    assert [pair.relevant for pair in by_option] == [True, False]


def test_the_classifier_is_tuned_again_only_if_inputs_change(tmp_path: Path) -> None:
    base, folder = str(make_encoder(tmp_path / "base")), tmp_path / "tuned"
    pairs = label_triples([make_question("What treats fever?", "aspirin")], [[TREATS, SHOWS]])
    settings = TuningSettings(epochs=1)
    first = tune_classifier(folder, base, pairs, settings)
    assert (first["pairs"], first["relevant"], len(first["losses"])) == (2, 1, 1)
    modified_ns = (folder / "model.safetensors").stat().st_mtime_ns
    assert tune_classifier(folder, base, pairs, settings) == first
    assert (folder / "model.safetensors").stat().st_mtime_ns == modified_ns
    first_row = build_model_row(folder, "classifier", first)
    second = tune_classifier(folder, base, pairs, TuningSettings(epochs=2))
    assert second["input_hash"] != first["input_hash"]
    assert build_model_row(folder, "classifier", second)["revision"] != first_row["revision"]
