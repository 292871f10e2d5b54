"""Choosing a generator by the name of its backend; each backend is imported when it is asked for."""

from __future__ import annotations

from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import Generator
from evidence_assets.profiles import GeneratorSettings

SERVED = {"base_url", "revision", "api_key_env", "concurrency", "timeout_seconds", "constrain"}
"""Settings of a model behind a server."""


def load_generator(settings: GeneratorSettings) -> Generator:
    """Make the generator that a profile names; settings that its backend has no use for are ignored."""
    if settings.backend == "openai":
        from evidence_assets.models.openai_server import OpenAIGenerator

        return OpenAIGenerator(settings.name, **settings.model_dump(include=SERVED))
    if settings.backend == "replay":
        from evidence_assets.models.replay import ReplayGenerator

        return ReplayGenerator(settings.folder, model_id=settings.name)
    options = {**settings.model_dump(include={"revision", "four_bit"}), "constrained": settings.constrain != "none"}
    if settings.backend == "transformers":
        from evidence_assets.models.local_transformers import TransformersGenerator

        return TransformersGenerator(settings.name, **options)
    if settings.backend == "vllm":
        from evidence_assets.models.offline_vllm import VLLMGenerator

        return VLLMGenerator(settings.name, **options)
    raise BadInput(f"the backend {settings.backend} needs no language model")
