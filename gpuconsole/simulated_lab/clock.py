"""The lab's own time, which may run faster than the console's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpuconsole.core.util.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LabTime:
    """Lab seconds count from the lab's opening, `speed` of them to a second of the clock."""

    clock: Callable[[], float]
    opened_at: float
    speed: float = 1.0

    def now(self) -> float:
        """Return lab seconds since the opening."""
        return self.lab(self.clock())

    def lab(self, console_s: float) -> float:
        """Return the lab time of a moment of the console's clock."""
        return (console_s - self.opened_at) * self.speed

    def console(self, lab_s: float) -> float:
        """Return the console's clock at a lab time."""
        return self.opened_at + lab_s / self.speed

    async def sleep(self, lab_s: float) -> None:
        """Let lab seconds pass."""
        await asyncio.sleep(lab_s / self.speed)
