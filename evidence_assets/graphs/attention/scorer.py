"""Node relevance by unsupervised graph attention: one small network, trained afresh for each question.

The published layer (K heads, L layers, full width d, head width d_z = d / K):

    e_ij = (h_i W^Q)(h_j W^K)ᵀ / √d,   α_ij = softmax_j(e_ij) over the neighbours j of i,
    z_i = Σ_j α_ij h_j W^V,   h ← h + ψ(z_i^1 ‖ … ‖ z_i^K)

and, after L layers, S_v = cos(W_q h_v, h_q). Training lowers mean_v (1 − S_v) by T steps of Adam. The documents leave
open T, L, K, θ_0, the learning rate, ψ and the first values of the parameters; the defaults here are ours (ψ is ELU,
values are uniform in ±1/√d, as in `torch.nn.Linear`).

Variants
--------
gat
    As published.
gcn
    The mean over the neighbours in place of attention.
cosine
    No training: the cosine of the node's own vector and the query.
contrastive
    The attention layer under another objective, see `graph_objectives`: the published loss has no term that tells one
    node from another, so that nothing stops it from pulling every node onto the query. Measured on
    ConceptNet and UMLS subgraphs it does: after 50 steps the scores of a question spread by about 1e-4.
walk
    The scores of `contrastive` as the place to which a random walk over the subgraph returns, see `graph_walk`: text and
    structure together. On the same subgraphs it is the only one that ranks nodes better than their number of edges does.

Only scoring belongs here. Which nodes are looked at is decided in `graph`, what is done with the scores in `paths`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.attention.neighbours import Pattern, attend, average
from evidence_assets.graphs.attention.walk import visits
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.running import each_on_one_thread


def node_mask(sizes: Tensor, nodes: int) -> Tensor:
    """(questions, nodes), true for the rows that are no padding."""
    return torch.arange(nodes, device=sizes.device)[None] < sizes[:, None]


def published_loss(projected: Tensor, query: Tensor, sizes: Tensor) -> Tensor:
    """Σ_b mean_v (1 − cos(p_bv, q_b)): the mean over each question's nodes, summed over questions.

    The sum, and not the mean, keeps every question's gradient what it would be alone. `query` has unit rows.
    """
    mask = node_mask(sizes, projected.shape[1])
    cosine = (normalize(projected, dim=2) * query[:, None]).sum(2)
    return ((1 - cosine) * mask / sizes[:, None]).sum()


def contrastive_loss(projected: Tensor, features: Tensor, query: Tensor, sizes: Tensor, temperature: float) -> Tensor:
    """Cross-entropy between what the network says of the nodes and what the encoder says of them.

    With p(v) = softmax_v(cos(W_q h_v, q) / τ) over the nodes of the question and t(v) = softmax_v(cos(x_v, q) / τ)
    from the untrained vectors, the loss of a question is −Σ_v t(v) log p(v): every node is a negative of every other
    one, so drawing all of them to the query gains nothing.
    """
    mask = node_mask(sizes, projected.shape[1])
    said = (normalize(projected, dim=2) * query[:, None]).sum(2) / temperature
    target = (normalize(features, dim=2) * query[:, None]).sum(2) / temperature
    said = said.masked_fill(~mask, -torch.inf).log_softmax(1).masked_fill(~mask, 0.0)
    target = target.masked_fill(~mask, -torch.inf).softmax(1)
    return -(target * said).sum()


Variant = Literal["gat", "gcn", "cosine", "contrastive", "walk"]
Rule = Literal["threshold", "top"]


@dataclass(frozen=True)
class AttentionSettings:
    """Parameters of node scoring; the defaults are this project's, the documents print none of them.

    ``variant``, ``layers``, ``heads``, ``steps``, ``learning_rate``: The network and its training: L, K, T.
    ``temperature``: τ of the contrastive objective; the published one has none.
    ``walk_temperature``, ``follow``: τ and α of the walk; see `graph_walk.visits`.
    ``threshold``: θ_0: a node is relevant where its score is above it.
    ``least_spread``, ``top``: Where the standard deviation of the scores is below `least_spread`, a threshold says
        nothing and the `top` best nodes are taken instead.
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

    def __post_init__(self) -> None:
        if self.variant not in get_args(Variant):
            raise ValueError(f"variant is one of {', '.join(get_args(Variant))}, not {self.variant!r}")
        if min(self.layers, self.heads, self.top) < 1 or self.steps < 0 or self.temperature <= 0:
            raise ValueError("layers, heads and top must be at least 1, steps at least 0, the temperature above 0")


CONTRASTIVE = AttentionSettings(variant="contrastive", steps=2, temperature=0.1)
"""The contrastive variant with steps and temperature chosen on the first halves of ConceptNet and UMLS questions."""
WALK = replace(CONTRASTIVE, variant="walk")
"""The walk from the contrastive scores; its temperature and its α were chosen on the same halves."""


@dataclass(frozen=True)
class FeatureGraph:
    """A subgraph ready for scoring.

    ``question_id``: The first values of the parameters are drawn from it, and from nothing else.
    ``features``: One row per node.
    ``heads``, ``tails``: Positions of the ends of each edge. Direction, parallel edges and self-loops make no
        difference to the network, which sees each pair once and every node as its own neighbour.
    """

    question_id: str
    features: FloatArray
    heads: IntArray
    tails: IntArray

    def __post_init__(self) -> None:
        n = len(self.features)
        if self.features.ndim != 2 or not np.isfinite(self.features).all():
            raise ValueError(f"question {self.question_id}: features must be one finite row per node")
        if len(self.heads) != len(self.tails):
            raise ValueError(f"question {self.question_id}: {len(self.heads)} heads but {len(self.tails)} tails")
        if len(self.heads) and not (
            min(self.heads.min(), self.tails.min()) >= 0 and max(self.heads.max(), self.tails.max()) < n
        ):
            raise ValueError(f"question {self.question_id}: an edge names a node outside 0 to {n - 1}")


@dataclass(frozen=True)
class NodeScores:
    """What scoring one subgraph gave.

    ``scores``: S_v, one per node.
    ``spread``: Standard deviation of the scores; near zero where training has drawn all nodes to the query.
    ``relevant``: Positions of the relevant nodes, ascending.
    ``rule``: How they were chosen: by `threshold`, or the `top` ones because the spread was too small.
    ``attention``: One row per edge: last-layer weight that the head gives to the tail, and that the tail gives to the
        head, mean over the attention heads (1 / |N_i| for `gcn`). Empty for `cosine`, which attends to nothing.
    """

    scores: FloatArray
    spread: float
    relevant: IntArray
    rule: Rule
    attention: FloatArray


def train_batch(
    graphs: Sequence[FeatureGraph],
    queries: Sequence[FloatArray],
    settings: AttentionSettings | None = None,
    device: str | torch.device = "cpu",
    group_bytes: int | None = None,
) -> list[NodeScores]:
    """Score many subgraphs, each with parameters of its own; equal to one at a time, bit for bit where no two are stacked.

    Questions of like size are stacked: dense products are batched matrix products, attention runs over one
    block-diagonal sparse matrix. A group is as large as its parameters, their moments and its activations fit into
    `group_bytes` (default: 8 GB on CUDA; on a CPU each question is a group, side by side on the threads that torch may
    use, so that its scores do not hang on which others are asked).

    Raises ValueError where the vectors do not fit each other, the width is no multiple of the number of heads, or a
    query is zero.
    """
    settings = settings or AttentionSettings()
    if len(graphs) != len(queries):
        raise ValueError(f"{len(graphs)} subgraphs but {len(queries)} query vectors")
    for graph, query in zip(graphs, queries, strict=True):
        _check(graph, query, settings)
    device = torch.device(device)
    budget = group_bytes or (8 << 30 if device.type == "cuda" else 0)

    def score(group: list[int]) -> list[tuple[int, NodeScores]]:
        chosen = [graphs[i] for i in group]
        vectors = torch.from_numpy(np.stack([np.asarray(queries[i], dtype=np.float32) for i in group]))
        if settings.variant == "cosine":
            found = [_cosine(graph, query) for graph, query in zip(chosen, vectors, strict=True)]
        else:
            found = _Group(chosen, vectors.to(device), settings).run()
        scored = []
        for i, (scores, attention) in zip(group, found, strict=True):
            if settings.variant == "walk":
                walked = visits(scores, graphs[i].heads, graphs[i].tails, settings.walk_temperature, settings.follow)
                scores = walked.astype(np.float32)
            relevant, spread, rule = relevant_nodes(scores, settings)
            scored.append((i, NodeScores(scores, spread, relevant, rule, attention)))
        return scored

    groups = _groups(graphs, settings, budget)
    results = dict(chain.from_iterable(each_on_one_thread(score, groups, device.type)))
    return [results[i] for i in range(len(graphs))]


def relevant_nodes(scores: FloatArray, settings: AttentionSettings) -> tuple[IntArray, float, Rule]:
    """Apply the relevance rule: S_v > θ_0, or the top m where the scores hardly differ; ties go to the first node."""
    spread = float(np.std(scores, dtype=np.float64)) if len(scores) else 0.0
    if spread < settings.least_spread:
        return np.sort(np.argsort(-scores, kind="stable")[: settings.top]), spread, "top"
    return np.flatnonzero(scores > settings.threshold), spread, "threshold"


def _check(graph: FeatureGraph, query: FloatArray, settings: AttentionSettings) -> None:
    width = graph.features.shape[1]
    if np.shape(query) != (width,):
        raise ValueError(
            f"question {graph.question_id}: the query has shape {np.shape(query)}, the node vectors {width} columns"
        )
    if len(graph.features) and (not np.isfinite(query).all() or not np.any(query)):
        raise ValueError(f"question {graph.question_id}: the query vector must be finite and not zero")
    if width % settings.heads:
        raise ValueError(f"{width} columns cannot be shared by {settings.heads} heads: choose a divisor of {width}")


def _groups(graphs: Sequence[FeatureGraph], settings: AttentionSettings, budget: int) -> list[list[int]]:
    """Questions in order of size, cut where the memory of the padded group would pass the budget."""
    groups: list[list[int]] = []
    key = sorted(range(len(graphs)), key=lambda i: (graphs[i].features.shape, i))
    for i in key:
        nodes, width = graphs[i].features.shape
        if not nodes:
            groups.append([i])
            continue
        cost = bytes_of(nodes, width, settings.layers)
        last = groups[-1] if groups else []
        fits = last and graphs[last[0]].features.shape[1] == width and (len(last) + 1) * cost <= budget
        # Padding a graph to more than twice its size would cost more than a group of its own.
        if fits and 0 < nodes <= 2 * len(graphs[last[0]].features) + 8:
            last.append(i)
        else:
            groups.append([i])
    return groups


def bytes_of(nodes: int, width: int, layers: int) -> int:
    """What training on a subgraph holds, but for its edges: value, gradient and two moments of 3 L + 1 square matrices, and
    about 16 activations of each layer.

    >>> round(bytes_of(45_751, 384, 2) / 1e9, 1)  # the printed graph whole
    2.3
    """
    return 4 * width * (4 * (3 * layers + 1) * width + 16 * layers * nodes)


def _cosine(graph: FeatureGraph, query: Tensor) -> tuple[FloatArray, FloatArray]:
    features = torch.from_numpy(np.asarray(graph.features, dtype=np.float32))
    scores: FloatArray = torch.cosine_similarity(features, query[None], dim=1).numpy()
    return scores, np.empty((0, 2), dtype=np.float32)


def first_values(question_id: str, width: int, matrices: int) -> Tensor:
    """`matrices` square matrices, uniform in ±1/√d, drawn from the question id alone."""
    seed = int.from_bytes(hashlib.blake2b(question_id.encode(), digest_size=8).digest(), "big") >> 1
    bound = 1 / math.sqrt(width)
    values = torch.empty(matrices, width, width)
    return values.uniform_(-bound, bound, generator=torch.Generator().manual_seed(seed))


class _Group:
    """Several questions trained side by side: row b of every tensor belongs to question b."""

    def __init__(self, graphs: Sequence[FeatureGraph], queries: Tensor, settings: AttentionSettings) -> None:
        self.graphs = graphs
        self.settings = settings
        self.query = torch.nn.functional.normalize(queries, dim=1)
        device = queries.device
        sizes = [len(graph.features) for graph in graphs]
        self.width = graphs[0].features.shape[1]
        self.features = torch.zeros(len(graphs), max(sizes), self.width)
        for row, graph in enumerate(graphs):
            self.features[row, : sizes[row]] = torch.from_numpy(np.asarray(graph.features, dtype=np.float32))
        self.features = self.features.to(device)
        self.sizes = torch.tensor(sizes, device=device)
        self.pattern = Pattern.of(
            [(len(graph.features), graph.heads, graph.tails) for graph in graphs], settings.heads, max(sizes), device
        )
        # W^Q, W^K, W^V of a layer side by side, so that one product makes all three; `gcn` needs W^V alone.
        per_layer = 1 if settings.variant == "gcn" else 3
        drawn = torch.stack([first_values(g.question_id, self.width, per_layer * settings.layers + 1) for g in graphs])
        self.weights = [
            torch.cat(list(drawn[:, per_layer * layer : per_layer * (layer + 1)].unbind(1)), dim=2)
            .to(device)
            .requires_grad_()
            for layer in range(settings.layers)
        ]
        self.projection = drawn[:, -1].to(device).contiguous().requires_grad_()

    def forward(self) -> tuple[Tensor, Tensor]:
        """Projected node vectors, and the last layer's attention per pair of the pattern (heads kept apart)."""
        hidden = self.features
        alpha = torch.empty(0)
        for weight in self.weights:
            mixed = torch.bmm(hidden, weight)
            if self.settings.variant == "gcn":
                z, alpha = average(mixed, self.pattern)
            else:
                z, alpha = attend(mixed, self.pattern, scale=1 / math.sqrt(self.width))
            hidden = hidden + torch.nn.functional.elu(z)
        return torch.bmm(hidden, self.projection.mT), alpha

    def run(self) -> list[tuple[FloatArray, FloatArray]]:
        """Train, then give the scores and edge attention of every question."""
        if not self.features.shape[1]:
            return [(np.empty(0, np.float32), np.empty((0, 2), np.float32)) for _ in self.graphs]
        optimiser = torch.optim.Adam([*self.weights, self.projection], lr=self.settings.learning_rate, fused=True)
        for _ in range(self.settings.steps):
            projected, _ = self.forward()
            if self.settings.variant in ("contrastive", "walk"):
                loss = contrastive_loss(projected, self.features, self.query, self.sizes, self.settings.temperature)
            else:
                loss = published_loss(projected, self.query, self.sizes)
            optimiser.zero_grad(set_to_none=False)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        with torch.no_grad():
            projected, alpha = self.forward()
            scores = torch.cosine_similarity(projected, self.query[:, None], dim=2).cpu().numpy()
            pairs = self.pattern.pair_weights(alpha).cpu().numpy()
        found: list[tuple[FloatArray, FloatArray]] = []
        for row, graph in enumerate(self.graphs):
            attention = self.pattern.of_edges(row, pairs, graph.heads, graph.tails)
            found.append((scores[row, : len(graph.features)].copy(), attention))
        return found
