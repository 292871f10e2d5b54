"""The proxy that makes a real server busy."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from tools.real_faults import FaultyServing


class Echo(BaseHTTPRequestHandler):
    """Replies with the body of a request, or with an error to an empty one."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if body else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_refused_and_failed_requests_are_not_answered(upstream: str) -> None:
    proxy = FaultyServing(upstream, refuse_every=3)
    with proxy.running() as url:
        statuses = [httpx2.post(url, content=body).status_code for body in ("a", "b", "c", "c", "", "d", "a")]
    assert statuses == [200, 200, 503, 200, 500, 503, 200]
    assert proxy.answered == {b"a": 2, b"b": 1, b"c": 1}
