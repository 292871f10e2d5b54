"""A question without its gold answer, as selectors and reasoners get it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from evidence_assets.text.words import is_name_or_number


def option_labels(task: str, options: Sequence[str]) -> tuple[str, ...]:
    """Labels of a question's options: letters, or the options themselves for a claim."""
    if task == "verification":
        return tuple(options)
    return tuple(chr(ord("A") + i) for i in range(len(options)))


def option_texts(task: str, options: Sequence[str]) -> dict[str, str]:
    """Text of each option, by label."""
    return dict(zip(option_labels(task, options), options, strict=True))


@dataclass(frozen=True)
class Question:
    """A question or claim with its options, if any."""

    question_id: str
    benchmark: str
    task: str
    text: str
    options: tuple[str, ...] = ()
    table_id: str = ""
    topic_entities: tuple[str, ...] = ()
    negated: bool = False
    """Whether it asks for the option that is false."""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return option_labels(self.task, self.options)

    @property
    def is_claim(self) -> bool:
        """Whether it is a claim to verify; the options of a claim are its labels."""
        return self.task == "verification"

    @property
    def hypotheses(self) -> list[tuple[str, str]]:
        """Label and text of each option; one empty label for a question without options."""
        return list(zip(self.labels, self.options, strict=True)) or [("", "")]

    @property
    def has_names(self) -> bool:
        """Whether most options are names or numbers."""
        return sum(map(is_name_or_number, self.options)) > len(self.options) / 2

    def query(self, option: str) -> str:
        return f"{self.text} {option}".strip()
