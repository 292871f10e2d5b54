"""Triplets from a reply: what is read, and a reason for everything that is not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.four_step_focus.triplets import (
    PromptedTriplets,
    Schema,
    Term,
    Triplet,
    TripletQuery,
    parse_triplets,
    triplet_request,
)
from evidence_assets_tests.systems.small_models import Scripted

SCHEMA = Schema(("drug", "disease", "gene/protein"), ("treats", "targets"), (("drug", "treats", "disease"),))
GOOD = {
    "target": "?d",
    "variables": {"?d": "drug", "?g": "gene/protein"},
    "triplets": [["?d", "treats", "gout"], ["?d", "targets", "?g"], ["?d", "treats", "gout"]],
}


def changed(**changes: object) -> str:
    return json.dumps({**GOOD, **changes})


def test_a_good_reply_alone_or_fenced() -> None:
    drug, gene = Term("?d", "drug"), Term("?g", "gene/protein")
    expected = TripletQuery((Triplet(drug, "treats", Term("gout")), Triplet(drug, "targets", gene)), drug)
    assert parse_triplets(json.dumps(GOOD), SCHEMA) == expected
    assert parse_triplets(f"```json\n{json.dumps(GOOD)}\n```\n", SCHEMA) == expected
    assert expected.adrift == ()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Aspirin treats fever, so the answer is aspirin.", "no JSON object but begins with 'Aspirin treats"),
        ("", "empty reply"),
        ('{"target": "?d"', "not valid JSON"),
        ("[1]", "no JSON object"),
        (json.dumps(GOOD) + " I hope this helps.", "not valid JSON: Extra data"),
        (changed(answer="aspirin"), "unknown key 'answer'"),
        (changed(variables={"?d": "medicine", "?g": "drug"}), "'medicine' is no node type"),
        (changed(triplets=[["?d", "treat", "gout"]]), "'treat' is no edge type.*did you mean 'treats'"),
        (changed(target=None), "no target is named"),
        (changed(target=""), "no target is named"),
        (changed(target="?z"), r"target '\?z' is no variable of the triplets"),
        (changed(target="gout"), "is no variable"),
        (changed(triplets=[["aspirin", "treats", "gout"]]), "all ends are constants"),
        (changed(triplets=[["?x", "treats", "gout"]]), r"variable '\?x' of triplet 1 has no type"),
        (changed(triplets=[]), "no list of triplets"),
        (changed(triplets=[["?d", "treats"]]), "triplet 1 is not a list of three texts"),
        (changed(triplets=[["?d", "treats", " "]]), "triplet 1 is not a list of three texts"),
        (changed(triplets=[["?d", "treats", f"c{i}"] for i in range(21)]), "21 triplets are more than 20"),
        (changed(variables=["?d"]), "no object of variables"),
        (changed(variables={"d": "drug"}), "does not begin with a question mark"),
    ],
)
def test_unusable_replies_have_a_reason(reply: str, reason: str) -> None:
    with pytest.raises(UnusableReply, match=reason):
        parse_triplets(reply, SCHEMA)


@given(st.text(max_size=60) | st.recursive(st.none() | st.text(max_size=4), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["target", "variables", "triplets", "?d"]), x), max_leaves=8).map(json.dumps))  # fmt: skip
def test_any_reply_is_read_or_refused(reply: str) -> None:
    with pytest.raises(UnusableReply):
        parse_triplets(reply, SCHEMA)


def test_variables_that_meet_no_constant_are_named() -> None:
    reply = changed(triplets=[["?d", "targets", "?g"]], target="?g")
    assert parse_triplets(reply, SCHEMA).adrift == ("?d", "?g")


def test_contradictory_triplets_are_read_as_they_stand() -> None:
    query = parse_triplets(changed(triplets=[["?d", "treats", "gout"], ["?d", "treats", "flu"]]), SCHEMA)
    assert len(query.triplets) == 2


def test_the_question_and_the_types_are_in_the_request_as_data() -> None:
    request = triplet_request('Ignore this. "What"?', SCHEMA)
    assert json.dumps('Ignore this. "What"?') in request.user
    assert all(name in request.user for name in ("gene/protein", "targets", "drug | treats | disease"))
    assert json.loads(request.json_schema)["properties"]["variables"]["additionalProperties"]["enum"][0] == "drug"


def test_one_repair_attempt_and_then_a_failure() -> None:
    def reply(request: Request) -> str:
        if "never" in request.user:
            return "I cannot."
        if "earlier reply" in request.user:
            assert "Which type?" in request.user
            return json.dumps(GOOD)
        return "Which type?" if "repairable" in request.user else json.dumps(GOOD)

    generator = Scripted(reply)
    found = PromptedTriplets(generator, SCHEMA).read(["good", "repairable", "never"])
    assert [isinstance(query, TripletQuery) for query in found] == [True, True, False]
    assert isinstance(found[2], Failure)
    assert "begins with 'I cannot.'" in found[2].reason
    assert len(generator.requests) == 5
    assert PromptedTriplets(generator, SCHEMA).read([]) == []
    with pytest.raises(ValueError, match="nothing to ask in"):
        PromptedTriplets(generator, Schema((), ()))
