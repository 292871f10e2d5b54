"""Pickled dictionaries as JSON: the same data, numpy's texts included, and nothing of them run."""

import json
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from evidence_assets.lake.errors import BadInput
from tools.convert.__main__ import app
from tools.convert.stark_pickles import _NUMPY_NAMES, convert_folder


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> Any:
        return self._call


class State(Call):
    """Pickles as a call whose result gets a state."""

    def __init__(self, function: object, arguments: tuple[object, ...], state: object) -> None:
        self._call = (function, arguments, state)


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_texts_of_numpy_are_texts(tmp_path: Path, protocol: int) -> None:
    """As AMAZON's brands, categories and colours are."""
    tags = [np.str_("𝛿"), np.str_("")]
    pickled = pickle.dumps({0: {"brand_name": np.str_("Äpfel & Co"), "n": 1}, 1: {"tags": tags}}, protocol)
    for content in (pickled, pickled.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")):
        if content is pickled or protocol == 3:  # later protocols state the length of a name
            (tmp_path / "node_info.pkl").write_bytes(content)
            convert_folder(tmp_path)
            rows = [json.loads(line) for line in (tmp_path / "node_info.jsonl").read_text().splitlines()]
            assert rows == [
                {"node": 0, "info": {"brand_name": "Äpfel & Co", "n": 1}},
                {"node": 1, "info": {"tags": ["𝛿", ""]}},
            ]
            (tmp_path / "node_info.jsonl").unlink()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Path("x"), "holds more than plain data"),
        (Call(os.system, "true"), "holds more than plain data"),
        (Call(subprocess.run, ["true"]), "holds more than plain data"),
        (np.dtype, "no whole pickle of a dictionary|holds something else"),
        (np.float64(1.5), "not only texts"),
        (np.array(["a", "b"]), "holds more than plain data"),
        (np.array([object()], dtype=object), "holds more than plain data"),
        (Call(np.dtype, "O"), "not only texts"),
        (Call(np.dtype, [("a", "U1")]), "no whole pickle of a dictionary"),
        (State(np.dtype, ("U1",), (3, "|")), "byte order"),
        (Call(np.dtype, "U1"), "holds something else than texts"),
    ],
    ids=lambda parameter: parameter if isinstance(parameter, str) else type(parameter).__name__,
)
def test_nothing_else_in_a_pickle_is_built_or_run(tmp_path: Path, value: object, words: str) -> None:
    (tmp_path / "node_info.pkl").write_bytes(pickle.dumps({0: value}))
    with pytest.raises(BadInput, match=words):
        convert_folder(tmp_path)
    assert not (tmp_path / "node_info.jsonl").exists()


def test_a_pickle_cannot_change_what_reads_it(tmp_path: Path) -> None:
    """A state is set on any object, such as the reader itself: a slot of it would be shared by all files."""
    for state in ((None, {"__call__": 1}), {"x": 1}):
        hostile = b"\x80\x04cnumpy\ndtype\n" + pickle.dumps(state, 4)[2:-1] + b"b."
        (tmp_path / "node_info.pkl").write_bytes(hostile)
        with pytest.raises(BadInput, match="no whole pickle of a dictionary"):
            convert_folder(tmp_path)
    assert not any(hasattr(reader, "__dict__") for reader in _NUMPY_NAMES.values())


def test_the_command_states_the_memory(tmp_path: Path) -> None:
    with (tmp_path / "node_info.pkl").open("wb") as sparse:
        sparse.truncate(2_000_000_000)
    result = CliRunner().invoke(app, ["stark", str(tmp_path)])
    assert "node_info.pkl has 2.0 GB and is read whole: that takes 5.0 to 16.0 GB of memory" in result.output
