"""USCRaKE: evidence from text by optimal transport and from a commonsense graph, without supervision."""

VERSION = "9"
"""Raise it when the same input gives different evidence or answers."""
