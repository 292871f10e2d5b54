"""A language model in vLLM's offline engine: many requests at once on GPUs of this machine, for single-run backfills.

Belongs here: building the engine and its requests. vLLM is imported when a generator is made, not before.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models.protocols import REFUSED, Completion, Request
from evidence_assets.models.weights import folder_revision, hub_revision

LONGEST = 16384
"""Tokens of the longest prompt and reply together; longer ones are refused."""


class VLLMGenerator:
    """Answers all requests of a call in one batch of the engine, with prefix caching and constrained choices.

    ``model_id``, ``revision``: A model folder or a Hugging Face name, and its commit or tag.
    ``four_bit``: Quantize the weights to 4 bit while loading, by bitsandbytes; models stored in 4 bit need no setting.
    ``constrained``: Hold replies to the choices or the JSON schema of a request.
    """

    def __init__(
        self,
        model_id: str,
        *,
        revision: str | None = None,
        four_bit: bool = False,
        constrained: bool = True,
    ) -> None:
        try:
            from vllm import LLM, SamplingParams
            from vllm.sampling_params import StructuredOutputsParams
        except ImportError as error:
            raise ModelUnavailable(
                f"the offline engine needs vLLM 0.11 or newer and a CUDA device ({error}); pip install "
                f"'evidence-assets[gpu]', or choose another backend: openai for a served model, transformers for a "
                f"small one"
            ) from error
        self._sampling, self._structured = SamplingParams, StructuredOutputsParams
        self.model_id = model_id
        self.parameters: dict[str, object] = {
            "temperature": 0,
            "seed": 0,
            "dtype": "auto",
            "four_bit": four_bit,
            "max_model_len": LONGEST,
            "tensor_parallel": 1,
            "constrained": constrained,
            # with it set, the engine gives the same reply whatever else is in its batch
            "batch_invariant": os.environ.get("VLLM_BATCH_INVARIANT", "0") == "1",
        }
        self._constrained = constrained
        self._engine = LLM(
            model=model_id,
            revision=revision,
            tokenizer_revision=revision,
            quantization="bitsandbytes" if four_bit else None,
            max_model_len=LONGEST,
            gpu_memory_utilization=0.9,
            enable_prefix_caching=True,
            seed=0,
        )
        local = Path(model_id)
        self.revision = folder_revision(local) if local.is_dir() else revision or hub_revision(model_id) or "newest"

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Completions in the order asked; ``seconds`` is the batch's time shared evenly."""
        prompts = [self.prompt(request) for request in requests]
        fits = [
            number
            for number, (prompt, request) in enumerate(zip(prompts, requests, strict=True))
            if len(prompt) + request.most_tokens <= LONGEST
        ]
        started = time.perf_counter()
        outputs = (
            self._engine.generate(
                [{"prompt_token_ids": prompts[number]} for number in fits],
                [self.sampling(requests[number]) for number in fits],
                use_tqdm=False,
            )
            if fits
            else []
        )
        seconds = (time.perf_counter() - started) / max(1, len(fits))
        found = {number: self._completion(output, seconds) for number, output in zip(fits, outputs, strict=True)}
        return [
            found[number]
            if number in found
            else Completion(
                "",
                len(prompt),
                0,
                0.0,
                f"{REFUSED}: a prompt of {len(prompt)} tokens and a reply of {request.most_tokens} exceed max_model_len "
                f"{LONGEST}",
            )
            for number, (prompt, request) in enumerate(zip(prompts, requests, strict=True))
        ]

    def prompt(self, request: Request) -> list[int]:
        """Token ids of a request by the model's chat template."""
        tokenizer = self._engine.get_tokenizer()
        text = tokenizer.apply_chat_template(request.messages, add_generation_prompt=True, tokenize=False)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def sampling(self, request: Request) -> Any:
        """How the engine is to decode a request: at its temperature, and to one of its choices or to its schema."""
        structured = None
        if self._constrained and request.choices:
            structured = self._structured(choice=list(request.choices))
        elif self._constrained and request.json_schema:
            # without blanks, as a weak model writes nothing else until it is cut off
            structured = self._structured(json=json.loads(request.json_schema), disable_any_whitespace=True)
        return self._sampling(
            temperature=request.temperature, seed=0, max_tokens=request.most_tokens, structured_outputs=structured
        )

    def _completion(self, output: Any, seconds: float) -> Completion:
        best = output.outputs[0]
        return Completion(
            best.text,
            len(output.prompt_token_ids),
            len(best.token_ids),
            seconds,
            str(best.finish_reason or "unknown"),
        )
