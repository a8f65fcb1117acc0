"""Work that takes long, and its console, which hears lines of JSON until it is done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

from aiohttp import web

from gpuconsole.errors import ConsoleError
from gpuconsole.session.async_helpers import Work, cancel_all
from gpuconsole.session.lab_service.protocol import REFUSAL, refusal_of
from gpuconsole.waiting import within

BEAT_S = 1.0
"""How often the console hears that it still goes on."""
SLOW_S = 30.0
"""How long a console may take for a line before its work is called off."""


async def send_while(
    request: web.Request,
    work: Work[bytes],
    news: Callable[[], Sequence[object]],
) -> web.StreamResponse:
    """Do work and answer with lines: what `news` returns, at least one each beat, then
    `{"document": BYTES}` and so many bytes, or `{"refusal": …}`.

    A console that goes away, or does not read, calls the work off; this returns once that has
    ended.
    """
    task = asyncio.ensure_future(work)
    response = web.StreamResponse()
    try:
        await response.prepare(request)
        while not task.done():
            # An empty line of ours shows whether there is still somebody.
            await _lines(response, news() or ({},))
            await asyncio.wait({task}, timeout=BEAT_S)
        await _lines(response, news())
        try:
            document = task.result()
        except ConsoleError as error:
            refusal = json.loads(REFUSAL.dump_json(refusal_of(error)))
            await _lines(response, ({"refusal": refusal},))
        else:
            await _lines(response, ({"document": len(document)},))
            await within(SLOW_S, response.write(document))
        await response.write_eof()
    except (ConnectionError, asyncio.TimeoutError):
        # The client is gone: there is no one to answer.
        if request.transport is not None:
            request.transport.abort()
    finally:
        await cancel_all([task])
    return response


async def _lines(response: web.StreamResponse, lines: Sequence[object]) -> None:
    if lines:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        await within(SLOW_S, response.write(text.encode()))
