"""The extractive table solver: claims and questions about one table, answered without a language model."""
