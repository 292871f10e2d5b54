"""Protocols (Encoder, MaskedLM, Generator, Reranker) and the backends that fulfil them."""
