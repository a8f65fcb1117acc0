"""The web server: checks every request, serves the page, and runs a console for each viewer."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.waiting import within
from gpuconsole.web.auth import Guard, is_here, is_own
from gpuconsole.web.html import SCRIPT, headers, page

MOST_VIEWERS = 16
LEAVE_S = 5.0
"""How long a console may take to leave before it is ended."""
LARGEST_MESSAGE = 64 * 1024
"""Bytes that a browser may send at once: keys, or what is pasted."""
SIDES = (20, 500)
"""Fewest and most cells that a terminal may have, in both directions."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Viewer(AppService):
    """One console process, started with its arguments as they are and without a shell."""

    def __init__(self, words: Sequence[str], socket: web.WebSocketResponse) -> None:
        async def closed() -> None:
            await socket.close()

        super().__init__(
            "",
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=closed,
            download_manager=DownloadManager(),
        )
        self._words = tuple(words)

    async def _open_app_process(
        self, width: int = 80, height: int = 24
    ) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        environment = self._build_environment(width, height)
        # The browser has all colours, whatever the terminal that serves it has.
        environment.pop("NO_COLOR", None)
        environment["TEXTUAL_FPS"] = "30"
        self._process = await asyncio.create_subprocess_exec(
            *self._words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
        )
        assert self._process.stdin is not None
        self._stdin = self._process.stdin
        return self._process

    async def stop(self) -> None:
        """Ask the console to leave, and see that it does."""
        process, self._process = self._process, None
        if process is None:
            return
        await self.send_meta({"type": "quit"})
        with contextlib.suppress(asyncio.TimeoutError):
            await within(LEAVE_S, process.wait())
        if process.returncode is None:
            process.kill()
            await process.wait()
        if self._task is not None:
            await self._task


class ConsolePage:
    """What is served: a page, its script and fonts, and the terminals of the viewers."""

    def __init__(self, guard: Guard, viewer: Sequence[str]) -> None:
        """`viewer` is the command of a console, as a list of arguments."""
        self._guard = guard
        self._viewer = tuple(viewer)
        self._viewers = 0
        self._sockets: set[web.WebSocketResponse] = set()

    async def admit(self, guard: Guard) -> None:
        """Admit those who know another token from now on, and end what others have open."""
        self._guard = guard
        await asyncio.gather(*(socket.close() for socket in self._sockets))

    def application(self) -> web.Application:
        """Return the application."""
        application = web.Application(middlewares=[self._check])
        application.router.add_get("/", self._page)
        application.router.add_get("/page.js", self._script)
        application.router.add_get("/ws", self._terminal)
        application.router.add_static("/static", _static_folder())
        return application

    @web.middleware
    async def _check(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if not is_here(request.host):
            return _refusal(403, "This page is served on loopback only.", "")
        answer = await self._answered(request, handler)
        if not answer.prepared:
            answer.headers.update(headers(request.host))
        return answer

    async def _answered(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        guard = self._guard
        origin = request.headers.get("Origin")
        token = request.query.get("token")
        if origin is not None and not is_own(origin, request.host):
            return _refusal(403, "That request comes from another page.", request.host)
        if token is not None and request.path == "/":
            if not guard.knows(token):
                return _refusal(403, "That is no valid token, or it has ended.", request.host)
            welcome = web.Response(status=303, headers={"Location": "/"})
            welcome.set_cookie(
                guard.cookie_name, guard.cookie, httponly=True, samesite="Strict", path="/"
            )
            return welcome
        if not guard.admits(request.cookies.get(guard.cookie_name, "")):
            words = "Open the address that `gpuconsole serve` printed, with its token."
            return _refusal(401, words, request.host)
        try:
            return await handler(request)
        except web.HTTPException as refused:
            return _refusal(refused.status, refused.reason, request.host)

    async def _page(self, request: web.Request) -> web.Response:
        text = page(request.host, secure=request.scheme == "https")
        return web.Response(text=text, content_type="text/html")

    async def _script(self, request: web.Request) -> web.Response:
        return web.Response(text=SCRIPT, content_type="text/javascript")

    async def _terminal(self, request: web.Request) -> web.StreamResponse:
        if "Origin" not in request.headers:
            return _refusal(403, "A terminal is opened by the page alone.", request.host)
        if self._viewers >= MOST_VIEWERS:
            return _refusal(503, f"{MOST_VIEWERS} viewers are here already.", request.host)
        self._viewers += 1
        guard = self._guard
        socket = web.WebSocketResponse(heartbeat=15, max_msg_size=LARGEST_MESSAGE)
        self._sockets.add(socket)
        try:
            await socket.prepare(request)
            if guard is not self._guard:
                return socket
            viewer = Viewer(self._viewer, socket)
            width, height = (_side(request.query.get(name)) for name in ("width", "height"))
            await viewer.start(width, height)
            try:
                await _listen(socket, viewer)
            finally:
                await viewer.stop()
            return socket
        finally:
            self._sockets.discard(socket)
            self._viewers -= 1


async def _listen(socket: web.WebSocketResponse, viewer: Viewer) -> None:
    """Hand on what a browser sends; what is not understood is left out."""
    async for message in socket:
        if message.type is not WSMsgType.TEXT:
            continue
        with contextlib.suppress(ValueError, TypeError, KeyError, IndexError):
            match message.json():
                case ["stdin", str(typed)]:
                    await viewer.send_bytes(typed.encode())
                case ["resize", {"width": int(width), "height": int(height)}]:
                    await viewer.set_terminal_size(_side(width), _side(height))
                case ["ping", said]:
                    await socket.send_json(["pong", said])
                case ["focus", *_]:
                    await viewer.focus()
                case ["blur", *_]:
                    await viewer.blur()


@contextlib.asynccontextmanager
async def served(page: ConsolePage, port: int) -> AsyncIterator[int]:
    """Serve on loopback while entered; yields the port. Raises UsageError if it is taken."""
    runner = web.AppRunner(page.application(), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        try:
            await site.start()
        except OSError as error:
            raise UsageError(
                "Cannot serve there",
                msg(
                    "Port {port} of 127.0.0.1: {why}.", port=port, why=os.strerror(error.errno or 0)
                ),
                "Name another one with --port, or 0 for any.",
            ) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _refusal(status: int, words: str, host: str) -> web.Response:
    return web.Response(status=status, text=words + "\n", headers=headers(host) if host else None)


def _side(said: object) -> int:
    try:
        return max(SIDES[0], min(SIDES[1], int(str(said))))
    except ValueError:
        return 80


def _static_folder() -> Path:
    spec = find_spec("textual_serve")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "static"
