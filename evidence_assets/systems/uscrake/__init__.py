"""USCRaKE: evidence from text by optimal transport and from a commonsense graph, without supervision."""

VERSION = "6"
"""Changes whenever equal input would give other evidence or answers."""
