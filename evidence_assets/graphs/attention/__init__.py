"""Node relevance by unsupervised attention over a question's part of a graph."""
