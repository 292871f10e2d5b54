"""The explorer as a web application: read-only, on this machine alone, nothing asked of any other."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from evidence_assets.explorer.open_lake import OpenLake
from evidence_assets.explorer.pages import STATIC
from evidence_assets.explorer.site import POLICY, Site
from evidence_assets.lake.errors import BadInput

PORT = 3001
DAGSTER_VARIABLE = "EVIDENCE_DAGSTER"
"""Where the Dagster UI listens, for links to assets and runs."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def application(root: Path) -> Starlette:
    """The application over a lake. Only requests that name this machine are answered, so that no other site's page can
    ask through a name of its own."""
    site = Site(OpenLake(root, os.environ.get(DAGSTER_VARIABLE, "http://127.0.0.1:3000")))

    def page(request: Request) -> Response:
        reply = site.reply(request.scope["raw_path"].decode("latin-1").partition("?")[0], dict(request.query_params))
        if reply.location:
            return RedirectResponse(reply.location, 302, HEADERS)
        return HTMLResponse(reply.html, reply.status, HEADERS)

    return Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/{path:path}", page, methods=["GET"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
    )


def serve(
    root: Path, path: str = "/", port: int = 0, opened_at: Callable[[str], object] = lambda address: None
) -> None:
    """Serve until stopped, and say where; on ``port``, or on the first free one from :data:`PORT` on.

    ``opened_at`` is called with the address as soon as it can be asked.
    """
    import uvicorn

    app = application(root)
    listening = _listen(port)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}{path}"
    listening.listen()  # from now on a browser may ask, and waits
    opened_at(address)
    print(f"The explorer is at {address}; ctrl-C ends it.", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])


def _listen(port: int) -> socket.socket:
    for candidate in [port] if port else range(PORT, PORT + 20):
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", candidate))
        except OSError:
            listening.close()
            continue
        return listening
    raise BadInput(f"port {port or f'{PORT} to {PORT + 19}'} is taken on this machine: name a free one by --port")
