"""`Asking`: the questions that a session answers about a script, and what it learns for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuconsole.core.estimate import Isolation, Report
from gpuconsole.core.jobs import Task
from gpuconsole.session.estimate.measurement_run import Progress
from gpuconsole.session.estimate.service import Estimating
from gpuconsole.session.estimate.tier_ladder import UNWATCHED, Watching
from gpuconsole.session.reading.recordings import Mode
from gpuconsole.session.writing import Writing
from gpuconsole.state.consent import LocalConsent


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

    @property
    def consent(self) -> LocalConsent:
        """Whether the user agreed that scripts are run on this machine."""
        return self._estimating.consent

    async def climb(
        self,
        task: Task,
        user: Watching = UNWATCHED,
        *,
        report: Report | None = None,
        insist: bool = False,
    ) -> Report:
        """Estimate a task, and measure it where reading does not settle its memory.

        The report tells which tiers were tried and how each ended. `report` is what is known
        already; with `insist` it is measured although the memory is known. `user` hears how that
        goes on, and is asked where a script runs only with consent. What fails is a trial, not
        an error.
        """
        return await self._estimating.climb(
            task, lambda tier: self._estimating.report(task, tier), user,
            report=report, insist=insist,
        )  # fmt: skip

    def stop_measuring(self) -> None:
        """Cancel measurements under way; what is known without them is the answer."""
        self._estimating.stop_measuring()

    async def measure(
        self,
        task: Task,
        mode: Mode,
        progress: Progress,
        *,
        host: str = "",
        local: bool = False,
        agreed: Isolation = "bubblewrap",
    ) -> None:
        """Measure a script with real Paddle in a sandbox; the estimates that follow use it.

        In a container of the job's image, or with `local` on this machine, where nothing less
        holds it than the user agreed to. Cancelling ends it.
        RefusedError when the script cannot be measured, UsageError without a host.
        """
        self._require_writable("Measuring")
        await self._estimating.measure(task, mode, progress, host=host, local=local, agreed=agreed)

    def assumptions(self, script: str | Path) -> dict[str, str]:
        """Return the remembered answers for a script: name to value."""
        return self._estimating.assumptions(script)
