"""From evidence to chains, answers, citations and counterfactuals."""
