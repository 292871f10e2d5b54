"""Causal language models with local weights, run by transformers."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models.inference import PretrainedModel, is_gguf, resolve_device
from evidence_assets.models.protocols import REFUSED_PREFIX, Completion, Request


class TransformersGenerator(PretrainedModel):
    """Answers one request at a time, so that a completion never depends on other requests.

    ``model_id``: A model folder or GGUF file (revision: its content hash), or a Hugging Face name.
    ``constrained``: Constrain replies to the choices of a request.
    ``nf4``: Load the weights of the layers in 4 bits.
    """

    def __init__(
        self,
        model_id: str,
        *,
        revision: str | None = None,
        device: str = "auto",
        constrained: bool = True,
        nf4: bool = False,
    ) -> None:
        from transformers import AutoModelForCausalLM

        # transformers widens the 4 bits of a GGUF file: bfloat16 needs half the memory of float32 and writes faster.
        dtype = "bfloat16" if is_gguf(model_id) else "auto"
        device = resolve_device(device)
        options = nf4_options(model_id, device) if nf4 else {}
        super().__init__(AutoModelForCausalLM, model_id, revision=revision, device=device, dtype=dtype, **options)
        self.model_id = Path(model_id).name if is_gguf(model_id) else model_id
        self.parameters: dict[str, object] = {
            "temperature": 0,
            "dtype": str(self.network.dtype).removeprefix("torch."),
            "constrained": constrained,
            **({"quantization": "nf4"} if nf4 else {}),
        }
        self._ends = self._end_tokens()
        self._max_tokens = int(getattr(self.network.config, "max_position_embeddings", 2048))

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        return enumerate(map(self._complete, requests))

    def prompt(self, request: Request) -> list[int]:
        """Token ids of a request."""
        return encode_prompt(self.tokenizer, request)

    def _end_tokens(self) -> list[int]:
        configured = self.network.generation_config.eos_token_id
        ends = [*(configured if isinstance(configured, list) else [configured]), self.tokenizer.eos_token_id]
        if not (end_tokens := [end for end in dict.fromkeys(ends) if end is not None]):
            raise ModelUnavailable(f"{self.model_id!r} has no end-of-text token. Choose another model")
        return end_tokens

    def _complete(self, request: Request) -> Completion:
        ids = self.prompt(request)
        start = time.perf_counter()
        if refusal := refuse_long_prompt(self.model_id, len(ids), request, self._max_tokens):
            return refusal
        if request.rates_choices and (ratings := self._rate_choices(ids, request.choices)):
            best = request.choices[ratings.index(max(ratings))]
            return Completion(best, len(ids), 1, time.perf_counter() - start, "stop", ratings)
        reply = self._generate(ids, request)
        is_complete = bool(reply) and reply[-1] in self._ends
        text = self.tokenizer.decode(reply[:-1] if is_complete else reply, skip_special_tokens=True)
        seconds = time.perf_counter() - start
        return Completion(text, len(ids), len(reply), seconds, "stop" if is_complete else "length")

    def _rate_choices(self, ids: list[int], choices: Sequence[str]) -> tuple[float, ...]:
        """Log probability that the reply begins with each choice; empty if a choice is not a single token."""
        import torch

        tokens = [self._single_tokens(choice) for choice in choices]
        if not all(tokens):
            return ()
        with torch.inference_mode():
            logits = self.network(torch.tensor([ids], device=self.device)).logits[0, -1].float()
        log_probs = self._refuse_nan(None, logits).log_softmax(-1)
        return tuple(float(log_probs[alternatives].logsumexp(0)) for alternatives in tokens)

    def _single_tokens(self, choice: str) -> list[int]:
        """The tokens that a reply with this choice may begin with, with or without a space."""
        encoded = (self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (choice, f" {choice}"))
        return list(dict.fromkeys(ids[0] for ids in encoded if len(ids) == 1))

    def _generate(self, ids: list[int], request: Request) -> list[int]:
        """Tokens of the reply."""
        import torch

        constraint: dict[str, Any] = {}
        if request.choices and self.parameters["constrained"]:
            trie = self._trie(request.choices)
            constraint["prefix_allowed_tokens_fn"] = lambda _, tokens: _next_tokens(trie, tokens[len(ids) :].tolist())
        inputs = torch.tensor([ids], device=self.device)
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(0)
            output = self.network.generate(
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
            )
        reply: list[int] = output[0, len(ids) :].tolist()
        return reply

    def _trie(self, choices: Sequence[str]) -> dict[int, Any]:
        """Nested mapping from each token to the tokens that may follow; only an end token follows a choice."""
        trie: dict[int, Any] = {}
        for choice in choices:
            node = trie
            for token in self.tokenizer(choice, add_special_tokens=False)["input_ids"]:
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


def encode_prompt(tokenizer: Any, request: Request) -> list[int]:
    """Token ids of a request, by the tokenizer's chat template or, without one, as plain text."""
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(request.messages, add_generation_prompt=True, tokenize=False)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    text = "\n\n".join(part for part in (request.system, request.user, "") if part)
    return list(tokenizer(text)["input_ids"])


def refuse_long_prompt(model_id: str, prompt_tokens: int, request: Request, max_tokens: int) -> Completion | None:
    """A refusal if the prompt and the longest reply exceed what the model reads."""
    if prompt_tokens + request.max_reply_tokens <= max_tokens:
        return None
    lengths = f"a prompt of {prompt_tokens} tokens and a reply of {request.max_reply_tokens}"
    reason = f"{REFUSED_PREFIX}: {lengths} exceed the {max_tokens} that {model_id} reads"
    return Completion("", prompt_tokens, 0, 0.0, reason)


def nf4_options(model_id: str, device: str) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` that load layers as 4-bit NormalFloat; products are in bfloat16."""
    import torch
    from transformers import BitsAndBytesConfig

    if missing := [name for name in ("accelerate", "bitsandbytes") if importlib.util.find_spec(name) is None]:
        raise ModelUnavailable(f"{model_id} in 4 bits needs {' and '.join(missing)}: pip install '.[nf4]'")
    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    return {"quantization_config": config, "device_map": {"": device}}


def _next_tokens(trie: dict[int, Any], prefix: list[int]) -> list[int]:
    for token in prefix:
        trie = trie[token]
    return list(trie)
