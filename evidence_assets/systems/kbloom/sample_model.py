"""Trains the sample's masked language model, or registers the profile's Hugging Face model."""

from __future__ import annotations

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
from evidence_assets.systems.kbloom.sample_scores import read_facts


def extract_sentences(texts: pl.DataFrame) -> list[str]:
    return [r["text"][s["start"] : s["end"]] for r in texts.iter_rows(named=True) for s in r["sentence_offsets"]]


def read_entity_names(lake: Lake) -> set[str]:
    """Heads and tails of the sample's graphs, without the relations between them."""
    files = [lake.raw_path(f"sample/graphs/{name}.tsv") for name in ("biomedical", "commonsense")]
    return list_entities((head, tail) for file in files for head, _, tail in read_facts(file))


def masked_model_stages(variant: Variant) -> list[Stage]:
    """The stage of the masked language model: trained on the sample corpus, or a Hugging Face model."""
    harvesting = variant.profile.harvesting
    masked = variant.profile.masked_model
    is_trained = masked.name == SAMPLE_MASKED_LM

    def make(context: StageContext) -> StageOutput:
        if is_trained:
            report = _train_on_sample(context, TrainingSettings(steps=harvesting.training_steps))
        else:
            report = {"vocabulary": len(get_masked_lm(context.lake, masked).vocabulary), "input_hash": ""}
        key = masked_lm_key(context.lake, masked)
        name, _, revision = key.rpartition("@")
        row = {"model_id": key, "name": name, "revision": revision, "task": "masked language model", **report}
        return StageOutput([row], metadata=report)

    description = (
        "The masked language model: trained on the sample corpus, with its accuracy on masked words of held-out "
        "sentences, or a Hugging Face model."
    )
    reads = [StageInput("corpus/sample/chunks", "every"), StageInput("raw/sample")] if is_trained else []
    version = f"{VERSION}:{harvesting.training_steps}" if is_trained else f"{masked.name}@{masked.revision}"
    return [
        Stage(variant.key, "models", make, description, reads, version, partitions="", kinds=("pytorch",), pool="gpu")
    ]


def _train_on_sample(context: StageContext, settings: TrainingSettings) -> dict[str, object]:
    chunks = context.read("chunks", "corpus/sample/chunks")
    if chunks.is_empty():
        raise StaleInput("corpus/sample/chunks is missing; materialize it first")
    sentences = extract_sentences(chunks)
    names = read_entity_names(context.lake)
    input_hash = content_id(VERSION, sorted(set(sentences)), sorted(names), asdict(settings))
    folder = context.lake.index_folder(MASKED_LM_ASSET)
    return train_if_changed(folder, input_hash, lambda into: train_sample_masked_lm(sentences, names, into, settings))
