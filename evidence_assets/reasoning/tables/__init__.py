"""The extractive reasoner on tables: deterministic, without a language model, from the table and the words alone."""
