"""How long a job may run: its own time limit and the lab's, of which the shorter holds."""

from __future__ import annotations

from gpuconsole.core.jobs import Task
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.human_time import clock_words
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

WARNING_SHARE = 0.25
"""Of a limit: a job is warned no sooner than that before its end, however long the lab's warning
is."""


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The longest that an attempt may run (s), and who set it."""

    seconds: float
    lab: bool
    until: float | None = None
    """The moment at which it is over (s since the epoch), where it was asked for as one."""

    @property
    def words(self) -> str:
        """The limit for a sentence."""
        if self.until is not None:
            return f"the time until which it was wanted, {clock_words(self.until, self.until)},"
        return f"the {'lab' if self.lab else 'job'}'s limit of {format_duration(self.seconds)}"

    def warns_at(self, before_s: float) -> float:
        """Return after how many seconds of running the user is warned."""
        return self.seconds - min(before_s, WARNING_SHARE * self.seconds)


def time_limit(
    task: Task, lab_s: float | None, started_at: float | None = None
) -> TimeLimit | None:
    """Return what holds for a task where the lab's limit is `lab_s`; None for no limit.

    A task that is wanted until a moment has a limit once it is known when it has started.
    """
    own, until = task.time_limit_s, task.until
    limits = [TimeLimit(own, lab=False)] if own is not None else []
    if until is not None and started_at is not None:
        limits.append(TimeLimit(max(0.0, until - started_at), lab=False, until=until))
    if lab_s is not None:
        limits.append(TimeLimit(lab_s, lab=True))
    return min(limits, key=lambda limit: limit.seconds, default=None)


def require_time_limit(task: Task, lab_s: float | None) -> None:
    """Raise UsageError for a task that asks for a longer run than the lab lets any job have."""
    own = task.time_limit_s
    if own is not None and lab_s is not None and own > lab_s:
        raise UsageError(
            "Time limit is too long",
            msg(
                "{value} asks for {amount}, and no job of this lab may run longer than {amount2}.",
                value=clean(task.name, 128),
                amount=format_duration(own),
                amount2=format_duration(lab_s),
            ),
            "Ask for less; with checkpoints a job can go on in another one.",
        )
