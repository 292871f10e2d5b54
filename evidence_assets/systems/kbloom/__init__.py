"""K-Bloom: triples harvested from a masked language model, from a prompt and a few seed pairs."""
