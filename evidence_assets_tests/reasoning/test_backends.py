"""A task of each shape through each backend: a well-formed reply becomes a result, a malformed one a reason.

What is said is given beforehand, so that what is tested is how each backend asks for a shape and gives the reply back
in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.models.completions import ReplayGenerator
from evidence_assets.models.local_generators import TransformersGenerator
from evidence_assets.models.protocols import Completion, Generator, Request
from evidence_assets.models.served_models import OpenAIGenerator
from evidence_assets.reasoning.asking import LanguageModel
from evidence_assets.reasoning.tasks import Failure
from evidence_assets_tests.models.servers import MODEL, model_server, running
from evidence_assets_tests.models.test_generators import Noted
from evidence_assets_tests.models.tiny import make_causal, record
from evidence_assets_tests.reasoning.test_prompted_tasks import EXAMPLES, task_named

Reply = tuple[str, str]
"""A text, and the reason why it ended."""


class Script:
    """Says what it is told to, in turn, and notes what was asked."""

    model_id, revision = "script", "1"

    def __init__(self, *replies: Reply) -> None:
        self.parameters: dict[str, object] = {}
        self.replies, self.asked = list(replies), 0

    def say(self) -> Reply:
        self.asked += 1
        return self.replies.pop(0)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        said = [self.say() for _ in requests]
        return [Completion(text, 7, 5, 0.0, finish) for text, finish in said]


Backend = Callable[[Script, str], AbstractContextManager[Generator]]


class Behind:
    """The model behind the server; another one for each test."""

    model_id, revision = "behind", "1"
    parameters: dict[str, object] = {}  # noqa: RUF012
    script = Script()
    url = ""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return self.script.generate(requests)


@pytest.fixture(scope="module")
def behind() -> Iterator[Behind]:
    model = Behind()
    with running(model_server(model)) as model.url:
        yield model


def served(behind: Behind, constrain: str) -> Backend:
    @contextmanager
    def backend(script: Script, name: str) -> Iterator[Generator]:
        behind.script = script
        yield OpenAIGenerator(MODEL, base_url=behind.url, constrain=constrain)

    return backend


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> TransformersGenerator:
    return TransformersGenerator(str(make_causal(tmp_path_factory.mktemp("tiny-causal"))), device="cpu")


def in_this_process(local: TransformersGenerator) -> Backend:
    """A real tokenizer, chat template, trie of choices and limit of tokens; only which token comes next is scripted."""

    @contextmanager
    def backend(script: Script, name: str) -> Iterator[Generator]:
        def decode(given: torch.Tensor, **settings: Any) -> torch.Tensor:
            text, finish = script.say()
            ids, end = given[0].tolist(), local._ends[0]
            tokens = [*local._tokenizer(text, add_special_tokens=False)["input_ids"], end]
            assert len(tokens) <= settings["max_new_tokens"], "the limit cuts a reply that is allowed"
            allowed = settings.get("prefix_allowed_tokens_fn")
            for token in tokens if text == EXAMPLES[name].usable[0] and allowed else ():
                assert token in allowed(0, torch.tensor(ids)), "the choices let a valid one not through"
                ids.append(token)
            return torch.tensor([[*given[0].tolist(), *(tokens if finish == "stop" else tokens[:-1])]])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local._model, "generate", decode)
            yield local

    return backend


def replayed(folder: Path) -> Backend:
    @contextmanager
    def backend(script: Script, name: str) -> Iterator[Generator]:
        noted = Noted(script)
        task_named(name).ask(LanguageModel(noted), [EXAMPLES[name].task])
        record(folder / "said.jsonl", noted.exchanges)
        yield ReplayGenerator(folder)

    return backend


KINDS = {"choose": "a choice", "explain": "JSON", "short_answer": "text"}
"""One task of each shape that a reply is held to."""
BACKENDS = ["json_schema", "structured_outputs", "none", "transformers", "replay"]
PAIRS = [(backend, name) for backend in BACKENDS for name in KINDS]


@pytest.fixture
def backend(request: pytest.FixtureRequest, local: TransformersGenerator, behind: Behind, tmp_path: Path) -> Backend:
    name = str(request.param)
    others = {"transformers": in_this_process(local), "replay": replayed(tmp_path)}
    return others.get(name) or served(behind, name)


def asked(backend: Backend, name: str, *replies: Reply) -> tuple[Any, Script, LanguageModel]:
    """What a task comes to when the model behind a backend says this."""
    script = Script(*replies)
    with backend(script, name) as generator:
        model = LanguageModel(generator)
        (result,) = task_named(name).ask(model, [EXAMPLES[name].task])
    return result, script, model


@pytest.mark.parametrize(("backend", "name"), PAIRS, indirect=["backend"])
class TestTasksThroughBackends:
    def test_a_well_formed_reply_is_a_result_at_once(self, backend: Backend, name: str) -> None:
        reply = EXAMPLES[name].usable[0]
        result, script, model = asked(backend, name, (reply, "stop"))
        assert result == task_named(name).parse(reply, EXAMPLES[name].task), result
        assert script.asked == 1 and model.usage.tokens_in > 0 and model.usage.tokens_out > 0

    def test_a_malformed_reply_is_repaired_once_or_a_reason(self, backend: Backend, name: str) -> None:
        example = EXAMPLES[name]
        reply = (*example.unusable, " ")[0]
        result, script, _ = asked(backend, name, (reply, "stop"), (example.usable[0], "stop"))
        assert result == task_named(name).parse(example.usable[0], example.task) and script.asked == 2
        result, script, _ = asked(backend, name, (reply, "stop"), (reply, "stop"))
        assert isinstance(result, Failure) and script.asked == 2
        assert reason_of(name, reply) in result.reason and "after one repair attempt" in result.reason


def reason_of(name: str, reply: str) -> str:
    if not reply.strip():
        return "it is empty"
    with pytest.raises(UnusableReply) as refused:
        task_named(name).parse(reply, EXAMPLES[name].task)
    return str(refused.value)
