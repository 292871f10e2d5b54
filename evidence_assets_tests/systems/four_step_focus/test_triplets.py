"""Parsing of triplet replies, and the reasons of unusable ones."""

import dataclasses
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.four_step_focus.question_forms import Form, FormParser
from evidence_assets.systems.four_step_focus.triplets import (
    ANY_TYPE,
    Schema,
    Term,
    Triplet,
    TripletQuery,
    parse_triplets,
    triplet_request,
)

SCHEMA = Schema(("drug", "disease", "gene/protein"), ("treats", "targets"))


def triplets(*rows: tuple[str, str, str]) -> list[dict[str, str]]:
    return [dict(zip(("head", "edge", "tail"), row, strict=True)) for row in rows]


def variables(**types: str) -> list[dict[str, str]]:
    return [{"name": f"?{name}", "type": node_type} for name, node_type in types.items()]


def make_reply(target: str, types: dict[str, str], *rows: tuple[str, str, str]) -> str:
    """A valid reply; variables are given without their question mark."""
    return json.dumps({"target": target, "variables": variables(**types), "triplets": triplets(*rows)})


GOOD = {
    "target": "?d",
    "variables": variables(d="drug", g="gene/protein"),
    "triplets": triplets(("?d", "treats", "gout"), ("?d", "targets", "?g"), ("?d", "treats", "gout")),
}


def parse_reply(reply: str) -> TripletQuery:
    return parse_triplets(reply, SCHEMA)


def change_reply(**changes: object) -> str:
    return json.dumps({**GOOD, **changes})


def test_a_good_reply_alone_or_fenced() -> None:
    drug, gene = Term("?d", "drug"), Term("?g", "gene/protein")
    expected = TripletQuery((Triplet(drug, "treats", Term("gout")), Triplet(drug, "targets", gene)), drug)
    assert parse_reply(json.dumps(GOOD)) == expected
    assert parse_reply(f"```json\n{json.dumps(GOOD)}\n```\n") == expected


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Aspirin treats fever, so the answer is aspirin.", "not valid JSON.*Aspirin treats"),
        (change_reply(answer="aspirin"), "answer: Extra inputs are not permitted"),
        (change_reply(variables=variables(d="medicine", g="drug")), "'medicine' is no node type"),
        (change_reply(triplets=triplets(("?d", "treat", "gout"))), "'treat' is no edge type.*did you mean 'treats'"),
        (change_reply(target=None), "target: Input should be a valid string"),
        (change_reply(target="?z"), r"target '\?z' is no variable of the triplets"),
        (change_reply(triplets=triplets(("aspirin", "treats", "gout"))), "all ends are constants"),
        (change_reply(triplets=triplets(("?x", "treats", "gout"))), r"variable '\?x' has no type"),
        (change_reply(triplets=[["?d", "treats", "gout"]]), "triplets.0: Input should be a valid dictionary"),
        (change_reply(triplets=triplets(*(("?d", "treats", f"c{i}") for i in range(21)))), "at most 20 items"),
        (change_reply(variables=[*variables(d="drug"), *variables(d="disease")]), "has two types"),
        (change_reply(variables=[{"name": "d", "type": "drug"}]), "variables.0.name: String should match pattern"),
    ],
)
def test_unusable_replies_have_a_reason(reply: str, reason: str) -> None:
    with pytest.raises(UnusableReply, match=reason):
        parse_reply(reply)


def test_several_words_with_a_question_mark_are_a_constant_if_the_question_has_them() -> None:
    reply = change_reply(triplets=triplets(("?d", "treats", "?gout of the toe")))
    [triplet] = parse_triplets(reply, SCHEMA, "What treats gout of the toe?").triplets
    assert triplet == Triplet(Term("?d", "drug"), "treats", Term("gout of the toe"))
    with pytest.raises(UnusableReply, match="has no type"):
        parse_triplets(reply, SCHEMA, "What treats fever?")
    unlisted = change_reply(triplets=triplets(("?d", "treats", "?gout")))
    with pytest.raises(UnusableReply, match="has no type"):
        parse_triplets(unlisted, SCHEMA, "What treats gout of the toe?")


def test_the_question_and_the_types_are_in_the_request_as_data() -> None:
    request = triplet_request(('Ignore this. "What"?', SCHEMA))
    assert json.dumps('Ignore this. "What"?') in request.user
    assert all(name in request.user for name in ("gene/protein", "targets", "drug"))
    variables_schema = json.loads(request.json_schema)["properties"]["variables"]["items"]
    assert variables_schema["properties"]["type"]["enum"][0] == "drug"
    target_schema = json.loads(request.json_schema)["properties"]["target"]
    assert re.search(target_schema["pattern"], "?drug_1")
    assert not re.search(target_schema["pattern"], "a drug")


def test_a_constrained_reply_cannot_repeat_its_triplets_until_the_limit_of_tokens() -> None:
    request = triplet_request(("Which drug treats gout?", SCHEMA))
    fields = json.loads(request.json_schema)["properties"]
    types = {f"variable_{n}": "gene/protein" for n in range(fields["variables"]["maxItems"])}
    repeated = [("?variable_0", "targets", "?variable_1")] * fields["triplets"]["maxItems"]
    longest = make_reply("?variable_0", types, *repeated)
    assert len(longest) < 4 * request.max_tokens, "a token has four characters on average"
    assert len(parse_reply(longest).triplets) == 1


def test_denied_triplets_are_read_only_where_the_schema_has_them() -> None:
    schema = dataclasses.replace(SCHEMA, denials=True)
    rows = triplets(("?d", "treats", "gout"), ("?d", "targets", "?g"))
    reply = change_reply(triplets=[rows[0], {**rows[1], "denied": True}])
    query = parse_triplets(reply, schema)
    assert [t.is_denied for t in query.triplets] == [False, True]
    with pytest.raises(UnusableReply, match="cannot be denied"):
        parse_reply(reply)
    with pytest.raises(UnusableReply, match=r"triplets.0.denied: Input should be a valid boolean"):
        parse_triplets(change_reply(triplets=[{**rows[0], "denied": "yes"}]), schema)
    requests = [triplet_request(("What?", each)) for each in (SCHEMA, schema)]
    assert ['"denied"' in request.user for request in requests] == [False, True]
    assert ['"denied"' in request.json_schema for request in requests] == [False, True]


# Questions in declared forms are parsed exactly; others are rejected


PARSER = FormParser(
    [
        Form("a medicine prescribed for {}", "treats", "head"),
        Form("Which medicine would fight {}?", "treats", "head"),
        Form("the illness that is relieved by {}", "treats", "tail"),
        Form("a typical sign of {}", "shows", "head"),
        Form("the illness suggested by {}", "shows", "tail"),
        Form("something that is kept in {}", "in", "head"),
    ],
    ["drug", "disease"],
)


def variable(number: int, node_type: str = ANY_TYPE) -> Term:
    return Term(f"?x{number}", node_type)


NAMES = st.lists(st.sampled_from(["gout", "salt", "red eye", "oil and vinegar"]), min_size=2, max_size=3, unique=True)


@given(NAMES, st.lists(st.integers(0, 3), min_size=2, max_size=3))
def test_questions_in_declared_forms_are_parsed_exactly(names: list[str], patterns: list[int]) -> None:
    phrases, expected = [], []
    n_variables = 1
    for name, pattern in zip(names, patterns, strict=False):
        if pattern == 0:
            phrases.append(f"a medicine prescribed for {name}")
            expected.append(Triplet(variable(0, "drug"), "treats", Term(name)))
        elif pattern == 1:
            phrases.append(f"the illness suggested by {name}")
            expected.append(Triplet(Term(name), "shows", variable(0, "drug")))
        else:
            phrases.append(f"a medicine prescribed for the illness suggested by {name}")
            expected.append(Triplet(Term(name), "shows", variable(n_variables)))
            expected.append(Triplet(variable(0, "drug"), "treats", variable(n_variables)))
            n_variables += 1
    text = f"Which drug is at once {', '.join(phrases[:-1])} and {phrases[-1]}?"
    assert PARSER.parse(text).triplets == tuple(expected)


@pytest.mark.parametrize("question", ["", "?", "What is love?", "gout", "Which drug is at once", "Was ist Gicht?"])
def test_other_questions_are_rejected(question: str) -> None:
    with pytest.raises(UnusableReply, match="none of the known forms"):
        PARSER.parse(question)
    assert isinstance(PARSER.read_triplets([question])[0][0], Failure)
