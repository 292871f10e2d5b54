"""Shared by all systems, from question to score: evidence, chains, predictions, citations, scores and comparison."""
