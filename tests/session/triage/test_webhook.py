"""Incidents posted to a web address: on loopback, with all that can go wrong there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.triage import webhook
from gpuconsole.session.triage.webhook import WAITING, Webhook
from tests.waiting import until


@dataclass
class Receiver:
    """A server that keeps what it is sent."""

    url: str
    got: list[tuple[dict[str, str], Any]] = field(default_factory=list)
    status: int = 200
    location: str = ""
    other: list[str] = field(default_factory=list)
    """Methods and paths of anything but a post to the right place."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    kept = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/hook":
                kept.got.append((dict(self.headers), json.loads(body)))
            else:
                kept.other.append(f"POST {self.path}")
            self.send_response(kept.status)
            if kept.location:
                self.send_header("Location", kept.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            kept.other.append(f"GET {self.path}")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield kept
    server.shutdown()
    server.server_close()
    thread.join()


@contextlib.asynccontextmanager
async def running(hook: Webhook) -> Any:
    task = asyncio.ensure_future(hook.run())
    yield
    assert not task.done(), task
    await cancel_all([task])


async def test_documents_arrive_in_order_as_json(receiver: Receiver) -> None:
    reported: list[str] = []
    hook = Webhook(receiver.url, reported.append)
    async with running(hook):
        for number in range(3):
            hook.post({"event": "opened", "number": number, "title": "温度 °C"})
        await until(lambda: len(receiver.got) == 3)
    assert [body["number"] for _, body in receiver.got] == [0, 1, 2]
    headers, body = receiver.got[0]
    assert body["title"] == "温度 °C"
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"] == "gpuconsole"
    assert reported == []


async def test_a_failure_is_told_once_until_it_works_again(receiver: Receiver) -> None:
    reported: list[str] = []
    hook = Webhook(receiver.url, reported.append)
    async with running(hook):
        receiver.status = 500
        hook.post({"n": 1})
        hook.post({"n": 2})
        await until(lambda: len(receiver.got) == 2)
        receiver.status = 204
        hook.post({"n": 3})
        await until(lambda: len(receiver.got) == 3)
        receiver.status = 403
        hook.post({"n": 4})
        await until(lambda: len(reported) == 2)
    assert "answered 500" in reported[0]
    assert "answered 403" in reported[1]


async def test_a_redirect_leads_nowhere(receiver: Receiver) -> None:
    reported: list[str] = []
    receiver.status, receiver.location = 302, receiver.url.replace("/hook", "/elsewhere")
    hook = Webhook(receiver.url, reported.append)
    async with running(hook):
        hook.post({"n": 1})
        await until(lambda: reported)
    assert receiver.other == []
    assert "answered 302" in reported[0]


async def test_a_receiver_that_is_not_there_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    reported: list[str] = []
    hook = Webhook(f"http://127.0.0.1:{port}/", reported.append)
    async with running(hook):
        hook.post({"n": 1})
        await until(lambda: reported)
    assert f"127.0.0.1:{port}" in reported[0]
    assert "refused" in reported[0].lower()


async def test_a_receiver_that_never_answers_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT_S", 0.2)
    reported: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        hook = Webhook(f"http://127.0.0.1:{deaf.getsockname()[1]}/", reported.append)
        async with running(hook):
            # No turn of the loop between these: nothing that is posted waits for the receiver.
            for number in range(WAITING * 3):
                hook.post({"n": number})
            assert not reported
            await until(lambda: reported)
    assert "did not answer" in reported[0]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://", "http:///x"])
async def test_what_is_no_web_address_is_never_opened(url: str) -> None:
    reported: list[str] = []
    hook = Webhook(url, reported.append)
    async with running(hook):
        hook.post({"n": 1})
        await until(lambda: reported)


async def test_without_an_address_nothing_waits() -> None:
    hook = Webhook("", lambda words: pytest.fail(words))
    hook.post({"n": 1})
    async with running(hook):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://ada:hidden-pw@127.0.0.1:1/services/T0/hidden-token?key=hidden-key", "127.0.0.1:1"),
        ("http://127.0.0.1:1/hidden token/x", "127.0.0.1:1"),
        ("http://[::1/hidden-token", "its address"),
        ("http://127.0.0.1:hidden/hidden-token", "its address"),
        ("http:///hidden-token", "its address"),
    ],
)
async def test_of_an_address_that_fails_only_the_host_is_named(
    url: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    reported: list[str] = []
    hook = Webhook(url, reported.append)
    async with running(hook):
        hook.post({"n": 1})
        await until(lambda: reported)
    assert reported[0].startswith(f"Incidents cannot be posted to {host}: ")
    assert "hidden" not in reported[0]
