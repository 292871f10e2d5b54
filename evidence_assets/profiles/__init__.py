"""Named sets of models and parameters, validated on load."""
