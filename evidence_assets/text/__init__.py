"""Words, names, sentences and what is cut from them; knows nothing of models or of the lake."""
