"""`Context`: the dependencies that a session and all its components share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Engine, Hosts
from gpuconsole.core.devices.host_power import NOTHING, Power
from gpuconsole.core.jobs import Task
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ReadOnlyError
from gpuconsole.placement.launch_command import Meeting, launch_command
from gpuconsole.session.clock import Clock, WallClock
from gpuconsole.session.estimate.preflight_runner import Preflights
from gpuconsole.session.submit.validate import Packer
from gpuconsole.state import Journal
from gpuconsole.state.files.secrets import SecretStore

if TYPE_CHECKING:
    from gpuconsole.core.fleet import Device, Host
    from gpuconsole.session.estimate.measurement_on_host import Asked

PARALLEL_LAUNCHES = 16
"""Containers made at once over all hosts; pulls of images, which may take an hour, do not count."""


@dataclass(frozen=True, slots=True)
class Context:
    """The dependencies of a session; `session.factory` puts the real ones together."""

    hosts: Hosts
    """For the session's components: the fleet with what the journal knows of its hosts."""
    journal: Journal
    settings: LabSettings
    user: str
    pack: Packer
    default_image: Callable[[str], str]
    """The image of a host for tasks that name none."""
    clock: Clock = field(default_factory=WallClock)
    preflights: Preflights | None = None
    read_only: bool = False
    simulated: bool = False
    dispatch: bool = True
    power: Power = NOTHING
    """Resumes and suspends hosts."""
    command: Callable[[Task, int, Meeting | None], tuple[str, ...]] = launch_command
    """The argument list that runs a task on so many devices, of one host or of each of a gang."""
    chance: Callable[[], float] = random.random
    """A number in [0, 1), by which pauses differ."""
    measure_on_host: Callable[[Host, Device | None, Asked], Awaitable[bytes]] | None = None
    """Measures a script on a host, or on a device of it, where the session has no link of its own
    to it; None where it has."""
    reads_scripts: bool = True
    """Whether the paths of jobs are of this machine and its user; those that clients of a lab's
    service name are never read."""
    own_folder: Path | None = None
    """Where what is known of the user's scripts lies, such as answers and measurements, where that
    is not with the journal."""
    on_close: Callable[[], None] = lambda: None
    fence: Callable[[str, Engine], Engine] = lambda host, engine: engine
    """Puts what a head of the lab's queue asks before an engine does anything."""
    launching: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(PARALLEL_LAUNCHES)
    )

    @property
    def state(self) -> Path:
        """The folder of the journal and of all that a session keeps."""
        return self.journal.folder

    @property
    def scripts(self) -> Path:
        """The folder of what is known of the user's scripts."""
        return self.own_folder or self.state

    @property
    def secrets(self) -> SecretStore:
        """The values of jobs' secret variables."""
        return SecretStore(self.state)

    def bundle(self, job_id: str) -> Path:
        """Return where a job's packed project lies."""
        return self.state / "bundles" / f"{job_id}.tar.gz"

    def require_writable(self, doing: str) -> None:
        """Raise ReadOnlyError where the console was opened to look only."""
        if self.read_only:
            raise ReadOnlyError(
                "Read-only",
                msg("{doing} was refused: this console was opened to look only.", doing=doing),
                "Open it again without --read-only.",
            )
