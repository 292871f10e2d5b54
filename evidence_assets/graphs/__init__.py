"""Knowledge graphs: entity linking, neighbourhoods, expansion, attention, paths, substitution."""
