"""Searches new pairs of the sample's relations with a causal model, against K-Bloom's search with a masked one.

    EVIDENCE_LAKE=<lake with models/masked_lm> python -m bench.measure_causal_search FOLDER FILE.gguf

Needs the packages ``gguf`` and ``accelerate``. Both models fill the relation's own prompt with the same words: those
of the masked model's vocabulary that can be part of an entity. K-Bloom's search is exact; the causal model fills the
slots from left to right in a beam over tokens, limited to a trie of these words, and ranks pairs by the likelihood of
the whole sentence. Four shapes; 120 pairs of each at most, and 10 of an entity. Stated facts that are no seeds are
right. The relations are those that nothing was tuned on; intervals (95 %) are paired over them.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.measure_causal_harvest import SAMPLE
from evidence_assets import profiles
from evidence_assets.experiment.scores.metrics import mean, paired_bootstrap
from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.harvest.triple_metrics import Direction, judge_relevance
from evidence_assets.harvest.tuple_search import SHAPES, search_tuples
from evidence_assets.lake.store import Lake
from evidence_assets.models.registry import get_masked_lm
from evidence_assets.models.sequence_models import TextLikelihood
from evidence_assets.systems.kbloom.harvesting import PromptQueries
from evidence_assets.systems.kbloom.sample_scores import PRECISION_CUTOFF, REPORTED_HALF, assign_half, read_facts
from evidence_assets.systems.kbloom.seeds import read_seed_folder
from evidence_assets.text.prompt_text import HEAD, TAIL, as_sentence, entity_word_positions, fill_prompt

N, OCCURRENCES, BEAM = 120, 10, 48


@dataclass(frozen=True)
class Partial:
    """The tokens of a sentence so far, their log-probability, and the words of the slots."""

    ids: tuple[int, ...]
    score: float
    words: tuple[str, ...] = ()
    node: Any = None


class CausalSearch:
    """Beam search over the tokens of a slot's words."""

    def __init__(self, model: Any, tokenizer: Any, words: Iterable[str]) -> None:
        self._model, self._tokenizer, self._trie = model.eval(), tokenizer, dict[Any, Any]()
        for word in words:
            node = self._trie
            for token in self._encode(f" {word}"):
                node = node.setdefault(token, {})
            node["word"] = word

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _next(self, partials: Sequence[Partial]) -> torch.Tensor:
        """Log-probabilities of the token after each partial; padding on the right does not reach it."""
        lengths = [len(partial.ids) for partial in partials]
        ids = torch.tensor([[*partial.ids, *[0] * (max(lengths) - len(partial.ids))] for partial in partials])
        with torch.inference_mode():
            states = self._model.base_model(input_ids=ids).last_hidden_state
            logits = self._model.lm_head(states[torch.arange(len(ids)), torch.tensor(lengths) - 1])
        return torch.log_softmax(logits.float(), dim=-1)

    def _append(self, partials: list[Partial], text: str) -> list[Partial]:
        """The partials, followed by fixed text."""
        for token in self._encode(text):
            rows = self._next(partials)[:, token].tolist()
            partials = [Partial((*p.ids, token), p.score + row, p.words) for p, row in zip(partials, rows, strict=True)]
        return partials

    def _add_word(self, partials: list[Partial]) -> list[Partial]:
        """The best continuations by one word."""
        complete, open_partials = list[Partial](), [Partial(p.ids, p.score, p.words, self._trie) for p in partials]
        while open_partials:
            longer = []
            for partial, row in zip(open_partials, self._next(open_partials).numpy(), strict=True):
                for token, node in partial.node.items():
                    if token == "word":
                        continue
                    step = Partial((*partial.ids, token), partial.score + float(row[token]), partial.words, node)
                    longer.append(step)
                    if "word" in node and node["word"] not in partial.words:
                        complete.append(Partial(step.ids, step.score, (*partial.words, node["word"])))
            complete = sorted(complete, key=lambda p: -p.score)[:BEAM]
            lowest = complete[-1].score if len(complete) == BEAM else -np.inf
            longer = [p for p in longer if p.node.keys() - {"word"} and p.score > lowest]
            open_partials = sorted(longer, key=lambda p: -p.score)[:BEAM]
        return complete

    def search(self, prompt: str) -> list[tuple[EntityPair, float]]:
        """Pairs with the log-likelihood of their sentence, best first; no word occurs twice in a pair."""
        is_tail_first = prompt.index(TAIL) < prompt.index(HEAD)
        before, between, after = (part.strip() for part in fill_prompt(as_sentence(prompt), "\0", "\0").split("\0"))
        start = [Partial((self._tokenizer.bos_token_id,), 0.0)]
        start = self._append(start, before) if before else start
        pairs = {}
        for sizes in sorted({shape[::-1] if is_tail_first else shape for shape in SHAPES}):
            partials = start
            for size, text in zip(sizes, (f" {between}", after if after == "." else f" {after}"), strict=True):
                for _ in range(size):
                    partials = self._add_word(partials)
                partials = self._append(partials, text)
            for partial in partials:
                ends = " ".join(partial.words[: sizes[0]]), " ".join(partial.words[sizes[0] :])
                pairs[ends[::-1] if is_tail_first else ends] = partial.score
        return sorted(pairs.items(), key=lambda item: -item[1])


def limit(pairs: Iterable[EntityPair]) -> list[EntityPair]:
    """Pairs in order, at most ``OCCURRENCES`` of each entity."""
    counts, kept = Counter[str](), []
    for pair in pairs:
        if max(counts[end] for end in pair) < OCCURRENCES:
            counts.update(pair)
            kept.append(pair)
    return kept


def main(folder: str, file: str) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    likelihood = TextLikelihood(model, tokenizer, model_id=file)
    masked = get_masked_lm(Lake(Path(os.environ["EVIDENCE_LAKE"])), profiles.load().masked_model)
    facts, results = read_facts(SAMPLE / "stated.tsv"), dict[str, dict[str, list[float]]]()
    for relation in read_seed_folder(SAMPLE / "seeds").relations:
        if assign_half(relation.id) != REPORTED_HALF:
            continue
        allowed = entity_word_positions(masked.vocabulary, [relation.prompt])
        words = [masked.vocabulary[position] for position in allowed]
        queries = PromptQueries(masked, [relation.prompt], words, allowed)
        best = search_tuples(queries.log_probs, words, [1.0], n=N, max_occurrences=OCCURRENCES)
        rankings = {"masked": [(pair.head, pair.tail) for pair in best]}
        found = CausalSearch(model, tokenizer, words).search(relation.prompt)
        rankings["causal sentence"] = limit(pair for pair, _ in found)
        means = likelihood.mean_log_probs([as_sentence(fill_prompt(relation.prompt, *pair)) for pair, _ in found])
        rankings["causal mean"] = limit(found[i][0] for i in np.argsort(-means, kind="stable"))
        for name, ranking in rankings.items():
            truths, seeds, triples = (
                [(head, relation.id, tail) for head, tail in pairs]
                for pairs in ([(h, t) for h, r, t in facts if r == relation.id], relation.pairs, ranking)
            )
            directions = {relation.id: Direction(symmetric=relation.symmetric)}
            hits, count = judge_relevance(triples, truths, exclude=seeds, directions=directions)
            values = {
                "R-precision": sum(hits[:count]) / count,
                "precision": sum(hits[:PRECISION_CUTOFF]) / PRECISION_CUTOFF,
            }
            print(f"{relation.id:30} {name:16} {len(hits):4} pairs {values} {ranking[:4]}", flush=True)
            for metric, value in values.items():
                results.setdefault(metric, {}).setdefault(name, []).append(value)
    for metric, columns in results.items():
        for name in ("causal sentence", "causal mean"):
            gain = paired_bootstrap(columns[name], columns["masked"])
            figures = ", ".join(f"{other} {mean(columns[other]).value:.3f}" for other in (name, "masked"))
            print(f"{metric}: {figures}: {gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}), n = {gain.n}")


if __name__ == "__main__":
    main(*sys.argv[1:])
