"""Retrieval: BM25, dense vectors, late interaction, and their indexes on disk."""
