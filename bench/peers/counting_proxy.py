"""A proxy of a model server that counts its calls and tokens, the same for all clients."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

CALLS, READ, WRITTEN = "calls", "tokens read", "tokens written"
_TIMEOUT = 1800
"""Longest wait for a reply, in seconds: another program may keep the server busy."""


class CountingProxy(ThreadingHTTPServer):
    """Forwards requests to a server one after the other, and adds up the usage that its replies state."""

    daemon_threads = True

    def __init__(self, server: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(server)
        self.usage: Counter[str] = Counter()
        self.turn = threading.Lock()

    @property
    def address(self) -> str:
        """The server's address at this proxy."""
        return f"http://127.0.0.1:{self.server_address[1]}{self.upstream.path}"

    def count(self, reply: bytes) -> None:
        """Add the usage of a reply; a list of models, or an error, has none."""
        with suppress(ValueError, KeyError, TypeError):
            usage = json.loads(reply)["usage"]
            self.usage.update({CALLS: 1, READ: usage["prompt_tokens"], WRITTEN: usage["completion_tokens"]})


class _Handler(BaseHTTPRequestHandler):
    server: CountingProxy

    def do_GET(self) -> None:
        self._forward()

    def do_POST(self) -> None:
        self._forward()

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.turn:
            upstream = self.server.upstream
            connection = http.client.HTTPConnection(str(upstream.hostname), upstream.port, timeout=_TIMEOUT)
            connection.request(self.command, self.path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            content = reply.read()
            connection.close()
            self.server.count(content)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.headers.get("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
