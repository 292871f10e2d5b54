"""USCRaKE: evidence from text by optimal transport and from a commonsense graph, without supervision."""

VERSION = "11"
"""Raise it when the same input gives different evidence or answers."""
