"""What the head that leads answers to a standby, beside what it answers to consoles."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from gpuconsole.core.lab_service.rights import ROOT_UID, Caller
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.lab_service.http.unix_server import json_answer
from gpuconsole.session.lab_service.protocol import HEAD, VERSION, HeadState
from gpuconsole.session.standby.protocol import CONFIRMED
from gpuconsole.waiting import within

if TYPE_CHECKING:
    from gpuconsole.session.standby.copying import Copying
    from gpuconsole.session.standby.lead import Lead

SLOW_S = 30.0
"""How long a standby may take for a frame before its connection is ended."""
_LONGEST = 1024
"""Bytes of what a standby says at once."""


def add_routes(
    application: web.Application, context: Context, lead: Lead, caller_of: Callable[..., Caller]
) -> None:
    """Let a standby follow the journal of a service. `caller_of` tells who sent a request."""
    routes = _Routes(context, lead, caller_of)
    for path, handler in (
        ("head", routes.head),
        ("journal", routes.journal),
        ("journal/file", routes.file),
    ):
        application.router.add_route("GET", f"/v{VERSION}/{path}", handler)


def is_service(caller: Caller) -> bool:
    """Tell whether an account is root or the service's own."""
    return caller.uid in (ROOT_UID, os.geteuid())


def require_service(caller: Caller) -> None:
    """Raise RefusedError for every account but the service's: the journal has the variables,
    arguments and projects of all users in it."""
    if not is_service(caller):
        raise RefusedError(
            "Only a standby reads the journal",
            msg("{name} is not the service's account.", name=caller.name),
            "Run the standby under the account of the lab's service.",
        )  # fmt: skip


class _Routes:
    def __init__(self, context: Context, lead: Lead, caller_of: Callable[..., Caller]) -> None:
        self._context = context
        self._lead = lead
        self._caller_of = caller_of

    async def head(self, request: web.Request) -> web.Response:
        lead = self._lead
        leads = not lead.deposed.is_set()
        active = lead.leader.name if lead.leader is not None else ""
        state = HeadState(leads, lead.name, active, lead.standby, leads and lead.gated)
        return json_answer(HEAD.dump_json(state))

    async def journal(self, request: web.Request) -> web.StreamResponse:
        require_service(self._caller_of(request))
        name = clean(request.query.get("name", ""), 128) or "a standby"
        socket = web.WebSocketResponse(max_msg_size=_LONGEST, compress=False)

        async def send(data: bytes) -> None:
            await within(SLOW_S, socket.send_bytes(data))

        head = clean(request.query.get("head", ""), 64)
        copying = await self._lead.follow(self._context, name, head, send)
        try:
            await socket.prepare(request)
            sending = asyncio.ensure_future(_sent(copying, socket))
            try:
                async for message in socket:
                    if message.type is not WSMsgType.TEXT:
                        break
                    self._lead.heard(copying, CONFIRMED.validate_json(message.data).number)
            finally:
                await cancel_all([sending])
        finally:
            self._lead.left(copying)
        return socket

    async def file(self, request: web.Request) -> web.StreamResponse:
        require_service(self._caller_of(request))
        job = self._context.journal.job(request.query.get("job", ""))
        if job is None:
            raise UsageError("No such job", "The lab's queue has no such job.")
        if request.query.get("what") == "secrets":
            values = self._context.secrets.values(job.id)
            return web.json_response(dict(values))
        return web.FileResponse(self._context.bundle(job.id))


async def _sent(copying: Copying, socket: web.WebSocketResponse) -> None:
    try:
        await copying.run()
    except (ConsoleError, ConnectionError, asyncio.TimeoutError, OSError):
        await socket.close()
