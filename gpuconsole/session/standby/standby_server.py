"""What a head answers while it does not lead: where the lab's queue is, and a take-over."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from gpuconsole.core.lab_service.rights import ROOT_UID, Caller, Rights
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UnreachableError
from gpuconsole.session.lab_service.http.callers import caller_of
from gpuconsole.session.lab_service.http.unix_server import (
    UnixServer,
    errors_as_answers,
    json_answer,
    require_version,
)
from gpuconsole.session.lab_service.protocol import (
    ANSWER,
    HEAD,
    REQUEST,
    REQUEST_BYTES,
    VERSION,
    Answer,
    HeadState,
)

TAKE_OVER = "takeover"
"""The verb of the act."""


class StandbyServer:
    """Serves the socket of a standby head, while it is entered."""

    def __init__(
        self,
        path: Path,
        rights: Rights,
        state: Callable[[], HeadState],
        take_over: Callable[[bool, Caller], Awaitable[None]],
    ) -> None:
        """`take_over` is called with whether it is forced, and who asks; it raises the
        ConsoleError for a take-over that cannot be."""
        self._rights = rights
        self._state = state
        self._take_over = take_over
        application = web.Application(
            client_max_size=REQUEST_BYTES, middlewares=[errors_as_answers]
        )
        application.router.add_get(f"/v{VERSION}/head", self._head)
        application.router.add_post(f"/v{VERSION}/act", self._act)
        application.router.add_route("*", "/{rest:.*}", self._elsewhere)
        self._server = UnixServer(application, path)

    async def __aenter__(self) -> StandbyServer:
        """Begin to serve. UsageError where the socket cannot be made."""
        await self._server.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End all connections."""
        await self._server.end()

    async def _head(self, request: web.Request) -> web.Response:
        return json_answer(HEAD.dump_json(self._state()))

    async def _act(self, request: web.Request) -> web.Response:
        wanted = REQUEST.validate_json(await request.read())
        if wanted.verb != TAKE_OVER:
            raise self._refusal()
        assert request.transport is not None
        caller = caller_of(request.transport)
        self._require_operator(caller)
        await self._take_over(wanted.text == "force", caller)
        return json_answer(ANSWER.dump_json(Answer()))

    def _require_operator(self, caller: Caller) -> None:
        own = caller.uid in (ROOT_UID, os.geteuid())
        if not own and not self._rights.is_operator(caller):
            raise RefusedError(
                "Taking over is for the lab's operators",
                msg("You are {name} here.", name=caller.name),
                "Ask one of them.",
            )  # fmt: skip

    async def _elsewhere(self, request: web.Request) -> web.StreamResponse:
        require_version(request)
        raise self._refusal()

    def _refusal(self) -> UnreachableError:
        state = self._state()
        other = "{head} leads" if state.active else "no head is known that leads"
        return UnreachableError(
            "This head is on standby",
            msg(
                f"{{name}} is on standby; {other} the lab's queue.",
                name=state.name,
                head=state.active,
            ),
            "Name all heads in the inventory: `queue: {host: [HEAD, HEAD]}`.",
        )
