"""Measuring a script for `preflight`: the question before, the progress, and what is known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import options
from gpuconsole.cli.output import note
from gpuconsole.core.jobs import Task
from gpuconsole.core.places import state_folder
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.reading.recordings import Mode
    from gpuconsole.session.session import Session

_ALLOWED = "measured-here"
"""A file of the state folder that says: this user was asked, and agreed."""
_FLEET_WAIT_S = 10.0


def measure(task: Task, mode: Mode, *, local: bool, host: str, yes: bool) -> None:
    """Measure a task's script, on this machine or on a host, telling progress as it goes."""
    if not task.script:
        raise UsageError("Nothing to measure", f"The {mode} tier needs a script.", "Name one.")
    if options().read_only:
        raise UsageError("Read only", "Measuring runs the script.", "Leave out --read-only.")
    telling = _Telling()
    if local:
        import asyncio

        from gpuconsole.session.measurements import Measurements
        from gpuconsole.session.reading.beside import AsyncReader
        from gpuconsole.session.submission import completed

        _ask(yes)
        with AsyncReader() as reader:
            asyncio.run(Measurements(_state(), reader).here(completed(task), mode, telling))
    else:
        from gpuconsole.cli.sessions import drive

        async def work(session: Session) -> None:
            await session.first_frames(_FLEET_WAIT_S)
            await session.measure(task, mode, telling, host=host)

        drive(work)
    telling.done()


def _state() -> Path:
    return state_folder(options().state)


def _ask(yes: bool) -> None:
    """Ask once whether scripts may be run on this machine."""
    from gpuconsole.remote.sandbox import Sandbox
    from gpuconsole.state.filesystem import make_folder

    marker = _state() / _ALLOWED
    if yes or marker.exists():
        return
    said = f"This runs the script on this machine, {Sandbox().isolation}."
    if not sys.stdin.isatty():
        raise UsageError("Nobody to ask", said, "Add --yes if that is what you want.")
    if not click.confirm(f"{said}\nGo on, now and from now on?", err=True):
        raise UsageError("Not measured", "You said no.", "The static tier runs nothing.")
    make_folder(marker.parent)
    marker.touch(mode=0o600)


class _Telling:
    """Progress on one line of a terminal; a line for each stage where there is none."""

    def __init__(self) -> None:
        self._inplace = sys.stderr.isatty()
        self._last = ""

    def __call__(self, share: float, stage: str) -> None:
        if self._inplace:
            width = 24
            bar = "█" * round(width * share)
            print(f"\r{bar:·<{width}} {share:4.0%} {stage:<48.48}", end="", file=sys.stderr)
        elif stage != self._last:
            note(f"{share:.0%} {stage}")
        self._last = stage

    def done(self) -> None:
        """End the line."""
        if self._inplace and self._last:
            print(file=sys.stderr)
