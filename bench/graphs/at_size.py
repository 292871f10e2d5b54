"""Questions on a graph of ten million triples: seconds and memory of the selectors of triples, and of their scores.

    python -m bench.graphs.at_size [--triples 10000000] [--dimensions 384] [--folder FOLDER] [--json FILE]

The files are those that a lake has of a graph, and those that a selector maps: names and ids, compressed rows, and a
vector for each node and edge.
It has a node for five triples, and hubs: the largest has an eightieth of all triples. Names are generated. A vector is
the sum of random vectors of the words of a name or sentence, so a triple is near the question about it, and no encoder
is needed. Each question asks for the tail of a triple, half of them of a triple at the largest hub.

Each selector runs in a process of its own, which may have 4 GB outside of mapped files; an allocation beyond fails. The
first question opens the graph. Scores are those of retrieval: no question is answered.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from bench.graphs.dumps import WORDS
from bench.graphs.selection import DIMENSIONS, WordVectors, word_vector
from bench.measuring import in_new_process, make_parser, measured, resident
from bench.result_files import print_table, write_results
from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.experiment.evidence.selection import SelectedEvidence, Selector, edge_evidence
from evidence_assets.experiment.evidence_rows import evidence_rows
from evidence_assets.experiment.question_rows import build_questions, question_rows
from evidence_assets.experiment.scores.retrieval_scores import triple_metrics
from evidence_assets.experiment.stored_rows import QuestionRow, typed_rows
from evidence_assets.graphs.arrays import GraphArrays
from evidence_assets.graphs.knowledge_graph import GraphStructure, KnowledgeGraph
from evidence_assets.lake.array_files import ArrayWriter, open_array
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.models.vectors import unit_rows
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.a2q.graph_vectors import JoinedVectors, NodeVectors, map_nodes
from evidence_assets.systems.a2q.linked_paths import LinkedPaths
from evidence_assets.systems.a2q.selection import A2Q, NearestTriples, TripleSettings
from evidence_assets.systems.a2q.word_vectors import WordVectors as FileVectors
from evidence_assets.systems.background.system import BackgroundKnowledge, BackgroundSettings
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples

NAME, MEMORY, ROWS_PER_BLOCK = "size", 4 * 10**9, 1 << 18
TRIPLES_PER_NODE, RELATIONS, HUB_POWER = 5, 200, 3.3
PUBLISHED_DIMENSIONS = 300
"""Of ConceptNet Numberbatch."""
WORD_FILE = "words.txt"
NAME_WORDS = 2000
"""Words of names, two each; those of relations come after them."""
COLUMNS = (
    "selector",
    "triples",
    "dimensions",
    "first question, s, wall / CPU",
    "ms / question, wall / CPU",
    "scores, ms / question, wall / CPU",
    "hit@10",
    "own memory, MiB",
    "with mapped files, MiB",
)
IntArray = np.ndarray


def number_ids(numbers: IntArray) -> pl.Series:
    """Ids as long as hashes, in the order of the numbers."""
    return pl.Series(numbers).cast(pl.String).str.zfill(32)


def node_words(nodes: IntArray) -> tuple[IntArray, IntArray]:
    return nodes // NAME_WORDS, nodes % NAME_WORDS


def node_names(nodes: IntArray) -> pl.Series:
    first, second = (pl.Series(WORDS).gather(words) for words in node_words(nodes))
    return first + " " + second


def draw_edges(n_triples: int) -> tuple[IntArray, IntArray, IntArray]:
    """Heads, relations and tails; tails follow a power law."""
    rng = np.random.default_rng(0)
    n_nodes = n_triples // TRIPLES_PER_NODE
    tails = (n_nodes * rng.random(n_triples) ** HUB_POWER).astype(np.int64)
    return rng.integers(n_nodes, size=n_triples), rng.integers(RELATIONS, size=n_triples), tails


def write_graph(folder: Path, n_triples: int, dimensions: int) -> None:
    """Write compressed rows, columns and vectors."""
    nodes, edges = np.arange(n_triples // TRIPLES_PER_NODE), np.arange(n_triples)
    heads, relations, tails = draw_edges(n_triples)
    GraphArrays.from_edges(len(nodes), heads, relations, tails).save(folder)
    no_texts = pl.lit([], pl.List(pl.String)).alias("aliases")
    columns = {
        "nodes": pl.DataFrame({"node_id": number_ids(nodes), "name": node_names(nodes)}).with_columns(no_texts),
        "edges": pl.DataFrame({"edge_id": number_ids(edges)}),
    }
    for kind, frame in columns.items():
        frame.write_ipc(folder / f"{kind}.arrow", compat_level=pl.CompatLevel.newest())
    words = {"nodes": node_words(nodes), "edges": (*node_words(heads), NAME_WORDS + relations, *node_words(tails))}
    word_lines = (f"{word} {' '.join(map(str, word_vector(word)[:PUBLISHED_DIMENSIONS]))}" for word in WORDS)
    (folder / WORD_FILE).write_text("\n".join(word_lines), encoding="utf-8")
    table = np.stack([word_vector(word)[:dimensions] for word in WORDS[: NAME_WORDS + RELATIONS]])
    for kind, words_of_rows in words.items():
        with ArrayWriter(folder / f"{kind}.npy", np.float32, (dimensions,)) as vectors:
            for start in range(0, len(words_of_rows[0]), ROWS_PER_BLOCK):
                block = slice(start, start + ROWS_PER_BLOCK)
                vectors.add(unit_rows(np.sum([table[column[block]] for column in words_of_rows], axis=0)))


class MappedGraph(KnowledgeGraph):
    """The graph in a folder."""

    def __init__(self, folder: Path) -> None:
        def read(kind: str, column: str) -> pl.Series:
            return pl.read_ipc(folder / f"{kind}.arrow", columns=[column], memory_map=True)[column]

        self.folder = folder
        relations = tuple(WORDS[NAME_WORDS : NAME_WORDS + RELATIONS])
        super().__init__(
            "size",
            "1",
            lambda: GraphStructure(GraphArrays.open(folder), relations),
            partial(read, "nodes"),
            partial(read, "edges"),
        )
        self.__dict__ |= {f"{kind}_passage_vectors": open_array(folder / f"{kind}s.npy") for kind in ("node", "edge")}


def draw_questions(n_triples: int, count: int) -> pl.DataFrame:
    """Rows of ``questions`` about the tails of triples; every second triple starts at the largest hub."""
    heads, relations, tails = draw_edges(n_triples)
    edges = np.random.default_rng(2).integers(n_triples, size=count)
    at_hub = np.flatnonzero(tails == np.bincount(tails).argmax())
    edges[::2] = at_hub[:: max(1, len(at_hub) // len(edges[::2]))][: len(edges[::2])]
    starts = np.where(np.arange(count) % 2, heads[edges], tails[edges])
    answers = node_names(np.where(np.arange(count) % 2, tails[edges], heads[edges]))
    records = [
        QuestionRecord(
            NAME, str(i), "test", "kgqa", f"Which is the {WORDS[NAME_WORDS + relation]} of {name} ?", gold=(answer,)
        )
        for i, (relation, name, answer) in enumerate(
            zip(relations[edges].tolist(), node_names(starts), answers, strict=True)
        )
    ]
    return pl.DataFrame(prepare_rows("questions", question_rows(records, "test", 0, 1)))


class OneHop:
    """USCRaKE's triples of a question before its judge, which takes the same time for every graph."""

    def __init__(self, graph: KnowledgeGraph, encoder: WordVectors) -> None:
        self._graph = graph
        self._triples = ConceptTriples(graph, load_vocabulary(), encoder, cap=200, by_meaning=False)
        self.version = self._triples.version

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        for candidates in self._triples.candidates([(question.text, "") for question in questions]):
            yield [edge_evidence(self._graph, triple.edge, 0.0) for triple in candidates.triples[:10]]


def join_words(graph: MappedGraph, encoder: WordVectors) -> Selector:
    """A2Q with the vectors of the text encoder and those of a file of word vectors, joined as published."""
    words = NodeVectors.of_names(FileVectors(graph.folder / WORD_FILE), graph)
    kinds = (NodeVectors.of_passages(encoder, graph), words)
    nodes = map_nodes(kinds, graph.arrays.n_nodes, graph.folder)
    return A2Q(graph, JoinedVectors(encoder, words.encoder), nodes=nodes)


SELECTORS: dict[str, Callable[[MappedGraph, WordVectors], Selector]] = {
    "A2Q without classifier": A2Q,
    "A2Q, vectors joined with those of words": join_words,
    "nearest triples": NearestTriples,
    "nearest triples at the names": lambda graph, encoder: NearestTriples(graph, encoder, TripleSettings(linked=True)),
    "linked paths": LinkedPaths,
    "USCRaKE's triples before the judge": OneHop,
    "background knowledge, graph only": lambda graph, encoder: BackgroundKnowledge(
        graph, encoder, BackgroundSettings()
    ),
}


def measure(folder: Path, name: str, questions: pl.DataFrame, n_triples: int, dimensions: int) -> tuple[str, ...]:
    """A row of the results of one selector."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    encoder = WordVectors(dimensions)
    first, *others = build_questions(questions)

    def open_and_select() -> Selector:
        selector = SELECTORS[name](MappedGraph(folder), encoder)
        list(selector.select([first]))
        return selector

    selector, opened = measured(open_and_select)
    output, used = measured(evidence_rows, name, selector, others)
    evidence = pl.DataFrame(prepare_rows("evidence", output.rows))
    scored = typed_rows(questions.sort("question_id")[1:], QuestionRow)
    metrics, scoring = measured(triple_metrics, scored, evidence)
    return (
        name,
        f"{n_triples:,}",
        f"{dimensions}",
        f"{opened}",
        used.each(len(others)),
        scoring.each(len(others)),
        f"{metrics['hit@10'].value:.2f}",
        f"{max(opened.peak, used.peak):,.0f}",
        f"{resident('VmHWM'):,.0f}",
    )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--triples", type=int, default=10_000_000)
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS)
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--selectors", nargs="+", default=list(SELECTORS), choices=SELECTORS)
    parser.add_argument("--folder", type=Path, help="Where the graph is kept; a temporary folder by default.")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder and options.folder.parent) as temporary:
        folder = options.folder or Path(temporary) / "graph"
        if not folder.exists():
            in_new_process(write_graph, folder, options.triples, options.dimensions)
        questions = draw_questions(options.triples, options.questions)
        rows = []
        for name in options.selectors:
            rows.append(in_new_process(measure, folder, name, questions, options.triples, options.dimensions))
            print(rows[-1], flush=True)
    print_table(COLUMNS, rows)
    if options.json:
        write_results(options.json, COLUMNS, rows)


if __name__ == "__main__":
    main()
