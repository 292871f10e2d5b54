"""Readers of knowledge graph files, and the vocabulary of relations; merging sources is in ``graphs.merge``."""
