"""The contract of every generator, and tests of each backend."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.local_generators import TransformersGenerator
from evidence_assets.models.protocols import Generator, Request
from evidence_assets.models.registry import load_generator
from evidence_assets.models.served_models import OpenAIGenerator
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.reasoning import prompted_solver
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import PromptedSolver, explain_request
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Failure
from evidence_assets_tests.models.servers import MODEL, model_server, running
from evidence_assets_tests.models.tiny import make_causal

EVIDENCE = (EvidenceItem("e1", "chunk", "d", "0:9", "Aspirin may treat pain."),)
EXPLAIN = ExplainOption("What treats pain?", "A", "aspirin", EVIDENCE)
CHOOSE = ChooseAnswer(
    "What treats pain?",
    ("A", "B"),
    ("aspirin", "gold"),
    (Chain("A", (ChainStep("It treats pain.", ("e1",), ("may treat pain",)),)), Chain("B", ())),
    {"A": EVIDENCE, "B": EVIDENCE},
)
PLAIN = [Request("Be brief.", f"What is {term}?", max_tokens=8) for term in ("pain", "fever", "a drug", "pain")]
CHOICES = [Request("", "Choose.", max_tokens=32, choices=("A", "AB", "NOT ENOUGH INFORMATION", "C"))]
LONG = Request("", "pain " * 9000, max_tokens=8)


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_causal(tmp_path_factory.mktemp("tiny-causal"))


@pytest.fixture(scope="module")
def local(causal: Path) -> TransformersGenerator:
    return TransformersGenerator(str(causal), device="cpu")


@pytest.fixture(scope="module", autouse=True)
def _short_chains() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompted_solver, "EXPLAIN_TOKENS", 40)
        yield


class GeneratorContract:
    """Tests of every generator; subclasses provide the fixture ``generator``."""

    def test_answers_are_in_order_and_independent_of_the_batch(self, generator: Generator) -> None:
        batch = generator.generate(PLAIN)
        alone = [generator.generate([request])[0] for request in PLAIN]
        assert [each.text for each in batch] == [each.text for each in alone]
        assert isinstance(generator, Generator) and generator.model_id and generator.revision
        assert batch[0].text == batch[3].text and len({each.text for each in batch}) > 1
        assert generator.generate([]) == []

    def test_completions_include_their_cost(self, generator: Generator) -> None:
        for completion in generator.generate(PLAIN):
            assert completion.prompt_tokens > 0 and 0 < completion.completion_tokens <= 8
            assert completion.seconds > 0 and completion.finish_reason in ("stop", "length")

    def test_reply_is_one_of_the_choices(self, generator: Generator) -> None:
        (completion,) = generator.generate(CHOICES)
        assert completion.text in CHOICES[0].choices and completion.finish_reason == "stop"

    def test_too_long_a_prompt_is_refused_alone(self, generator: Generator) -> None:
        answer, refusal = generator.generate([PLAIN[0], LONG])
        assert not answer.is_refused and refusal.is_refused and refusal.text == ""

    def test_typed_tasks_end_in_an_answer_or_a_reason(self, generator: Generator) -> None:
        solver = PromptedSolver(LanguageModel(generator))
        (chain,), (choice,) = solver.explain([EXPLAIN]), solver.choose([CHOOSE])
        assert isinstance(chain, Failure) and "after one repair attempt" in chain.reason, "noise is never a chain"
        assert isinstance(choice, Choice) and choice.status in ("answered", "insufficient")


class TestTransformers(GeneratorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def generator(cls, local: TransformersGenerator) -> Generator:
        return local

    def test_sampling_does_not_change_the_global_random_state(self, local: TransformersGenerator) -> None:
        torch.manual_seed(5)
        expected = torch.rand(1)
        torch.manual_seed(5)
        replies = {local.generate([replace(PLAIN[0], temperature=t)])[0].text for t in (0.0, 2.0)}
        assert len(replies) == 2 and torch.equal(torch.rand(1), expected)

    def test_bad_input(self, causal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ModelUnavailable, match=r"4 bit need a CUDA device and bitsandbytes.*four_bit to false"):
            TransformersGenerator(str(causal), device="cpu", four_bit=True)
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(ModelUnavailable, match=r"no tokenizer; copy the tokenizer files"):
            TransformersGenerator(str(tmp_path))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(ModelUnavailable, match=r"'nobody/no-such-model' cannot be loaded.*give a model folder"):
            TransformersGenerator("nobody/no-such-model")
        with pytest.raises(BadInput, match="the backend extractive has no language model"):
            load_generator(GeneratorSettings(backend="extractive"))


class TestServedTinyModel(GeneratorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def generator(cls, local: TransformersGenerator) -> Iterator[Generator]:
        with running(model_server(local)) as url:
            yield OpenAIGenerator(MODEL, base_url=url, concurrency=4)


class FakeEngine:
    """A fake engine with the documented interface that counts letters."""

    options: dict[str, Any]

    def __init__(self, **settings: Any) -> None:
        FakeEngine.options = settings

    def get_tokenizer(self) -> Any:
        tokenizer = Mock(side_effect=lambda text, **_: {"input_ids": list(range(len(text)))})
        tokenizer.apply_chat_template = lambda messages, **_: "".join(message["content"] for message in messages)
        return tokenizer

    def generate(self, prompts: list[Any], sampling: list[Any], use_tqdm: bool) -> list[Any]:
        assert len(prompts) == len(sampling) and not use_tqdm
        lengths = [len(prompt["prompt_token_ids"]) for prompt in prompts]
        outputs = [types.SimpleNamespace(text=str(n), token_ids=[1], finish_reason="stop") for n in lengths]
        return [
            types.SimpleNamespace(prompt_token_ids=prompt["prompt_token_ids"], outputs=[output])
            for prompt, output in zip(prompts, outputs, strict=True)
        ]


def test_offline_engine_builds_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, sampling = types.ModuleType("vllm"), types.ModuleType("vllm.sampling_params")
    vars(engine).update(LLM=FakeEngine, SamplingParams=lambda **values: values)
    vars(sampling).update(StructuredOutputsParams=lambda **values: values)
    monkeypatch.setitem(sys.modules, "vllm", engine)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", sampling)
    generator = load_generator(GeneratorSettings(backend="vllm", name="some/model", revision="abc", four_bit=True))
    assert isinstance(generator, Generator) and (generator.model_id, generator.revision) == ("some/model", "abc")
    assert FakeEngine.options["enable_prefix_caching"] and FakeEngine.options["quantization"] == "bitsandbytes"
    assert generator.sampling(CHOICES[0])["structured_outputs"] == {"choice": list(CHOICES[0].choices)}
    assert generator.sampling(explain_request(EXPLAIN))["structured_outputs"]["json"]["required"] == ["steps"]
    assert generator.sampling(replace(PLAIN[0], temperature=0.7))["temperature"] == 0.7
    assert generator.sampling(PLAIN[0]) == {"temperature": 0.0, "seed": 0, "max_tokens": 8, "structured_outputs": None}
    completions = generator.generate([PLAIN[1], LONG, PLAIN[0]])
    assert [each.text for each in completions] == [str(9 + 14), "", str(9 + 13)]
    assert completions[1].is_refused and "max_model_len" in completions[1].finish_reason
