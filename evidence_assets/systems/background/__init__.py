"""Knowledge-graph prompting with what the language model recalls itself."""

VERSION = "4"
"""Changes whenever equal input would give other evidence or answers."""
