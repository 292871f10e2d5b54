"""Knowledge out of masked language models: prompts mined and written, pairs searched, triples scored."""
