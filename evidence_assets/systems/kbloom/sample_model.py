"""The sample's masked language model: which sentences and names it is trained on, and when it need not be."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.system import NoSettings
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.ids import content_id
from evidence_assets.models.inference import train_if_changed
from evidence_assets.models.registry import MASKED_LM_ASSET, SAMPLE_MASKED_LM, get_masked_lm, model_key
from evidence_assets.models.sample_masked_lm import VERSION, TrainingSettings, train_sample_masked_lm


def extract_sentences(chunks: pl.DataFrame) -> list[str]:
    return [
        row["text"][span["start"] : span["end"]]
        for row in chunks.iter_rows(named=True)
        for span in row["sentence_offsets"]
    ]


def read_entity_names(graphs: Sequence[Path]) -> set[str]:
    """Heads and tails of graph files: only what things are called, not what holds between them."""
    names = set()
    for path in graphs:
        for line in path.read_text(encoding="utf-8").splitlines():
            head, _, tail = line.split("\t")
            names |= {head, tail}
    return names


def train_model(folder: Path, sentences: Sequence[str], names: Collection[str], steps: int) -> dict[str, Any]:
    """Train into ``folder``, unless what lies there was trained on the same; returns columns of ``models``."""
    settings = TrainingSettings(steps=steps)
    wanted = content_id(VERSION, sorted(set(sentences)), sorted(names), asdict(settings))
    return train_if_changed(folder, wanted, lambda into: train_sample_masked_lm(sentences, names, into, settings))


def masked_model_stages(variant: Variant, settings: NoSettings) -> list[Stage]:
    """The masked language model that knowledge is harvested from: trained on the sample corpus, or named."""
    harvesting, named = variant.profile.harvesting, variant.profile.masked_model
    trains = named.name == SAMPLE_MASKED_LM

    def make(step: StageContext) -> StageOutput:
        trained: dict[str, Any] = {}
        if trains:
            graphs = [step.lake.raw_path(f"sample/graphs/{name}.tsv") for name in ("biomedical", "commonsense")]
            sentences = extract_sentences(step.read("chunks", "corpus/sample/chunks"))
            trained = train_model(
                step.lake.index_folder(MASKED_LM_ASSET), sentences, read_entity_names(graphs), harvesting.training_steps
            )
        model = get_masked_lm(step.lake, named)
        row = {
            "model_id": model_key(model),
            "name": model.model_id,
            "revision": model.revision,
            "task": "masked language model",
            "vocabulary": len(model.vocabulary),
            "input_hash": "",
            **trained,
        }
        return StageOutput([row], metadata=trained)

    about = (
        "The masked language model in use: trained on the sample corpus, with its accuracy on masked words of "
        "sentences that it never saw, or a Hugging Face model by name."
    )
    reads = [StageInput("corpus/sample/chunks", "every"), StageInput("raw/sample")] if trains else []
    version = f"{VERSION}:{harvesting.training_steps}" if trains else f"{named.name}@{named.revision}"
    return [Stage(variant.key, "models", make, about, reads, version, partitions="", kinds=("pytorch",), pool="gpu")]
