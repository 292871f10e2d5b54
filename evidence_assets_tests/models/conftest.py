"""A server that fails on demand, for tests of its clients."""

from collections.abc import Iterator

import pytest

from evidence_assets_tests.models.servers import FaultyServer, running, short_pauses


@pytest.fixture(scope="module")
def _running() -> Iterator[FaultyServer]:
    server = FaultyServer()
    with short_pauses(), running(server.app) as server.url:
        yield server


@pytest.fixture
def server(_running: FaultyServer) -> FaultyServer:
    _running.reset()
    return _running
