"""Node relevance by unsupervised graph attention: a small network, trained for each question.

e_ij = (h_i W^Q)(h_j W^K)ᵀ / √d, α_ij = softmax_j(e_ij) over the neighbours j of i, z_i = Σ_j α_ij h_j W^V,
h ← h + ψ(z_i^1 ‖ … ‖ z_i^K), S_v = cos(W_q h_v, h_q). ψ is ELU; initial weights are uniform in ±1/√d."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import normalize

from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.attention.neighbours import NeighbourPattern, neighbour_attention
from evidence_assets.models.inference import map_single_threaded
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.vectors import Array


def contrastive_loss(projected: Tensor, features: Tensor, query: Tensor, temperature: float) -> Tensor:
    """Cross-entropy between the node distributions of the network and of the encoder.

    −Σ_v t(v) log p(v) with p(v) = softmax_v(cos(W_q h_v, q) / τ) and t(v) = softmax_v(cos(x_v, q) / τ) from the
    untrained vectors. Moving all nodes towards the query does not reduce the loss.
    """
    log_probs = (normalize(projected, dim=1) @ query / temperature).log_softmax(0)
    return -((normalize(features, dim=1) @ query / temperature).softmax(0) * log_probs).sum()


Variant = Literal["gat", "gcn", "cosine", "contrastive", "walk"]
RelevanceRule = Literal["threshold", "top"]


@dataclass(frozen=True)
class AttentionSettings:
    """Parameters of node scoring; the defaults are this project's, since the paper gives none.

    ``variant``: ``gat`` as published; ``gcn`` the mean over neighbours; ``cosine`` without training; ``contrastive``
        with another objective, because the published loss does not separate nodes; ``walk`` a random walk with restart
        from its scores, see `random_walk_scores`.
    ``layers``, ``heads``, ``steps``, ``learning_rate``: The network and its training: L, K, T.
    ``temperature``: τ of the contrastive objective; the published one has none.
    ``walk_temperature``, ``follow``: τ and α of the walk; see `random_walk_scores`.
    ``threshold``: θ_0: nodes with higher scores are relevant.
    ``least_spread``, ``top``: If the standard deviation of the scores is below `least_spread`, the `top` best nodes are
        relevant instead.
    """

    variant: Variant = "gat"
    layers: int = 2
    heads: int = 4
    steps: int = 50
    learning_rate: float = 1e-3
    temperature: float = 0.1
    walk_temperature: float = 0.2
    follow: float = 0.85
    threshold: float = 0.5
    least_spread: float = 0.05
    top: int = 10


_CONTRASTIVE = AttentionSettings(variant="contrastive", steps=2, temperature=0.1)
TUNED_SETTINGS = {"contrastive": _CONTRASTIVE, "walk": replace(_CONTRASTIVE, variant="walk")}
"""Settings of the scorers with the contrastive objective, tuned on half of the ConceptNet and UMLS questions."""


@dataclass(frozen=True)
class FeatureGraph:
    """Input of the scoring: a subgraph with features.

    ``question_id``: Seed of the initial weights.
    ``features``: One row per node.
    ``heads``, ``tails``: Positions of the ends of each edge. The network uses each pair once per direction, and a
        self-loop per node.
    """

    question_id: str
    features: FloatArray
    heads: IntArray
    tails: IntArray


@dataclass(frozen=True)
class NodeScores:
    """Scores S_v of the nodes of one subgraph, and the relevant nodes.

    ``spread``: Standard deviation of the scores; near zero if training moved all nodes to the query.
    ``relevant``: Positions of the relevant nodes, by `threshold`, or the `top` ones if the spread is too small.
    ``attention``: Per edge the last layer's weight that the head gives to the tail, and the tail to the head, mean over
        the attention heads. Empty for `cosine`.
    """

    scores: FloatArray
    spread: float
    relevant: IntArray
    rule: RelevanceRule
    attention: FloatArray


def train_and_score(
    graphs: Sequence[FeatureGraph],
    queries: Sequence[FloatArray],
    settings: AttentionSettings,
    device: str | torch.device = "cpu",
) -> list[NodeScores]:
    """Train and score subgraphs with separate parameters, so scores do not depend on the other questions.

    On a CPU, questions are trained in parallel on torch's threads. The width must be a multiple of the number of heads.
    """
    torch_device = torch.device(device)

    def score(graph_and_query: tuple[FeatureGraph, FloatArray]) -> NodeScores:
        graph, query = graph_and_query
        scores, attention = _train_and_score_graph(graph, query, settings, torch_device)
        if settings.variant == "walk":
            visits = random_walk_scores(scores, graph.heads, graph.tails, settings.walk_temperature, settings.follow)
            scores = visits.astype(np.float32)
        relevant, spread, rule = relevant_nodes(scores, settings)
        return NodeScores(scores, spread, relevant, rule, attention)

    return list(map_single_threaded(score, list(zip(graphs, queries, strict=True)), torch_device.type))


def relevant_nodes(scores: FloatArray, settings: AttentionSettings) -> tuple[IntArray, float, RelevanceRule]:
    """Apply the relevance rule: S_v > θ_0, or the top m if scores hardly differ; ties by position."""
    spread = float(np.std(scores, dtype=np.float64)) if len(scores) else 0.0
    if spread < settings.least_spread:
        return np.sort(np.argsort(-scores, kind="stable")[: settings.top]), spread, "top"
    return np.flatnonzero(scores > settings.threshold), spread, "threshold"


def initial_weights(question_id: str, width: int, numbers: int) -> Tensor:
    """Draw numbers, uniform in ±1/√d for width d, with a seed from the question id."""
    seed = int.from_bytes(hashlib.blake2b(question_id.encode(), digest_size=8).digest(), "big") >> 1
    bound = 1 / math.sqrt(width)
    return torch.empty(numbers).uniform_(-bound, bound, generator=torch.Generator().manual_seed(seed))


class _AttentionNetwork:
    """The published layers over one graph; for `gcn`, the mean over neighbours."""

    def __init__(self, graph: FeatureGraph, settings: AttentionSettings, device: torch.device) -> None:
        nodes, self._width = graph.features.shape
        # Concatenated W^Q, W^K, W^V of a layer need one product; `gcn` needs only W^V.
        size = 1 if settings.variant == "gcn" else 3
        numbers = initial_weights(graph.question_id, self._width, (size * settings.layers + 1) * self._width**2)
        initial = numbers.view(-1, self._width, self._width).to(device)
        self.pattern = NeighbourPattern.of(nodes, (graph.heads, graph.tails), settings.heads, device)
        self.weights = [torch.cat(list(layer), dim=1).requires_grad_() for layer in torch.split(initial[:-1], size)]
        self.projection = initial[-1].clone().requires_grad_()

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Projected node vectors, and the last layer's attention per pair of the pattern."""
        alpha = torch.empty(0)
        for weight in self.weights:
            mixed = hidden @ weight
            if mixed.shape[1] == self._width:  # without queries and keys, all neighbours have the same weight
                mixed = torch.nn.functional.pad(mixed, (2 * self._width, 0))
            z, alpha = neighbour_attention(mixed, self.pattern, scale=1 / math.sqrt(self._width))
            hidden = hidden + torch.nn.functional.elu(z)
        return hidden @ self.projection.mT, alpha

    def train(self, features: Tensor, query: Tensor, settings: AttentionSettings) -> None:
        """Train towards a query of unit length."""
        optimiser = torch.optim.Adam([*self.weights, self.projection], lr=settings.learning_rate, fused=True)
        for _ in range(settings.steps):
            projected, _ = self.forward(features)
            if settings.variant in TUNED_SETTINGS:
                loss = contrastive_loss(projected, features, query, settings.temperature)
            else:
                loss = (1 - normalize(projected, dim=1) @ query).mean()  # as published: the mean of 1 − cos(p_v, q)
            optimiser.zero_grad(set_to_none=False)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()


def _train_and_score_graph(
    graph: FeatureGraph, query_vector: FloatArray, settings: AttentionSettings, device: torch.device
) -> tuple[FloatArray, FloatArray]:
    """Train a network for a graph; returns node scores and edge attention."""
    inputs = (np.asarray(vectors, dtype=np.float32) for vectors in (graph.features, query_vector))
    features, query = (torch.from_numpy(vectors).to(device) for vectors in inputs)
    if not len(features) or settings.variant == "cosine":
        return torch.cosine_similarity(features, query[None], dim=1).cpu().numpy(), np.empty((0, 2), np.float32)
    unit = normalize(query, dim=0)
    network = _AttentionNetwork(graph, settings, device)
    network.train(features, unit, settings)
    with torch.no_grad():
        projected, alpha = network.forward(features)
        scores = torch.cosine_similarity(projected, unit[None], dim=1).cpu().numpy()
    return scores, network.pattern.of_edges(alpha, graph.heads, graph.tails)


WALK_TOLERANCE = 1e-9
MAX_WALK_STEPS = 500


def random_walk_scores(
    scores: FloatArray | Array, heads: IntArray, tails: IntArray, temperature: float, follow: float
) -> Array:
    """Visit frequency of a random walk with restart, relative to the most visited node.

    With r = softmax(scores / τ), and W the step along a uniformly random edge of a node, the visits
    are the fixed point of p = α W p + (1 − α) r (Page et al. 1999, with the restart of Haveliwala 2002). α = 0 gives
    the scores in another scale; α → 1 the number of edges.

    Direction and self-loops are ignored, parallel edges count separately; nodes without edges always restart.

    >>> random_walk_scores(np.zeros(3), np.array([0, 1]), np.array([1, 2]), 0.2, 0.85).round(2).tolist()
    [0.53, 1.0, 0.53]
    """
    n = len(scores)
    if not n:
        return np.empty(0)
    values = np.asarray(scores, dtype=np.float64)
    restart: Array = np.exp((values - values.max()) / temperature)
    restart /= restart.sum()
    is_edge = heads != tails
    ends = (heads[is_edge], tails[is_edge])
    arrows = sparse.csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
    edges = arrows + arrows.T
    degree = edges.sum(axis=0)
    edge_share = np.divide(1.0, degree, out=np.zeros(n), where=degree > 0)
    visits = restart
    for _ in range(MAX_WALK_STEPS):
        previous = visits
        visits = (
            follow * (edges @ (previous * edge_share) + previous[degree == 0].sum() * restart) + (1 - follow) * restart
        )
        if np.abs(visits - previous).sum() < WALK_TOLERANCE:
            break
    return np.asarray(visits / visits.max())
