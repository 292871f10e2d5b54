"""Trains the masked language model on the sample or a corpus of the user, or registers a Hugging Face model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict

import polars as pl

from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.variants import Variant
from evidence_assets.harvest.triple_metrics import list_entities
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.models.inference import train_if_changed
from evidence_assets.models.registry import MASKED_LM_ASSET, SAMPLE_MASKED_LM, get_masked_lm, masked_lm_key
from evidence_assets.models.sample_masked_lm import VERSION, TrainingSettings, train_sample_masked_lm
from evidence_assets.profiles import Harvesting, Profile
from evidence_assets.systems.kbloom.sample_scores import read_facts
from evidence_assets.text.prompt_text import entity_word_positions
from evidence_assets.text.words import STOP_WORDS, split_words

_CAPITALISED = re.compile(r"[A-Z\u00c0-\u00de]\w+(?: [A-Z\u00c0-\u00de]\w+)+")
"""Words in a row that begin with a capital letter."""


def extract_sentences(texts: pl.DataFrame) -> list[str]:
    return [r["text"][s["start"] : s["end"]] for r in texts.iter_rows(named=True) for s in r["sentence_offsets"]]


def read_entity_names(lake: Lake) -> set[str]:
    """Heads and tails of the sample's graphs, without the relations between them."""
    files = [lake.raw_path(f"sample/graphs/{name}.tsv") for name in ("biomedical", "commonsense")]
    return list_entities((head, tail) for file in files for head, _, tail in read_facts(file))


def find_names(sentences: Sequence[str]) -> set[str]:
    """Names in texts without a list of them: words that an entity may have, and capitalised words in a row.

    >>> sorted(find_names(["The Magic Flute was composed by Mozart."]))
    ['Flute', 'Magic', 'Magic Flute', 'Mozart', 'composed']
    """
    words = sorted({word for sentence in sentences for word in split_words(sentence)})
    names = {words[position] for position in entity_word_positions(words, [])}
    for match in (match for sentence in sentences for match in _CAPITALISED.finditer(sentence)):
        first, _, others = match[0].partition(" ")
        names.add(others if first.casefold() in STOP_WORDS else match[0])
    return names


def training_corpus(profile: Profile) -> str:
    """The corpus that the profile's masked model is trained on; empty for a model of the hub."""
    return profile.harvesting.corpus if profile.masked_model.name == SAMPLE_MASKED_LM else ""


def masked_model_stages(variant: Variant) -> list[Stage]:
    """The stage of the masked language model: trained on the profile's corpus, or a Hugging Face model."""
    harvesting = variant.profile.harvesting
    masked = variant.profile.masked_model
    corpus = training_corpus(variant.profile)

    def make(context: StageContext) -> StageOutput:
        if corpus:
            report = _train(context, harvesting)
        else:
            report = {"vocabulary": len(get_masked_lm(context.lake, masked).vocabulary), "input_hash": ""}
        key = masked_lm_key(context.lake, masked)
        name, _, revision = key.rpartition("@")
        row = {"model_id": key, "name": name, "revision": revision, "task": "masked language model", **report}
        return StageOutput([row], metadata=report)

    description = (
        f"The masked language model: trained on the corpus {harvesting.corpus}, with its accuracy on masked words of "
        "held-out sentences, or a Hugging Face model."
    )
    reads = [StageInput(f"corpus/{corpus}/chunks", "every")] if corpus else []
    if corpus and harvesting.is_of_sample:
        reads.append(StageInput("raw/sample"))
    version = f"{VERSION}:{harvesting.training_steps}" if corpus else f"{masked.name}@{masked.revision}"
    return [
        Stage(variant.key, "models", make, description, reads, version, partitions="", kinds=("pytorch",), pool="gpu")
    ]


def _train(context: StageContext, harvesting: Harvesting) -> dict[str, object]:
    asset = f"corpus/{harvesting.corpus}/chunks"
    chunks = context.read("chunks", asset)
    if chunks.is_empty():
        raise StaleInput(f"{asset} is missing; materialize it first")
    settings = TrainingSettings(steps=harvesting.training_steps)
    sentences = extract_sentences(chunks)
    names = read_entity_names(context.lake) if harvesting.is_of_sample else find_names(sentences)
    input_hash = content_id(VERSION, sorted(set(sentences)), sorted(names), asdict(settings))
    folder = context.lake.index_folder(MASKED_LM_ASSET)
    return train_if_changed(folder, input_hash, lambda into: train_sample_masked_lm(sentences, names, into, settings))
