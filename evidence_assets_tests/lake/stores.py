"""Object stores for tests: a local S3 server, and a faulty proxy for it."""

import http.client
import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from urllib.parse import urlsplit

import pytest

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


class FaultyProxy(ThreadingHTTPServer):
    """A proxy that forwards requests to a server, except the next ones, which fail as ``failures`` lists.

    ``503`` replies with this status, ``reset`` closes the connection, ``cut`` closes it after half of the body.
    """

    daemon_threads = True

    def __init__(self, server: str) -> None:
        super().__init__(("127.0.0.1", 0), _ProxyHandler)
        self.server, self.failures, self.failed = urlsplit(server), list[str](), 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _ProxyHandler(BaseHTTPRequestHandler):
    server: FaultyProxy

    def handle_one_request(self) -> None:
        self.close_connection = True
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            return
        failure = self.server.failures.pop(0) if self.server.failures else ""
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length // 2 if failure == "cut" else length)
        if failure:
            self.server.failed += 1
            if failure == "503":
                self.wfile.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        upstream = http.client.HTTPConnection(str(self.server.server.hostname), self.server.server.port, timeout=60)
        upstream.request(self.command, self.path, body, dict(self.headers))
        reply = upstream.getresponse()
        content = reply.read()
        lines = [f"HTTP/1.1 {reply.status} {reply.reason}"]
        lines += [f"{k}: {v}" for k, v in reply.headers.items() if k.lower() not in ("connection", "transfer-encoding")]
        self.wfile.write(("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode() + content)
        upstream.close()


@contextmanager
def faulty_proxy(server: str) -> Iterator[FaultyProxy]:
    """Run a faulty proxy for a server."""
    with FaultyProxy(server) as door:
        thread = Thread(target=door.serve_forever, daemon=True)
        thread.start()
        yield door
        door.shutdown()
        thread.join()
