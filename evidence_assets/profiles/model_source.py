"""A language model by one text: a server's address, a model file or folder, or a name at a server that is set.

The text is the key ``generator`` of a profile, the value of EVIDENCE_MODEL, or that of ``--model``.
"""

from __future__ import annotations

import os
from pathlib import Path

from evidence_assets.lake.errors import BadInput

MODEL_VARIABLE = "EVIDENCE_MODEL"
SERVER_VARIABLE = "OPENAI_BASE_URL"
"""Address of the server of a model that is given by its name; clients of the protocol read the same variable."""
SERVED_MODEL = ""
"""Name of the only model that a server has."""
CONCURRENT_REQUESTS = 4
"""Requests at once to a server that is given by its address, as many as llama.cpp's and Ollama's answer at once."""


def is_model_source(text: str) -> bool:
    """Whether a text names a model by an address or a file, or can name one at the server that is set."""
    return _is_address(text) or _is_file(text) or SERVER_VARIABLE in os.environ


def generator_of(text: str) -> dict[str, object]:
    """The settings of the language model that a text names."""
    if _is_address(text):
        return _served(SERVED_MODEL, text)
    if _is_file(text):
        return {"backend": "transformers", "name": str(Path(text).expanduser().resolve())}
    if SERVER_VARIABLE not in os.environ:
        raise BadInput(
            f"{text!r} is no address (http://127.0.0.1:8081/v1), GGUF file or folder. For a model by its name, set "
            f"{SERVER_VARIABLE} to the address of its server, such as http://127.0.0.1:11434/v1 for Ollama"
        )
    return _served(text, os.environ[SERVER_VARIABLE])


def _served(name: str, address: str) -> dict[str, object]:
    return {"backend": "openai", "name": name, "base_url": address, "concurrency": CONCURRENT_REQUESTS}


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _is_file(text: str) -> bool:
    return text.endswith(".gguf") or Path(text).expanduser().is_dir()
