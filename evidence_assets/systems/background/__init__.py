"""Knowledge-graph prompting with what the language model recalls itself."""
