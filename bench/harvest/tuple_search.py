"""Tuple search: model forward passes and seconds, batched against one call a prompt and search node.

The baseline is the search as published in spirit: depth first, one model call for each prompt and node, one min-heap a
shape whose smallest member cuts branches. Both must return the same pairs. Run from the repository root::

    python -m bench.harvest.tuple_search
"""

from __future__ import annotations

import heapq
import time

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM

from evidence_assets.harvest.tuple_search import SHAPES, FillQuery, search_tuples
from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.models.sample_masked_lm import _whole_word_tokenizer
from evidence_assets.systems.kbloom.harvesting import PromptQueries
from evidence_assets.text.prompt_text import entity_word_positions

PROMPTS = [
    "<HEAD> eats <TAIL>",
    "the <TAIL> is the food of <HEAD>",
    "<HEAD> lives on the <TAIL>",
    "<TAIL> feeds <HEAD>",
]
WEIGHTS = (0.4, 0.3, 0.2, 0.1)
N = 50


def random_model(words: int) -> HFMaskedLM:
    """A random model whose guesses are peaked, so that pruning has something to cut."""
    names = [a + b + c for a in "bdgklmnprs" for b in "aeiou" for c in "bdgklmnprs"][:words]
    tokenizer = _whole_word_tokenizer(
        [" ".join(PROMPTS).replace("<HEAD>", "").replace("<TAIL>", ""), " ".join(names), "."]
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=256,
        initializer_range=0.35,
    )
    return HFMaskedLM(BertForMaskedLM(config), tokenizer, model_id="random")


def one_call_a_node(queries: PromptQueries, words: list[str]) -> list[tuple[str, str, float]]:
    """Depth-first search, likeliest child first, cut by the heap's smallest member."""
    tuples: list[tuple[float, str, str]] = []
    for shape in SHAPES:
        heap: list[tuple[float, str, str]] = []

        def visit(
            filled: tuple[int, ...], total: float, shape: tuple[int, int], heap: list[tuple[float, str, str]]
        ) -> None:
            values = np.zeros(len(words))
            for prompt, weight in enumerate(WEIGHTS):
                values += weight * queries.log_probs([FillQuery(prompt, shape, filled)])[0].astype(np.float64)
            totals = total + np.minimum(values, 0.0)
            for word in np.argsort(-totals, kind="stable"):
                score = float(totals[word])
                if len(heap) == N and score <= heap[0][0]:
                    return
                longer = (*filled, int(word))
                head, tail = longer[: shape[0]], longer[shape[0] :]
                is_whole = len(longer) == sum(shape)
                if len(set(head)) < len(head) or len(set(tail)) < len(tail) or (is_whole and head == tail):
                    continue
                if not is_whole:
                    visit(longer, score, shape, heap)
                    continue
                item = (score, " ".join(words[w] for w in head), " ".join(words[w] for w in tail))
                (heapq.heapreplace if len(heap) == N else heapq.heappush)(heap, item)

        visit((), 0.0, shape, heap)
        tuples += heap
    return [(head, tail, score) for score, head, tail in sorted(tuples, key=lambda item: (-item[0], item[1], item[2]))]


def main() -> None:
    torch.set_num_threads(1)
    model = random_model(30)
    allowed = entity_word_positions(model.vocabulary, PROMPTS)
    queries = PromptQueries(model, PROMPTS, allowed)
    words = queries.words
    calls, seconds, passes = {}, {}, list[object]()
    model._model.register_forward_hook(lambda module, *_: passes.append(module))
    results = {}
    for name in ("warm-up", "batched", "one call a node"):
        passes.clear()
        start = time.perf_counter()
        if name == "one call a node":
            results[name] = one_call_a_node(queries, words)
        else:
            pairs = search_tuples(queries.log_probs, words, WEIGHTS, n=N, max_occurrences=None)
            results[name] = [(pair.head, pair.tail, pair.score) for pair in pairs]
        calls[name], seconds[name] = len(passes), time.perf_counter() - start
    our_pairs, baseline_pairs = results["batched"], results["one call a node"]
    assert [item[:2] for item in our_pairs] == [item[:2] for item in baseline_pairs], (
        "the two searches found different pairs"
    )
    assert np.allclose([item[2] for item in our_pairs], [item[2] for item in baseline_pairs], atol=1e-9)
    print(f"{len(our_pairs)} equal pairs, {len(words)} words, {len(PROMPTS)} prompts, {len(SHAPES)} shapes, n={N}")
    for name in ("one call a node", "batched"):
        print(f"{name:>16}: {calls[name]:6d} forward passes, {seconds[name]:7.2f} s")
    print(
        f"batched: {calls['one call a node'] / calls['batched']:.0f} times fewer forward passes, "
        f"{seconds['one call a node'] / seconds['batched']:.1f} times faster"
    )


if __name__ == "__main__":
    main()
