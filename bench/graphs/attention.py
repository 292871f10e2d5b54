"""Training many questions at once against a loop over questions with torch-geometric's TransformerConv.

Both sides: 4 heads, 2 layers, fused Adam, the same first values, and the published scale 1/√d (TransformerConv divides
by the width of a head, so its queries are made from h/√K). The two are run in turn, the scores must agree to 1e-3.

Run: python -m bench.graphs.attention [--device cpu|cuda --questions 64 --steps 50 10 --repeats 3]
"""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.nn import TransformerConv

from bench.measuring import make_parser, timed
from evidence_assets.graphs.attention.scorer import AttentionSettings, FeatureGraph, initial_weights, train_and_score

HEADS, LAYERS = 4, 2


def random_problem(index: int, nodes: int, width: int, edges: int) -> tuple[FeatureGraph, np.ndarray]:
    rng = np.random.default_rng(index)
    features = (rng.standard_normal((nodes, width)) / width**0.5).astype(np.float32)
    heads, tails = rng.integers(0, nodes, (2, edges))
    return FeatureGraph(f"q{index}", features, heads, tails), rng.standard_normal(width).astype(np.float32)


class Reference:
    """One question with torch-geometric, as one would write it."""

    def __init__(self, graph: FeatureGraph, query: np.ndarray, device: str) -> None:
        n, width = graph.features.shape
        self_loops = np.arange(n)
        pairs = np.unique(
            np.column_stack(
                [
                    np.concatenate([graph.heads, graph.tails, self_loops]),
                    np.concatenate([graph.tails, graph.heads, self_loops]),
                ]
            ),
            axis=0,
        )
        self.edges = torch.from_numpy(np.ascontiguousarray(pairs.T)).to(device)
        self.x = torch.from_numpy(graph.features).to(device)
        self.query = torch.from_numpy(query).to(device)
        numbers = initial_weights(graph.question_id, width, (3 * LAYERS + 1) * width**2)
        values = numbers.view(-1, width, width).to(device)
        self.layers = []
        for layer in range(LAYERS):
            conv = TransformerConv(width, width // HEADS, heads=HEADS, bias=False, root_weight=False).to(device)
            with torch.no_grad():
                for row, linear in enumerate((conv.lin_query, conv.lin_key, conv.lin_value)):
                    linear.bias = None
                    linear.weight.copy_(values[3 * layer + row].T)
            self.layers.append(conv)
        self.projection = torch.nn.Parameter(values[-1].clone())

    def forward(self) -> torch.Tensor:
        hidden = self.x
        for conv in self.layers:
            hidden = hidden + torch.nn.functional.elu(conv((hidden, hidden / HEADS**0.5), self.edges))
        return torch.cosine_similarity(hidden @ self.projection.T, self.query[None], dim=1)

    def run(self, steps: int) -> np.ndarray:
        parameters = [self.projection, *(p for conv in self.layers for p in conv.parameters())]
        optimiser = torch.optim.Adam(parameters, lr=1e-3, fused=True)
        for _ in range(steps):
            optimiser.zero_grad()
            (1 - self.forward()).mean().backward()
            optimiser.step()
        with torch.no_grad():
            return self.forward().cpu().numpy()


def run_references(graphs: list[FeatureGraph], queries: list[np.ndarray], device: str, steps: int) -> list[np.ndarray]:
    """The scores of the nodes of each question, one question after another."""
    return [Reference(graph, query, device).run(steps) for graph, query in zip(graphs, queries, strict=True)]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--steps", type=int, nargs=2, default=(50, 10), help="for the small and the large case")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    device = arguments.device
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("this machine has no CUDA device that torch can use; leave --device out to measure on the CPU")
    torch.set_num_threads(arguments.threads)
    where = torch.cuda.get_device_name() if device == "cuda" else f"cpu, {arguments.threads} threads"
    print(f"{where}, {arguments.questions} questions")
    for (nodes, width, edges), steps in zip(((30, 64, 60), (300, 384, 900)), arguments.steps, strict=True):
        settings = AttentionSettings(layers=LAYERS, heads=HEADS, steps=steps)
        problems = [random_problem(i, nodes, width, edges) for i in range(arguments.questions)]
        graphs, queries = [graph for graph, _ in problems], [query for _, query in problems]
        train_and_score(graphs[:2], queries[:2], settings, device)
        Reference(graphs[0], queries[0], device).run(2)
        batched = []
        loops = []
        for _ in range(arguments.repeats):
            scores, seconds = timed(train_and_score, graphs, queries, settings, device)
            batched.append(seconds)
            expected, seconds = timed(run_references, graphs, queries, device, steps)
            loops.append(seconds)
        difference = max(np.abs(f.scores - e).max() for f, e in zip(scores, expected, strict=True))
        assert difference < 1e-3, f"the two sides differ by {difference}"
        ratios = [loop / our_seconds for loop, our_seconds in zip(loops, batched, strict=True)]
        print(
            f"d = {width}, {nodes} nodes, {steps} steps: batch {min(batched):.2f} s, loop {min(loops):.2f} s, "
            f"ratio of the best {min(loops) / min(batched):.1f} (each pair: {', '.join(f'{r:.1f}' for r in ratios)}); "
            f"scores differ by {difference:.1e}"
        )


if __name__ == "__main__":
    main()
