"""Scores of answers and evidence: metrics, score rows, published figures, comparisons and plots."""
