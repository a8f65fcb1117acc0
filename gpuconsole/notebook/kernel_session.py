"""What one kernel keeps between cells: its session on the lab, and the scripts of its cells."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.api import BlockingSession, open_blocking
from gpuconsole.core.estimate import Report
from gpuconsole.core.jobs import Job, Task
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.reading.reader import Reader


@dataclass(frozen=True, slots=True)
class Opening:
    """Which lab is meant."""

    inventory: Path | None = None
    state: Path | None = None
    read_only: bool = False
    demo: bool = False
    speed: float = 1.0


class Desk:
    """Opens the session when it is first needed, and keeps it until the kernel ends."""

    def __init__(self) -> None:
        self._opening = Opening()
        self._lab: BlockingSession | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._reader: Reader | None = None
        """Reads the cells where there is no lab."""

    def open(self, opening: Opening) -> BlockingSession:
        """Open the session that is meant, instead of the one that is open."""
        opened = _opened(opening)
        self.close()
        self._opening, self._lab = opening, opened
        return opened

    def lab(self) -> BlockingSession:
        """Return the session; UsageError where there is no lab to open."""
        if self._lab is None or self._lab.closed:
            if self.homeless:
                raise UsageError(
                    "No inventory",
                    "There is no inventory of your own, and this machine has no NVIDIA driver.",
                    "Use `%gpuconsole open --inventory FILE`, or `%gpuconsole open --demo`.",
                )
            self._lab = _opened(self._opening)
        return self._lab

    def jobs_known(self) -> tuple[Job, ...]:
        """Return the queue of the session that is open; nothing is opened for it."""
        return () if self._lab is None or self._lab.closed else self._lab.jobs()

    @property
    def homeless(self) -> bool:
        """Whether no session is open, and there is no lab that could be."""
        from gpuconsole.core.util.user_dirs import find_inventory
        from gpuconsole.remote.inventory import local_inventory

        opening = self._opening
        return (
            (self._lab is None or self._lab.closed)
            and not opening.demo
            and find_inventory(opening.inventory, os.environ) is None
            and local_inventory() is None
        )

    def preflight(self, task: Task) -> Report:
        """Estimate a task for the lab's devices; without a lab, for cards that are common."""
        if not self.homeless:
            return self.lab().preflight(task)
        from gpuconsole.cli.estimate import estimate
        from gpuconsole.session.reading.reader import Reader

        if self._reader is None:
            self._reader = Reader()
        return estimate(
            task, tier="", memory_mib=None, inventory=None, offline=True, wait_s=0.0,
            state=self._opening.state, reader=self._reader,
        )  # fmt: skip

    def script_of(self, source: str, name: str) -> Path:
        """Write a cell's source as a script in a folder of its own, and return its path.

        Its first line replaces that of the magic, so that line numbers are those of the notebook.
        """
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="gpuconsole-cell-")
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)[:64]
        folder = Path(self._folder.name) / plain
        folder.mkdir(exist_ok=True)
        script = folder / f"{plain}.py"
        content = f"# a cell of a notebook\n{source}".encode()
        # What is asked again as it was is known; a file that is written again is not.
        if not script.exists() or script.read_bytes() != content:
            script.write_bytes(content)
        return script

    def close(self) -> None:
        """Close the session; jobs run on."""
        if self._lab is not None:
            self._lab.close()
            self._lab = None

    def leave(self) -> None:
        """Close the session and remove the cells' scripts."""
        self.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _opened(opening: Opening) -> BlockingSession:
    from gpuconsole.session.factory import DemoOptions

    return open_blocking(
        opening.inventory,
        state=opening.state,
        read_only=opening.read_only,
        demo=DemoOptions(speed=opening.speed) if opening.demo else False,
    )
