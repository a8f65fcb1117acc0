"""What is known of a cluster now, shared by the poller that sees it and the engine that asks."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.remote.slurm.parse import Picture, Row

FRESH_S = 15.0
"""A picture older than this answers no question about a job."""


class Cluster:
    """The latest picture, and which run of ours is which of Slurm's jobs."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._picture: Picture | None = None
        self._seen_at = 0.0
        self._numbers: dict[str, str] = {}
        self._submitted: dict[str, float] = {}

    def saw(self, picture: Picture, now: float) -> None:
        """Take a new picture."""
        self._picture, self._seen_at = picture, now

    def lost(self) -> None:
        """Forget the picture: Slurm did not answer."""
        self._picture = None

    def know(self, run: str, number: str, submitted_at: float | None = None) -> None:
        """Note the number that Slurm gave to a run, and when it was seen to be that run's."""
        self._numbers[run] = number
        if submitted_at is not None:
            self._submitted[run] = submitted_at

    def forget(self, run: str) -> None:
        """Forget a run that was removed."""
        self._numbers.pop(run, None)
        self._submitted.pop(run, None)

    def row(self, run: str) -> Row | None:
        """Return what the present picture says of a run; None when it says nothing."""
        fresh = 0.0 <= self._clock() - self._seen_at <= FRESH_S
        number = self._numbers.get(run)
        if self._picture is None or not fresh or number is None:
            return None
        row = self._picture.rows.get(number)
        return row if row is not None and row.submitted_at == self._submitted.get(run) else None

    def runs_by_number(self) -> dict[str, str]:
        """Return the runs' names by Slurm's numbers."""
        return {number: run for run, number in self._numbers.items()}
