"""Compares a causal with a masked language model on the pairs of the sample's relations.

    EVIDENCE_LAKE=<lake with models/masked_lm> python -m bench.harvest.measure_causal_harvest FOLDER FILE.gguf

Needs the packages ``gguf`` and ``accelerate``. The slots are constrained to the words of stated facts that are no
seeds: at most 12 facts of each relation, drawn from the four shapes in turn; every head is paired with every tail. The
masked model ranks pairs by the likelihood of their words, the causal model by that of the whole sentence or its tokens'
mean, all in the relation's prompt. R-precision on the stated facts; intervals (95 %) are paired over relations.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from itertools import product, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import evidence_assets
from bench.harvest.measure_harvest import assign_half
from evidence_assets import profiles
from evidence_assets.experiment.scores.metrics import mean, paired_bootstrap
from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.harvest.tuple_search import SHAPES
from evidence_assets.lake.store import Lake
from evidence_assets.models.inference import save_model
from evidence_assets.models.protocols import MaskedLM
from evidence_assets.models.registry import get_masked_lm
from evidence_assets.models.sequence_models import TextLikelihood
from evidence_assets.systems.kbloom.sample_scores import read_facts
from evidence_assets.systems.kbloom.seeds import Relation, read_seed_folder
from evidence_assets.text.prompt_text import HEAD, MASK_SLOT, TAIL, as_sentence, fill_prompt

SAMPLE = Path(evidence_assets.__file__).parent / "sample" / "full"
FACTS = 12


def draw_pool(relation: Relation, truths: Sequence[EntityPair]) -> list[EntityPair]:
    """Heads × tails of facts that are no seeds, drawn from the four shapes in turn."""
    facts = sorted({*truths} - {*relation.pairs})
    random.Random(relation.id).shuffle(facts)
    by_shape = [[p for p in facts if (len(p[0].split()), len(p[1].split())) == shape] for shape in SHAPES]
    chosen = [pair for turn in zip_longest(*by_shape) for pair in turn if pair][:FACTS]
    pairs = product(sorted({head for head, _ in chosen}), sorted({tail for _, tail in chosen}))
    return [pair for pair in pairs if pair[0] != pair[1] and pair not in relation.pairs]


def rate_masked(model: MaskedLM, prompt: str, pairs: Sequence[EntityPair]) -> list[float]:
    """Log-likelihood of the words of each pair, the head's first."""
    texts, words, slots = [], [], []
    for head, tail in pairs:
        sizes = len(head.split()), len(tail.split())
        texts.append(as_sentence(fill_prompt(prompt, *(" ".join([MASK_SLOT] * size) for size in sizes))))
        words.append([*head.split(), *tail.split()])
        numbers = list(range(sum(sizes)))
        is_tail_first = prompt.index(TAIL) < prompt.index(HEAD)
        slots.append(numbers[sizes[1] :] + numbers[: sizes[1]] if is_tail_first else numbers)
    return [float(values.sum()) for values in model.fill_log_probs(texts, words, slots)]


def r_precision(scores: Sequence[float], hits: Sequence[bool]) -> float:
    order = np.argsort(-np.asarray(scores), kind="stable")
    return float(np.asarray(hits)[order][: sum(hits)].mean())


def main(folder: str, file: str) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file)
    with TemporaryDirectory() as copy:
        save_model(model, tokenizer, Path(copy))
        causal = TextLikelihood(copy)
    masked = get_masked_lm(Lake(Path(os.environ["EVIDENCE_LAKE"])), profiles.load().masked_model)
    facts = read_facts(SAMPLE / "stated.tsv")
    results: dict[str, list[dict[str, float]]] = {}
    for relation in read_seed_folder(SAMPLE / "seeds").relations:
        truths = {(h, t) for h, r, t in facts if r == relation.id}
        truths |= {(t, h) for h, t in truths} if relation.symmetric else set()
        pairs = draw_pool(relation, sorted(truths))
        hits = [pair in truths for pair in pairs]
        texts = [as_sentence(fill_prompt(relation.prompt, *pair)) for pair in pairs]
        means = causal.mean_log_probs(texts).astype(float)
        lengths = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
        values = {
            "chance": sum(hits) / len(hits),
            "masked": r_precision(rate_masked(masked, relation.prompt, pairs), hits),
            "causal sentence": r_precision(list(means * lengths), hits),
            "causal mean": r_precision(list(means), hits),
        }
        figures = " ".join(f"{name} {value:.3f}" for name, value in values.items())
        print(f"{relation.id:30} {len(pairs):3} pairs {figures}", flush=True)
        for group in (assign_half(relation.id), "all"):
            results.setdefault(group, []).append(values)
    for group, rows in results.items():
        for name in ("causal sentence", "causal mean"):
            for other in ("chance", "masked"):
                first, second = ([row[each] for row in rows] for each in (name, other))
                gain = paired_bootstrap(first, second)
                interval = f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
                compared = f"{name} {mean(first).value:.3f}, {other} {mean(second).value:.3f}"
                print(f"{group:14} n = {len(rows):2} {compared}: {interval}")


if __name__ == "__main__":
    main(*sys.argv[1:])
