"""A journal that is shown here and written elsewhere: the lab's, or that of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuconsole.core.devices.host_faults import Streaks
from gpuconsole.core.devices.run_history import HostCalibration, Observation
from gpuconsole.core.events import Event
from gpuconsole.core.jobs import Job
from gpuconsole.state import Drain, Journal


class ShownJournal(Journal):
    """Has no file. What is not shown is empty; `jobs`, `incidents` and `role` are to be given."""

    def __init__(self, folder: Path) -> None:
        """`folder` is where this console keeps what is its own, such as copies of logs."""
        self.folder = folder
        self.read_only = True
        self.simulated = False

    @property
    def lost(self) -> None:
        """None: there is no file to lose."""
        return None

    def require_intact(self) -> None:
        """Nothing to look at."""

    def close(self) -> None:
        """Nothing to close."""

    def job(self, job_id: str) -> Job | None:
        """Return the job of an exact id."""
        return next((job for job in self.jobs() if job.id == job_id), None)

    def last_event(self) -> int:
        """Return the number of the latest event; 0 where none is shown."""
        return 0

    def events_after(self, number: int) -> list[tuple[int, Event]]:
        """Return the events after that number, oldest first."""
        return []

    def observations(self) -> tuple[Observation, ...]:
        """Return what was seen of runs, oldest first."""
        return ()

    def history_version(self) -> tuple[int, int]:
        """Return numbers that change when something was learned."""
        return 0, 0

    def calibrations(self) -> tuple[HostCalibration, ...]:
        """Return what was measured on cards."""
        return ()

    def drains(self) -> Mapping[str, Drain]:
        """Return the hosts that were drained, by name."""
        return {}

    def streaks(self) -> Streaks:
        """Return the streaks of faults, by host and image."""
        return {}

    def restoration(self) -> None:
        """None: only who writes a journal restores it."""
