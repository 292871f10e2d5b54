"""Chains, answers, citations and counterfactuals from evidence."""
