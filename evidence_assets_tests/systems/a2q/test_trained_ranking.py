"""The features of triples that name correct options in the first half of the questions rank those of the second."""

from __future__ import annotations

import json

from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.systems.a2q.trained_ranking import TrainedTriples, build_training
from evidence_assets_tests.graphs.small_graph import graph_of, with_vectors
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.lake_rows import question as question_row
from evidence_assets_tests.systems.small_models import WordEncoder

ANIMALS = ["badger", "beaver", "falcon", "otter", "rabbit", "salmon"]
PLACES = ["burrow", "lodge", "eyrie", "holt", "warren", "stream"]
OTHERS = ["desert", "tundra", "glacier", "volcano", "meadow", "canyon"]
EDGES = [(i, 0, 6 + i) for i in range(6)] + [(i, 1, 12 + i) for i in range(6)]
QUESTIONS = [
    Question(f"q{i}", "own", "mcqa", f"Where has a {animal} its home?", (PLACES[i], OTHERS[i]))
    for i, animal in enumerate(ANIMALS)
]


def first_relations(gold: str) -> list[str]:
    """Relations of the first triples of the second half, with this label correct in the first."""
    graph = with_vectors(graph_of([*ANIMALS, *PLACES, *OTHERS], ["lives in", "has no home in"], EDGES), WordEncoder())
    rows = [question_row(i, gold=gold, options=list(q.options), text=q.text) for i, q in enumerate(QUESTIONS)]
    training = build_training(as_stored("questions", rows))
    assert [(q.question_id, q.text, label) for q, label in training] == [
        (q.question_id, q.text, gold) for q in QUESTIONS[:3]
    ]
    evidence = TrainedTriples(graph, WordEncoder(), training).select(QUESTIONS[3:])
    return [json.loads(items[0].why or "")["triple"][1] for items in evidence]


def test_triples_like_those_of_correct_options_come_first() -> None:
    assert first_relations("A") == ["lives in"] * 3
    assert first_relations("B") == ["has no home in"] * 3
