"""A model without a stated revision keeps the one that a lake first used."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.lake.store import Lake
from evidence_assets.models import in_use
from evidence_assets.profiles import ModelSettings


def test_the_first_revision_is_asked_for_once_and_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake.create(tmp_path / "lake", question_shards=1, corpus_shards=1)
    asked: list[str] = []
    commit = "0123"

    def hub(name: str, file: str) -> str:
        asked.append(name)
        return f"/hub/snapshots/{commit}/{file}"

    monkeypatch.setattr(in_use, "hf_hub_download", hub)
    settings = ModelSettings(name="some/model")
    assert in_use.pinned(lake, settings).revision == "0123"
    commit = "4567"  # the hub has another one since
    assert in_use.pinned(Lake(lake.root), settings).revision == "0123"
    assert in_use.pinned(lake, ModelSettings(name="some/other")).revision == "4567"
    assert asked == ["some/model", "some/other"]
    stated = ModelSettings(name="some/third", revision="v1")
    folder = ModelSettings(name=str(tmp_path))
    assert [in_use.pinned(lake, s) for s in (stated, folder)] == [stated, folder]


def test_a_hub_that_cannot_be_reached_pins_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake.create(tmp_path / "lake", question_shards=1, corpus_shards=1)

    def hub(name: str, file: str) -> str:
        raise OSError("no network")

    monkeypatch.setattr(in_use, "hf_hub_download", hub)
    with pytest.raises(ModelUnavailable, match=r"some/model.*no network"):
        in_use.pinned(lake, ModelSettings(name="some/model"))
    assert not (lake.cache / "revisions").exists()
