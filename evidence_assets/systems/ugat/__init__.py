"""UGAT-MedQA: paths of a medical graph, selected by unsupervised attention, as evidence."""

VERSION = "6"
"""Changes whenever equal input would give other evidence or answers."""
