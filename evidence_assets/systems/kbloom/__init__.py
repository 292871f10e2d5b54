"""K-Bloom: triples harvested from a masked language model, from a prompt and a few seed pairs."""

VERSION = "6"
"""Changes whenever equal input would give other prompts, pairs, triples, collections or scores."""
