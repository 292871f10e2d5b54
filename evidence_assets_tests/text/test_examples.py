"""The examples in docstrings pass."""

from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

from evidence_assets import graphs, reasoning, retrieval, systems, text, transport

MODULES = [
    module.name
    for package in (graphs, reasoning, retrieval, systems, text, transport)
    for module in walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_pass(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0
