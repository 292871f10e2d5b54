"""The core shared by all systems: evidence, chains, predictions, citations, scores and comparison."""
