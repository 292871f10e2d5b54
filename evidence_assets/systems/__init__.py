"""One module or package per published system: composes methods, reasoning and models into its stages.

Nothing here knows Dagster; an algorithm that is of use alone belongs in ``methods``.
"""
