"""Reasoning chains from evidence, and verified citations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import polars as pl

from evidence_assets.experiment.evidence_rows import Items, evidence_by_option, option_evidence, sourced_rows
from evidence_assets.experiment.rows import TASKS_PER_BATCH, RowWriter, batches
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.experiment.stored_rows import ChainRow, PredictionRow, StepRow, typed_rows
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import CITED, DERIVED, GENERATED, USED, WAS_SHOWN, edge
from evidence_assets.reasoning.citations import Citation, check_citations
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import (
    Chain,
    ChainStep,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
    Failure,
    Omission,
    OmissionKind,
    Reasoner,
    ReplyCost,
    Solver,
)

LINEAGE_VERSION = "2"
"""Bump when equal chains or answers get other lineage. Model replies then come from the cache."""


def build_choice_task(question: Question, chains: tuple[Chain, ...], items: Items) -> ChooseAnswer:
    """The choice among the options of a question, each with its evidence."""
    evidence = {label: option_evidence(items, question.question_id, label) for label in question.labels}
    return ChooseAnswer(question, chains, evidence)


def compute_chain_id(question_id: str, hypothesis: str, selector: str, reasoner: str, model_id: str) -> str:
    return content_id("chain", question_id, hypothesis, selector, reasoner, model_id)


@dataclass(frozen=True)
class ChainSlot:
    """Key of a chain: question, selector, reasoner and option."""

    question: Question
    selector: str
    reasoner: Reasoner
    hypothesis: str = ""

    @property
    def chain_id(self) -> str:
        reasoner = self.reasoner
        return compute_chain_id(
            self.question.question_id, self.hypothesis, self.selector, reasoner.name, reasoner.model_id
        )


def omission_column(omissions: Iterable[Omission]) -> list[dict[str, str]] | None:
    """Value of the column ``omissions``; null if nothing is omitted."""
    return [asdict(omission) for omission in omissions] or None


def omissions_of(row: ChainRow, part: str) -> list[Omission]:
    """What an answer lacks by a row of ``chains``, named as ``part``: the chain itself, or parts of it."""
    if row["status"] == "failed":
        return [Omission("missing", part, row["error"] or "")]
    return [Omission(each["kind"], f"{part}: {each['part']}", each["reason"]) for each in row["omissions"] or ()]


def count_omissions(predictions: pl.DataFrame, kind: OmissionKind, part: str) -> int:
    """Omissions of this kind whose part begins with ``part``."""
    omissions = predictions.select(pl.col("omissions").explode(empty_as_null=True)).drop_nulls().unnest("omissions")
    return omissions.filter((pl.col("kind") == kind) & pl.col("part").str.starts_with(part)).height


def step_column(steps: Iterable[ChainStep]) -> list[StepRow]:
    """Value of the column ``steps``."""
    return [{"text": step.text, "cited": list(step.cited), "quoted": list(step.quoted)} for step in steps]


def steps_from_rows(rows: Iterable[StepRow]) -> tuple[ChainStep, ...]:
    """The steps of a value of the column ``steps``."""
    return tuple(ChainStep(row["text"], tuple(row["cited"]), tuple(row["quoted"])) for row in rows)


def chain_from_row(row: ChainRow) -> Chain:
    return Chain(row["hypothesis"], steps_from_rows(row["steps"]), row["support"], row["prompt_hash"])


def chain_rows(
    solver: Solver,
    selector: str,
    questions: Sequence[Question],
    evidence: pl.DataFrame,
    previous: PreviousOutput | None = None,
) -> StageOutput:
    """One chain per question and option, from the evidence of that option."""
    items = evidence_by_option(evidence)
    slots: dict[str, ChainSlot] = {}
    tasks: dict[str, ExplainOption] = {}
    for question in questions:
        for label, _ in question.hypotheses:
            slot = ChainSlot(question, selector, solver, label)
            slots[slot.chain_id] = slot
            tasks[slot.chain_id] = ExplainOption(question, label, option_evidence(items, question.question_id, label))
    version = solver.name, solver.version, LINEAGE_VERSION
    inputs = {key: content_id(task.input_hash, *version) for key, task in tasks.items()}
    writer = RowWriter("chains", previous, inputs, "chain_id")
    for todo in batches(writer.todo, TASKS_PER_BATCH):
        for chain_id, result in zip(todo, solver.explain([tasks[chain_id] for chain_id in todo]), strict=True):
            add_chain(writer, slots[chain_id], result, tasks[chain_id].evidence)
            writer.checkpoint()
    return writer.finish()


def add_chain(
    writer: RowWriter,
    slot: ChainSlot,
    result: Chain | Failure,
    evidence: Sequence[EvidenceItem] = (),
    content: Sequence[object] = (),
) -> None:
    """Write one chain or its failure, with lineage.

    ``content``: Content to hash instead of the steps and their support.
    """
    failure = result if isinstance(result, Failure) else None
    chain = Chain(slot.hypothesis, ()) if isinstance(result, Failure) else result
    steps = step_column(chain.steps)
    chain_id = slot.chain_id
    writer.add(
        ReplyCost.columns(result.reply),
        chain,
        slot,
        slot.question,
        chain_id=chain_id,
        reasoner=slot.reasoner.name,
        model_id=slot.reasoner.model_id,
        steps=steps,
        status="failed" if failure else "answered",
        error=failure.reason if failure else None,
        omissions=omission_column(chain.omissions),
        content_hash=content_id("chain", *(content or (steps, chain.support))),
    )
    writer.link(chain_id, USED, "question", slot.question.question_id, slot.question.question_id)
    cited_ids = {identifier for step in chain.steps for identifier in step.cited}
    _link_evidence(writer, chain_id, evidence, cited_ids)
    if result.reply:
        writer.link(chain_id, GENERATED, "model", result.reply.model, result.reply.model)


def _link_evidence(
    writer: RowWriter, chain_id: str, evidence: Sequence[EvidenceItem], cited_ids: Collection[str]
) -> None:
    """Lineage from a chain to the evidence that it cites or was shown."""
    for rank, item in enumerate(evidence, 1):
        # Without the score: a chain is reused when only the score changes.
        relation = USED if item.evidence_id in cited_ids else WAS_SHOWN
        writer.link(chain_id, relation, "evidence", item.evidence_id, item.content_hash, rank)


def citation_rows(chains: pl.DataFrame, evidence: pl.DataFrame, *, whole_question: bool = False) -> StageOutput:
    """Every citation of every chain with its verdict.

    ``whole_question``: Chains may cite the evidence of any option.
    """
    items = evidence_by_option(evidence)
    of_question: dict[str, tuple[EvidenceItem, ...]] = {}
    for (question_id, _), group in items.items():
        of_question[question_id] = of_question.get(question_id, ()) + group
    citations = []
    for row in typed_rows(chains, ChainRow):
        question_id = row["question_id"]
        owner = "chain", row["chain_id"], row["content_hash"]
        of_option = option_evidence(items, question_id, row["hypothesis"])
        allowed = of_question.get(question_id, ()) if whole_question else of_option
        citations += [(*owner, citation) for citation in check_citations(chain_from_row(row), allowed)]
    return _citations(items, citations)


def answer_citation_rows(
    predictions: pl.DataFrame, lineage: pl.DataFrame, evidence: pl.DataFrame, names: Mapping[str, str]
) -> StageOutput:
    """Citations of answers without chains: those of its sentences, else the evidence rows used that contain the answer.

    ``lineage``: Lineage of the predictions. ``names``: Names of nodes by id. Without sentences, the text searched for
    is the name of the answer's node, else its supported answers; the citation is misquoted if no row contains it.
    """
    items = evidence_by_option(sourced_rows(evidence))
    by_id = {item.evidence_id: item for group in items.values() for item in group}
    used_edges = lineage.filter((pl.col("relation") == USED) & (pl.col("parent_kind") == "evidence")).sort("rank")
    used_ids = dict(used_edges.group_by("child_id").agg("parent_id").iter_rows())
    citations = []
    for row in typed_rows(predictions, PredictionRow):
        cited = [by_id[each] for each in used_ids.get(row["prediction_id"], []) if each in by_id]
        owner = "prediction", row["prediction_id"], row["content_hash"]
        checked = check_citations(Chain("", _answer_steps(row, cited, names)), cited) if cited else []
        citations += [(*owner, citation) for citation in checked if citation.quoted]
    return _citations(items, citations)


def _answer_steps(row: PredictionRow, cited: Sequence[EvidenceItem], names: Mapping[str, str]) -> tuple[ChainStep, ...]:
    """The sentences of an answer, else one that quotes the answer from all evidence that it used."""
    name = names.get(row["answer"] or "")
    quotes = row["supported_answers"] if name is None else [name]
    whole = ChainStep("", tuple(item.evidence_id for item in cited), tuple(quotes))
    return steps_from_rows(row["steps"] or ()) or (whole,)


def ids_cited_by_chains(
    predictions: pl.DataFrame, chains: pl.DataFrame, exceptions: Collection[str]
) -> dict[str, list[str]]:
    """Ids of the evidence that the chain of each answer cites; all chains of questions for the exception."""
    answers = dict(predictions.select("question_id", "answer").iter_rows())
    cited: dict[str, list[str]] = {}
    for row in chains.sort("question_id", "hypothesis").iter_rows(named=True):
        if row["hypothesis"] == answers.get(row["question_id"]) or row["question_id"] in exceptions:
            cited.setdefault(row["question_id"], []).extend(each for step in row["steps"] for each in step["cited"])
    return cited


def ids_used_by_answers(lineage: pl.DataFrame, evidence: pl.DataFrame) -> dict[str, list[str]]:
    """Ids of the evidence that answers without chains used, by question, in the order of the evidence."""
    used = lineage.filter((pl.col("relation") == USED) & (pl.col("parent_kind") == "evidence")).select("parent_id")
    rows = evidence.join(used, left_on="evidence_id", right_on="parent_id", how="semi").sort("question_id", "rank")
    return dict(rows.group_by("question_id", maintain_order=True).agg("evidence_id").iter_rows())


def _citations(items: Items, citations: Iterable[tuple[str, str, str, Citation]]) -> StageOutput:
    """Rows of citations, each with the kind, id and version of its chain or answer; verified ones also as lineage."""
    by_id = {item.evidence_id: item for group in items.values() for item in group}
    rows: dict[str, dict[str, object]] = {}
    edges = dict[tuple[str, str, str, str, str, str], None]()
    for kind, owner, version, citation in citations:
        citation_id = content_id("citation", owner, citation.step, citation.evidence_id, citation.quoted)
        rows[citation_id] = {"citation_id": citation_id, "chain_id": owner, **asdict(citation)}
        edges["citation", citation_id, DERIVED, kind, owner, version] = None
        item = by_id.get(citation.evidence_id)
        if item is not None:
            edges["citation", citation_id, USED, "evidence", item.evidence_id, item.content_hash] = None
            if citation.verdict == "verified":
                edges[kind, owner, CITED, "evidence", item.evidence_id, item.content_hash] = None
    verified = sum(row["verdict"] == "verified" for row in rows.values())
    verified_share = verified / len(rows) if rows else 1.0
    metadata: dict[str, object] = {"citations": len(rows), "verified_share": verified_share}
    return StageOutput([*rows.values()], [edge(*each) for each in edges], metadata)
