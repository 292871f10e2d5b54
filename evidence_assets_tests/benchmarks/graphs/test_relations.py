"""The vocabularies of relations, their wording, and foreign names."""

from __future__ import annotations

from evidence_assets.benchmarks.graphs.formats import TripleRecord
from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.benchmarks.graphs.rows import record_frames


def test_the_shipped_vocabularies() -> None:
    vocabulary = load_vocabulary()
    assert len(vocabulary.relations) == 15 + 31
    assert len(set(vocabulary.foreign_names("disease_database").values())) == 15
    assert vocabulary.template("is_a_risk_factor_of") == "is a risk factor for"
    assert vocabulary.template("AtLocation") == "is at location of"
    assert ("may_treat", "may_contraindicate") in vocabulary.opposites
    assert ("may_contraindicate", "may_treat") in vocabulary.opposites
    names_by_id = {other for relation in vocabulary.relations.values() for other in relation.opposites}
    assert names_by_id <= set(vocabulary.relations)
    assert {name for name, _ in vocabulary.foreign.values()} <= set(vocabulary.relations)


def test_foreign_names_are_translated_and_inverted() -> None:
    (triples,) = record_frames(
        [
            TripleRecord("a", "CtD", "b", 1, "Compound", "Disease"),
            TripleRecord("class", "PCiC", "drug", 2, "Class", "Compound"),
            TripleRecord("a", "odd", "b", 3),
            TripleRecord("a", "may_treat", "b", 4),
        ]
    )
    rows = load_vocabulary().translate(triples, "hetionet").rows()
    assert rows == [
        ("a", "may_treat", "b", 1, "Compound", "Disease", None),
        ("drug", "belongs_to_the_drug_family_of", "class", 2, "Compound", "Class", None),
        ("a", "odd", "b", 3, None, None, None),
        ("a", "may_treat", "b", 4, None, None, None),
    ]
    assert load_vocabulary().translate(triples, "umls")["relation"].to_list() == ["CtD", "PCiC", "odd", "may_treat"]
