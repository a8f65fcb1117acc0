"""`serve`: the console in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.extras import install_command
from gpuconsole.cli.interrupts import stopping
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.cli.tasks import TaskValue
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.user_dirs import state_folder
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import UsageError
from gpuconsole.waiting import within

if TYPE_CHECKING:
    from gpuconsole.session.session import Session
    from gpuconsole.web.auth import Guard

PORT = 8765
LOOK_EVERY_S = 1.0
"""How often it is looked whether a token has ended, to end what was opened with it."""


@dataclass(frozen=True, slots=True)
class _Serving:
    port: int
    write: bool
    age_s: float
    site: str
    tokens: Path
    """The folder with a file for each valid token."""


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True,
    help="Port on 127.0.0.1; 0 takes any that is free.",
)  # fmt: skip
@click.option("--write", is_flag=True, help="Let viewers submit, cancel and change jobs.")
@click.option(
    "--token-age", type=TaskValue("run_time", "duration"), default="12h", show_default=True,
    metavar="TIME", help="How long the address is valid; then another one is printed.",
)  # fmt: skip
@click.option("--revoke", is_flag=True, help="End all browser sessions and exit.")
@click.option("--demo", is_flag=True, help="Serve the simulated lab.")
@common
def serve(port: int, write: bool, token_age: float, revoke: bool, demo: bool) -> int:
    """Serve the console to browsers on this machine.

    On loopback only, behind a token in the address that is printed; from elsewhere through
    `ssh -L 8765:127.0.0.1:8765 HOST`. Viewers can only look unless --write is given. All of them
    share one session: hosts are polled once.
    """
    from gpuconsole.web.auth import TOKENS

    state = state_folder(options().state)
    if revoke:
        return _revoke(state / TOKENS)
    _require_parts()
    if write and options().read_only:
        raise UsageError("Wrong usage", "--write and --read-only contradict each other.", "")
    serving = _Serving(port, write, token_age, "demo" if demo else "", state / TOKENS)
    if demo:
        return _serve_demo(serving)
    options().read_only = not write

    async def work(session: Session) -> int:
        return await _serve(session, state, serving)

    return drive(work, dispatching=write)


def _revoke(tokens: Path) -> int:
    from gpuconsole.web.auth import revoke

    revoked = revoke(tokens)
    if options().as_json:
        print_document({"revoked": revoked})
    else:
        ended = {0: "No address was valid.", 1: "The address is revoked."}
        note(ended.get(revoked) or msg("{n} addresses are revoked.", n=revoked))
    return 0


def _serve_demo(serving: _Serving) -> int:
    from gpuconsole.cli.commands.run.demo import Laboratory, _fill

    async def run(lab: Laboratory) -> int:
        async with lab.session(dispatching=True) as session:
            # The page does not wait for the jobs: they come into the queue while one looks.
            filling = asyncio.ensure_future(_fill(lab))
            try:
                return await _serve(session, lab.state, serving)
            finally:
                filling.cancel()
                await asyncio.gather(filling, return_exceptions=True)

    with tempfile.TemporaryDirectory(prefix="gpuconsole-serve-") as folder:
        return asyncio.run(run(Laboratory(6, 7, 1.0, Path(folder))))


async def _serve(session: Session, state: Path, serving: _Serving) -> int:
    from gpuconsole.session.viewers.server import Share
    from gpuconsole.web.auth import issued
    from gpuconsole.web.server import ConsolePage, served

    stop = asyncio.Event()
    # A folder of our own, mode 0700: who reaches the socket sees what a viewer sees.
    with (
        contextlib.ExitStack() as tokens,
        tempfile.TemporaryDirectory(prefix="gpuconsole-") as folder,
        stopping(stop),
    ):
        socket = Path(folder) / "session"
        viewer = [
            sys.executable, "-m", "gpuconsole.cli.viewer", str(socket), str(state),
            "write" if serving.write else "look",
        ]  # fmt: skip
        guard = tokens.enter_context(issued(serving.tokens, serving.age_s))
        page = ConsolePage(guard, viewer)
        async with Share(session, socket, serving.site), served(page, serving.port) as port:
            mode = "Serving with writing." if serving.write else "Serving to look only."
            note(sentences(mode, "Open in a browser:"))
            _announce(guard.address(port), serving)
            while not await _stopped(stop, guard):
                note("The address above and its sessions have ended. The next one:")
                guard = tokens.enter_context(issued(serving.tokens, serving.age_s))
                await page.admit(guard)
                _announce(guard.address(port), serving)
    return 0


def _announce(address: str, serving: _Serving) -> None:
    if options().as_json:
        print_document({"address": address, "writable": serving.write})
        sys.stdout.flush()
    else:
        print(address, flush=True)
    valid = format_duration(serving.age_s)
    access = msg("Anyone with this address has access, for {time}.", time=valid)
    note(sentences(access, "Stop with Ctrl-C."))


async def _stopped(stop: asyncio.Event, guard: Guard) -> bool:
    """Wait for a signal, or until a token has ended; returns whether it was the signal."""
    while not stop.is_set() and not guard.ended:
        with contextlib.suppress(asyncio.TimeoutError):
            await within(LOOK_EVERY_S, stop.wait())
    return stop.is_set()


def _require_parts() -> None:
    from importlib.util import find_spec

    if find_spec("textual_serve") is None:
        raise UsageError(
            "The web page is not installed",
            "`gpuconsole serve` needs textual-serve.",
            msg("Run: {command}", command=install_command("serve")),
        )
