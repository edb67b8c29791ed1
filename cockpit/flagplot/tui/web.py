"""The cockpit in a browser: textual-serve, with a token before every page and every connection.

The token is the first part of each path: no cookie is set, since browsers send those to every port of a host.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import re
import secrets
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp_jinja2
import jinja2
from aiohttp import web
from textual_serve.server import Server

from flagplot_wire.errors import Refused

MOST = 8
"""Cockpits at once; each is a process of its own."""
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self' ws://{host}; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,128}")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Cockpits(Server):
    """Serves below `/TOKEN/`; everything else is refused, and so are pages of other places that try to connect."""

    def __init__(self, command: str, host: str, token: str) -> None:
        super().__init__(command, host)
        self.token = token
        self._open = 0

    def address(self, port: int) -> str:
        """What a person opens."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{port}/{self.token}/"

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        loader = jinja2.FileSystemLoader(Path(__file__).with_name("page"))
        aiohttp_jinja2.setup(app, loader=loader, autoescape=True)
        below = f"/{self.token}"
        app.add_routes(
            [
                web.get(below, self.handle_start),
                web.get(f"{below}/", self.handle_index, name="index"),
                web.get(f"{below}/ws", self.handle_websocket, name="websocket"),
                web.get("/download/{key}", self.handle_download, name="download"),
                web.static(f"{below}/static", self.statics_path, name="static"),
            ]
        )
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        first, _, rest = request.path.lstrip("/").partition("/")
        # The key of a download is as secret as the token: the page that holds the token learns it, nobody else.
        if first != "download" and not hmac.compare_digest(first.encode(), self.token.encode()):
            raise web.HTTPForbidden(text="Open the address that `flagplot web` printed: it holds the token.\n")
        if rest == "ws" and request.headers.get("Origin") not in (None, f"{request.scheme}://{request.host}"):
            raise web.HTTPForbidden(text="Only the cockpit's own page may connect.\n")
        response = await handler(request)
        if not response.prepared:
            response.headers.update({**HEADERS, "Content-Security-Policy": POLICY.format(host=request.host)})
        return response

    @aiohttp_jinja2.template("index.html")
    async def handle_index(self, request: web.Request) -> dict[str, Any]:
        """The page. Its addresses are those that the browser used, which may have come through a forwarded port."""
        size = request.query.get("fontsize", "")
        return {
            "static": f"/{self.token}/static",
            "socket": f"ws://{request.host}/{self.token}/ws",
            "font_size": int(size) if size.isdecimal() and 4 < int(size) < 100 else 16,
        }

    async def handle_start(self, request: web.Request) -> web.Response:
        """The address without its last slash."""
        raise web.HTTPFound(f"/{self.token}/")

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """A cockpit of its own for each page."""
        if self._open >= MOST:
            raise web.HTTPServiceUnavailable(text=f"{MOST} cockpits are open: close one\n")
        self._open += 1
        try:
            return await super().handle_websocket(request)
        finally:
            self._open -= 1


def token_of(path: Path | None) -> str:
    """A fresh token, or the one that a file keeps (made where it is not there, readable by its owner alone)."""
    fresh = secrets.token_urlsafe(32)
    if path is None:
        return fresh
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        kept = path.read_text().strip()
        if not _TOKEN.fullmatch(kept):
            raise Refused("usage", f"{path} holds no token: letters, digits, - and _, 32 at least") from None
        if path.stat().st_mode & 0o077:
            raise Refused("usage", f"others may read {path}", f"chmod 600 {shlex.quote(str(path))}") from None
        return kept
    except OSError as wrong:
        raise Refused("usage", f"{path} cannot be written: {wrong.strerror}") from wrong
    with os.fdopen(descriptor, "w") as file:
        file.write(fresh + "\n")
    return fresh


def serve(options: Mapping[str, str], host: str, port: int, token_file: Path | None) -> None:
    """Serve until Ctrl+C; `options` are those of the cockpits."""
    command = shlex.join([sys.executable, "-m", "flagplot.tui.in_browser", json.dumps(dict(options))])
    try:
        asyncio.run(_serve(command, host.strip("[]"), port, token_of(token_file)))
    except OSError as wrong:
        raise Refused("usage", f"cannot listen on {host}:{port}: {wrong.strerror or wrong}") from wrong


async def _serve(command: str, host: str, port: int, token: str) -> None:
    server = Cockpits(command, host, token)
    runner = web.AppRunner(await server._make_app(), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        # A free port is known only now.
        address = server.address(runner.addresses[0][1])
        print(f"The cockpit is at {address}\nWho has this address acts as you. Ctrl+C stops it.", flush=True)
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await stopped.wait()
    finally:
        await runner.cleanup()
