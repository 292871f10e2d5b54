"""What each term of K-Bloom's final score contributes to the ranking, on the harvest of the demo.

A small GPT-2 is trained on the sentences of the sample corpus, because the embedded profile has no causal model. Every
candidate of the demo's harvest is scored by each form of the fluency and of the transport cost. Printed are the spread
of both terms of equation 5.20 (5th to 95th percentile), the rank correlation of the final score with each term, and
precision at 50 against the facts that the corpus states. ``--part prompts`` mines prompts by each reading of the
certainty instead, and prints their largest weight and precision at 50 of the pairs in the order of the search. Run from
the repository root, after ``make demo``::

    python -m bench.harvest.measure_triple_terms [--lake data_lake] [--steps 1500] [--part terms]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import numpy as np
import torch
from scipy.stats import spearmanr
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from evidence_assets import profiles
from evidence_assets.harvest.prompt_mining import CertaintyForm, MiningModels
from evidence_assets.harvest.triple_metrics import Direction, Triple, judge_relevance
from evidence_assets.harvest.triple_scoring import final_scores, nearness
from evidence_assets.harvest.tuple_search import ScoredPair
from evidence_assets.lake.store import Lake
from evidence_assets.models.inference import save_model
from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.models.registry import MASKED_LM_ASSET, get_encoder, get_masked_lm
from evidence_assets.models.sequence_models import TextLikelihood
from evidence_assets.systems.kbloom.harvesting import (
    KBloomSettings,
    harvest_relation,
    mine_relation_prompts,
    score_pairs,
)
from evidence_assets.systems.kbloom.rows import build_relations
from evidence_assets.systems.kbloom.sample_model import extract_sentences
from evidence_assets.systems.kbloom.sample_scores import PRECISION_CUTOFF, read_facts
from evidence_assets.systems.kbloom.seeds import Relation

PUBLISHED = KBloomSettings(bm25="corpus", fluency="printed", final="printed")
FORMS = {
    "GPT, printed sign (5.18)": (PUBLISHED, True),
    "GPT, sign of the text": (replace(PUBLISHED, fluency="corrected"), True),
    "masked, left context, printed sign": (PUBLISHED, False),
    "masked, both contexts, sign of the text": (replace(PUBLISHED, fluency="corrected"), False),
    "GPT, sign of the text, BM25 by sentence": (replace(PUBLISHED, fluency="corrected", bm25="sentence"), True),
    "GPT, sign of the text, Euclidean": (replace(PUBLISHED, fluency="corrected", ground="euclidean"), True),
    "GPT, printed sign, Euclidean": (replace(PUBLISHED, ground="euclidean"), True),
}


def train_gpt(sentences: Sequence[str], tokenizer_folder: Path, steps: int) -> TextLikelihood:
    """A two-layer GPT-2 over the whole words of the masked model's vocabulary."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder, eos_token="[SEP]")
    torch.manual_seed(0)
    shape = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
    end = tokenizer.eos_token_id
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **shape))
    encodings = tokenizer(sorted(set(sentences)), add_special_tokens=False)["input_ids"]
    rows = [torch.tensor([end, *ids, end][:128]) for ids in encodings]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 - step / steps)
        chosen = torch.randint(len(rows), (64,), generator=generator).tolist()
        ids = torch.nn.utils.rnn.pad_sequence([rows[i] for i in chosen], batch_first=True, padding_value=-100)
        loss = model(input_ids=ids.clamp(min=0), attention_mask=(ids >= 0).long(), labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"GPT-2 of the sample: {len(rows):,} sentences, {steps} steps, last loss {loss.item():.2f}\n")
    with TemporaryDirectory() as folder:
        save_model(model, tokenizer, Path(folder))
        return TextLikelihood(folder)


def swish(values: np.ndarray) -> np.ndarray:
    return values / (1 + np.exp(-np.clip(values, -700, 700)))


def spread(values: np.ndarray) -> str:
    low, high = np.percentile(values, [5, 95])
    return f"{low:,.2f} to {high:,.2f}"


def precision_of(relation: Relation, pairs: Sequence[ScoredPair], facts: Sequence[Triple], scores: np.ndarray) -> float:
    """Precision at 50 of the pairs ranked by these scores, without the seeds."""
    ranking = [(pairs[i].head, relation.id, pairs[i].tail) for i in np.argsort(-scores, kind="stable")]
    truths = [fact for fact in facts if fact[1] == relation.id]
    seeds = [(head, relation.id, tail) for head, tail in relation.pairs]
    directions = {relation.id: Direction(symmetric=relation.symmetric)}
    hits, _ = judge_relevance(ranking, truths, exclude=seeds, directions=directions)
    return sum(hits[:PRECISION_CUTOFF]) / PRECISION_CUTOFF


def compare_certainties(masked: HFMaskedLM, relations: Sequence[Relation], facts: Sequence[Triple]) -> None:
    """Print prompts, weights and precision of the search by each reading of the certainty (5.2, 5.3)."""
    print(
        f"| certainty | prompts kept | largest weight | precision@{PRECISION_CUTOFF} of the search |\n|---|---|---|---|"
    )
    models = MiningModels(masked, get_encoder(profiles.load().encoder))
    max_prompts = profiles.load().harvesting.prompts
    for choice in reversed(get_args(CertaintyForm)):
        settings = KBloomSettings(prompt_choice=choice, max_prompts=max_prompts, n=PRECISION_CUTOFF)
        rows = []
        for relation in relations:
            prompts = mine_relation_prompts(relation, models, settings)
            weights = [prompt.weight for prompt in prompts if prompt.kept]
            pairs = list(harvest_relation(relation, masked, prompts, settings).candidates)
            rows.append([len(weights), max(weights), precision_of(relation, pairs, facts, -np.arange(len(pairs)))])
        print(f"| {choice} | " + " | ".join(f"{mean:.3g}" for mean in np.mean(rows, axis=0)) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lake", type=Path, default=Path("data_lake"))
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--part", choices=("terms", "prompts"), default="terms")
    options = parser.parse_args()
    lake = Lake(options.lake)
    masked = get_masked_lm(lake, profiles.load().masked_model)
    relations = build_relations(lake.read("relation_seeds", "knowledge/seeds"))
    facts = read_facts(lake.raw_path("sample") / "stated.tsv")
    if options.part == "prompts":
        compare_certainties(masked, relations, facts)
        return
    sentences = extract_sentences(lake.read("chunks", "corpus/sample/chunks"))
    causal = train_gpt(sentences, lake.index_folder(MASKED_LM_ASSET), options.steps)
    candidates = lake.read("candidate_tuples", "knowledge/kbloom/harvest")
    results: dict[tuple[str, str], list[list[float]]] = {}
    terms: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    for relation in relations:
        stored_pairs = candidates.filter(relation_id=relation.id, variant="kbloom").sort("probability_rank")
        pairs = [
            ScoredPair(head, tail, (1, 1), 0.0, 0.0) for head, tail in stored_pairs.select("head", "tail").iter_rows()
        ]
        precision = partial(precision_of, relation, pairs, facts)
        results.setdefault(("search score alone", ""), []).append([precision(-np.arange(len(pairs), dtype=float))])
        for name, (settings, is_causal) in FORMS.items():
            distances, fluent = score_pairs(relation, pairs, masked, settings, causal if is_causal else None)
            near = nearness(distances, len(relation.pairs))
            terms.setdefault(name, []).append((swish(near), swish(fluent), swish(distances)))
            for final in ("printed", "distance"):
                scores = final_scores(distances, fluent, len(relation.pairs), final)
                term = near if final == "printed" else distances
                correlations = [float(spearmanr(scores, part).statistic) for part in (term, fluent)]
                results.setdefault((name, final), []).append([precision(scores), *correlations])
            results.setdefault((name, "nearness alone"), []).append([precision(near)])
            results.setdefault((name, "fluency alone"), []).append([precision(fluent)])
    print("| fluency and cost | nearness term | fluency term | distance term |\n|---|---|---|---|")
    for name, parts in terms.items():
        print(f"| {name} | " + " | ".join(spread(np.concatenate(values)) for values in zip(*parts, strict=True)) + " |")
    print(f"\n| fluency and cost | score | precision@{PRECISION_CUTOFF} | ρ with the first term | ρ with the fluency |")
    print("|---|---|---|---|---|")
    for (name, form), values in results.items():
        means = [f"{mean:.3f}" for mean in np.mean(values, axis=0)]
        print(f"| {name} | {form} | {' | '.join([*means, '', ''][:3])} |")


if __name__ == "__main__":
    main()
