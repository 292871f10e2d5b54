"""Readers of knowledge graph files, and the vocabulary of relations."""
