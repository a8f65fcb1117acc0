"""The console in a real browser: open, press keys, see the map change; writing is refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.real.rig.patience import PATIENCE_S

aiohttp = pytest.importorskip("aiohttp", reason="needs the extra `serve`")
pytest.importorskip("textual_serve", reason="needs the extra `serve`")

from tests.real.rig.browser import CHROMIUM, browser  # noqa: E402

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
]


def home(folder: Path) -> dict[str, str]:
    """Return an environment in which that folder is the home."""
    return {
        **{name: value for name, value in os.environ.items() if name != "XDG_STATE_HOME"},
        **{"HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
    }


@contextlib.asynccontextmanager
async def serving(folder: Path, *options: str) -> AsyncIterator[str]:
    """Serve the simulated lab; gives the address that is printed."""
    async with printing(folder, *options) as lines:
        yield await printed(lines)


async def printed(lines: asyncio.StreamReader) -> str:
    """Return the next address that is printed."""
    return (await asyncio.wait_for(lines.readline(), PATIENCE_S)).decode().strip()


@contextlib.asynccontextmanager
async def printing(folder: Path, *options: str) -> AsyncIterator[asyncio.StreamReader]:
    """Serve the simulated lab; gives what is printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gpuconsole", "serve", "--demo", "--port", "0", *options,
        stdout=asyncio.subprocess.PIPE, env=home(folder),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), PATIENCE_S)
    assert process.returncode == 0


async def test_a_browser_opens_it_presses_keys_and_cannot_write(tmp_path: Path) -> None:
    async with serving(tmp_path) as address, browser() as opened:
        page = await opened(address)
        await page.shows("Fleet: utilisation", "a100-01", "READ-ONLY", "SIMULATED")
        own = address.partition("?")[0]
        assert all(asked.startswith(own) or asked == address for asked in page.asked), page.asked
        assert await page.value("location.href") == own, "the token is gone from the address"
        assert await page.value("document.cookie") == "", "no script can read the cookie"
        before = await page.picture()

        await page.press("m")
        await page.shows("Fleet: memory")
        assert await page.picture() != before

        page.forget()
        await page.press("4")
        await page.shows("Read-only: jobs cannot be submitted.")
        page.forget()
        await page.press("2")
        await page.shows("Queue")
        await page.press("c", "1")
        await page.shows("Fleet: memory")
        assert "Cancel job" not in page.seen, "a question whether to cancel"

        # A second viewer looks at the same lab, from a console of its own.
        second = await opened(address)
        await second.shows("Fleet: utilisation", "a100-01")
        second.forget()
        await second.press("5")
        await second.shows("Triage")

        # Without the token, in a browser that has no cookie, there is nothing to see.
        async with aiohttp.ClientSession() as client:
            assert (await client.get(own)).status == 401


async def test_with_write_a_job_can_be_cancelled(tmp_path: Path) -> None:
    async with serving(tmp_path, "--write") as address, browser() as opened:
        page = await opened(address)
        await page.shows("Fleet: utilisation", "SIMULATED")
        assert "READ-ONLY" not in page.seen
        await page.press("2")
        await page.shows("why")
        await page.press("c")
        await page.shows("Cancel job")
        page.forget()
        await page.press("y")
        await page.shows("cancelled")


async def test_revoking_ends_what_is_open_and_another_address_is_printed(tmp_path: Path) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with printing(tmp_path) as lines, aiohttp.ClientSession(cookie_jar=jar) as client:
        first = await printed(lines)
        own = first.partition("?")[0]
        assert (await client.get(first)).status == 200
        link = await client.ws_connect(f"{own}ws", headers={"Origin": own.rstrip("/")})
        await asyncio.wait_for(link.receive_bytes(), PATIENCE_S)

        revoking = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gpuconsole", "serve", "--revoke", env=home(tmp_path)
        )
        assert await asyncio.wait_for(revoking.wait(), PATIENCE_S) == 0
        await asyncio.wait_for(_closed(link), PATIENCE_S)
        assert (await client.get(own)).status == 401
        assert (await client.get(first)).status == 403
        second = await printed(lines)
        assert second.startswith(own)
        assert second != first
        assert (await client.get(second)).status == 200


async def _closed(link: aiohttp.ClientWebSocketResponse) -> None:
    async for _ in link:
        pass


async def test_a_phone_reads_it_and_has_keys(tmp_path: Path) -> None:
    """At 390 x 844: letters of 14 pixels, 80 columns that scroll sideways, and a row of keys."""
    async with serving(tmp_path) as address, browser() as opened:
        page = await opened("about:blank")
        await page.call(
            "Emulation.setDeviceMetricsOverride",
            width=390, height=844, deviceScaleFactor=1, mobile=True,
        )  # fmt: skip
        await page.call("Emulation.setTouchEmulationEnabled", enabled=True)
        await page.call("Page.navigate", url=address)
        await page.shows("a100-01", "READ-ONLY")
        (tmp_path / "phone.png").write_bytes(await page.picture())
        assert await page.value("window.innerWidth") == 390, "the page is not laid out wider"
        assert await page.value("document.querySelector('#terminal').dataset.fontSize") == "14"
        sizes = "[...'wh'].map((_, at) => grid[['clientWidth', 'scrollWidth'][at]])"
        shown, wide = await page.value(f"(() => {{ const grid = document.querySelector('#grid');"
                                       f" return {sizes}; }})()")  # fmt: skip
        assert shown == 390
        assert wide >= 80 * 8
        await page.value("document.querySelector('#grid').scrollLeft = 300")
        assert await page.value("document.querySelector('#grid').scrollLeft") == 300
        # A finger's width, and on the screen.
        low, high = await page.value(
            "(() => { const box = document.querySelector('#keys button').getBoundingClientRect();"
            " return [box.height, box.bottom]; })()"
        )
        assert low >= 44
        assert high <= 844

        tap = "[...document.querySelectorAll('#keys button')].find(b => b.innerText == {}).click()"
        page.forget()
        await page.value(tap.format("'2'"))
        await page.shows("Queue")
        page.forget()
        await page.value(tap.format("'?'"))
        await page.shows("Help")
