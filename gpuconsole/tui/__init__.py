"""The console: the only room that imports Textual, and only once it opens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpuconsole.session.session import Session
    from gpuconsole.tui.app import ConsoleApp
    from gpuconsole.tui.runtime.awaited_session import AwaitedSession

FIRST_S = 1.5
"""What runs beside the console lets it open and draw for so long first."""


def run_console(
    session: Session | AwaitedSession,
    *,
    site: str = "",
    theme: str = "night",
    keys: Mapping[str, str] | None = None,
    symbols: Literal["block", "ascii"] = "block",
    language: str = "en",
    theme_folders: tuple[Path, ...] | None = None,
    bell: str = "",
    tour: Path | None = None,
    opened: bool = False,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> int:
    """Open the console over a session; returns the exit code.

    The session is not entered yet, and need not be made: that is done after the first paint. It is
    left when the console closes. `keys` maps ids of the registry to Textual's key names;
    `theme_folders` are read after the shipped one, by default `themes/` beside the user's settings.
    `bell` is the least severe incident at which the terminal rings. `language` is `en`, `zh`, or
    `auto` for that of the environment. `tour` is the file that tells that this user has seen the
    tour. With `opened` the caller has entered the session, or wants only pictures. `meanwhile` runs
    beside the console once it is open, and is given up when it closes. A signal that asks the
    program to end closes it too; the exit code is then 128 and the signal's number.
    """
    import asyncio
    import os

    from gpuconsole.config import config_path
    from gpuconsole.language import spoken
    from gpuconsole.tui.app import ConsoleApp
    from gpuconsole.tui.runtime.signals import ending
    from gpuconsole.tui.style.settings import Look

    if theme_folders is None:
        theme_folders = (config_path().parent / "themes",)
    look = Look(
        site, theme, dict(keys or {}), symbols, theme_folders, bell,
        spoken(language, os.environ), tour,
    )  # fmt: skip
    app = ConsoleApp(session, look, opened=opened)
    code = 0

    def leave(wanted: int) -> None:
        nonlocal code
        code = wanted
        app.leave()

    async def drive() -> None:
        with ending(leave):
            await _drive(app, meanwhile)

    asyncio.run(drive())
    return code or app.return_code or 0


async def _drive(app: ConsoleApp, meanwhile: Callable[[], Awaitable[None]] | None) -> None:
    """Run the console, and beside it the collection of garbage and `meanwhile`."""
    import asyncio

    from gpuconsole.tui.runtime.gc_scheduler import collect

    beside = [asyncio.ensure_future(collect(lambda: app.typed_at))]
    if meanwhile is not None:
        beside.append(asyncio.ensure_future(_beside(app, meanwhile)))
    try:
        await app.run_async()
    finally:
        for work in beside:
            work.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        if app.opened:
            await app.session.__aexit__(None, None, None)


async def _beside(app: ConsoleApp, work: Callable[[], Awaitable[None]]) -> None:
    """Do something beside the console once it has opened; tell what goes wrong."""
    import asyncio

    from gpuconsole.errors import ConsoleError

    await asyncio.sleep(FIRST_S)
    await app.has_opened.wait()
    try:
        await work()
    except ConsoleError as error:
        app.tell_error(error)
