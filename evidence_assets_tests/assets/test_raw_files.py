"""Raw inputs: known by their content, named where they are missing, fetched only where that is allowed."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from evidence_assets.assets.raw_files import raw_asset, raw_assets
from evidence_assets.assets.resources import LakeResource
from evidence_assets.benchmarks.declared import FromRaw
from evidence_assets.benchmarks.homes import NETWORK_VARIABLE
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake

HUB = "some/texts/20240101.en"


def look(lake: Lake, hub: str = HUB) -> dg.ExecuteInProcessResult:
    asset = raw_asset("raw/corpora/texts", ["texts"], "texts, one a line", hub)
    return dg.materialize([asset], resources={"lake": LakeResource(root=str(lake.root))})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "data_lake")


class Hub:
    """Stands for the hub: holds two files, and breaks off after the first where asked to."""

    def __init__(self, breaks: bool = False) -> None:
        self.breaks = breaks

    def __call__(self, repo_id: str, *, repo_type: str, allow_patterns: str, local_dir: Path) -> str:
        assert (repo_id, repo_type, allow_patterns) == ("some/texts", "dataset", "20240101.en/*")
        for name in ("a.txt", "b.txt"):
            (local_dir / "20240101.en").mkdir(parents=True, exist_ok=True)
            (local_dir / "20240101.en" / name).write_text(name)
            if self.breaks:
                raise LocalEntryNotFoundError("no connection")
        (local_dir / ".cache").mkdir(exist_ok=True)
        return str(local_dir)


def test_missing_files_are_named_with_what_they_hold_and_nothing_is_fetched(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NETWORK_VARIABLE, raising=False)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", Hub())
    with pytest.raises(
        BadInput, match=r"should hold texts, one a line; with EVIDENCE_NETWORK=1 it is fetched from some/texts"
    ):
        look(lake)
    assert not (lake.raw / "texts").exists()


def test_missing_files_are_fetched_where_the_network_is_allowed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NETWORK_VARIABLE, "1")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", Hub(breaks=True))
    with pytest.raises(BadInput, match="could not be fetched from the Hugging Face hub: no connection"):
        look(lake)
    assert not (lake.raw / "texts").exists(), "half of the files is none"
    monkeypatch.setattr(huggingface_hub, "snapshot_download", Hub())
    done = look(lake)
    assert sorted(path.name for path in (lake.raw / "texts").iterdir()) == ["a.txt", "b.txt"]
    assert [path.name for path in lake.raw.iterdir() if path.name.endswith(".partial")] == []
    (event,) = done.get_asset_materialization_events()
    assert event.step_materialization_data.materialization.metadata["files"].value == 2


@pytest.mark.parametrize("name", ["/etc/passwd", "../elsewhere", "mine/../../elsewhere"])
def test_a_declaration_does_not_lead_out_of_the_raw_folder(name: str) -> None:
    with pytest.raises(BadInput, match="leads out of the lake's raw folder"):
        raw_assets(FromRaw(), "raw/benchmarks/mine", [name])
    with pytest.raises(BadInput, match="leads out"):
        raw_assets(FromRaw(source="raw/sample"), "raw/benchmarks/mine", [name])
