"""The explorer's pages by address, and the read-only server that sends them."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import duckdb
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from evidence_assets.explorer import LOCALHOST
from evidence_assets.explorer.answer_view import describe_answer
from evidence_assets.explorer.lake_reader import LakeReader, PageReader
from evidence_assets.explorer.layers import draw_answer
from evidence_assets.explorer.pages import STATIC, NotFound, Page, link, template_environment
from evidence_assets.explorer.pages.home import home, scores
from evidence_assets.explorer.pages.questions import question, questions, search
from evidence_assets.explorer.pages.relation import relation
from evidence_assets.explorer.pages.source import source
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.lineage import UnknownId

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""Content-Security-Policy of every page."""
PageBuilder = Callable[[PageReader, Mapping[str, str]], Page]
PAGES: dict[str, PageBuilder] = {"": home, "scores": scores, "questions": questions, "search": search}
"""Pages of the lake as a whole."""


@dataclass(frozen=True)
class Reply:
    """Reply to an address: HTML, or a redirect."""

    status: int
    html: str = ""
    location: str = ""


class Site:
    """Renders the pages of a lake; ``static`` pages are for export and have no forms."""

    def __init__(self, lake_reader: LakeReader, *, static: bool = False) -> None:
        self.lake_reader = lake_reader
        self._templates = template_environment(in_words=describe_answer, draw_answer=draw_answer, static=static)

    def reply(self, path: str, query: Mapping[str, str]) -> Reply:
        """The page at an address; unknown addresses return 404."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        with self.lake_reader.reader() as reader:
            try:
                if parts[0] == "answer" and len(parts) == 2:
                    return Reply(302, location=self._answer_address(reader, parts[1]))
                page = self._page(parts)(reader, query)
                status = 200
            except (NotFound, UnknownId) as missing:
                page, status = Page("message.html", "Not found", {"message": str(missing)}), 404
            except duckdb.Error as error:
                page, status = Page("message.html", "The lake could not be read", {"message": str(error)}), 500
            template = self._templates.get_template(page.template)
            html = template.render(**page.values, title=page.title, path=path, query=dict(query))
        return Reply(status, html)

    def _page(self, parts: list[str]) -> PageBuilder:
        match parts:
            case [name] if name in PAGES:
                return PAGES[name]
            case ["question", identifier]:
                return lambda reader, query: question(reader, query, identifier)
            case ["relation", name]:
                return lambda reader, query: relation(reader, query, name)
            case ["source", kind, *rest] if rest:
                return lambda reader, query: source(reader, query, kind, "/".join(rest))
        raise NotFound(f"The explorer has no page /{'/'.join(parts)}.")

    def _answer_address(self, reader: PageReader, identifier: str) -> str:
        rows = reader.answers(
            "SELECT question_id, variant FROM answers WHERE starts_with(prediction_id, $id) LIMIT 2", id=identifier
        )
        if len(rows) != 1:
            raise NotFound(
                f"{'Several predictions have' if rows else 'No prediction has'} an id that starts with {identifier!r}."
            )
        return link("question", rows[0]["question_id"], variant=rows[0]["variant"])


PORT = 3001
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def application(root: Path) -> Starlette:
    """The application over a lake; it accepts only requests to localhost, so other sites cannot read it."""
    site = Site(LakeReader(root))

    def page(request: Request) -> Response:
        reply = site.reply(request.scope["raw_path"].decode("latin-1").partition("?")[0], dict(request.query_params))
        if reply.location:
            return RedirectResponse(reply.location, 302, HEADERS)
        return HTMLResponse(reply.html, reply.status, HEADERS)

    return Starlette(
        routes=[Mount("/static", StaticFiles(directory=STATIC)), Route("/{path:path}", page, methods=["GET"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[LOCALHOST, "localhost"])],
    )


def serve(root: Path, *, host: str = LOCALHOST, port: int = 0) -> None:
    """Print the address and serve until stopped."""
    import uvicorn

    app = application(root)
    server = listen(port, host)
    address = f"http://{LOCALHOST}:{server.getsockname()[1]}/"
    print(f"The explorer is at {address}. Press Ctrl-C to stop it.", file=sys.stderr)
    if host != LOCALHOST:
        print(f"It listens on {host}: anyone who reaches the port can read the lake.", file=sys.stderr)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[server])


def listen(port: int = 0, host: str = LOCALHOST) -> socket.socket:
    """A socket on ``host`` at ``port``, or at the first free port from :data:`PORT`."""
    for candidate in [port] if port else range(PORT, PORT + 20):
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
        except OSError as error:
            listening.close()
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                continue
            message = f"cannot listen on {host!r} ({error}): use {LOCALHOST}, or 0.0.0.0 in a container"
            raise BadInput(message) from error
        listening.listen()
        return listening
    raise BadInput(f"port {port or f'{PORT} to {PORT + 19}'} is in use: choose a free port with --port")
