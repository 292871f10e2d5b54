"""Typed tasks: what is asked, how it is put to a model, how the answer is parsed, and whether its citations hold."""
