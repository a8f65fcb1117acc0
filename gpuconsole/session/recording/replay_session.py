"""A session on a recording: the product itself, read-only, over what was."""

from __future__ import annotations

from pathlib import Path

from gpuconsole.config import LabSettings
from gpuconsole.core.images import DEFAULT_IMAGE
from gpuconsole.core.jobs import Task
from gpuconsole.errors import ReadOnlyError, UsageError
from gpuconsole.session.context import Context
from gpuconsole.session.recording.player import Reel
from gpuconsole.session.recording.recorded_sources import (
    RecordedHosts,
    RecordedJournal,
    RecordedSamples,
)
from gpuconsole.session.report.model import Query, UsageReport
from gpuconsole.session.session import Session
from gpuconsole.session.submit.validate import Packed
from gpuconsole.state.recording.archive import Shelf
from gpuconsole.state.recording.writer import files_in

NO_LOGS = Path("/nonexistent")
"""Where the logs of a colleague's jobs lie: not here."""


class ReplaySession(Session):
    """What screens and commands read, at a recorded moment. It writes nothing and queries no host.
    The player has the current moment, and moves to others.
    """

    def __init__(self, reel: Reel, settings: LabSettings, state: Path, default_image: str) -> None:
        """Show an open player; `state` is the folder in which logs of its jobs would be."""
        recording = settings.recording.model_copy(update={"enabled": False})
        super().__init__(
            Context(
                hosts=RecordedHosts(reel),
                journal=RecordedJournal(reel, state),
                settings=settings.model_copy(update={"recording": recording}),
                user=reel.header.user,
                pack=_no_packing,
                default_image=lambda host: default_image,
                clock=reel.clock,
                read_only=True,
                simulated=reel.header.simulated,
                dispatch=False,
            )
        )
        self.reel = reel
        self.history = RecordedSamples(reel)

    async def __aenter__(self) -> ReplaySession:
        """Begin to read ahead; nothing is polled, and past events are not reported."""
        await self.hosts.start()
        return self

    async def usage_report(self, query: Query) -> UsageReport:
        """Refuse: a recording knows its own hours alone."""
        raise UsageError("No report of the past", "A recording has no journal.", "Go back to now.")


async def open_replay(path: Path, settings: LabSettings, at: float | None = None) -> ReplaySession:
    """Return a session on a recorded file, or on a folder of them, at a moment or at the first.

    UsageError or RecordingError when it cannot be read.
    """
    return await _opened(Reel(lambda: Shelf(path)), settings, NO_LOGS, at)


async def open_past(session: Session, at: float) -> ReplaySession:
    """Return a session on what this one and those before it have recorded, at a moment.

    UsageError when recording is off or nothing is recorded yet.
    """
    recorder = session.recorder
    folder = recorder.folder
    if folder is None or not (recorder.on or files_in(folder)):
        raise UsageError(
            "Nothing is recorded",
            "The settings of this console say `recording.enabled: false`.",
            "Switch it on; what happens from then on can be looked at later.",
        )
    await recorder.cut()
    names = [host.name for host in session.snapshot().hosts]
    reel = Reel(lambda: Shelf(folder, hosts=names, session=recorder.name))
    return await _opened(reel, session.settings, folder.parent, at, direction=-1)


async def _opened(
    reel: Reel, settings: LabSettings, state: Path, at: float | None, direction: int = 1
) -> ReplaySession:
    try:
        await reel.open(at, direction)
        return ReplaySession(reel, settings, state, DEFAULT_IMAGE)
    except BaseException:
        await reel.close()
        raise


def _no_packing(task: Task, target: Path, limit_mib: float) -> Packed:
    """Refuse to pack: nothing is submitted from a recording."""
    raise ReadOnlyError("This is a recording", "Nothing can be submitted in the past.")
