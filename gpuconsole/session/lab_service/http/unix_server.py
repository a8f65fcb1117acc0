"""HTTP on a unix socket that every account of a host may connect to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError
from pydantic import ValidationError

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, UsageError
from gpuconsole.session.lab_service.http.connections import Gate
from gpuconsole.session.lab_service.protocol import REFUSAL, VERSION, outdated, refusal_of

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_STATUS = {1: 409, 2: 400, 3: 502}
"""HTTP's word for the exit code of an error."""

_LOG = logging.getLogger("gpuconsole.lab_queue")
_LOG.addFilter(
    lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
)
"""Malformed requests are reported to the client only: otherwise any client could fill the log."""
IDLE_S = 60.0
"""How long a connection may stand between two requests, or before its first is complete."""


class UnixServer:
    """Serves an application on a socket."""

    def __init__(self, application: web.Application, path: Path) -> None:
        self.path = path
        self._server: asyncio.AbstractServer | None = None
        self._runner = web.AppRunner(
            application,
            access_log=None,
            shutdown_timeout=1.0,
            keepalive_timeout=IDLE_S,
            logger=_LOG,
        )

    async def start(self) -> None:
        """Begin to serve. UsageError where the socket cannot be made."""
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        try:
            _clear(self.path)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(Gate(server), self.path)
            # Everybody may connect: who they are the kernel says, and what they may the rights.
            self.path.chmod(0o666)
        except OSError as error:
            await self._runner.cleanup()
            raise UsageError(
                "Socket cannot be made",
                msg("{path}: {value}.", path=self.path, value=os.strerror(error.errno or 0)),
                "Choose another with --socket PATH.",
            ) from error  # fmt: skip

    def close(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()

    async def end(self) -> None:
        """End all connections, and remove the socket."""
        self.close()
        await self._runner.cleanup()
        with contextlib.suppress(OSError):
            self.path.unlink()


def _clear(path: Path) -> None:
    """Remove the socket of a service that has died; nothing else may stand there."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.stat(follow_symlinks=False).st_mode):
            path.unlink()


def json_answer(body: bytes, status: int = 200) -> web.Response:
    """Return an answer that is JSON."""
    return web.Response(body=body, status=status, content_type="application/json")


@web.middleware
async def errors_as_answers(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send errors for people as what they are, and what a client did wrong as its error."""
    try:
        return await handler(request)
    except ConsoleError as error:
        return json_answer(REFUSAL.dump_json(refusal_of(error)), _STATUS[error.exit_code])
    except web.HTTPClientError as error:
        wrong = UsageError("Wrong request", clean(error.text or error.reason, 300))
        return json_answer(REFUSAL.dump_json(refusal_of(wrong)), error.status)
    except (ConnectionError, ClientPayloadError) as error:
        # The client closed half-way: nothing to answer, and nothing for the log.
        wrong = UsageError("Wrong request", clean(str(error), 300))
        return json_answer(REFUSAL.dump_json(refusal_of(wrong)), 400)
    except HttpProcessingError as error:
        wrong = UsageError("Wrong request", clean(error.message, 300))
        return json_answer(REFUSAL.dump_json(refusal_of(wrong)), 400)
    except (ValidationError, ValueError) as error:
        wrong = UsageError("Wrong request", clean(str(error).splitlines()[0], 300))
        return json_answer(REFUSAL.dump_json(refusal_of(wrong)), 400)


def require_version(request: web.Request) -> None:
    """Raise RefusedError for a request of another version of the protocol."""
    version = request.path.split("/")[1].removeprefix("v")
    if version.isascii() and version.isdigit() and len(version) < 6 and int(version) != VERSION:
        raise outdated(int(version))
