"""What everything that runs jobs works with, handed in once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Hosts
from gpuconsole.core.jobs import Task
from gpuconsole.placement.command import Meeting, launch_command
from gpuconsole.session.clock import Clock
from gpuconsole.session.parts import Parts
from gpuconsole.state import Journal
from gpuconsole.state.secrets import SecretStore

PARALLEL_LAUNCHES = 16
"""Containers made at once over all hosts; pulls of images, which may take an hour, do not count."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The parts of a session that the dispatcher and its runners share."""

    hosts: Hosts
    journal: Journal
    clock: Clock
    settings: LabSettings
    state: Path
    user: str
    command: Callable[[Task, int, Meeting | None], tuple[str, ...]]
    """The argument list that runs a task on so many devices, of one host or of each of a gang."""
    default_image: Callable[[str], str]
    """The image of a host for tasks that name none."""
    chance: Callable[[], float] = random.random
    """A number in [0, 1), by which pauses differ."""
    launching: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(PARALLEL_LAUNCHES)
    )

    @property
    def secrets(self) -> SecretStore:
        """The values of jobs' secret variables."""
        return SecretStore(self.state)

    def bundle(self, job_id: str) -> Path:
        """Return where a job's packed project lies."""
        return self.state / "bundles" / f"{job_id}.tar.gz"


def bench_of(parts: Parts, hosts: Hosts) -> Bench:
    """Return the bench of a session's parts, with its hosts as the session sees them."""
    return Bench(
        hosts=hosts,
        journal=parts.journal,
        clock=parts.clock,
        settings=parts.settings,
        state=parts.journal.folder,
        user=parts.user,
        command=launch_command,
        default_image=parts.default_image,
    )
