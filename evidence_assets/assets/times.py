"""How long the steps took here whose times are printed: read from materializations, for no row of the lake holds a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.pace import seconds_of
from evidence_assets.assets.planning import sizes, steps_of
from evidence_assets.experiment.derived_figures import Key, Ours
from evidence_assets.experiment.reproduction import Candidate
from evidence_assets.lake.store import Lake


def times(instance: dg.DagsterInstance, able: Sequence[Candidate], lake: Lake) -> dict[Key, list[Ours]]:
    """What is printed for times, with the seconds a question of the last computation times the lake's questions."""
    found: dict[Key, dict[Ours, None]] = defaultdict(dict)
    for candidate in able:
        variant, name = candidate.variant, candidate.benchmark.name
        partitions = [f"{name}|{shard}" for shard in range(profiles.load().shards.questions)]
        for timed, figure in candidate.timed():
            steps = [step for step in steps_of(variant) if step.partition("/")[0] in timed.steps]
            each = seconds_of(instance, steps, partitions)
            if each is None:
                continue
            questions, _ = sizes(candidate.benchmark, lake)
            value = {"hours": each * questions / 3600, "minutes": each * questions / 60}.get(figure.metric, each / 60)
            model = candidate.model_id if figure.model or "predictions" in timed.steps else ""
            made_by = variant.label if model else variant.name
            score = Ours(made_by, name, model, figure.metric, value, None, None, questions, differs=timed.differs)
            found[figure.key][score] = None
    return {key: list(scores) for key, scores in found.items()}
