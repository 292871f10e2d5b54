"""Short answers as spans of sentences: candidates, their features, and the choice among them."""
