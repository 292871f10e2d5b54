"""A server that fails as it is told to, for the tests of all that ask one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evidence_assets_tests.models.servers import FaultyServer, hurried, running


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[FaultyServer, str]]:
    server = FaultyServer()
    with hurried(), running(server.app) as url:
        yield server, url


@pytest.fixture
def server(shared: tuple[FaultyServer, str]) -> FaultyServer:
    shared[0].reset()
    return shared[0]
