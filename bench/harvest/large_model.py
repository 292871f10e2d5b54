"""The harvest of one packaged relation by a masked model of BERT-large's size: forward passes, seconds and memory.

    python -m bench.harvest.large_model [--device cpu|cuda] [--n 20] [--json bench/results/large_harvest.json]

The stages are those of `evidence run`: prompts, candidates and triples, of K-Bloom and of BertNet, into a new lake. The
model has random weights and BERT's vocabulary of 30,522 word pieces, so its triples mean nothing, and a search by
trained weights makes other numbers of passes: more where the model is less sure. Without ``--device``, the processor is
measured, and a card where torch finds one, each in a process of its own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, set_seed

from bench.measuring import Used, in_new_process, make_parser, measured
from bench.result_files import print_table, write_results
from evidence_assets import profiles
from evidence_assets.experiment.stage import Stage, StageContext, StageOutput
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake.store import Lake
from evidence_assets.models.inference import find_minilm_folder, save_model
from evidence_assets.models.registry import get_masked_lm
from evidence_assets.systems.kbloom.harvest_stages import SEED_ASSET
from evidence_assets.systems.kbloom.rows import build_seed_rows
from evidence_assets.systems.kbloom.seeds import collection_folder, read_seed_folder
from evidence_assets.systems.kbloom.system import KBloom

BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
DEVIATION = 0.15
"""Of the random weights. BERT's 0.02 makes all words equally probable, so that a search would prune nothing."""
COLUMNS = (
    "device",
    "stage",
    "rows",
    "forward passes",
    "texts in them",
    "seconds",
    "peak memory, MB",
    "of the card, MB",
)


@dataclass(frozen=True)
class Task:
    """What is harvested, and with which settings."""

    variant: str = "kbloom_initial"
    collection: str = "conceptnet"
    relation: str = "UsedFor"
    n: int = 20
    prompts: int = 20


def save_random_bert(folder: Path, size: dict[str, int]) -> None:
    """Save a BERT with random weights and the tokenizer of BERT's lower-case vocabulary, which the encoder has, too."""
    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(find_minilm_folder())
    config = BertConfig(vocab_size=len(tokenizer), initializer_range=DEVIATION, **size)
    save_model(BertForMaskedLM(config), tokenizer, folder)


class PassCounter:
    """Counts the forward passes of a network and the texts in them, with those that fill up small batches."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.texts = list[int]()
        network.register_forward_hook(self._count)

    def _count(self, network: torch.nn.Module, arguments: Any, output: Any) -> None:
        self.texts.append(len(output.last_hidden_state))


def activate_profile(folder: Path, task: Task, device: str) -> None:
    """Write the profile of the task and select it for this process."""
    settings = {
        "extends": "embedded",
        "name": "large",
        "masked_model": {"name": str(folder / "model"), "device": device},
        "harvesting": {"n": task.n, "prompts": task.prompts, "collections": [task.collection]},
    }
    (folder / "large.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    os.environ[profiles.PROFILE_VARIABLE] = str(folder / "large.yaml")


def relation_stages(variant: str) -> Iterator[Stage]:
    """The stages of a variant that are partitioned by relation, inputs first."""
    declared = next(each for each in variants_of("kbloom") if each.name == variant)
    return (stage for stage in build_stages(KBloom(declared)) if stage.partitions == "relations")


def materialize(lake: Lake, stage: Stage, relation: str) -> StageOutput:
    """Run a stage and write its output, as its asset does."""
    output = stage.run(StageContext(lake, stage.table, stage.key, relation))
    assert output.lineage is not None
    lake.write(stage.key, relation, {stage.table: output.rows, **output.other_tables, "lineage_edges": output.lineage})
    return output


def harvest(task: Task, size: dict[str, int], device: str) -> list[tuple[str, ...]]:
    """A row for each stage of the harvest, and one for all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_random_bert(folder / "model", size)
        activate_profile(folder, task, device)
        lake = Lake.create(folder / "lake", question_shards=1, corpus_shards=1)
        relations = read_seed_folder(collection_folder(task.collection)).relations
        [relation] = (relation for relation in relations if relation.id == task.relation)
        lake.write(SEED_ASSET, relation.id, {"relation_seeds": build_seed_rows(relation)})
        counter = PassCounter(get_masked_lm(lake, profiles.load().masked_model)._model.base_model)
        rows = []
        total = [0, 0, 0.0]
        for stage in relation_stages(task.variant):
            counter.texts.clear()
            output, used = measured(materialize, lake, stage, relation.id)
            counts = (len(counter.texts), sum(counter.texts), used.wall)
            total = [before + now for before, now in zip(total, counts, strict=True)]
            rows.append(build_row(device, stage.key, str(len(output.rows)), counts, used))
        return [*rows, build_row(device, "all", "", total, used)]


def build_row(device: str, stage: str, n_rows: str, counts: Sequence[float], used: Used) -> tuple[str, ...]:
    """A row of results; memory is the peak of the process so far."""
    passes, texts, seconds = counts
    card = f"{torch.cuda.max_memory_allocated() / 1e6:,.0f}" if device.startswith("cuda") else ""
    figures = (f"{passes:,.0f}", f"{texts:,.0f}", f"{seconds:.1f}", f"{used.with_files * 1.048576:,.0f}", card)
    return (device, stage, n_rows, *figures)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--device", help="only this device: cpu or cuda")
    parser.add_argument("--variant", default=Task.variant, help="variant of K-Bloom, such as kbloom_printed")
    parser.add_argument("--n", type=int, default=Task.n, help="maximum pairs of a heap; the papers have 1,000")
    parser.add_argument("--json", type=Path, help="file of results to write")
    options = parser.parse_args()
    devices = [options.device] if options.device else ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    task = Task(variant=options.variant, n=options.n)
    rows = [row for device in devices for row in in_new_process(harvest, task, BERT_LARGE, device)]
    print_table(COLUMNS, rows, title=str(task))
    if options.json:
        write_results(options.json, COLUMNS, rows)


if __name__ == "__main__":
    main()
