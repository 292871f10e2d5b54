"""The forms in which the sample asks, as data: what lets its questions be read back without a language model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.sample_world.facts import load_world

AGREEMENT = {"{is}": "is", "{has}": "has", "{do}": "does", "{go}": "goes", "{s}": "s"}


def question_forms(relations: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Phrases with one slot, ``{}``, each with its edge type and the end of the edge that it names.

    ``desc_head`` and ``ask_head`` of a relation name its head by its tail, which stands at ``{t}`` or ``{at}`` (with
    its article); ``desc_tail`` and ``ask_tail`` the other way round, with ``{h}`` or ``{ah}``. The ``ask_`` entries are
    lists of whole questions. Agreement marks such as ``{is}`` are read as the singular.
    """
    forms = []
    for edge_type, entry in relations.items():
        for asked_end, slots in (("head", ("{at}", "{t}")), ("tail", ("{ah}", "{h}"))):
            for phrase in [entry.get(f"desc_{asked_end}", ""), *entry.get(f"ask_{asked_end}", ())]:
                for mark, text in AGREEMENT.items():
                    phrase = phrase.replace(mark, text)
                for slot in slots:
                    phrase = phrase.replace(slot, "{}")
                if phrase.count("{}") == 1:
                    forms.append({"phrase": phrase, "edge_type": edge_type, "asked": asked_end})
    return forms


def write_question_forms(path: Path) -> None:
    """Write the forms of all relations of the sample world."""
    forms = question_forms(load_world().relations)
    path.write_text(yaml.safe_dump(forms, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")
