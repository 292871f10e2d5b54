"""Choosing a generator by the name of its backend; each backend is imported when it is asked for."""

from __future__ import annotations

from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import Generator

BACKENDS = ("openai", "transformers", "vllm", "replay")


def load_generator(
    backend: str,
    name: str,
    *,
    revision: str | None = None,
    base_url: str = "http://127.0.0.1:8000/v1",
    api_key_env: str = "OPENAI_API_KEY",
    concurrency: int = 32,
    timeout_seconds: float = 300.0,
    constrain: str = "json_schema",
    four_bit: bool = False,
    folder: str = "",
) -> Generator:
    """Make the generator that a profile names; settings that its backend has no use for are ignored."""
    if backend == "openai":
        from evidence_assets.models.openai_server import OpenAIGenerator

        return OpenAIGenerator(
            name,
            base_url=base_url,
            revision=revision,
            api_key_env=api_key_env,
            concurrency=concurrency,
            timeout_seconds=timeout_seconds,
            constrain=constrain,
        )
    constrained = constrain != "none"
    if backend == "transformers":
        from evidence_assets.models.local_transformers import TransformersGenerator

        return TransformersGenerator(name, revision=revision, four_bit=four_bit, constrained=constrained)
    if backend == "vllm":
        from evidence_assets.models.offline_vllm import VLLMGenerator

        return VLLMGenerator(name, revision=revision, four_bit=four_bit, constrained=constrained)
    if backend == "replay":
        from evidence_assets.models.replay import ReplayGenerator

        return ReplayGenerator(folder, model_id=name)
    raise BadInput(f"unknown backend {backend!r}; one of {', '.join(BACKENDS)}")
