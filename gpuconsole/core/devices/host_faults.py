"""Hosts that could not start jobs: how often in a row, and until when they are left alone."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.human_time import clock_words
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg

PAUSES_S = (30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""How long something that could not start is left alone, each time longer; the last one repeats."""


@dataclass(frozen=True, slots=True)
class FaultStreak:
    """Faults of a host one after another, with no job started there in between. One of an image
    is about the jobs that ask for this image there, and no others."""

    host: str
    image: str = ""
    """"" where no job could be started, whatever its image."""
    count: int = 0
    jobs: tuple[str, ...] = ()
    """The latest jobs that could not start there."""
    since: float = 0.0
    last_at: float = 0.0
    pauses: int = 0
    """How often it was set aside."""
    until: float = 0.0
    """Until when it is set aside; afterwards one job is let through. 0 while it is not."""
    title: str = ""
    message: str = ""
    """The last fault, as the engine or the registry put it."""
    hint: str = ""
    trial: str = ""
    """The job that was let through after the last pause."""
    closed: bool = False
    """Whether no job may start there now; the session fills it in."""

    @property
    def set_aside(self) -> bool:
        """Whether there were so many that the host, or the image there, was set aside."""
        return self.until > 0.0

    def words(self, now: float) -> str:
        """Return why no job starts there, as the end of a sentence."""
        faults = "fault" if self.count == 1 else "faults"
        what = f"jobs with {self.image} are " if self.image else ""
        if self.until > now:
            until = clock_words(self.until, now)
            template = f"set aside until {{time}} after {{n}} {faults}: {{title_text}}"
            words = msg(template, time=until, n=self.count, title_text=self.title)
        else:
            words = msg(
                "set aside while job {job} is tried there: {title_text}",
                job=self.trial,
                title_text=self.title,
            )
        return what + words

    def as_json(self) -> dict[str, object]:
        """Return the streak as `status --json` shows it."""
        return {
            "image": self.image or None,
            "closed": self.closed,
            "until": iso_utc(self.until),
            "faults": self.count,
            "since": iso_utc(self.since),
            "title": self.title,
            "message": self.message,
            "hint": self.hint or None,
            "jobs": list(self.jobs),
            "trial": self.trial or None,
        }


Streaks = Mapping[tuple[str, str], FaultStreak]
"""By host and image."""


def pause_s(number: int) -> float:
    """Return how long to wait before the next try after `number` failed ones, 1 at least."""
    return PAUSES_S[min(max(1, number), len(PAUSES_S)) - 1]
