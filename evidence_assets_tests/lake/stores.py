"""Object stores for tests: a local S3 server, and a faulty proxy for it."""

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Thread

import pytest

from tools.faulty_proxy import FaultyProxy

_BUCKETS = count()


@contextmanager
def s3_server() -> Iterator[str]:
    """Address of an in-memory S3 server; skips the test without moto or obstore."""
    pytest.importorskip("obstore", reason="the extra `cloud` is not installed: pip install 'evidence-assets[cloud]'")
    reason = "no S3 server: pip install 'moto[server]' (it is in the extra `dev`)"
    server = pytest.importorskip("moto.server", reason=reason).ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    logger = logging.getLogger("werkzeug")
    level = logger.level
    logger.setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        logger.setLevel(level)


def new_bucket(server: str) -> str:
    """Address of a lake in a new bucket."""
    name = f"lakes-{next(_BUCKETS)}"
    urllib.request.urlopen(urllib.request.Request(f"{server}/{name}", method="PUT"), timeout=30).close()
    return f"s3://{name}/a/lake"


def s3_environment(server: str) -> dict[str, str]:
    """Environment variables that point S3 clients to a server."""
    return {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }


@contextmanager
def faulty_proxy(server: str) -> Iterator[FaultyProxy]:
    """Run a faulty proxy for a server."""
    with FaultyProxy(server) as door:
        thread = Thread(target=door.serve_forever, daemon=True)
        thread.start()
        yield door
        door.shutdown()
        thread.join()
