"""The one place where each table's columns are declared, with a sentence on each.

The store refuses rows that do not fit; asset checks, Dagster's column schemas and the documentation are made from
what stands here. A method that needs another column adds it here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TEXT = pa.string()
INT = pa.int32()
REAL = pa.float64()
FLAG = pa.bool_()
TEXTS = pa.list_(TEXT)


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type, whether it may be null, and what it means."""

    name: str
    type: pa.DataType
    description: str
    nullable: bool = False


@dataclass(frozen=True)
class TableSchema:
    """One table of the lake.

    ``key`` is unique within an asset and partition, and rows are sorted by it. ``row_id`` is the column by which
    people and lineage name a row; ``version`` the column that changes whenever the row's content does (the id itself
    where ids are content hashes).
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    row_id: str
    version: str = ""
    kind: str = ""
    """What lineage calls a row of it."""

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field(c.name, c.type, nullable=c.nullable, metadata={"description": c.description})
                for c in self.columns
            ]
        )

    @property
    def version_column(self) -> str:
        return self.version or self.row_id

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)


def _table(
    name: str,
    description: str,
    columns: list[tuple[object, ...]],
    *,
    key: str,
    row_id: str,
    version: str = "",
    kind: str,
) -> TableSchema:
    made = tuple(
        Column(str(c[0]), c[1], str(c[2]), nullable=len(c) > 3 and bool(c[3]))  # type: ignore[arg-type]
        for c in columns
    )
    return TableSchema(name, description, made, tuple(key.split()), row_id, version, kind)


SPAN = pa.struct([pa.field("start", INT), pa.field("end", INT)])
STEP = pa.struct([pa.field("text", TEXT), pa.field("cited", TEXTS), pa.field("quoted", TEXTS)])
GOLD = pa.struct([pa.field(name, TEXT) for name in ("kind", "source", "locator", "text", "group")])
CELL = pa.struct([pa.field("row", INT), pa.field("column", INT), pa.field("text", TEXT)])
LINK = pa.struct(
    [
        pa.field("option", TEXT),
        pa.field("phrase", TEXT),
        pa.field("rule", TEXT),
        pa.field("score", REAL),
        pa.field("node_ids", TEXTS),
    ]
)
PLACED_NODE = pa.struct([pa.field("node_id", TEXT), pa.field("hop", INT)])
DROPPED_NODE = pa.struct([pa.field("hub_id", TEXT), pa.field("node_id", TEXT)])
NULL = True

_ALL = [
    _table(
        "chunks",
        "Pieces of documents, cut at sentence ends, each within what the encoder reads.",
        [
            ("chunk_id", TEXT, "Content hash of document, place and text."),
            ("doc_id", TEXT, "The document it was cut from."),
            ("title", TEXT, "The document's title."),
            ("ordinal", INT, "Number of the chunk within its document, from 0."),
            ("text", TEXT, "The chunk's text, as it stands in the document."),
            ("char_start", INT, "Where it begins in the document's text, in characters."),
            ("char_end", INT, "Where it ends."),
            ("n_tokens", INT, "Tokens of the encoder's own tokenizer, special tokens left out."),
            ("sentence_offsets", pa.list_(SPAN), "Start and end of each sentence within the chunk."),
            ("source", TEXT, "File it was read from, relative to the corpus folder."),
            ("source_version", TEXT, "Content hash of the document."),
        ],
        key="doc_id ordinal",
        row_id="chunk_id",
        kind="chunk",
    ),
    _table(
        "chunk_embeddings",
        "One vector a chunk, L2-normalised.",
        [
            ("chunk_id", TEXT, "The chunk."),
            ("vector", pa.list_(pa.float32()), "Its pooled embedding."),
            ("model_id", TEXT, "The encoder, its revision and number type."),
            ("input_hash", TEXT, "Hash of the text and the encoder; a row with the same hash is reused."),
        ],
        key="chunk_id",
        row_id="chunk_id",
        version="input_hash",
        kind="chunk_embedding",
    ),
    _table(
        "relation_seeds",
        "Seed pairs of a relation, from which K-Bloom starts.",
        [
            ("relation_id", TEXT, "The relation."),
            ("collection", TEXT, "The set of relations it belongs to."),
            ("prompt", TEXT, "Initial prompt, with <HEAD> and <TAIL>."),
            ("head", TEXT, "Head of the pair."),
            ("tail", TEXT, "Tail of the pair."),
            ("position", INT, "Place of the pair in its file, from 0."),
            ("template", TEXT, "How a triple is said to readers, with <HEAD> and <TAIL>."),
            ("head_kinds", TEXTS, "Kinds that a head may be of; empty for any."),
            ("tail_kinds", TEXTS, "Kinds that a tail may be of; empty for any."),
            ("inverse", TEXT, "Relation that says the same from the tail's side.", NULL),
            ("symmetric", FLAG, "Whether the relation holds both ways."),
            ("functional", FLAG, "Whether a head has one tail."),
            ("seed_id", TEXT, "Content hash of relation and pair."),
            ("seed_hash", TEXT, "Content hash of the relation's whole seed file."),
        ],
        key="relation_id head tail",
        row_id="seed_id",
        version="seed_hash",
        kind="seed",
    ),
    _table(
        "prompts",
        "Paraphrases of a relation's prompt, with their weights.",
        [
            ("prompt_id", TEXT, "Content hash of relation and text."),
            ("relation_id", TEXT, "The relation."),
            ("text", TEXT, "The prompt, with <HEAD> and <TAIL>."),
            ("weight", REAL, "Normalised weight among the prompts kept."),
            ("bert_score", REAL, "Similarity to the initial prompt.", NULL),
            ("ibleu", REAL, "The diversity term of the compatibility.", NULL),
            ("certainty", REAL, "Inverse entropy of the model on it.", NULL),
            ("kept", FLAG, "Whether it is searched with."),
            ("input_hash", TEXT, "Hash of all that the relation's harvest depended on."),
        ],
        key="relation_id prompt_id",
        row_id="prompt_id",
        kind="prompt",
    ),
    _table(
        "candidate_tuples",
        "Pairs that the search found, before they are scored.",
        [
            ("candidate_id", TEXT, "Content hash of relation, model, variant and pair."),
            ("relation_id", TEXT, "The relation."),
            ("variant", TEXT, "kbloom or bertnet, with its prompt setting."),
            ("model_id", TEXT, "The masked language model."),
            ("head", TEXT, "Head of the pair."),
            ("tail", TEXT, "Tail of the pair."),
            ("shape", TEXT, "Words of head and tail: 1-1, 1-2, 2-1 or 2-2."),
            ("log_likelihood", REAL, "Prompt-weighted log-likelihood."),
            ("probability_rank", INT, "Rank by it within the relation, from 1."),
            ("agreement", REAL, "Share of the prompts that find the pair on their own.", NULL),
        ],
        key="relation_id variant probability_rank",
        row_id="candidate_id",
        kind="candidate",
    ),
    _table(
        "triples",
        "Facts harvested from a model or imported from a graph.",
        [
            ("triple_id", TEXT, "Content hash of head, relation and tail; of a background triple with its model."),
            ("head", TEXT, "Head."),
            ("relation", TEXT, "Relation."),
            ("tail", TEXT, "Tail."),
            ("head_type", TEXT, "Kind of entity of the head, where the source gives one.", NULL),
            ("tail_type", TEXT, "Kind of entity of the tail, where the source gives one.", NULL),
            ("origin", TEXT, "kbloom, bertnet, import, or background: stated by a language model, in no source."),
            ("semantic", REAL, "Transport distance to the seeds; smaller is nearer.", NULL),
            ("fluency", REAL, "Fluency of the filled prompt.", NULL),
            ("score", REAL, "Final score; larger is better.", NULL),
            ("rank", INT, "Rank by the score within relation and origin, from 1.", NULL),
            ("agreement", REAL, "Share of the prompts that find it on their own.", NULL),
            (
                "flags",
                TEXTS,
                "What speaks for or against it, such as a second tail of a functional relation or its reverse.",
            ),
            ("model_id", TEXT, "The model that it was harvested from.", NULL),
            ("relation_id", TEXT, "The seed file that it came from.", NULL),
            ("source", TEXT, "File and line of an imported fact, or the harvest."),
            ("licence", TEXT, "Licence of the source."),
        ],
        key="triple_id origin source",
        row_id="triple_id",
        kind="triple",
    ),
    _table(
        "models",
        "Models that this lake trained or that made rows of it.",
        [
            ("model_id", TEXT, "Name and revision, as rows made by it state them."),
            ("name", TEXT, "Name on the hub, or of a model trained here."),
            ("revision", TEXT, "Hash of the weights, or commit on the hub."),
            ("task", TEXT, "What it does."),
            ("vocabulary", INT, "Words that one mask can stand for."),
            ("sentences", INT, "Sentences that it was trained on here.", NULL),
            ("accuracy", REAL, "Share of masked entity words guessed right in sentences it was trained on.", NULL),
            ("held_out_accuracy", REAL, "The same in sentences it never saw.", NULL),
            ("input_hash", TEXT, "Hash of all that the training depended on."),
        ],
        key="model_id",
        row_id="model_id",
        kind="model",
    ),
    _table(
        "kg_nodes",
        "Nodes of a knowledge graph.",
        [
            ("node_id", TEXT, "Content hash of the normalised name, or graph:id where the source has ids of its own."),
            ("name", TEXT, "Name as most sources write it."),
            ("aliases", TEXTS, "Other forms of the name."),
            ("type", TEXT, "Type, where a source gives one.", NULL),
            ("document", TEXT, "Text about the node, in a semi-structured knowledge base.", NULL),
        ],
        key="node_id",
        row_id="node_id",
        kind="node",
    ),
    _table(
        "kg_edges",
        "Edges of a knowledge graph, each with the triples that it was merged from.",
        [
            ("edge_id", TEXT, "Content hash of head, relation and tail."),
            ("head_id", TEXT, "Node it starts from."),
            ("relation", TEXT, "Relation in the graph's vocabulary."),
            ("tail_id", TEXT, "Node it ends at."),
            ("triple_ids", TEXTS, "The triples it was made of."),
            ("sources", TEXTS, "Their sources."),
            ("licences", TEXTS, "Their licences."),
        ],
        key="edge_id",
        row_id="edge_id",
        kind="edge",
    ),
    _table(
        "kg_passages",
        "Texts that stand for the nodes or edges of a graph, each with its vector.",
        [
            ("passage_id", TEXT, "Content hash of owner, place and text."),
            ("owner_kind", TEXT, "node or edge."),
            ("owner_id", TEXT, "The node or edge."),
            ("ordinal", INT, "Number of the passage among its owner's, from 0."),
            ("char_start", INT, "Where it begins in the node's document; -1 where it is no part of it."),
            ("char_end", INT, "Where it ends."),
            ("text", TEXT, "What was encoded: a name, a passage under its node's name, or facts in words."),
            ("vector", pa.list_(pa.float32()), "Its pooled embedding, L2-normalised."),
            ("model_id", TEXT, "The encoder and its revision."),
            ("input_hash", TEXT, "Hash of text and encoder; a vector with the same hash is reused."),
        ],
        key="owner_kind owner_id ordinal",
        row_id="passage_id",
        kind="passage",
    ),
    _table(
        "questions",
        "Questions and claims of the benchmarks.",
        [
            ("question_id", TEXT, "Content hash of benchmark, source id, text and options."),
            ("benchmark", TEXT, "The benchmark."),
            ("source_id", TEXT, "The benchmark's own id."),
            ("split", TEXT, "Split of the benchmark."),
            ("task", TEXT, "mcqa, verification, table_qa, kgqa or skb_search."),
            ("text", TEXT, "The question or claim."),
            ("options", TEXTS, "Option texts; the i-th is labelled with the i-th letter."),
            ("gold", TEXTS, "Right labels, answer strings or node ids; empty where none is right."),
            ("gold_aliases", pa.list_(TEXTS), "Other accepted forms of each gold answer."),
            ("gold_evidence", pa.list_(GOLD), "What the benchmark itself names as the ground of the answer."),
            ("table_id", TEXT, "The table that it is asked of.", NULL),
            ("topic_entities", TEXTS, "Entities that the benchmark names as the question's topic."),
            ("negated", FLAG, "Whether the question asks which option does not hold."),
        ],
        key="question_id",
        row_id="question_id",
        kind="question",
    ),
    _table(
        "subgraphs",
        "What each question names in a graph, and the part of the graph around it.",
        [
            ("subgraph_id", TEXT, "Hash of question and graph."),
            ("question_id", TEXT, "The question."),
            ("benchmark", TEXT, "Its benchmark."),
            ("graph", TEXT, "The graph."),
            ("concepts", pa.list_(LINK), "Phrases of the question, the nodes that they name, and by which rule."),
            ("targets", pa.list_(LINK), "The same for each option; options are reached for, never expanded from."),
            ("nodes", pa.list_(PLACED_NODE), "Nodes around the concepts, with their distance to the nearest."),
            ("edges", TEXTS, "Every edge among these nodes."),
            ("dropped", pa.list_(DROPPED_NODE), "Nodes left out at a hub, or (without a hub) for want of room."),
            ("note", TEXT, "Why nothing is there.", NULL),
            ("content_hash", TEXT, "Hash of all of the above."),
            ("input_hash", TEXT, "Hash of question, graph, linking rules and limits."),
        ],
        key="question_id",
        row_id="subgraph_id",
        version="content_hash",
        kind="subgraph",
    ),
    _table(
        "tables",
        "Tables that claims and questions are about.",
        [
            ("table_id", TEXT, "The benchmark's own id, unique within it."),
            ("benchmark", TEXT, "The benchmark."),
            ("caption", TEXT, "Caption."),
            ("header", TEXTS, "Header cells as written; may be empty or repeated."),
            ("n_rows", INT, "Rows below the header."),
            ("cells", pa.list_(CELL), "Every cell with its row and column, from 0."),
            ("content_hash", TEXT, "Content hash of the whole table."),
        ],
        key="table_id",
        row_id="table_id",
        version="content_hash",
        kind="table",
    ),
    _table(
        "evidence",
        "Evidence that a selector picked for a question, one checkable row each.",
        [
            ("evidence_id", TEXT, "Hash of question, option, selector, source and locator."),
            ("question_id", TEXT, "The question."),
            ("benchmark", TEXT, "Its benchmark."),
            ("option", TEXT, "Label of the option that it was picked for; empty when for the whole question."),
            ("selector", TEXT, "The selector."),
            ("kind", TEXT, "chunk, sentence, triple, path, column or cell."),
            ("source_kind", TEXT, "Table of the row that it stands in: chunk, table, triple, edge or node."),
            ("source_id", TEXT, "Id of that row."),
            ("locator", TEXT, "Where in it: 12:57 (characters), r3c1 (cell; r0 is the header) or the edges of a path."),
            ("text", TEXT, "What stands there."),
            ("rank", INT, "Rank within question, option and selector, from 1."),
            ("score", REAL, "The selector's score; larger is better."),
            ("why", TEXT, "JSON: why it was picked, such as aligned word pairs or the rule that kept a column.", NULL),
            ("content_hash", TEXT, "Hash of the fact itself: kind, source, locator and text."),
            ("input_hash", TEXT, "Hash of all that the selection depended on."),
        ],
        key="question_id option rank",
        row_id="evidence_id",
        version="content_hash",
        kind="evidence",
    ),
    _table(
        "chains",
        "Reasoning chains, one an option or label.",
        [
            ("chain_id", TEXT, "Hash of question, hypothesis, selector, reasoner and model."),
            ("question_id", TEXT, "The question."),
            ("benchmark", TEXT, "Its benchmark."),
            ("hypothesis", TEXT, "Label that the chain argues for."),
            ("selector", TEXT, "The selector of its evidence."),
            ("reasoner", TEXT, "The reasoner."),
            ("model_id", TEXT, "The model and revision that wrote it."),
            ("steps", pa.list_(STEP), "Sentences, each with the evidence it cites and what it quotes."),
            ("support", REAL, "The reasoner's own weight in [0, 1], if it gives one.", NULL),
            ("prompt_hash", TEXT, "Hash of the prompt; empty where none is used."),
            ("status", TEXT, "answered or failed."),
            ("error", TEXT, "Why it failed.", NULL),
            ("content_hash", TEXT, "Hash of the steps."),
            ("input_hash", TEXT, "Hash of task, option, ordered evidence, model and prompt version."),
        ],
        key="question_id hypothesis",
        row_id="chain_id",
        version="content_hash",
        kind="chain",
    ),
    _table(
        "predictions",
        "Answers, one a question.",
        [
            ("prediction_id", TEXT, "Hash of question, selector, reasoner and model."),
            ("question_id", TEXT, "The question."),
            ("benchmark", TEXT, "Its benchmark."),
            ("selector", TEXT, "The selector."),
            ("reasoner", TEXT, "The reasoner."),
            ("model_id", TEXT, "The model and revision."),
            ("answer", TEXT, "Label or answer string.", NULL),
            ("ranked_answers", TEXTS, "For systems that rank: best first."),
            ("supported_answers", TEXTS, "Every answer that the evidence supports."),
            ("status", TEXT, "answered, ambiguous, insufficient or failed."),
            ("confidence", REAL, "In [0, 1]; the share by which the answer leads.", NULL),
            ("error", TEXT, "Why it failed.", NULL),
            ("content_hash", TEXT, "Hash of answer, support and status."),
            ("input_hash", TEXT, "Hash of the chains, model and prompt version."),
        ],
        key="question_id",
        row_id="prediction_id",
        version="content_hash",
        kind="prediction",
    ),
    _table(
        "citations",
        "Every citation of every chain, checked.",
        [
            ("citation_id", TEXT, "Hash of chain, step, evidence and quotation."),
            ("chain_id", TEXT, "The chain."),
            ("step", INT, "Number of the step, from 0."),
            ("evidence_id", TEXT, "What it cites."),
            ("quoted", TEXT, "What it says stands there; empty when it only points."),
            ("verdict", TEXT, "verified, absent or misquoted."),
        ],
        key="chain_id step evidence_id quoted",
        row_id="citation_id",
        version="verdict",
        kind="citation",
    ),
    _table(
        "counterfactuals",
        "Whether an answer stands without the evidence that it rests on, and whether that evidence alone gives it.",
        [
            ("counterfactual_id", TEXT, "Hash of the prediction and of what was asked of it."),
            ("prediction_id", TEXT, "The prediction."),
            ("question_id", TEXT, "The question."),
            ("benchmark", TEXT, "Its benchmark."),
            ("selector", TEXT, "The selector."),
            ("reasoner", TEXT, "The reasoner."),
            ("model_id", TEXT, "The model and revision."),
            ("answer", TEXT, "The answer with all evidence."),
            ("cited", TEXTS, "Content hashes of the evidence that it rests on."),
            ("without_cited", TEXT, "Answer, or the status instead of one, without that evidence.", NULL),
            ("only_cited", TEXT, "The same with that evidence alone.", NULL),
            ("necessary", FLAG, "Whether it changes without that evidence; empty where nothing is cited.", NULL),
            ("sufficient", FLAG, "Whether that evidence alone gives it; empty where nothing is cited.", NULL),
            ("needed", TEXTS, "Of the evidence that it rests on, what alone changes it by being left out."),
            ("content_hash", TEXT, "Hash of what was found."),
            ("input_hash", TEXT, "Hash of the prediction, its evidence, and the solver."),
        ],
        key="question_id",
        row_id="counterfactual_id",
        version="content_hash",
        kind="counterfactual",
    ),
    _table(
        "scores",
        "What a variant reaches, beside the published figure where there is one.",
        [
            ("score_id", TEXT, "Hash of scope, variant and metric."),
            ("scope_kind", TEXT, "benchmark, relation, collection (or half) of relations, corpus or graph."),
            ("scope_id", TEXT, "Which one."),
            ("selector", TEXT, "The selector; empty where none."),
            ("reasoner", TEXT, "The reasoner; empty where none."),
            ("model_id", TEXT, "The model; empty where none."),
            ("metric", TEXT, "What is measured."),
            ("value", REAL, "The value.", NULL),
            ("low", REAL, "Lower end of the 95 % interval.", NULL),
            ("high", REAL, "Upper end.", NULL),
            ("n", INT, "Rows that it rests on."),
            ("published", REAL, "The published figure, on the same scale.", NULL),
            ("published_source", TEXT, "Where it stands.", NULL),
        ],
        key="scope_kind scope_id selector reasoner model_id metric",
        row_id="score_id",
        version="value",
        kind="score",
    ),
    _table(
        "lineage_edges",
        "What each row was made from; relations are the PROV words.",
        [
            ("child_kind", TEXT, "Kind of the row made."),
            ("child_id", TEXT, "Its id."),
            ("relation", TEXT, "used, was_derived_from or was_generated_by."),
            ("parent_kind", TEXT, "Kind of the row it was made from."),
            ("parent_id", TEXT, "Its id."),
            ("parent_version", TEXT, "The parent's content hash when it was used."),
            ("rank", INT, "Order among the parents, from 1.", NULL),
            ("score", REAL, "Weight of the parent, where it has one.", NULL),
        ],
        key="child_id parent_kind parent_id relation",
        row_id="child_id",
        version="parent_version",
        kind="lineage_edge",
    ),
    _table(
        "history",
        "One line a row and run, appended and never rewritten: what diff compares.",
        [
            ("run_id", TEXT, "The run."),
            ("asset", TEXT, "The asset."),
            ("partition", TEXT, "Its partition; empty when unpartitioned."),
            ("row_id", TEXT, "The row."),
            ("content_hash", TEXT, "Its content hash."),
            ("answer", TEXT, "The answer, for predictions.", NULL),
            ("status", TEXT, "The status, for predictions and chains.", NULL),
        ],
        key="asset partition row_id",
        row_id="row_id",
        version="content_hash",
        kind="history",
    ),
]

TABLES: dict[str, TableSchema] = {table.name: table for table in _ALL}
KINDS: dict[str, TableSchema] = {table.kind: table for table in _ALL}
