"""What every variant has in common: the presets that it belongs to, and whether it is loaded."""

from __future__ import annotations

import dagster as dg

from evidence_assets.experiment.presets import is_loaded

TAG = "preset/"


class Variant(dg.Model, dg.Resolvable):
    """A part of the experiment matrix, declared in YAML; a component inherits from it beside ``dg.Component``.

    ``build_defs`` begins ``if not self.loaded: return dg.Definitions()`` and hands ``tags`` to its assets.
    """

    presets: tuple[str, ...] = ()
    """Presets that it belongs to; without any it is always loaded. See ``components/presets.yaml``."""
    always: bool = False
    """Loaded whichever presets are opted in; for what belongs to a published table and to the default graph, too."""

    @property
    def loaded(self) -> bool:
        """Whether it is part of the graph with the presets that are opted in."""
        return is_loaded(self.presets, self.always)

    @property
    def tags(self) -> dict[str, str]:
        """Tags by which the assets of a preset are selected, such as ``tag:"preset/uscrake_costs"``."""
        return {f"{TAG}{name}": "" for name in self.presets}
