"""Example rows of the lake for tests."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from evidence_assets.lake.lineage import DERIVED, USED, edge
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake

Rows = Sequence[dict[str, Any]]


ROW = {"benchmark": "quiz", "content_hash": "h", "input_hash": "i"}
ANSWER = {**ROW, "reasoner": "r", "model_id": "m"}
"""Fields that rows share."""


def question(number: int, benchmark: str = "quiz", gold: str = "A", **overrides: Any) -> dict[str, Any]:
    """A multiple-choice question with two options."""
    names = {"question_id": f"q{number}", "source_id": str(number), "text": f"Question {number}?"}
    kind = {"benchmark": benchmark, "split": "test", "task": "mcqa", "options": ["yes", "no"], "gold": [gold]}
    others: dict[str, Any] = {
        "gold_aliases": [],
        "gold_evidence": [],
        "table_id": None,
        "topic_entities": [],
        "negated": False,
    }
    return {**names, **kind, **others, **overrides}


def prediction(
    number: int, answer: str | None, benchmark: str = "quiz", selector: str = "s", **overrides: Any
) -> dict[str, Any]:
    """The prediction of question ``number``."""
    names = {"prediction_id": f"p-{selector}-{number}", "question_id": f"q{number}", "benchmark": benchmark}
    answers = {"answer": answer, "ranked_answers": [], "supported_answers": [answer] if answer else []}
    verdict = {"status": "answered" if answer else "insufficient", "confidence": 0.5, "error": None}
    return {**ANSWER, **names, "selector": selector, **answers, **verdict, "content_hash": f"h{answer}", **overrides}


def chain(
    number: int, hypothesis: str, text: str, cited: list[str], selector: str = "s", **overrides: Any
) -> dict[str, Any]:
    """A chain of one step."""
    names = {"chain_id": f"c-{selector}-{number}-{hypothesis}", "question_id": f"q{number}", "hypothesis": hypothesis}
    steps = {"steps": [{"text": text, "cited": cited, "quoted": []}], "support": 0.5, "prompt_hash": ""}
    return {**ANSWER, **names, "selector": selector, **steps, "status": "answered", "error": None, **overrides}


def evidence(number: int, rank: int, text: str, selector: str = "s", **overrides: Any) -> dict[str, Any]:
    """A row of evidence from chunk ``k<number>``."""
    names = {"evidence_id": f"e-{selector}-{number}-{rank}", "question_id": f"q{number}", "option": "A"}
    source = {"kind": "chunk", "source_kind": "chunk", "source_id": f"k{number}", "locator": "0:9", "text": text}
    return {**ROW, **names, "selector": selector, **source, "rank": rank, "score": 1.0, "why": None, **overrides}


def chunk(number: int, text: str, **overrides: Any) -> dict[str, Any]:
    """A chunk that is a whole document."""
    names = {"chunk_id": f"k{number}", "doc_id": f"d{number}", "title": f"Title {number}", "ordinal": 0}
    size = {"char_start": 0, "char_end": len(text), "n_tokens": 1, "sentence_offsets": []}
    return {**names, "text": text, **size, "source": "f.txt", "source_version": "v", **overrides}


def node(node_id: str, name: str = "", **fields: Any) -> dict[str, Any]:
    """A node of a graph, named by its id unless it has a name."""
    return {"node_id": node_id, "name": name or node_id, "aliases": [], **fields}


def graph_edge(edge_id: str, head_id: str, relation: str, tail_id: str, **fields: Any) -> dict[str, Any]:
    """An edge of a graph."""
    ends = {"edge_id": edge_id, "head_id": head_id, "relation": relation, "tail_id": tail_id}
    return {**ends, "triple_ids": [], "sources": [], "licences": [], **fields}


def score(metric: str, value: float | None, benchmark: str = "quiz", **overrides: Any) -> dict[str, Any]:
    """A score on a benchmark with its interval, without a printed figure."""
    names = {"score_id": f"{benchmark} {metric}", "scope_kind": "benchmark", "scope_id": benchmark, "selector": "s"}
    names |= {"reasoner": "r", "model_id": "m", "metric": metric}
    values = {"value": value, "low": 0.1, "high": 0.9, "n": 50, "published": None, "published_source": None}
    return {**names, **values, **overrides}


def citation(chain_id: str, evidence_id: str, verdict: str, quoted: str = "") -> dict[str, Any]:
    """A citation of step 0."""
    names = {"citation_id": f"{chain_id}:{evidence_id}", "chain_id": chain_id, "step": 0, "evidence_id": evidence_id}
    return {**names, "quoted": quoted, "verdict": verdict}


def counterfactual(cited: str) -> dict[str, Any]:
    """The first question's answer A, for which the evidence with this hash is necessary and sufficient."""
    names = {"counterfactual_id": "f1", "prediction_id": "p-s-1", "question_id": "q1", "selector": "s"}
    answers = {"answer": "A", "cited": [cited], "without_cited": "insufficient", "only_cited": "A"}
    return {**ANSWER, **names, **answers, "necessary": True, "sufficient": True}


def write_harvest(lake: Lake, triples: int, *, relation: str = "may_treat", suffix: str = "") -> None:
    """Write a relation with two seeds, three prompts, and a harvest of triples that all prompts but the last find.

    ``suffix`` is appended to each text. The baseline ``bertnet`` finds the first triple, too.
    """
    asset = "knowledge/kbloom/harvest"
    names = {"relation_id": relation, "input_hash": "i"}
    seeds = [
        {"relation_id": relation, "collection": "biomedical", "prompt": "<HEAD> treats <TAIL>", "position": n}
        | {"head": f"head {n}{suffix}", "tail": f"tail {n}{suffix}", "template": "<HEAD> treats <TAIL>"}
        | {"head_kinds": [], "tail_kinds": [], "inverse": None, "symmetric": False, "functional": False}
        | {"seed_id": f"s{n}", "seed_hash": "h"}
        for n in range(2)
    ]
    prompts = [
        {"prompt_id": f"m{n}", "variant": "kbloom", "text": f"<HEAD> heals {n} <TAIL>{suffix}", "weight": 0.5, **names}
        | {"bert_score": 0.9, "ibleu": 0.5, "certainty": 0.1, "kept": n < 2}
        for n in range(3)
    ]
    pairs = [("kbloom", n) for n in range(triples)] + [("bertnet", 0)]
    candidates = [
        {"candidate_id": f"{variant}{n}", "relation_id": relation, "variant": variant, "model_id": "m"}
        | {"head": f"drug {n}{suffix}", "tail": f"disease {n}{suffix}", "shape": "1-1", "log_likelihood": -1.0}
        | {"probability_rank": n + 1, "agreement": None}
        for variant, n in pairs
    ]
    rows = [
        {"triple_id": f"t{n}", "head": f"drug {n}{suffix}", "relation": "may treat", "tail": f"disease {n}{suffix}"}
        | {"head_type": None, "tail_type": None, "origin": variant, "semantic": 2.5, "fluency": 0.01, "score": 0.5}
        | {"rank": n + 1, "agreement": None, "flags": [f"second tail{suffix}"], "model_id": "m", "source": asset}
        | {"relation_id": relation, "licence": "CC0-1.0"}
        for variant, n in pairs
    ]
    edges = [edge("prompt", f"m{n}", DERIVED, "seed", f"s{m}", "h") for n in range(3) for m in range(2)]
    edges += [
        edge("candidate", f"{variant}{number}", DERIVED, "prompt", f"m{n}", "i")
        for variant, number in pairs
        for n in range(2)
    ]
    edges += [edge("triple", f"t{n}", DERIVED, "candidate", f"{variant}{n}", f"{variant}{n}") for variant, n in pairs]
    lake.write("knowledge/seeds", "", {"relation_seeds": seeds})
    assets = {"prompts": ("prompts", prompts), "candidates": ("candidate_tuples", candidates)}
    for stage, (table, stage_rows) in (assets | {"harvest": ("triples", rows)}).items():
        lineage = [row for row in edges if row["child_kind"] == TABLES[table].kind]
        lake.write(f"knowledge/kbloom/{stage}", relation, {table: stage_rows, "lineage_edges": lineage})


def write_answers(
    lake: Lake,
    evidence: Rows,
    chains: Rows,
    predictions: Rows,
    citations: Rows = (),
    derived: Rows = (),
    *,
    selector: str = "s",
    partition: str = "quiz|0",
) -> None:
    """Write a variant's rows like its assets: each chain uses all evidence of its question, each prediction all chains.

    ``derived`` are the lineage edges of the evidence.
    """
    chain_edges = [
        edge("chain", chain["chain_id"], USED, "evidence", row["evidence_id"], "h", row["rank"])
        for chain in chains
        for row in evidence
        if row["question_id"] == chain["question_id"]
    ]
    prediction_edges = [
        edge("prediction", row["prediction_id"], USED, "chain", chain["chain_id"], "h", 1)
        for row in predictions
        for chain in chains
        if row["question_id"] == chain["question_id"]
    ]
    variant = f"mcqa/{selector}"
    lake.write(f"evidence/{variant}", partition, {"evidence": evidence, "lineage_edges": list(derived)})
    lake.write(f"chains/{variant}", partition, {"chains": chains, "lineage_edges": chain_edges})
    lake.write(f"citations/{variant}", partition, {"citations": list(citations)})
    lake.write(f"predictions/{variant}", partition, {"predictions": predictions, "lineage_edges": prediction_edges})


def as_stored(table: str, rows: object) -> pl.DataFrame:
    """Rows as the lake returns them."""
    frame = pl.from_arrow(prepare_rows(table, rows))  # type: ignore[arg-type]
    assert isinstance(frame, pl.DataFrame)
    return frame
