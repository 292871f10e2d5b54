"""Finding text: BM25, dense vectors, late interaction, fusion, and the stores that they read."""
