"""From evidence to chains, predictions and checked citations, whatever solver reasons.

Belongs here: which rows a reasoning step makes, what they are keyed by, and when they are made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from evidence_assets.experiment.gold_evidence import chain_id_of
from evidence_assets.experiment.selection import Asked, Growing, Rows, TypedRows, take_over, unchanged
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, USED, edge
from evidence_assets.reasoning.citations import check
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, EvidenceItem, ExplainOption, Failure, Solver, Step


def evidence_items(evidence: pl.DataFrame) -> dict[tuple[str, str], tuple[EvidenceItem, ...]]:
    """Ordered evidence by question and option label."""
    found: dict[tuple[str, str], list[EvidenceItem]] = {}
    for row in evidence.sort("question_id", "option", "rank").iter_rows(named=True):
        item = EvidenceItem(
            row["evidence_id"], row["kind"], row["source_id"], row["locator"], row["text"], row["score"]
        )
        found.setdefault((row["question_id"], row["option"]), []).append(item)
    return {key: tuple(items) for key, items in found.items()}


def for_option(
    items: dict[tuple[str, str], tuple[EvidenceItem, ...]], question_id: str, label: str
) -> tuple[EvidenceItem, ...]:
    """Evidence of the option, then what was picked for the whole question."""
    own = items.get((question_id, label), ())
    return own + (items.get((question_id, ""), ()) if label else ())


def chain_rows(
    solver: Solver,
    selector: str,
    questions: Sequence[Asked],
    evidence: pl.DataFrame,
    previous: pl.DataFrame,
    lineage: pl.DataFrame,
) -> TypedRows:
    """One chain a question and option, each from the evidence of that option."""
    items = evidence_items(evidence)
    tasks: dict[str, ExplainOption] = {}
    about: dict[str, Asked] = {}
    for question in questions:
        for label, option in question.hypotheses:
            chain_id = chain_id_of(question.question_id, label, selector, solver.name, solver.model_id)
            tasks[chain_id] = ExplainOption(
                question.text,
                label,
                option,
                for_option(items, question.question_id, label),
                question.task,
                question.negated,
            )
            about[chain_id] = question
    wanted = {
        chain_id: content_id(task.input_hash, solver.name, solver.task_version(task))
        for chain_id, task in tasks.items()
    }
    kept, edges, settled = unchanged(previous, lineage, wanted, by="chain_id", row_id="chain_id")
    rows, links = kept.to_dicts(), Growing("lineage_edges", edges)
    todo = [chain_id for chain_id in tasks if chain_id not in settled]
    for chain_id, result in zip(todo, solver.explain([tasks[c] for c in todo]) if todo else [], strict=True):
        task, question = tasks[chain_id], about[chain_id]
        failed = isinstance(result, Failure)
        chain = Chain(task.hypothesis, ()) if isinstance(result, Failure) else result
        steps = [{"text": s.text, "cited": list(s.cited), "quoted": list(s.quoted)} for s in chain.steps]
        rows.append(
            {
                "chain_id": chain_id,
                "question_id": question.question_id,
                "benchmark": question.benchmark,
                "hypothesis": task.hypothesis,
                "selector": selector,
                "reasoner": solver.name,
                "model_id": solver.model_id,
                "steps": steps,
                "support": chain.support,
                "prompt_hash": chain.prompt_hash,
                "status": "failed" if failed else "answered",
                "error": result.reason if isinstance(result, Failure) else None,
                "content_hash": content_id("chain", steps, chain.support),
                "input_hash": wanted[chain_id],
            }
        )
        links.add(edge("chain", chain_id, USED, "question", question.question_id, question.question_id))
        for rank, item in enumerate(task.evidence, 1):
            links.add(edge("chain", chain_id, USED, "evidence", item.evidence_id, item.content_hash, rank, item.score))
    return TypedRows(rows, links.whole(), kept.height, {"failed_share": _share(rows, "failed")})


def _share(rows: list[dict[str, Any]], status: str) -> float:
    return sum(row["status"] == status for row in rows) / len(rows) if rows else 0.0


def _chain(row: dict[str, Any]) -> Chain:
    steps = tuple(Step(s["text"], tuple(s["cited"]), tuple(s["quoted"])) for s in row["steps"])
    return Chain(row["hypothesis"], steps, row["support"], row["prompt_hash"])


def prediction_rows(
    solver: Solver,
    selector: str,
    questions: Sequence[Asked],
    evidence: pl.DataFrame,
    chains: pl.DataFrame,
    previous: pl.DataFrame,
    lineage: pl.DataFrame,
) -> Rows:
    """One answer a question, from the chains of all its options; without any, from the evidence itself."""
    items = evidence_items(evidence)
    of_question: dict[str, list[dict[str, Any]]] = {}
    for row in chains.sort("question_id", "hypothesis").iter_rows(named=True):
        of_question.setdefault(row["question_id"], []).append(row)
    tasks: dict[str, ChooseAnswer] = {}
    wanted: dict[str, str] = {}
    about: dict[str, Asked] = {}
    for question in questions:
        own = of_question.get(question.question_id, [])
        prediction_id = content_id("prediction", question.question_id, selector, solver.name, solver.model_id)
        labels = question.labels
        tasks[prediction_id] = ChooseAnswer(
            question.text,
            labels,
            question.options,
            tuple(_chain(row) for row in own if row["status"] != "failed"),
            {label: for_option(items, question.question_id, label) for label in labels},
            question.task,
            question.negated,
        )
        about[prediction_id] = question
        wanted[prediction_id] = content_id(
            question.question_id,
            solver.name,
            solver.version,
            [(r["chain_id"], r["content_hash"], r["status"]) for r in own]
            or [(e.content_hash, e.score) for e in _weighed(tasks[prediction_id])],
        )
    made, settled = take_over(previous, lineage, wanted, by="prediction_id", row_id="prediction_id")
    todo = [p for p in tasks if p not in settled]
    for prediction_id, result in zip(todo, solver.choose([tasks[p] for p in todo]) if todo else [], strict=True):
        question = about[prediction_id]
        own = of_question.get(question.question_id, [])
        if isinstance(result, Failure):
            answer: dict[str, Any] = {
                "answer": None, "supported_answers": [], "status": "failed", "confidence": None, "error": result.reason
            }  # fmt: skip
        else:
            answer = {
                "answer": result.answer,
                "supported_answers": list(result.supported),
                "status": result.status,
                "confidence": result.confidence,
                "error": result.error or None,
            }
        made.rows.append(
            {
                "prediction_id": prediction_id,
                "question_id": question.question_id,
                "benchmark": question.benchmark,
                "selector": selector,
                "reasoner": solver.name,
                "model_id": solver.model_id,
                "ranked_answers": [],
                **answer,
                "content_hash": content_id(
                    "prediction", answer["answer"], answer["supported_answers"], answer["status"], answer["error"]
                ),
                "input_hash": wanted[prediction_id],
            }
        )
        made.lineage.append(
            edge("prediction", prediction_id, USED, "question", question.question_id, question.question_id)
        )
        made.lineage += [
            edge("prediction", prediction_id, USED, "chain", row["chain_id"], row["content_hash"], rank, row["support"])
            for rank, row in enumerate(own, 1)
        ]
        if not own:
            made.lineage += [
                edge(
                    "prediction", prediction_id, USED, "evidence", item.evidence_id, item.content_hash, rank, item.score
                )
                for rank, item in enumerate(_weighed(tasks[prediction_id]), 1)
            ]
    made.metadata = {f"{s}_share": _share(made.rows, s) for s in ("answered", "ambiguous", "insufficient", "failed")}
    return made


def _weighed(task: ChooseAnswer) -> list[EvidenceItem]:
    """The evidence of a task without chains, each row once, in its order."""
    return list({item.evidence_id: item for items in task.evidence.values() for item in items}.values())


def citation_rows(chains: pl.DataFrame, evidence: pl.DataFrame) -> Rows:
    """Every citation of every chain with its verdict."""
    items = evidence_items(evidence)
    by_id = {item.evidence_id: item for group in items.values() for item in group}
    made = Rows()
    seen: set[str] = set()
    for row in chains.iter_rows(named=True):
        allowed = for_option(items, row["question_id"], row["hypothesis"])
        for citation in check(_chain(row), allowed):
            citation_id = content_id("citation", row["chain_id"], citation.step, citation.evidence_id, citation.quoted)
            if citation_id in seen:
                continue
            seen.add(citation_id)
            made.rows.append(
                {
                    "citation_id": citation_id,
                    "chain_id": row["chain_id"],
                    "step": citation.step,
                    "evidence_id": citation.evidence_id,
                    "quoted": citation.quoted,
                    "verdict": citation.verdict,
                }
            )
            made.lineage.append(edge("citation", citation_id, DERIVED, "chain", row["chain_id"], row["content_hash"]))
            item = by_id.get(citation.evidence_id)
            if item is not None:
                made.lineage.append(
                    edge("citation", citation_id, USED, "evidence", item.evidence_id, item.content_hash)
                )
    verified = sum(row["verdict"] == "verified" for row in made.rows)
    made.metadata = {"citations": len(made.rows), "verified_share": verified / len(made.rows) if made.rows else 1.0}
    return made
