"""Estimates for plans: tokens of requests to a language model, and the memory that a model needs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil
from pathlib import Path
from typing import NamedTuple

from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.profiles import StrictModel

TOKENS_PAGE = "docs/with-a-real-model.md#replies-to-the-prompts"
SAMPLE_INPUTS = 30
"""Inputs of each prompted task that were measured."""
USABLE_BYTES = 72 * 10**9
"""What vLLM takes of a card of 80 GB by default."""


class TaskTokens(StrictModel):
    """Tokens that the sample's inputs ``read`` and ``written``, of the ``longest`` prompt, and the limit of a reply."""

    read: int
    written: int
    longest: int
    limit: int


class ModelSize(StrictModel):
    """Bytes of a model's ``weights`` and of the ``cache`` of a token; ``context``: tokens that it reads without one."""

    weights: int
    cache: int = 0
    context: int = 0


class Facts(StrictModel):
    """What plans are computed from; ``bytes`` are estimated sizes of files, by the name of the data."""

    tasks: Mapping[str, TaskTokens]
    models: Mapping[str, ModelSize]
    bytes: Mapping[str, int]


@cache
def facts() -> Facts:
    """The facts of the packaged file."""
    return Facts.model_validate(read_yaml_mapping(Path(__file__).with_suffix(".yaml")))


def count_cards(bytes_needed: int) -> int:
    """Cards of 80 GB: a power of two, as vLLM divides a model.

    >>> [count_cards(gigabytes * 10**9) for gigabytes in (1, 72, 73, 144, 145)]
    [1, 1, 2, 2, 4]
    """
    return 1 << (ceil(bytes_needed / USABLE_BYTES) - 1).bit_length()


class TaskInputs(NamedTuple):
    """Inputs of a prompted task; ``mean`` and ``most``: tokens that each reads beyond an input of the sample."""

    task: str
    inputs: int
    mean: float = 0
    most: int = 0

    @property
    def tokens_in(self) -> int:
        return round(self.inputs * (facts().tasks[self.task].read / SAMPLE_INPUTS + self.mean))

    @property
    def tokens_out(self) -> int:
        return round(self.inputs * facts().tasks[self.task].written / SAMPLE_INPUTS)

    @property
    def context(self) -> int:
        """Tokens of the longest prompt and the longest reply."""
        task = facts().tasks[self.task]
        return task.longest + task.limit + self.most
