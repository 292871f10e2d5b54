"""Settings of knowledge-graph prompting: whose triples are shown, and how many."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BackgroundSettings:
    """The four published cases: the ``graph``'s triples, those that the variant ``recall`` recalled, both, or none.

    Triples of the graph lie within ``D`` steps of the topic entities (published: 1); ``max_triples`` caps them before
    they are encoded, nearer steps, then lower edge numbers stay. The ``top_k`` nearest to the question are kept; K is not
    stated there, 10 is ours. ``links``: the linker whose entities are the topics, in a user's file
    (``experiment.inputs.LINKS``); ours where none is named.
    """

    graph: bool = True
    recall: str = ""
    D: int = 1
    top_k: int = 10
    max_triples: int = 2000
    links: str = ""
