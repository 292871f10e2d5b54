"""USCRaKE: evidence from text by optimal transport and from a commonsense graph, without supervision."""
