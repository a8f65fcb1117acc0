"""Every request is checked before anything is served; a viewer is a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

aiohttp = pytest.importorskip("aiohttp", reason="needs the extra `serve`")
pytest.importorskip("textual_serve", reason="needs the extra `serve`")

from gpuconsole.errors import UsageError  # noqa: E402
from gpuconsole.web.auth import Guard  # noqa: E402
from gpuconsole.web.server import ConsolePage, served  # noqa: E402
from tests.waiting import DEADLINE_S  # noqa: E402

ECHO = (
    sys.executable, "-c",
    "import sys; o=sys.stdout.buffer; o.write(b'__GANGLION__\\n');"
    "say=lambda d: (o.write(b'D'+len(d).to_bytes(4,'big')+d), o.flush());"
    "say(' '.join(sys.argv[1:]).encode()); i=sys.stdin.buffer\n"
    "while True:\n"
    " kind=i.read(1)\n"
    " if not kind: break\n"
    " data=i.read(int.from_bytes(i.read(4),'big'))\n"
    " say(kind+b':'+data)\n"
    " if b'quit' in data: break\n",
    "it's; $HOME `x`",
)  # fmt: skip
"""A viewer that says its argument, then all that it is sent."""


@dataclass
class Site:
    guard: Guard
    page: ConsolePage
    port: int
    client: aiohttp.ClientSession

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    @property
    def cookies(self) -> dict[str, str]:
        return {"Cookie": f"{self.guard.cookie_name}={self.guard.cookie}"}

    @property
    def origin(self) -> dict[str, str]:
        return {"Origin": f"http://127.0.0.1:{self.port}"}


@asynccontextmanager
async def site(ended: Callable[[], bool] = lambda: False) -> AsyncIterator[Site]:
    guard = Guard("the-token", ended)
    page = ConsolePage(guard, ECHO)
    jar = aiohttp.DummyCookieJar()
    async with served(page, 0) as port, aiohttp.ClientSession(cookie_jar=jar) as client:
        yield Site(guard, page, port, client)


@pytest.mark.parametrize("path", ["/", "/ws", "/static/js/textual.js", "/page.js", "/nothing"])
async def test_nothing_is_served_without_the_cookie(path: str) -> None:
    async with site() as here:
        answer = await here.client.get(here.url(path))
        assert answer.status == 401
        assert "token" in await answer.text()


async def test_the_token_gives_a_cookie_and_leaves_the_address() -> None:
    async with site() as here:
        wrong = await here.client.get(here.url("/?token=the-toke"))
        assert wrong.status == 403
        assert not wrong.cookies
        right = await here.client.get(here.url("/?token=the-token"), allow_redirects=False)
        assert (right.status, right.headers["Location"]) == (303, "/")
        cookie = right.cookies[here.guard.cookie_name]
        assert cookie["httponly"]
        assert cookie["samesite"] == "Strict"
        assert "the-token" not in cookie.value
        page = await here.client.get(here.url(), headers=here.cookies)
        assert page.status == 200
        assert "ws://127.0.0.1" in await page.text()
        assert page.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]


async def test_other_names_and_other_pages_are_refused() -> None:
    async with site() as here:
        for headers in (
            {"Host": "evil.example"},
            {"Host": f"evil.example:{here.port}"},
            {"Host": "127.0.0.2"},
            {"Host": f"evil.example@127.0.0.1:{here.port}"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": f"http://localhost:{here.port}"},
        ):
            for path in ("/", "/ws", "/?token=the-token"):
                answer = await here.client.get(here.url(path), headers=here.cookies | headers)
                assert answer.status == 403, (headers, path)


async def test_folders_are_not_listed_and_nothing_is_posted() -> None:
    async with site() as here:
        for path in ("/static/", "/static/../server.py", "/static/%2e%2e/server.py", "/download/x"):
            answer = await here.client.get(here.url(path), headers=here.cookies)
            assert answer.status in (403, 404), path
        answer = await here.client.post(here.url(), headers=here.cookies)
        assert answer.status == 405


async def test_a_terminal_needs_cookie_and_origin() -> None:
    async with site() as here:
        for headers in ({}, here.cookies, here.origin, here.cookies | {"Origin": "http://evil"}):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await here.client.ws_connect(here.url("/ws"), headers=headers)
            assert refused.value.status in (401, 403)


async def test_a_terminal_is_a_process_that_gets_keys_and_no_shell() -> None:
    async with site() as here:
        headers = here.cookies | here.origin
        link = await here.client.ws_connect(here.url("/ws?width=9999&height=x"), headers=headers)
        assert await said(link) == b"it's; $HOME `x`"
        for nonsense in ("{", "[]", '["stdin"]', '["stdin", 3]', '["resize", {"width": "a"}]'):
            await link.send_str(nonsense)
        await link.send_json(["stdin", "m"])
        assert await said(link) == b"D:m"
        await link.send_json(["resize", {"width": 100000, "height": 1}])
        assert b'"width": 500, "height": 20' in await said(link)
        await link.send_json(["ping", "1"])
        answer = await asyncio.wait_for(link.receive_json(), DEADLINE_S)
        assert answer == ["pong", "1"]
        await link.close()


async def test_a_token_that_has_ended_opens_nothing() -> None:
    over = False
    async with site(lambda: over) as here:
        answer = await here.client.get(here.url(), headers=here.cookies)
        assert answer.status == 200
        over = True
        for path, status in (("/", 401), ("/page.js", 401), ("/?token=the-token", 403)):
            answer = await here.client.get(
                here.url(path), headers=here.cookies, allow_redirects=False
            )
            assert answer.status == status
            assert not answer.cookies
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await here.client.ws_connect(here.url("/ws"), headers=here.cookies | here.origin)


async def test_an_open_terminal_ends_with_its_token() -> None:
    async with site() as here:
        headers = here.cookies | here.origin
        link = await here.client.ws_connect(here.url("/ws"), headers=headers)
        await said(link)
        await here.page.admit(Guard("another-token"))
        closed = await asyncio.wait_for(link.receive(), DEADLINE_S)
        assert closed.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        answer = await here.client.get(here.url(), headers=here.cookies)
        assert answer.status == 401
        answer = await here.client.get(here.url("/?token=another-token"), allow_redirects=False)
        assert answer.status == 303


async def said(link: aiohttp.ClientWebSocketResponse) -> bytes:
    return await asyncio.wait_for(link.receive_bytes(), DEADLINE_S)


async def test_a_port_that_is_taken_is_told() -> None:
    async with site() as here:
        with pytest.raises(UsageError, match="already in use"):
            async with served(here.page, here.port):
                pass
