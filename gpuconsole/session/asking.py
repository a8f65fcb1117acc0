"""`Asking`: the questions that a session answers about a script, and what it learns for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuconsole.core.estimate import Report
from gpuconsole.core.jobs import Task
from gpuconsole.session.estimating import Estimating
from gpuconsole.session.measuring import Progress
from gpuconsole.session.reading.recordings import Mode
from gpuconsole.session.writing import Writing


class Asking(Writing):
    """Preflight, its questions, and measuring."""

    _estimating: Estimating

    async def preflight(self, task: Task, *, tier: str = "") -> Report:
        """Estimate a task and hold it against the fleet; never blocks the event loop."""
        return await self._estimating.report(task, tier)

    async def expect_scripts(self) -> None:
        """Get ready to read scripts, so that the first answer comes sooner."""
        await self._estimating.expect()

    def assume(self, script: str | Path, given: Mapping[str, str]) -> dict[str, str]:
        """Answer questions of preflight about a script from now on; an empty value forgets one.

        Returns all answers for it. UsageError for one that cannot be read.
        """
        self._require_writable("Answering")
        return self._estimating.assume(script, given)

    @property
    def isolation(self) -> str:
        """What keeps a script in that is measured on this machine, as a sentence."""
        from gpuconsole.remote.sandbox import Sandbox

        return Sandbox().isolation

    def can_measure(self, task: Task) -> bool:
        """Tell whether a host is there to measure on."""
        return self._estimating.can_measure(task)

    async def measure(
        self, task: Task, mode: Mode, progress: Progress, *, host: str = "", local: bool = False
    ) -> None:
        """Measure a script with real Paddle in a sandbox; the estimates that follow use it.

        In a container of the job's image, or with `local` on this machine. Cancelling ends it.
        RefusedError when the script cannot be measured, UsageError without a host.
        """
        self._require_writable("Measuring")
        await self._estimating.measure(task, mode, progress, host=host, local=local)

    def assumptions(self, script: str | Path) -> dict[str, str]:
        """Return the remembered answers for a script: name to value."""
        return self._estimating.assumptions(script)
