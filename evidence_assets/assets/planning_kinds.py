"""What variants of other shapes than selector and reasoner will cost: short answers, ranked nodes, harvests."""

from __future__ import annotations

from evidence_assets import profiles
from evidence_assets.assets.benchmark import Benchmark
from evidence_assets.assets.declarations import Declaration
from evidence_assets.assets.planning_rates import Count, Estimate, characters, rate, rates, seconds_per_call
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.short_answers import answer_request
from evidence_assets.systems.background.recall import entities_request, relations_request, triples_request
from evidence_assets.systems.four_step_focus.system import FocusSettings

TRIPLETS, GRADE = 512, 8
"""Most tokens of a reply that gives triplets, or the grade of a node."""
SHAPES = 4
"""Shapes of pairs (words of head and tail), of each of which K-Bloom keeps n candidates; the baseline keeps n in all."""
EVIDENCE_TRIPLES = 10
"""Triples that a question on a graph gets, where the variant states no number of its own."""


def graph_answers(variant: Declaration, benchmark: Benchmark, count: Count) -> Estimate:
    """Short answers from triples of a graph: one call a question, with those that recall background before it."""
    stated = variant.attributes.get("parameters") or {}
    reads_graph = stated.get("graph", True)
    triples = int(stated.get("top_k", stated.get("top_n", EVIDENCE_TRIPLES))) if reads_graph or _recalls(variant) else 0
    made = Estimate(str(variant.attributes["name"]), benchmark.name, count)
    evidence = count.questions * triples
    made.rows = {
        "evidence": evidence, "predictions": count.questions,
        "lineage_edges": 2 * evidence + count.questions + evidence,
    }  # fmt: skip
    made.store(evidence * characters("triple"))
    question, name = "x" * characters("question"), "x" * (characters("triple") // 3)
    requests = [answer_request(question, [(name, name, name)] * triples)]
    if _recalls(variant):
        listed = [name] * EVIDENCE_TRIPLES
        requests += [entities_request(question), relations_request(question), triples_request(question, listed, listed)]
    _ask(made, len(requests), sum(map(_length, requests)), sum(r.max_tokens for r in requests))
    return made


def _length(request: Request) -> int:
    return len(request.system) + len(request.user)


def _recalls(variant: Declaration) -> bool:
    return bool(variant.attributes.get("recall"))


def node_ranking(variant: Declaration, benchmark: Benchmark, count: Count) -> Estimate:
    """Ranked nodes: one call for the triplets, one for each node that is graded."""
    published = FocusSettings()
    made = Estimate(str(variant.attributes["name"]), benchmark.name, count)
    evidence = count.questions * published.evidence_nodes * (published.edges_per_triplet + 1)
    made.rows = {
        "evidence": evidence, "predictions": count.questions,
        "lineage_edges": 3 * evidence + count.questions,
    }  # fmt: skip
    made.store(evidence * characters("node"))
    reads, grades = bool(variant.attributes.get("triplets")), bool(variant.attributes.get("rerank"))
    nodes = published.k_max if grades else 0
    asked = (reads + nodes) * (characters("question") + rate("instruction_characters")) + nodes * characters("node")
    _ask(made, reads + nodes, asked, reads * TRIPLETS + nodes * GRADE)
    return made


def _ask(made: Estimate, calls: int, asked: float, replied: int) -> None:
    """Calls, tokens and time of so many calls a question, where the profile has a language model."""
    if profiles.load().generator.backend == "extractive":
        return
    questions = made.count.questions
    made.calls = questions * calls
    made.prompt_tokens = round(questions * asked / rate("characters_per_token"))
    made.reply_tokens = questions * replied
    each = seconds_per_call()
    made.reasoning = None if each is None else made.calls * each


def relation_count(stated: int, lake: Lake | None) -> Count:
    """Relations to harvest: those of the lake's seeds, else the profile's of the sample, else as published."""
    if lake is not None:
        found = lake.read("relation_seeds", columns=["relation_id"])["relation_id"].n_unique()
        if found:
            return Count(found, 0.0, "lake")
    own = len(profiles.load().harvesting.sample_relations)
    return Count(own, 0.0, "profile") if own else Count(stated, 0.0, "declared")


def harvest(variant: Declaration, relations: Count) -> Estimate:
    """Triples of a masked language model, found by K-Bloom's search and, where it is run beside it, the baseline's.

    ``calls`` are texts that pass through the model, one a masked word, at most: fewer prompts may be kept than may be.
    """
    harvesting, stated = profiles.load().harvesting, variant.attributes.get("settings") or {}
    single = stated.get("prompts", "multi") != "multi"
    prompts, n = 1 if single else int(stated.get("max_prompts", harvesting.prompts)), int(stated.get("n", harvesting.n))
    searches = 2 if variant.attributes.get("baseline", True) else 1
    made = Estimate(str(variant.attributes["name"]), "all relations", relations)
    triples = relations.questions * searches * n
    candidates = relations.questions * n * (SHAPES + searches - 1)
    made.rows = {
        "prompts": round(relations.questions * rate("harvest", "prompts_per_relation")), "candidate_tuples": candidates,
        "triples": triples + relations.questions * n,
        "lineage_edges": round(triples * rate("harvest", "edges_per_triple")),
    }  # fmt: skip
    made.store()
    made.calls = round(candidates * prompts * rate("harvest", "texts_per_candidate_and_prompt"))
    made.prompt_tokens = round(made.calls * rate("harvest", "tokens_per_text"))
    model = harvesting.model.name
    if model in rates()["harvest"]["seconds_per_text"]:
        made.selecting = made.calls * rate("harvest", "seconds_per_text", model)
        made.reasoning = 0.0
    return made
