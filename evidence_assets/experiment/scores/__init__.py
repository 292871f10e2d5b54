"""Scores of answers and evidence: metrics, score rows, published figures and comparisons."""
