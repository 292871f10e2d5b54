"""Served models: order, retries, the cache, keys and constrained replies.

What each fault of a real server on this machine ends in is the table of `test_faults`.
"""

import logging
import math
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models import openai_client
from evidence_assets.models.protocols import Request
from evidence_assets.models.served_models import OpenAIGenerator
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import PromptedSolver
from evidence_assets.reasoning.tasks import Choice, ChooseAnswer
from evidence_assets_tests.models.servers import MODEL, FaultyServer, complete, strict_faults
from evidence_assets_tests.reasoning.small_questions import make_question
from evidence_assets_tests.systems.small_models import CompletionStore

REQUESTS = [Request("", f"question {number}", max_tokens=8) for number in range(12)]


def make_client(server: FaultyServer, **settings: Any) -> OpenAIGenerator:
    return OpenAIGenerator(MODEL, base_url=server.url, **{"attempts": 3, "timeout_seconds": 10.0} | settings)


def test_replies_are_in_order_and_concurrency_is_limited(server: FaultyServer) -> None:
    server.reply = lambda user: f"re {user}"
    generator = make_client(server, concurrency=4)
    completions = complete(generator, REQUESTS)
    assert complete(generator, []) == []
    assert [each.text for each in completions] == [f"re question {number}" for number in range(12)]
    assert 1 < server.max_in_flight <= 4
    assert all(
        (each.prompt_tokens, each.completion_tokens, each.finish_reason) == (11, 3, "stop") for each in completions
    )


@pytest.mark.parametrize("fault", ["503", "cut"])
def test_temporary_fault_is_retried(server: FaultyServer, fault: str) -> None:
    server.plan = [fault, fault]
    assert complete(make_client(server), REQUESTS[:1])[0].text == "B"
    assert len(server.bodies) == 3


def test_a_rejected_optional_field_is_sent_only_once(server: FaultyServer) -> None:
    server.default_behaviour = "no seed"
    generator = make_client(server, concurrency=1)
    assert [each.text for each in complete(generator, REQUESTS[:3])] == ["B"] * 3
    assert complete(generator, REQUESTS[:1])[0].text == "B"
    assert ["seed" in body for body in server.bodies] == [True, False, False, False, False]
    assert complete(make_client(server), REQUESTS[:1])[0].text == "B" and "seed" not in server.bodies[-1], (
        "for every client"
    )


def test_a_model_without_replies_by_schema_is_asked_without(
    server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as gpt-4o-2024-05-13, with which every request for triplets was refused."""
    monkeypatch.setattr(openai_client, "_adaptations", defaultdict(list))  # other tests use this server, too
    server.default_behaviour = "no schema"
    requests = [Request("", "why?", json_schema='{"type": "object"}'), Request("", "which?", choices=("A", "B"))]
    completions = complete(make_client(server, concurrency=1), requests)
    assert [(each.text, each.is_refused) for each in completions] == [("B", False)] * 2
    assert ["response_format" in body for body in server.bodies] == [True, False, False], (
        "refused once, then remembered"
    )


def test_failed_step_resumes_from_the_cache(server: FaultyServer) -> None:
    tasks = [ChooseAnswer(make_question(f"question {number}", "x", "y"), ()) for number in range(8)]
    server.plan, server.default_behaviour = [""] * 5, "500"
    cache = CompletionStore()
    with pytest.raises(ModelUnavailable):
        PromptedSolver(LanguageModel(make_client(server, concurrency=2), cache)).choose(tasks)
    assert len(cache) == 5
    server.default_behaviour = ""
    server.bodies.clear()
    choices = PromptedSolver(LanguageModel(make_client(server, concurrency=2), cache)).choose(tasks)
    assert [each.answer for each in choices if isinstance(each, Choice)] == ["B"] * 8
    assert len(server.bodies) == 3, "what was paid for is not asked again"


def test_api_key_is_sent_but_never_logged_or_shown(
    server: FaultyServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-secret-123")
    caplog.set_level(logging.DEBUG)
    generator = make_client(server, api_key_env="SOME_KEY")
    server.plan = [""]
    server.default_behaviour = "key in error"
    complete(generator, REQUESTS[:1])
    assert server.headers[0]["authorization"] == "Bearer sk-secret-123"
    with pytest.raises(ModelUnavailable) as error:
        complete(generator, REQUESTS[:1])
    assert "bad key [key]" in str(error.value)
    texts = str(error.value) + repr(error.value.__context__) + str(vars(generator).get("parameters")) + caplog.text
    assert "sk-secret" not in texts
    server.default_behaviour = "401"
    with pytest.raises(ModelUnavailable, match=r"rejected the API key \(401\). Set the environment variable SOME_KEY"):
        complete(generator, REQUESTS[:1])


def test_choices_and_schemas_constrain_the_reply(server: FaultyServer) -> None:
    choose = Request("be brief", "which?", choices=("A", "B"))
    explain = Request("", "why?", json_schema='{"type": "object"}')
    server.default_behaviour = '{"answer": "A"}'
    first, second = complete(make_client(server, concurrency=1), [choose, explain])
    assert (first.text, second.text) == ("A", '{"answer": "A"}'), "a choice is given back bare"
    schemas = [body["response_format"]["json_schema"]["schema"] for body in server.bodies]
    assert strict_faults(schemas[0]) == []
    assert schemas[0]["properties"]["answer"]["enum"] == ["A", "B"] and schemas[1] == {"type": "object"}
    assert [message["role"] for message in server.bodies[0]["messages"]] == ["system", "user"]
    assert all(body["temperature"] == 0 for body in server.bodies)
    server.bodies.clear()
    complete(make_client(server, constrain="structured_outputs", concurrency=1), [choose, explain])
    assert [body["structured_outputs"] for body in server.bodies] == [
        {"choice": ["A", "B"]},
        {"json": {"type": "object"}, "disable_any_whitespace": True},
    ]
    (completion,) = complete(make_client(server, constrain="none"), [choose])
    assert completion.text == server.default_behaviour, "what was not asked for is not unwrapped"
    assert not {"response_format", "structured_outputs"} & server.bodies[2].keys()
    server.default_behaviour = '{"answer": 1}'
    (completion,) = complete(make_client(server), [choose])
    assert completion.text == server.default_behaviour, "what is no such object is left as it is"


RATED = Request("", "Which?", max_tokens=4, choices=("A", "B", "C"), rates_choices=True)


def test_choices_are_rated_by_log_probabilities(server: FaultyServer) -> None:
    server.reply = lambda user: "The"
    server.log_probs = {"The": -0.5, "B": -2.0, " B": -3.0, "A": -2.5, "x": -7.0}
    (completion,) = complete(make_client(server), [RATED])
    assert completion.text == "B" and completion.finish_reason == "stop", "although the reply begins with another word"
    a, b, c = completion.choice_log_probs
    assert (a, c) == (-2.5, -7.0), "C is not among the tokens: its bound"
    assert math.isclose(math.exp(b), math.exp(-2.0) + math.exp(-3.0)), "with or without a space"
    (body,) = server.bodies
    assert "response_format" not in body and (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (
        True,
        20,
        4,
    )


def test_a_server_without_log_probabilities_still_chooses(
    server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_client, "_adaptations", defaultdict(list))
    (silent,) = complete(make_client(server), [RATED])
    server.default_behaviour = "no log probabilities"
    (refusing,) = complete(make_client(server), [RATED])
    assert [(each.text, each.choice_log_probs) for each in (silent, refusing)] == [("B", ())] * 2
    assert "logprobs" not in server.bodies[-1]


def test_closing_the_iterator_cancels_requests(server: FaultyServer) -> None:
    server.plan = ["", *["slow"] * 300]
    replies = make_client(server, concurrency=2).generate_each(REQUESTS * 20)
    next(replies)
    stop_time = time.monotonic()
    replies.close()  # type: ignore[attr-defined]
    assert len(server.bodies) < 5 and time.monotonic() - stop_time < 0.5, "what is under way is broken off"


def test_the_revision_is_the_servers_or_the_pinned_one(server: FaultyServer) -> None:
    assert (make_client(server, revision="pinned").revision, make_client(server).revision) == ("pinned", "served")
    server.model_entry = {"root": "/weights/models--x/snapshots/c0ffee/"}
    assert make_client(server, revision="pinned").revision == make_client(server).revision == "c0ffee"
    assert not server.bodies


def test_the_revision_of_a_file_that_llama_cpp_serves_is_its_fingerprint(server: FaultyServer, tmp_path: Path) -> None:
    server.model_entry = {"owned_by": "llamacpp"}
    assert make_client(server).revision == "served", "it does not say which file"
    revisions = []
    for content in (b"GGUF one", b"GGUF two"):
        (tmp_path / "model.gguf").write_bytes(content)
        server.properties = {"model_path": str(tmp_path / "model.gguf")}
        revisions.append(make_client(server).revision)
    assert len({*revisions, "served"}) == 3 and not server.bodies
    server.properties = {"model_path": str(tmp_path / "no.gguf")}
    assert make_client(server).revision == "served", "a path on another machine"


def test_a_relative_path_of_a_served_file_is_warned_of_once(
    server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server.model_entry = {"owned_by": "llamacpp"}
    server.properties = {"model_path": "weights/model.gguf"}
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "model.gguf").write_bytes(b"GGUF")
    assert [make_client(server).revision for _ in range(2)] == ["served", "served"]
    assert [record.getMessage() for record in caplog.records] == [
        f"the server at {server.url} has the file weights/model.gguf, which is not in this folder, so that its "
        "revision is unknown. Start the server with the absolute path of the file"
    ]
    caplog.clear()
    monkeypatch.chdir(tmp_path)
    assert make_client(server).revision != "served" and not caplog.records
