"""The masked language model that knowledge is harvested from: trained here, or named."""

from __future__ import annotations

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.models_in_use import MASKED_LM, masked_lm, model_key
from evidence_assets.assets.partitions import EVERY
from evidence_assets.assets.table_asset import Made, Step, dep, sound_check, table_asset
from evidence_assets.models.sample_masked_lm import SAMPLE_MASKED_LM, VERSION
from evidence_assets.systems.kbloom import sample_model


def _make(step: Step) -> Made:
    settings = step.profile.harvesting.model
    trained: dict[str, float | int | None] = {}
    if settings.name == SAMPLE_MASKED_LM:
        trained = sample_model.train(
            step.lake.index_folder(MASKED_LM),
            step.read("chunks", "corpus/sample/chunks"),
            [step.lake.raw / "sample" / "graphs" / f"{name}.tsv" for name in ("biomedical", "commonsense")],
            step.profile.harvesting.training_steps,
        )
    model = masked_lm(step.lake, settings)
    row = {
        "model_id": model_key(model),
        "name": model.model_id,
        "revision": model.revision,
        "task": "masked language model",
        "vocabulary": len(model.vocabulary),
        "input_hash": "",
        **trained,
    }
    shown = {name: value for name, value in row.items() if value is not None and name != "input_hash"}
    return Made([row], metadata=shown)


class MaskedModel(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``models/masked_lm``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        harvesting = profiles.load().harvesting
        trained = harvesting.model.name == SAMPLE_MASKED_LM
        asset = table_asset(
            MASKED_LM,
            "models",
            _make,
            description="The masked language model in use: trained on the sample corpus, with its accuracy on masked words "
            "of sentences that it never saw, or a Hugging Face model by name.",
            group="models",
            code_version=f"{VERSION}:{harvesting.training_steps}" if trained else harvesting.model.name,
            deps=[dep("corpus/sample/chunks", EVERY), "raw/sample"] if trained else [],
            kinds=("pytorch",),
            pool="gpu",
        )
        return dg.Definitions(assets=[asset], asset_checks=[sound_check(asset)])
