"""A server that fails as it is told to, for the tests of all that ask one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evidence_assets_tests.models.servers import FaultyServer, hurried, running


@pytest.fixture(scope="module")
def _running() -> Iterator[FaultyServer]:
    server = FaultyServer()
    with hurried(), running(server.app) as server.url:
        yield server


@pytest.fixture
def server(_running: FaultyServer) -> FaultyServer:
    _running.reset()
    return _running
