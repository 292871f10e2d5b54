"""UGAT-MedQA: evidence paths of a medical graph, selected by unsupervised graph attention."""

VERSION = "7"
"""Raise it when the same input gives different evidence or answers."""
