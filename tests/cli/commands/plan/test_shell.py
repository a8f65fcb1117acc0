"""A session's command after its connection was lost."""

from __future__ import annotations

from typing import cast

import pytest

from gpuconsole.cli.commands.plan import shell
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import RefusedError, UnreachableError
from gpuconsole.session.session import Session

JOB = Job("1", Task("shell", kind="session"), "ada", JobState.RUNNING, 0.0)
OUT_OF_SIGHT = RefusedError("Job does not run", "Job 1 is unknown.")


async def used(monkeypatch: pytest.MonkeyPatch, *ends: tuple[bool, bool] | Exception) -> int:
    """Use a session whose attachments end like this, one after the other."""
    left = list(ends)

    async def converse(session: Session, job: Job, *, watch: bool) -> tuple[bool, bool]:
        end = left.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    async def back(session: Session, job: Job) -> Job:
        return job

    monkeypatch.setattr(shell, "_converse", converse)
    monkeypatch.setattr(shell, "_back", back)
    try:
        return await shell._use(cast(Session, None), JOB, watch=False)
    finally:
        assert not left


async def test_a_session_that_is_out_of_sight_for_a_moment_after_it_was_lost_is_not_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost, left = (False, True), (True, False)
    assert (
        await used(monkeypatch, lost, OUT_OF_SIGHT, UnreachableError("Away", "It is."), left) == 0
    )


async def test_one_that_may_not_be_used_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError):
        await used(monkeypatch, RefusedError("Not your job", "Job 1 belongs to ada."))
