"""Pickled dictionaries as JSON: the same data, and nothing of them run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.errors import BadInput
from tools.convert.stark_pickles import convert_folder, to_json

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text('aé\n"', max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(st.integers(0, 99), PLAIN, max_size=9), st.sampled_from([2, 3, 4, 5]))
@settings(max_examples=60, deadline=None)
def test_plain_data_are_converted_as_json_writes_them(
    tmp_path_factory: pytest.TempPathFactory, data: Any, protocol: int
) -> None:
    folder = tmp_path_factory.mktemp("pickles")
    (folder / "a.pkl").write_bytes(pickle.dumps(data, protocol))
    assert to_json(folder / "a.pkl", folder / "a.json") == len(data)
    assert json.loads((folder / "a.json").read_text()) == json.loads(json.dumps(data))


def test_nothing_in_a_pickle_is_run(tmp_path: Path) -> None:
    (tmp_path / "node_info.pkl").write_bytes(pickle.dumps({0: Path("x")}))
    with pytest.raises(BadInput, match="holds more than plain data"):
        convert_folder(tmp_path)
    assert not (tmp_path / "node_info.json").exists()
