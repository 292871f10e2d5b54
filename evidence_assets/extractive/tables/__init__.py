"""Claims and questions about one table, answered without a language model."""
