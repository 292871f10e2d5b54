"""Knowledge-graph prompting with background knowledge: triples that the language model recalls."""

VERSION = "9"
"""Changes whenever equal input would give other evidence or answers."""
