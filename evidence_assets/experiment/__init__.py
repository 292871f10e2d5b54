"""What all systems share between question and score: evidence, chains, predictions, citations, scores, comparison."""
