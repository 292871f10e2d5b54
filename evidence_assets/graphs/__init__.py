"""One knowledge graph and what is done with it: linking, neighbourhoods, expansion, attention, paths, substitution."""
