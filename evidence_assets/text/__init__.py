"""Words, names, sentences and chunks; independent of models and the lake."""
