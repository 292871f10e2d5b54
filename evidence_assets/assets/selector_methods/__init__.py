"""How each selector is made: one module a system, each with its ``METHODS``.

A method is a function that opens what it needs for one partition and returns a selector.
"""

from __future__ import annotations

from evidence_assets.assets.selector_methods import a2q, baselines, knowledge_prompting, ucret, ugat, uscrake
from evidence_assets.assets.selector_methods.method import Method

METHODS: dict[str, Method] = {
    **a2q.METHODS,
    **baselines.METHODS,
    **knowledge_prompting.METHODS,
    **ucret.METHODS,
    **ugat.METHODS,
    **uscrake.METHODS,
}
