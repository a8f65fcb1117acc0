"""Chromium without a window, driven through its DevTools protocol: open, press keys, read along.

The terminal is drawn on a canvas, so what it shows is read from the frames of its WebSocket.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.real.rig.patience import PATIENCE_S

CHROMIUM = shutil.which("chromium")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_KEYS = {"Enter": 13, "Escape": 27}


@dataclass
class Page:
    """A tab."""

    link: aiohttp.ClientWebSocketResponse
    seen: str = ""
    """What the terminal was sent so far, without escape sequences."""
    asked: list[str] = field(default_factory=list)
    """Every address that the page asked for."""
    answers: dict[str, int] = field(default_factory=dict)
    """The status of each."""
    _count: int = 0
    _waiting: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)

    async def listen(self) -> None:
        """Take in what the browser says."""
        async for message in self.link:
            said = message.json()
            if said.get("id") in self._waiting:
                self._waiting.pop(said["id"]).set_result(said.get("result", {}))
            told = said.get("params", {})
            if said.get("method") == "Network.webSocketFrameReceived":
                payload = told["response"]["payloadData"]
                if told["response"]["opcode"] == 2:
                    data = base64.b64decode(payload).decode("utf-8", "replace")
                    self.seen += _ESCAPES.sub("", data)
            elif said.get("method") == "Network.requestWillBeSent":
                self.asked.append(told["request"]["url"])
            elif said.get("method") == "Network.responseReceived":
                self.answers[told["response"]["url"]] = told["response"]["status"]

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask the browser for something."""
        self._count += 1
        waiting = self._waiting[self._count] = asyncio.get_running_loop().create_future()
        await self.link.send_json({"id": self._count, "method": method, "params": params})
        return await asyncio.wait_for(waiting, PATIENCE_S)

    async def value(self, expression: str) -> Any:
        """Evaluate JavaScript in the page."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        return answer["result"].get("value")

    async def click(self, x: int, y: int) -> None:
        """Click at a place of the window, in pixels."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    async def press(self, *keys: str) -> None:
        """Press keys: letters, or names such as Enter."""
        for key in keys:
            text = "\r" if key == "Enter" else key if len(key) == 1 else ""
            code = _KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
            for kind in ("keyDown", "keyUp"):
                await self.call(
                    "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                    text=text if kind == "keyDown" else "",
                )  # fmt: skip

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition, at most until the deadline."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, f"not in time: {what}\n{self.seen[-3000:]}"
            await asyncio.sleep(0.05)

    async def shows(self, *words: str) -> None:
        """Wait until all these words have been drawn since the last `forget`."""
        for each in words:
            await self.until(lambda each=each: each in self.seen, f"`{each}`")

    def forget(self) -> None:
        """Look only at what is drawn from now on."""
        self.seen = ""

    async def picture(self) -> bytes:
        """Return what is in the window, as PNG."""
        answer = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Callable[[str], Any]]:
    """Start Chromium; gives a function that opens an address in a tab of its own."""
    assert CHROMIUM is not None
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        process = await asyncio.create_subprocess_exec(
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--window-size=1280,800",
            "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        stack.push_async_callback(_ended, process)
        client = await stack.enter_async_context(aiohttp.ClientSession())
        port = await _port(folder / "DevToolsActivePort")

        async def opened(address: str) -> Page:
            made = await client.put(f"http://127.0.0.1:{port}/json/new?about:blank")
            link = await client.ws_connect(
                (await made.json(content_type=None))["webSocketDebuggerUrl"], max_msg_size=0
            )
            page = Page(link)
            listening = asyncio.ensure_future(page.listen())
            stack.callback(listening.cancel)
            for domain in ("Network", "Page", "Runtime"):
                await page.call(f"{domain}.enable")
            await page.call("Emulation.setFocusEmulationEnabled", enabled=True)
            await page.call("Page.navigate", url=address)
            return page

        yield opened


async def _port(path: Path) -> int:
    end = time.monotonic() + PATIENCE_S
    while not path.exists() or "\n" not in path.read_text():
        assert time.monotonic() < end, "Chromium did not start"
        await asyncio.sleep(0.05)
    return int(path.read_text().split("\n")[0])


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), 10)
            return
        process.kill()
        await process.wait()
