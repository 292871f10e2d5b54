"""Tails of LAMA's relations that a causal language model names, by its plain prompt, BertNet's way and K-Bloom's.

    python -m bench.harvest.causal_model http://127.0.0.1:8081/v1 --folder FOLDER [--heads 100] [--json FILE]

Needs llama.cpp's server, which constrains replies by a grammar and gives log probabilities. A causal model cannot
search heads: they stand on the left of its tails. So all ways are given what LAMA gives, the heads of a relation, and
rank one tail for each of them. The sentences of the seed pairs stand before the prompt as examples. A pair is right if
T-REx has it, in which many true ones are missing.

* ``plain``: the given prompt; the mean log probability of the tail.
* ``BertNet``: the model rewords the prompt. The rewordings that end with the tail are weighted by the seed pairs, and
  pairs are ranked by BertNet's score of the tail.
* ``K-Bloom``: the rewordings are weighted by K-Bloom's compatibility, without those that are improbable. The most
  probable tail of a head is its candidate; candidates are ranked by K-Bloom's final score, with the fluency of the
  model and the word vectors of MiniLM.

A head without a tail counts as wrong. Intervals are of the mean over the relations.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast
from urllib.request import Request, urlopen

import numpy as np

from bench.dev_data import dev_data
from bench.measuring import make_parser
from bench.result_files import print_table, write_results
from evidence_assets import profiles
from evidence_assets.benchmarks.official.graph_questions import read_lama_facts
from evidence_assets.experiment.scores.metrics import mean, paired_bootstrap
from evidence_assets.experiment.solvers import load_cached_generator
from evidence_assets.harvest.bertnet_prompts import mine_bertnet_prompts, reword_prompt
from evidence_assets.harvest.prompt_mining import EntityPair, MiningModels, fill_pairs, score_prompts
from evidence_assets.harvest.triple_scoring import final_scores
from evidence_assets.harvest.tuple_search import ScoredPair
from evidence_assets.lake.ids import content_id
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.protocols import Encoder, FloatArray, MaskedLM, WordContext, WordVectors
from evidence_assets.models.registry import get_encoder
from evidence_assets.models.sequence_models import TextLikelihood
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.profiles.model_source import generator_of
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.systems.kbloom.harvesting import KBloomSettings, score_pairs
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.statement_judge import reword_statements
from evidence_assets.text.prompt_text import TAIL, as_sentence, fill_prompt

PROMPTS = {
    "P27": "<HEAD> is a citizen of <TAIL>",
    "P36": "The capital of <HEAD> is <TAIL>",
    "P106": "The profession of <HEAD> is <TAIL>",
    "P190": "<HEAD> is twinned with the city of <TAIL>",
    "P361": "<HEAD> is part of <TAIL>",
    "P364": "The original language of <HEAD> is <TAIL>",
    "P449": "<HEAD> was first broadcast on <TAIL>",
    "P463": "<HEAD> is a member of <TAIL>",
}
SEEDS = 5
REWORDINGS = 3
TAIL_TOKENS = 8
ENDS = ("\n", ".", ",", ";", "(", " and ", " in ", " who ", " which ")
PARALLEL = 6
RANKED = 50


class Likelihood(NamedTuple):
    """Log probabilities of the tokens of a text, one after another."""

    tokens: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.tokens))


class Server:
    """A causal model behind llama.cpp's server; replies are kept in a folder."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = f"{address.rstrip('/').removesuffix('/v1')}/completion"
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _post(self, body: Mapping[str, object]) -> dict[str, object]:
        file = self._folder / f"{content_id('completion', json.dumps(body, sort_keys=True))}.json"
        if not file.exists():
            request = Request(self._address, json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urlopen(request, timeout=600) as response:  # nosec B310 (an address of the user)
                reply = json.load(response)
            stored = {"content": reply["content"], "probabilities": reply.get("completion_probabilities", [])}
            file.write_text(json.dumps(stored), encoding="utf-8")
        result: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
        return result

    def complete(self, text: str) -> str:
        """The tail that continues a text, without a sentence end and what follows it."""
        body = {"prompt": text, "n_predict": TAIL_TOKENS, "temperature": 0, "stop": list(ENDS), "cache_prompt": True}
        return " ".join(str(self._post(body)["content"]).split()).strip(" \"'*_")

    def likelihood(self, text: str, continuation: str) -> Likelihood:
        """Of the tokens of ``continuation``, which a grammar forces after ``text``."""
        grammar = f"root ::= {json.dumps(f' {continuation}', ensure_ascii=False)}"
        body = {"prompt": text, "n_predict": 96, "temperature": 0, "grammar": grammar, "n_probs": 1}
        rows = cast(list[dict[str, Any]], self._post(body | {"cache_prompt": True})["probabilities"])
        return Likelihood(tuple(row["logprob"] for row in rows if row["token"]))  # the end has no text


Result = TypeVar("Result")


def in_parallel(function: Callable[..., Result], inputs: Sequence[tuple[str, ...]]) -> list[Result]:
    """The results of calls with these arguments, in order."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(lambda arguments: function(*arguments), inputs))


@dataclass(frozen=True)
class CausalModel:
    """What K-Bloom's formulas ask of a masked model, by a causal one and the word vectors of an encoder."""

    server: Server
    encoder: Encoder

    def word_log_probs(self, texts: Sequence[str], _: WordContext = "both") -> list[FloatArray]:
        likelihoods = in_parallel(self.server.likelihood, [("\n", text) for text in texts])
        return [np.asarray(each.tokens, dtype=np.float32) for each in likelihoods]

    def mean_log_probs(self, texts: Sequence[str]) -> FloatArray:
        return np.asarray([values.mean() for values in self.word_log_probs(texts)], dtype=np.float32)

    def word_vectors(self, texts: Sequence[str]) -> list[WordVectors]:
        tokens = self.encoder.encode_tokens(texts)
        return [WordVectors(item.tokens, item.vectors) for item in tokens]


def read_facts(relation_id: str) -> dict[str, set[str]]:
    """The tails of each head in T-REx."""
    facts: dict[str, set[str]] = defaultdict(set)
    for head, relation, tail in read_lama_facts(dev_data() / "lama"):
        if relation == relation_id:
            facts[head].add(tail)
    return dict(facts)


def draw(relation_id: str, facts: Mapping[str, set[str]], n: int) -> tuple[Relation, list[str]]:
    """A relation with its seed pairs, and other heads."""
    heads = sorted(facts, key=lambda head: content_id("lama", relation_id, head))
    seeds = tuple((head, min(facts[head])) for head in heads[:SEEDS])
    prompt = PROMPTS[relation_id]
    relation = Relation(id=relation_id, collection="lama", prompt=prompt, pairs=seeds, template=prompt)
    return relation, heads[SEEDS : SEEDS + n]


def left_of_tail(relation: Relation, prompt: str, head: str) -> str:
    """The sentences of the seed pairs with other heads, and that about this head as far as its tail."""
    examples = fill_pairs([prompt], [pair for pair in relation.pairs if pair[0] != head])
    sentence = as_sentence(fill_prompt(prompt, head, TAIL)).split(TAIL)[0].rstrip()
    return "\n".join([*examples, sentence])


Scores = dict[tuple[str, EntityPair], Likelihood]


def tail_scores(server: Server, relation: Relation, inputs: Sequence[tuple[str, EntityPair]]) -> Scores:
    """The likelihood of the tail of each pair in its prompt."""
    texts = [(left_of_tail(relation, prompt, head), tail) for prompt, (head, tail) in inputs]
    return dict(zip(inputs, in_parallel(server.likelihood, texts), strict=True))


def bertnet_score(likelihood: Likelihood) -> float:
    """BertNet's score of a tail: its mean counts for the pair and for the entity, beside the least probable token."""
    return (2 * likelihood.mean + min(likelihood.tokens)) / 3


SCORES: dict[str, Callable[[Likelihood], float]] = {
    "plain": lambda likelihood: likelihood.mean,
    "BertNet": bertnet_score,
    "K-Bloom": lambda likelihood: sum(likelihood.tokens),
}
"""The score of a tail under one prompt, by way."""


def weigh_prompts(model: CausalModel, rewriter: LanguageModel, relation: Relation) -> dict[str, dict[str, float]]:
    """The prompts of each way with their weights."""
    initial = relation.prompt
    sentences = reword_prompt(initial, relation.pairs, lambda texts: reword_statements(rewriter, texts))
    reworded = [text for text in sentences if text.rstrip(".").endswith(TAIL)]

    def score(inputs: Sequence[tuple[str, EntityPair]]) -> list[float]:
        scores = tail_scores(model.server, relation, list(dict.fromkeys(inputs)))
        return [bertnet_score(scores[each]) for each in inputs]

    n = REWORDINGS + 1
    mined = mine_bertnet_prompts(initial, relation.pairs, reworded, score, setting="multi", n=n)
    models = MiningModels(cast(MaskedLM, model), model.encoder)
    by_compatibility = score_prompts(initial, reworded, relation.pairs, models, "probable")
    lowest = next((prompt.certainty or 0.0) / 2 for prompt in by_compatibility if prompt.text == initial)
    scored = [prompt for prompt in by_compatibility if (prompt.certainty or 0.0) >= lowest][:n]
    total = sum(prompt.compatibility for prompt in scored)
    return {
        "plain": {initial: 1.0},
        "BertNet": {prompt.text: prompt.weight for prompt in mined if prompt.kept},
        "K-Bloom": {prompt.text: prompt.compatibility / total for prompt in scored},
    }


def rank(
    model: CausalModel, relation: Relation, heads: Sequence[str], weights: Mapping[str, float], way: str
) -> list[EntityPair]:
    """The best pair of each head, best first."""
    inputs = [(prompt, head) for prompt in weights for head in heads]
    tails = in_parallel(model.server.complete, [(left_of_tail(relation, prompt, head),) for prompt, head in inputs])
    pairs = list(dict.fromkeys((head, tail) for (_, head), tail in zip(inputs, tails, strict=True) if tail))
    scores = tail_scores(model.server, relation, [(prompt, pair) for prompt in weights for pair in pairs])
    score = SCORES[way]
    by_pair = {pair: sum(weights[prompt] * score(scores[prompt, pair]) for prompt in weights) for pair in pairs}
    best: dict[str, EntityPair] = {}
    for pair in sorted(pairs, key=lambda pair: (-by_pair[pair], pair)):
        best.setdefault(pair[0], pair)
    return rank_by_kbloom(model, relation, best.values()) if way == "K-Bloom" else list(best.values())


def rank_by_kbloom(model: CausalModel, relation: Relation, pairs: Iterable[EntityPair]) -> list[EntityPair]:
    """The pairs by K-Bloom's final score, best first."""
    candidates = [ScoredPair(*pair, (1, 1), 0.0, 0.0) for pair in pairs]
    settings = KBloomSettings()
    masked = cast(MaskedLM, model)
    distances, fluencies = score_pairs(relation, candidates, masked, settings, cast(TextLikelihood, model))
    scores = final_scores(distances, fluencies, len(relation.pairs), settings.final)
    ranked = [candidates[number] for number in np.argsort(-scores, kind="stable")]
    return [(pair.head, pair.tail) for pair in ranked]


def is_right(pair: EntityPair, facts: Mapping[str, set[str]]) -> bool:
    return pair[1].casefold().removeprefix("the ") in {tail.casefold().removeprefix("the ") for tail in facts[pair[0]]}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("--heads", type=int, default=100)
    parser.add_argument("--relations", type=int, default=len(PROMPTS), help="how many, in the order of `PROMPTS`")
    parser.add_argument("--folder", type=Path, required=True, help="a folder that keeps replies between calls")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settings = GeneratorSettings.model_validate(generator_of(options.model))
    rewriter = LanguageModel(load_cached_generator(settings), CompletionCache(options.folder))
    model = CausalModel(Server(options.model, options.folder / "completions"), get_encoder(profiles.load().encoder))
    table = []
    by_way = defaultdict[str, list[float]](list)
    ways = list(SCORES)
    relations = list(PROMPTS)[: options.relations]
    for relation_id in relations:
        facts = read_facts(relation_id)
        relation, heads = draw(relation_id, facts, options.heads)
        cells = []
        for way, weights in weigh_prompts(model, rewriter, relation).items():
            pairs = rank(model, relation, heads, weights, way)
            hits = [is_right(pair, facts) for pair in pairs]
            by_way[way].append(sum(hits[:RANKED]) / min(RANKED, len(heads)))
            cells.append(f"{by_way[way][-1]:.2f} ({sum(hits) / len(heads):.2f})")
        table.append((relation.prompt, *cells, str(len(heads))))
        print(*table[-1], sep=" | ", flush=True)
    table.append(("mean", *(f"{mean(by_way[way]).value:.3f}" for way in ways), str(len(relations))))
    for other in ways[:-1]:
        gain = paired_bootstrap(by_way[ways[-1]], by_way[other])
        cells = [f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})" if way == other else "" for way in ways]
        table.append((f"K-Bloom − {other}", *cells, str(len(relations))))
    heads_row = ("prompt", *(f"{way}, P@{RANKED} (all)" for way in ways), "n")
    print_table(heads_row, table, rewriter.model_id)
    if options.json:
        write_results(options.json, heads_row, table, "python -m bench.harvest.causal_model MODEL --folder FOLDER")


if __name__ == "__main__":
    main()
