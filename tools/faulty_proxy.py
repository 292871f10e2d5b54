"""A proxy of an HTTP server, such as an object store, that lets single requests fail."""

import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class FaultyProxy(ThreadingHTTPServer):
    """A proxy that forwards requests to a server, except the next ones, which fail as ``failures`` lists.

    ``503`` replies with this status, ``reset`` closes the connection, ``cut`` closes it after half of the body.
    """

    daemon_threads = True

    def __init__(self, server: str) -> None:
        super().__init__(("127.0.0.1", 0), _ProxyHandler)
        self.server = urlsplit(server)
        self.failures: list[str] = []
        self.failed = 0

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
