"""Raw inputs: named where they are missing, and never outside the lake's raw folder."""

from __future__ import annotations

import dagster as dg
import pytest

from evidence_assets.assets.raw_files import raw_asset, raw_assets
from evidence_assets.assets.resources import LakeResource
from evidence_assets.benchmarks.declared_benchmarks import RawInput
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake


def test_the_error_for_missing_files_describes_their_contents(lake: Lake) -> None:
    asset = raw_asset("raw/corpora/texts", ["texts"], "texts, one a line")
    with pytest.raises(BadInput, match=r"does not exist: .*texts, one a line"):
        dg.materialize([asset], resources={"lake": LakeResource(root=str(lake.root))})


@pytest.mark.parametrize("name", ["/etc/passwd", "../elsewhere", "mine/../../elsewhere"])
def test_a_declaration_does_not_lead_out_of_the_raw_folder(name: str) -> None:
    with pytest.raises(BadInput, match="leads out of the lake's raw folder"):
        raw_assets(RawInput(), "raw/benchmarks/mine", [name])
    with pytest.raises(BadInput, match="leads out"):
        raw_assets(RawInput(source="raw/sample"), "raw/benchmarks/mine", [name])
