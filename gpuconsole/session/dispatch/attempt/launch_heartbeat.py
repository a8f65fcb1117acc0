"""Signs of life of a console that launches a job, for the other consoles of a host.

Between create and start, which takes an hour where a large checkpoint is brought, a container that
has not started is all that others see; without signs they remove it after the grace time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from gpuconsole.core.containers import Engine
from gpuconsole.errors import EngineError, UnreachableError
from gpuconsole.session.async_helpers import cancel_all, first
from gpuconsole.session.context import Context

SIGNS = 4
"""How many signs are shown in a grace time: some may be late."""
REMOVE_WITHIN_S = 5.0


@contextlib.asynccontextmanager
async def shown(context: Context, engines: Sequence[Engine]) -> AsyncIterator[None]:
    """Show signs on the hosts of a launch while the block runs; short launches show none."""
    signs = asyncio.gather(*(_show(context, engine) for engine in engines))
    try:
        yield
    finally:
        await cancel_all([signs])


async def _show(context: Context, engine: Engine) -> None:
    last = ""
    try:
        while True:
            await context.clock.sleep(context.settings.lease_grace / SIGNS)
            with contextlib.suppress(UnreachableError, EngineError):
                before, last = last, await engine.sign(context.journal.id)
                await _remove(engine, before)
    finally:
        # An engine that does not answer keeps the sign, which says nothing after the grace time.
        await first(_remove(engine, last), context.clock.sleep(REMOVE_WITHIN_S))


async def _remove(engine: Engine, sign: str) -> None:
    if sign:
        with contextlib.suppress(UnreachableError, EngineError):
            await engine.remove(sign)
