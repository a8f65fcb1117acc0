"""Opening a session on a lab for asynchronous code."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from gpuconsole.session import factory
from gpuconsole.session.factory import DemoOptions
from gpuconsole.session.session import Session


@contextlib.asynccontextmanager
async def open_session(
    inventory: str | os.PathLike[str] | None = None,
    *,
    state: str | os.PathLike[str] | None = None,
    read_only: bool = False,
    demo: bool | DemoOptions = False,
    dispatch: bool = False,
) -> AsyncIterator[Session]:
    """Open a session: hosts are polled until the block ends.

    Without `inventory` the user's own is read, else this machine alone is watched; `state` is the
    folder of the queue, else the user's own. `demo` opens the simulated lab; its queue is removed
    at the end unless `state` names a folder. With `dispatch` queued jobs are started while the
    session is open, unless another console does; waiting for a job does the same. Jobs run on when
    it closes. UsageError for a wrong inventory or none, JournalError for a state folder that cannot
    be used.
    """
    lab = DemoOptions() if demo is True else demo or None
    async with factory.open_session(
        None if inventory is None else Path(inventory),
        None if state is None else Path(state),
        read_only=read_only,
        demo=lab,
        dispatch=dispatch,
    ) as session:
        yield session
