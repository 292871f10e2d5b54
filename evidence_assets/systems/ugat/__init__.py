"""UGAT-MedQA: paths of a medical graph, selected by unsupervised attention, as evidence."""

VERSION = "7"
"""Changes whenever equal input would give other evidence or answers."""
