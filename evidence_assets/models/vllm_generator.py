"""Language models that vLLM's offline engine runs in this process, on its card."""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models.inference import explain_load_errors, model_revision, resolve_device
from evidence_assets.models.local_generators import encode_prompt, refuse_long_prompt
from evidence_assets.models.protocols import Completion, Request
from evidence_assets.models.served_models import TOP_TOKENS, WrittenToken, rate_choices
from evidence_assets.profiles import GeneratorSettings

_VISIBLE_CARDS = "CUDA_VISIBLE_DEVICES"
REQUESTS_PER_CALL = 256
"""Requests of a call of the engine, which batches them; completions can be stored after each call."""


class VllmGenerator:
    """Answers batches of requests by the methods of ``vllm.LLM``.

    ``engine``: An object with ``generate``, ``get_tokenizer`` and ``llm_engine``, as `open_engine` returns it.
    """

    def __init__(self, engine: Any, settings: GeneratorSettings) -> None:
        self._engine = engine
        self._tokenizer = engine.get_tokenizer()
        self._max_tokens = int(engine.llm_engine.model_config.max_model_len)
        self._is_constrained = settings.constrain != "none"
        self.model_id = settings.name
        self.revision = model_revision(settings.name, settings.revision)
        self.parameters: dict[str, object] = {
            "temperature": 0,
            "seed": 0,
            "constrained": self._is_constrained,
            "engine": "vllm",
            **({"quantization": settings.quantization} if settings.quantization != "none" else {}),
        }

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Yield (number of the request, completion): first those that are refused, then those of each call."""
        prompts = [encode_prompt(self._tokenizer, request) for request in requests]
        accepted = list[int]()
        for number, (request, prompt) in enumerate(zip(requests, prompts, strict=True)):
            if refusal := refuse_long_prompt(self.model_id, len(prompt), request, self._max_tokens):
                yield number, refusal
            else:
                accepted.append(number)
        for start in range(0, len(accepted), REQUESTS_PER_CALL):
            numbers = accepted[start : start + REQUESTS_PER_CALL]
            yield from zip(
                numbers, self._complete([requests[n] for n in numbers], [prompts[n] for n in numbers]), strict=True
            )

    def _complete(self, requests: Sequence[Request], prompts: Sequence[list[int]]) -> list[Completion]:
        """Completions of one call; each has an equal share of its seconds."""
        start = time.perf_counter()
        outputs = self._engine.generate(
            [{"prompt_token_ids": prompt} for prompt in prompts],
            [self._sampling_parameters(request) for request in requests],
            use_tqdm=False,
        )
        seconds = (time.perf_counter() - start) / len(requests)
        return [_parse_output(request, output, seconds) for request, output in zip(requests, outputs, strict=True)]

    def _sampling_parameters(self, request: Request) -> Any:
        """vLLM's parameters of a request."""
        from vllm import SamplingParams

        options: dict[str, Any] = {"temperature": request.temperature, "seed": 0}
        if request.rates_choices:
            return SamplingParams(**options, max_tokens=request.max_tokens, logprobs=TOP_TOKENS)
        constraint = self._constraint(request)
        return SamplingParams(**options, max_tokens=request.max_reply_tokens, structured_outputs=constraint)

    def _constraint(self, request: Request) -> Any:
        """The format of a reply; None for free text."""
        from vllm.sampling_params import StructuredOutputsParams

        if self._is_constrained and request.choices:
            return StructuredOutputsParams(choice=list(request.choices))
        if self._is_constrained and request.json_schema:
            return StructuredOutputsParams(json=json.loads(request.json_schema), disable_any_whitespace=True)
        return None


def open_engine(name: str, revision: str | None, quantization: str) -> Any:
    """vLLM's engine on the card of this process; raises ModelUnavailable without vLLM or a card."""
    if importlib.util.find_spec("vllm") is None:
        raise ModelUnavailable(
            f"{name} needs vLLM in this process: pip install '.[vllm]', on a machine with a CUDA card. "
            "Or serve the model (vllm serve) and use backend: openai"
        )
    device = resolve_device("auto")
    if not device.startswith("cuda"):
        raise ModelUnavailable(f"{name}: the backend vllm needs a CUDA card, and torch finds none here")
    from vllm import LLM

    in_four_bits = {"quantization": "bitsandbytes"} if quantization == "nf4" else {}
    with explain_load_errors(f"the model {name!r}"), _only_card(int(device.partition(":")[2])):
        return LLM(model=name, revision=revision, seed=0, **in_four_bits)


@contextmanager
def _only_card(number: int) -> Iterator[None]:
    """Let processes that are started here, as the engine is one, see only the card that has this number here."""
    visible = os.environ.get(_VISIBLE_CARDS)
    os.environ[_VISIBLE_CARDS] = visible.split(",")[number] if visible else str(number)
    try:
        yield
    finally:
        if visible is None:
            del os.environ[_VISIBLE_CARDS]
        else:
            os.environ[_VISIBLE_CARDS] = visible


def _parse_output(request: Request, output: Any, seconds: float) -> Completion:
    """The completion in an output of the engine."""
    [reply] = output.outputs
    completion = Completion(
        reply.text, len(output.prompt_token_ids), len(reply.token_ids), seconds, str(reply.finish_reason or "unknown")
    )
    if not request.rates_choices:
        return completion
    return rate_choices(completion, request.choices, _read_tokens(reply))


def _read_tokens(reply: Any) -> list[WrittenToken]:
    """The tokens of a reply with the log probabilities of the most probable ones at their positions."""
    tokens = []
    for token_id, alternatives in zip(reply.token_ids, reply.logprobs or (), strict=False):
        log_probs = {each.decoded_token: each.logprob for each in alternatives.values()}
        tokens.append(WrittenToken(alternatives[token_id].decoded_token, log_probs))
    return tokens
