"""Node relevance by unsupervised graph attention over the subgraph of a question."""
