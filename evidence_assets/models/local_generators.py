"""Causal language models with local weights, run by transformers or by vLLM's offline engine.

The libraries are imported when a generator is created.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models.inference import (
    explain_load_errors,
    find_hub_revision,
    hash_model_folder,
    pretrained_options,
    resolve_device,
)
from evidence_assets.models.protocols import REFUSED_PREFIX, Completion, Request

QLORA: dict[str, Any] = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
"""The 4-bit quantization of QLoRA (Dettmers et al. 2023)."""


class TransformersGenerator:
    """Answers one request at a time, so that a completion never depends on other requests.

    ``model_id``: A model folder (revision: its content hash) or a Hugging Face name.
    ``four_bit``: Load the weights in 4 bit (requires bitsandbytes and CUDA).
    ``constrained``: Constrain replies to the choices of a request.
    """

    def __init__(
        self,
        model_id: str,
        *,
        revision: str | None = None,
        device: str = "auto",
        four_bit: bool = False,
        constrained: bool = True,
    ) -> None:
        options, revision = pretrained_options(model_id, revision)
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

        self._device = resolve_device(device)
        quantization: dict[str, Any] = {}
        if four_bit:
            if importlib.util.find_spec("bitsandbytes") is None or not self._device.startswith("cuda"):
                raise ModelUnavailable(
                    "weights in 4 bit need a CUDA device and bitsandbytes: pip install 'evidence-assets[gpu]', or set "
                    "four_bit to false"
                )
            config = BitsAndBytesConfig(**QLORA, bnb_4bit_compute_dtype=torch.bfloat16)
            quantization = {"quantization_config": config, "device_map": {"": self._device}}
        with explain_load_errors(f"the language model {model_id!r}"):
            self._tokenizer = AutoTokenizer.from_pretrained(model_id, **options)
            self._model = AutoModelForCausalLM.from_pretrained(model_id, dtype="auto", **quantization, **options).eval()
        if not four_bit:
            self._model.to(self._device)
        self.model_id = model_id
        self.revision = revision or find_hub_revision(model_id) or "unknown"
        self.parameters: dict[str, object] = {
            "temperature": 0,
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "four_bit": QLORA["bnb_4bit_quant_type"] if four_bit else False,
            "constrained": constrained,
        }
        self._constrained = constrained
        self._ends = self._end_tokens()
        self._max_tokens = int(getattr(self._model.config, "max_position_embeddings", 2048))

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [completion for _, completion in self.generate_each(requests)]

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        return enumerate(map(self._complete, requests))

    def prompt(self, request: Request) -> list[int]:
        """Token ids of a request, by the model's chat template or, without one, as plain text."""
        if self._tokenizer.chat_template:
            text = self._tokenizer.apply_chat_template(request.messages, add_generation_prompt=True, tokenize=False)
            return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        text = "\n\n".join(part for part in (request.system, request.user, "") if part)
        return list(self._tokenizer(text)["input_ids"])

    def _end_tokens(self) -> list[int]:
        configured = self._model.generation_config.eos_token_id
        ends = [*(configured if isinstance(configured, list) else [configured]), self._tokenizer.eos_token_id]
        if not (end_tokens := [end for end in dict.fromkeys(ends) if end is not None]):
            raise ModelUnavailable(f"{self.model_id!r} has no end-of-text token. Choose another model")
        return end_tokens

    def _complete(self, request: Request) -> Completion:
        import torch

        ids = self.prompt(request)
        start = time.perf_counter()
        if len(ids) + request.max_reply_tokens > self._max_tokens:
            return _refuse_length(len(ids), request, f"the {self._max_tokens} that {self.model_id} reads")
        constraint: dict[str, Any] = {}
        if request.choices and self._constrained:
            trie = self._trie(request.choices)
            constraint["prefix_allowed_tokens_fn"] = lambda _, tokens: _next_tokens(trie, tokens[len(ids) :].tolist())
        inputs = torch.tensor([ids], device=self._device)
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(0)
            output = self._model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=request.max_reply_tokens,
                do_sample=bool(request.temperature),
                temperature=request.temperature or None,
                top_p=None,
                top_k=None,
                num_beams=1,
                eos_token_id=self._ends,
                pad_token_id=self._ends[0],
                logits_processor=[self._refuse_nan],
                **constraint,
            )[0].tolist()
        reply = output[len(ids) :]
        is_complete = bool(reply) and reply[-1] in self._ends
        text = self._tokenizer.decode(reply[:-1] if is_complete else reply, skip_special_tokens=True)
        seconds = time.perf_counter() - start
        return Completion(text, len(ids), len(reply), seconds, "stop" if is_complete else "length")

    def _trie(self, choices: Sequence[str]) -> dict[int, Any]:
        """Nested mapping from each token to the tokens that may follow; only an end token follows a choice."""
        trie: dict[int, Any] = {}
        for choice in choices:
            node = trie
            for token in self._tokenizer(choice, add_special_tokens=False)["input_ids"]:
                node = node.setdefault(token, {})
            node.update({end: {} for end in self._ends})
        return trie

    def _refuse_nan(self, _: Any, scores: Any) -> Any:
        if scores.isnan().any():
            raise ModelUnavailable(
                f"{self.model_id} computes values that are not numbers: its weights are damaged or overflow in "
                f"{self.parameters['dtype']}. Fetch the weights again; if that does not help, choose another model"
            )
        return scores


def _next_tokens(trie: dict[int, Any], prefix: list[int]) -> list[int]:
    for token in prefix:
        trie = trie[token]
    return list(trie)


def _refuse_length(prompt: int, request: Request, limit: str) -> Completion:
    reason = f"a prompt of {prompt} tokens and a reply of {request.max_reply_tokens} exceed {limit}"
    return Completion("", prompt, 0, 0.0, f"{REFUSED_PREFIX}: {reason}")


MAX_MODEL_TOKENS = 16384
"""Maximum tokens of prompt and reply together; longer requests are refused."""


class VLLMGenerator:
    """Answers all requests of a call in one batch, with prefix caching and constrained decoding.

    ``four_bit``: Quantize the weights to 4 bit with bitsandbytes while loading; not needed for models stored in 4 bit.
    ``constrained``: Constrain replies to the choices or the JSON schema of a request.
    """

    def __init__(
        self, model_id: str, *, revision: str | None = None, four_bit: bool = False, constrained: bool = True
    ) -> None:
        try:
            from vllm import LLM, SamplingParams
            from vllm.sampling_params import StructuredOutputsParams
        except ImportError as error:
            raise ModelUnavailable(
                f"the offline engine needs vLLM 0.11 or newer and a CUDA device ({error}). Run pip install "
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
            "max_model_len": MAX_MODEL_TOKENS,
            "tensor_parallel": 1,
            "constrained": constrained,
            # if set, replies do not depend on the batch
            "batch_invariant": os.environ.get("VLLM_BATCH_INVARIANT", "0") == "1",
        }
        self._constrained = constrained
        self._engine = LLM(
            model=model_id,
            revision=revision,
            tokenizer_revision=revision,
            quantization="bitsandbytes" if four_bit else None,
            max_model_len=MAX_MODEL_TOKENS,
            gpu_memory_utilization=0.9,
            enable_prefix_caching=True,
            seed=0,
        )
        local = Path(model_id)
        self.revision = (
            hash_model_folder(local) if local.is_dir() else revision or find_hub_revision(model_id) or "newest"
        )

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Completions in the order of the requests; ``seconds`` is an equal share of the batch's time."""
        completions: dict[int, Completion] = {}
        accepted: dict[int, list[int]] = {}
        for number, request in enumerate(requests):
            ids = self.prompt(request)
            if len(ids) + request.max_reply_tokens <= MAX_MODEL_TOKENS:
                accepted[number] = ids
            else:
                completions[number] = _refuse_length(len(ids), request, f"max_model_len {MAX_MODEL_TOKENS}")
        start = time.perf_counter()
        prompts = [{"prompt_token_ids": ids} for ids in accepted.values()]
        samplings = [self.sampling(requests[number]) for number in accepted]
        outputs = self._engine.generate(prompts, samplings, use_tqdm=False) if accepted else []
        seconds = (time.perf_counter() - start) / max(1, len(accepted))
        for (number, ids), output in zip(accepted.items(), outputs, strict=True):
            best = output.outputs[0]
            finish = str(best.finish_reason or "unknown")
            completions[number] = Completion(best.text, len(ids), len(best.token_ids), seconds, finish)
        return [completions[number] for number in range(len(requests))]

    def prompt(self, request: Request) -> list[int]:
        """Token ids of a request by the model's chat template."""
        tokenizer = self._engine.get_tokenizer()
        text = tokenizer.apply_chat_template(request.messages, add_generation_prompt=True, tokenize=False)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def sampling(self, request: Request) -> Any:
        """Sampling parameters of a request: temperature, and constraint to its choices or schema."""
        structured = None
        if self._constrained and request.choices:
            structured = self._structured(choice=list(request.choices))
        elif self._constrained and request.json_schema:
            # without whitespace, because weak models write nothing else until they are truncated
            structured = self._structured(json=json.loads(request.json_schema), disable_any_whitespace=True)
        return self._sampling(
            temperature=request.temperature, seed=0, max_tokens=request.max_reply_tokens, structured_outputs=structured
        )
