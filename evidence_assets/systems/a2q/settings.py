"""Settings of Attention2Query, of this project's ranking of paths, and of the retrievals they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evidence_assets.graphs.expansion import Counted, Score


@dataclass(frozen=True)
class A2QSettings:
    """λ is ``penalty``; θ is ``theta`` layers of neighbours around a phrase, as printed where the setting is
    discussed, or as many expanded nodes (``theta_counts: nodes``), as the printed steps can be read. The paper leaves
    heads and numbers of nodes open, those are ours.

    A phrase that names no node starts from its nearest nodes, unless none is as near as ``least_similarity``: it then
    links to nothing and brings nothing in.
    ``paths`` and ``options`` switch the published ablations; without a ``classifier`` triples are ranked by attention
    alone. ``taxonomy``: whether the benchmark's says what terms mean. ``embedding``: which vectors are compared, the
    text encoder's, those of ``walks`` on the graph, or a file's of ``embeddings/<name>``.
    """

    penalty: float = 0.2
    theta: int = 3
    theta_counts: Counted = "layers"
    heads: int = 4
    score: Score = "cosine"
    kept_nodes: int = 30
    top_n: int = 10
    max_neighbours: int = 200
    starts_per_phrase: int = 2
    least_similarity: float = 0.4
    bridge_length: int = 4
    paths: bool = True
    options: bool = True
    classifier: Literal["reranker", "tuned", "none"] = "reranker"
    taxonomy: bool = True
    embedding: Literal["text", "walks", "numberbatch", "word2vec", "glove"] = "text"


@dataclass(frozen=True)
class PathSettings:
    """``penalty`` is taken off for the second triple of a path (λ of Attention2Query); ``bridge`` is added to a path
    that joins what the question names to what the option names.

    ``fan`` first triples are followed further, and at most ``max_neighbours`` triples of a hub are looked at.
    """

    penalty: float = 0.05
    bridge: float = 0.1
    top_n: int = 10
    fan: int = 50
    max_neighbours: int = 200


@dataclass(frozen=True)
class TripleSettings:
    """The ``top_n`` triples whose sentences are nearest to the question, of all (after DiFaR) or, with ``linked``, of
    those around the nodes that it names.

    With ``options`` the question is read as followed by its options, so that it is told what Attention2Query is told.
    With ``topics`` the nodes are those of the entities that the dataset itself states, with ``links`` those that the
    linker of this name found, in a user's file (``experiment.evidence.sources.LINKS``).
    """

    top_n: int = 10
    linked: bool = False
    options: bool = False
    topics: bool = False
    links: str = ""


@dataclass(frozen=True)
class ClassifierSettings:
    """Tuned on ``triples`` triples, best by attention, of each of the first ``questions`` of a ``split`` that is
    never the one reported; from the profile's reranker ``base`` where it names one so, else from its first."""

    benchmark: str
    split: str = "dev"
    questions: int = 1000
    base: str = "ms_marco_minilm"
    triples: int = 40
    epochs: int = 3
    rate: float = 1e-5
