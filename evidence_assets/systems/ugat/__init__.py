"""UGAT-MedQA: evidence paths of a medical graph, selected by unsupervised graph attention."""

VERSION = "8"
"""Bump when equal input gives other evidence or answers."""
