"""A client of the explorer over the fixture ``lake`` of each file."""

import pytest
from starlette.testclient import TestClient

from evidence_assets.explorer.site import application
from evidence_assets.lake.store import Lake


@pytest.fixture
def client(lake: Lake) -> TestClient:
    return TestClient(application(lake.root), base_url="http://127.0.0.1", follow_redirects=False)
