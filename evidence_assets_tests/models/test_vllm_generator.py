"""The backend of vLLM's offline engine. A small engine takes the place of vLLM's, which needs a card.

It has the methods and parameters that the backend uses, so these tests show how requests and replies are translated,
not that vLLM accepts them: ``make gpu`` compares the real engine with the CPU where vLLM is installed.
"""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from evidence_assets.experiment.solvers import find_pool, prompts_version
from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models import vllm_generator
from evidence_assets.models.local_generators import TransformersGenerator
from evidence_assets.models.protocols import Generator, Request
from evidence_assets.models.registry import load_generator
from evidence_assets.models.vllm_generator import VllmGenerator
from evidence_assets.profiles import GeneratorSettings
from evidence_assets_tests.models.servers import complete
from evidence_assets_tests.models.test_generators import CHOICES, LONG, PLAIN, GeneratorContract
from evidence_assets_tests.models.tiny import make_causal


@dataclass
class StructuredOutputsParams:
    choice: list[str] | None = None
    json: Any = None
    disable_any_whitespace: bool = False


@dataclass
class SamplingParams:
    temperature: float
    seed: int
    max_tokens: int
    logprobs: int | None = None
    structured_outputs: StructuredOutputsParams | None = None


class Engine:
    """A fake of ``vllm.LLM`` with a tiny model of transformers; keeps the parameters of each call."""

    def __init__(self, folder: Path) -> None:
        self._model = TransformersGenerator(str(folder), device="cpu")
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=8192))
        self.calls: list[list[SamplingParams]] = []

    def get_tokenizer(self) -> Any:
        return self._model.tokenizer

    def generate(self, prompts: Any, sampling_params: list[SamplingParams], *, use_tqdm: bool) -> list[Any]:
        assert not use_tqdm
        self.calls.append(sampling_params)
        return [self._reply(each["prompt_token_ids"], p) for each, p in zip(prompts, sampling_params, strict=True)]

    def _reply(self, ids: list[int], parameters: SamplingParams) -> Any:
        constraint = parameters.structured_outputs or StructuredOutputsParams()
        request = Request("", "", max_tokens=parameters.max_tokens, choices=tuple(constraint.choice or ()))
        reply = self._model._generate(ids, request)
        is_complete = reply[-1] == self._model.tokenizer.eos_token_id
        text = self._model.tokenizer.decode(reply, skip_special_tokens=True)
        log_probs = [self._log_probs(ids)] * len(reply) if parameters.logprobs else None
        output = SimpleNamespace(
            text=text, token_ids=reply, finish_reason="stop" if is_complete else "length", logprobs=log_probs
        )
        return SimpleNamespace(prompt_token_ids=ids, outputs=[output])

    def _log_probs(self, ids: list[int]) -> dict[int, Any]:
        """Of every token, where vLLM gives those of the most probable: a model of noise names no letter among them."""
        with torch.inference_mode():
            values = self._model.network(torch.tensor([ids])).logits[0, -1].float().log_softmax(-1).tolist()
        texts = (self._model.tokenizer.decode([number]) for number in range(len(values)))
        return {
            n: SimpleNamespace(decoded_token=t, logprob=v) for n, (t, v) in enumerate(zip(texts, values, strict=True))
        }


@pytest.fixture(scope="module", autouse=True)
def _vllm() -> Any:
    """A module with the classes of vLLM that the backend makes."""
    module = ModuleType("vllm")
    module.SamplingParams = SamplingParams
    parameters = ModuleType("vllm.sampling_params")
    parameters.StructuredOutputsParams = StructuredOutputsParams
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "vllm", module)
        patch.setitem(sys.modules, "vllm.sampling_params", parameters)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_causal(tmp_path_factory.mktemp("tiny-causal"))


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine(folder)


@pytest.fixture(scope="module")
def vllm(engine: Engine, folder: Path) -> VllmGenerator:
    return VllmGenerator(engine, GeneratorSettings(backend="vllm", name=str(folder)))


class TestVllm(GeneratorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def generator(cls, vllm: VllmGenerator) -> Generator:
        return vllm


def test_replies_are_those_of_transformers_for_the_same_model(vllm: VllmGenerator, folder: Path) -> None:
    local = TransformersGenerator(str(folder), device="cpu")
    replies, expected = (complete(each, [*PLAIN, *CHOICES]) for each in (vllm, local))
    assert [(r.text, r.prompt_tokens, r.finish_reason) for r in replies] == [
        (e.text, e.prompt_tokens, e.finish_reason) for e in expected
    ]
    assert vllm.revision == local.revision


def test_a_request_is_translated_into_the_parameters_of_the_engine(engine: Engine, vllm: VllmGenerator) -> None:
    rated = Request("", "Choose.", max_tokens=4, choices=("A", "B"), rates_choices=True)
    shaped = Request("", "Write.", max_tokens=9, json_schema='{"type": "object"}', temperature=0.7)
    complete(vllm, [PLAIN[0], CHOICES[0], rated, shaped])
    assert engine.calls[-1] == [
        SamplingParams(0.0, 0, 8),
        SamplingParams(0.0, 0, 37, structured_outputs=StructuredOutputsParams(choice=list(CHOICES[0].choices))),
        SamplingParams(0.0, 0, 4, logprobs=20),
        SamplingParams(
            0.7, 0, 9, structured_outputs=StructuredOutputsParams(json={"type": "object"}, disable_any_whitespace=True)
        ),
    ]


def test_requests_are_sent_in_calls_and_refused_ones_are_not_sent(
    engine: Engine, vllm: VllmGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_generator, "REQUESTS_PER_CALL", 2)
    engine.calls.clear()
    numbers = [number for number, _ in vllm.generate_each([PLAIN[0], LONG, PLAIN[1], PLAIN[2]])]
    assert numbers == [1, 0, 2, 3] and [len(call) for call in engine.calls] == [2, 1]


def test_unconstrained_replies_have_no_format(engine: Engine, folder: Path) -> None:
    free = VllmGenerator(engine, GeneratorSettings(backend="vllm", name=str(folder), constrain="none"))
    complete(free, CHOICES)
    assert engine.calls[-1][0].structured_outputs is None and free.parameters["constrained"] is False


def test_a_machine_without_vllm_or_card_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = GeneratorSettings(backend="vllm", name="some/model")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match=r"needs vLLM in this process: pip install '.\[vllm\]'.*vllm serve"):
        load_generator(settings)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(vllm_generator, "resolve_device", lambda name: "cpu")
    with pytest.raises(ModelUnavailable, match="needs a CUDA card"):
        load_generator(settings)


@pytest.mark.parametrize(("visible", "expected"), [(None, "1"), ("4,7", "7"), ("GPU-a,GPU-b", "GPU-b")])
def test_the_engine_sees_only_the_card_of_the_process(
    visible: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(vllm_generator, "resolve_device", lambda name: "cuda:1")
    name = "CUDA_VISIBLE_DEVICES"
    monkeypatch.delenv(name, raising=False)
    if visible:
        monkeypatch.setenv(name, visible)
    environ = vllm_generator.os.environ
    monkeypatch.setattr(
        sys.modules["vllm"], "LLM", lambda **options: starts.append((environ[name], options)), raising=False
    )
    vllm_generator.open_engine("some/model", "abc", "nf4")
    options = {"model": "some/model", "revision": "abc", "seed": 0, "quantization": "bitsandbytes"}
    assert starts == [(expected, options)] and environ.get(name) == visible


def test_a_model_in_this_process_uses_the_pool_of_cards_and_four_bits_are_another_version() -> None:
    settings = GeneratorSettings(backend="vllm", name="some/model")
    assert find_pool(settings) == "gpu"
    assert prompts_version(settings) != prompts_version(settings.model_copy(update={"quantization": "nf4"}))
