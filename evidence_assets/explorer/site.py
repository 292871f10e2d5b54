"""The explorer's pages by address, and the read-only server that sends them."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import duckdb
from markupsafe import escape
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from evidence_assets.explorer import LOCALHOST, PORT
from evidence_assets.explorer.answer_view import describe_answer
from evidence_assets.explorer.ask_box import MAX_BODY, AnswerFunction, AskBox, AskForm, BoxBusy, Outcome, Refused
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.layers import draw_answer
from evidence_assets.explorer.pages import STATIC, NotFound, Page, Query, link, template_environment
from evidence_assets.explorer.pages.asked import MARKER, ask_page, asked_page, asking_page, outcome_page
from evidence_assets.explorer.pages.documents import documents
from evidence_assets.explorer.pages.home import home, scores
from evidence_assets.explorer.pages.questions import question, questions, search
from evidence_assets.explorer.pages.relation import relation
from evidence_assets.explorer.pages.runs import compare, runs
from evidence_assets.explorer.pages.source import source
from evidence_assets.lake.atomic import mirror_of
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.lineage import UnknownId

_OWN_FILES = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'"
POLICY = f"{_OWN_FILES}; form-action 'self'; frame-ancestors 'none'"
"""Content-Security-Policy of every page of the server."""
STATIC_POLICY = f"{_OWN_FILES}; form-action 'none'"
"""That of exported pages, which have no forms; browsers ignore ``frame-ancestors`` within a page."""
PAGES: dict[str, Callable[[LakeReader, Query], Page]] = {
    "": home,
    "scores": scores,
    "questions": questions,
    "documents": documents,
    "runs": runs,
    "compare": compare,
    "search": search,
}
"""Pages of the lake as a whole."""


class Site:
    """Renders the pages of a lake; ``static`` pages need no server and have no forms.

    With a ``box``, readers may ask questions of their own.
    """

    def __init__(self, lake_reader: LakeReader, *, static: bool = False, box: AskBox | None = None) -> None:
        self.lake_reader = lake_reader
        self.box = box
        self._templates = template_environment(
            in_words=describe_answer,
            draw_answer=draw_answer,
            static_policy=STATIC_POLICY if static else "",
            has_box=box is not None,
        )

    def reply(self, path: str, query: Query) -> tuple[int, str]:
        """Status and HTML of the page at an address; unknown addresses return 404."""
        try:
            with self.lake_reader.opened() as reader:
                return self.reply_from(reader, path, query)
        except duckdb.Error as error:
            page = Page("message.html", "The lake could not be read", {"message": str(error)})
            return 500, self._render(page, [], {})

    def reply_from(self, reader: LakeReader, path: str, query: Query) -> tuple[int, str]:
        """The reply from an opened reader."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        try:
            return 200, self._render(self._page(reader, query, parts), parts, query)
        except (NotFound, UnknownId) as missing:
            return 404, self._render(Page("message.html", "Not found", {"message": str(missing)}), parts, query)

    def ask_again(self, box: AskBox, form: AskForm, error: str) -> str:
        """The page of the box with a question as it was typed, and why it was not answered."""
        return self._render(ask_page(box, form, error), ["ask"], {})

    def stream(self, box: AskBox, form: AskForm, messages: Iterator[str | Outcome]) -> Iterator[str]:
        """The page of a question while it is answered: its progress as it comes, then the outcome."""
        head, middle, tail = self._render(asking_page(form), ["ask"], {}).split(MARKER)
        yield head
        for message in messages:
            if isinstance(message, str):
                yield f"<li>{escape(message)}</li>\n"
                continue
            with self.lake_reader.opened() as reader:
                yield middle + self._render(outcome_page(reader, box, message), ["ask"], {})
        yield tail

    def _render(self, page: Page, parts: list[str], query: Query) -> str:
        template = self._templates.get_template(page.template)
        return template.render(**page.values, title=page.title, here=partial(link, *parts), query=dict(query))

    def _page(self, reader: LakeReader, query: Query, parts: list[str]) -> Page:
        match parts:
            case [name] if name in PAGES:
                return PAGES[name](reader, query)
            case ["question", identifier]:
                return question(reader, query, identifier)
            case ["ask"] if self.box:
                return ask_page(self.box, AskForm(query.get("text", ""), "", query.get("source", "")))
            case ["asked", identifier] if self.box:
                return asked_page(reader, self.box, identifier)
            case ["relation", name]:
                return relation(reader, query, name)
            case ["source", kind, *rest] if rest:
                return source(reader, query, kind, "/".join(rest))
        raise NotFound(f"The explorer has no page /{'/'.join(parts)}.")


HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def application(root: Path, answer: AnswerFunction | None = None) -> Starlette:
    """The application over a lake; it accepts only requests to localhost, so other sites cannot read it.

    With ``answer``, it has a box to ask.
    """
    box = AskBox(root, answer) if answer else None
    site = Site(LakeReader(root), box=box)

    def page(request: Request) -> Response:
        path = request.scope["raw_path"].decode("latin-1").partition("?")[0]
        status, html = site.reply(path, dict(request.query_params))
        return HTMLResponse(html, status, HEADERS)

    @asynccontextmanager
    async def closing_box(_: Starlette) -> AsyncIterator[None]:
        yield
        if box:
            box.close()

    ask_routes = [Route("/ask", partial(_ask, site, box), methods=["POST"])] if box else []
    return Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=STATIC)),
            *ask_routes,
            Route("/{path:path}", page, methods=["GET"]),
        ],
        lifespan=closing_box,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[LOCALHOST, "localhost"])],
    )


REFUSALS = {Refused: 403, BoxBusy: 409}
"""Status of the reply to a question that is not answered; others have 400."""


async def _ask(site: Site, box: AskBox, request: Request) -> Response:
    """Answer a posted question: a page that grows with the progress, or one that says why not."""
    form = AskForm()
    try:
        form = box.read_form(request.headers, await _read_body(request))
        messages = await run_in_threadpool(box.ask, form)
    except (Refused, BoxBusy, BadInput, StaleInput) as error:
        html = await run_in_threadpool(site.ask_again, box, form, str(error))
        return HTMLResponse(html, REFUSALS.get(type(error), 400), HEADERS)
    return StreamingResponse(site.stream(box, form, messages), 200, HEADERS, "text/html")


async def _read_body(request: Request) -> bytes:
    """The body of a request; raises BadInput if it is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise BadInput(f"the question and its options have over {MAX_BODY:,} bytes: shorten them")
    return body


def can_ask(root: Path, host: str) -> bool:
    """Whether questions may be asked: on this machine only, and of a lake on its disk."""
    return host == LOCALHOST and mirror_of(root) is None


def serve(root: Path, *, host: str = LOCALHOST, port: int = PORT, answer: AnswerFunction | None = None) -> None:
    """Print the address and serve until stopped; only this machine may ask."""
    import uvicorn

    app = application(root, answer if can_ask(root, host) else None)
    server = listen(port, host)
    address = f"http://{LOCALHOST}:{server.getsockname()[1]}/"
    print(f"The explorer is at {address}. Press Ctrl-C to stop it.", file=sys.stderr)
    if host != LOCALHOST:
        print(f"It listens on {host}: anyone who reaches the port can read the lake.", file=sys.stderr)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[server])


def listen(port: int, host: str = LOCALHOST) -> socket.socket:
    """A socket on one address."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        message = f"cannot listen on {host}:{port} ({error.strerror}): choose a free --port, or another --host"
        raise BadInput(message) from error
