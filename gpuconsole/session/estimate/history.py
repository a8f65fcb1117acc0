"""The journal's history as estimates use it, worked out again only when something was added."""

from __future__ import annotations

from pathlib import Path

from gpuconsole.core.util.user_dirs import JOURNAL_NAME
from gpuconsole.preflight.accuracy.calibration import Calibration
from gpuconsole.state import Journal


class History:
    """What the journal knows of runs and cards."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._version: tuple[int, int] | None = None
        self._known = Calibration()

    def calibration(self) -> Calibration:
        """Return what is known now; the same object while nothing was added."""
        version = self._journal.history_version()
        if version != self._version:
            self._known = Calibration.from_observations(
                self._journal.observations(), self._journal.calibrations()
            )
            self._version = version
        return self._known


def recorded(state: Path) -> Calibration:
    """Return what the journal of a state folder knows; nothing is made where there is none.

    JournalError when there is one that cannot be read.
    """
    if not (state / JOURNAL_NAME).exists():
        return Calibration()
    # It only looks, so no time passes for it.
    journal = Journal(state, clock=lambda: 0.0, read_only=True)
    try:
        return History(journal).calibration()
    finally:
        journal.close()
