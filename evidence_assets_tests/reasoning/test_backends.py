"""A task of each shape through a server with each mode of constrained decoding, or none, and scripted replies: a
well-formed reply becomes a result, a malformed one a failure with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from evidence_assets.models.protocols import Completion, Request
from evidence_assets.models.served_models import OpenAIGenerator
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.tasks import Failure
from evidence_assets_tests.models.servers import MODEL, model_server, running
from evidence_assets_tests.reasoning.test_prompted_tasks import EXAMPLES, task_named


class Script:
    """The model of the server: returns scripted replies in turn."""

    model_id, revision = "script", "1"

    def __init__(self) -> None:
        self.parameters: dict[str, object] = {}
        self.replies: list[str] = []

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [Completion(self.replies.pop(0), 7, 5, 0.0, "stop") for _ in requests]


@pytest.fixture(scope="module")
def script_server() -> Iterator[tuple[Script, str]]:
    script = Script()
    with running(model_server(script)) as url:
        yield script, url


@pytest.mark.parametrize("constrain", ["json_schema", "structured_outputs", "none"])
@pytest.mark.parametrize("name", ["choose", "explain", "short_answer"])
class TestTasksThroughAServer:
    """One task of each shape: a choice, JSON and text."""

    def ask(self, script_server: tuple[Script, str], constrain: str, name: str, *replies: str) -> Any:
        """The result of a task after these replies, all of which must be used."""
        script, url = script_server
        script.replies = list(replies)
        model = LanguageModel(OpenAIGenerator(MODEL, base_url=url, constrain=constrain))
        (result,) = task_named(name).ask(model, [EXAMPLES[name].task])
        assert not script.replies and model.usage.tokens_in > 0 and model.usage.tokens_out > 0
        return result

    def test_a_well_formed_reply_is_parsed_at_once(
        self, script_server: tuple[Script, str], constrain: str, name: str
    ) -> None:
        reply = EXAMPLES[name].usable[0]
        assert self.ask(script_server, constrain, name, reply) == task_named(name).parse(reply, EXAMPLES[name].task)

    def test_a_malformed_reply_is_repaired_once_or_fails_with_a_reason(
        self, script_server: tuple[Script, str], constrain: str, name: str
    ) -> None:
        example = EXAMPLES[name]
        reply, usable = (*example.unusable, " ")[0], example.usable[0]
        result = self.ask(script_server, constrain, name, reply, usable)
        assert result == task_named(name).parse(usable, example.task)
        result = self.ask(script_server, constrain, name, reply, reply)
        assert isinstance(result, Failure) and "after one repair attempt" in result.reason
