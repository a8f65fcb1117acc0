"""The lab's service: it owns the queue, and serves it to everybody on a unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import BodyPartReader, WSMsgType, web
from pydantic import ValidationError

from gpuconsole.core.jobs import Job
from gpuconsole.core.lab_rights import Caller
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.session.aio import cancel_all
from gpuconsole.session.lab_service.acts import Acts
from gpuconsole.session.lab_service.callers import caller_of
from gpuconsole.session.lab_service.connections import Gate
from gpuconsole.session.lab_service.feed import Feed
from gpuconsole.session.lab_service.intake import Intake
from gpuconsole.session.lab_service.protocol import (
    ACTS,
    ANSWER,
    FILES,
    REFUSAL,
    REQUEST,
    REQUEST_BYTES,
    SUBMISSION,
    VERSION,
    Answer,
    Hello,
    Message,
    outdated,
    packed,
    refusal_of,
)
from gpuconsole.session.logs.follow import is_being_copied, log_file
from gpuconsole.state.filesystem import make_folder
from gpuconsole.waiting import within

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

BEAT_S = 0.5
"""How often consoles hear what is new."""
SLOW_S = 30.0
"""How long a console may take for a message before it is dropped."""
LOG_WAIT_S = 20.0
"""How long a request for more of a log waits for more."""
LOG_BYTES = 1 * MIB
"""Of one answer."""
MOST_ACTS = 10_000
_UPLOAD = ".upload-"
"""How the names of projects begin that are still being received."""
_STATUS = {1: 409, 2: 400, 3: 502}
"""HTTP's word for the exit code of an error."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LabService:
    """Serves a session's queue while it is entered; the session is the one that dispatches."""

    def __init__(self, session: Session, path: Path) -> None:
        """`path` is the socket's; whoever reaches it is known by their account."""
        settings = session.settings
        self._session = session
        self.path = path
        self._rights = settings.rights.rights()
        policy = settings.allowed.policy()
        self._acts = Acts(session, self._rights, policy)
        self._intake = Intake(session, self._rights, policy)
        self._bundles = session._context.bundle("x").parent
        self._feed = Feed(session, session.now)
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.AbstractServer | None = None
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=1.0)
        self._uploads: Counter[int] = Counter()

    async def __aenter__(self) -> LabService:
        """Begin to serve. UsageError where the socket cannot be made."""
        for left in self._bundles.glob(f"{_UPLOAD}*"):
            # Of a service that was killed: nobody else would ever remove it.
            left.unlink(missing_ok=True)
        self._feed.look()
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
                "Socket cannot be made", f"{self.path}: {os.strerror(error.errno or 0)}.",
                "Choose another with --socket PATH.",
            ) from error  # fmt: skip
        self._tasks = [asyncio.ensure_future(self._beat())]
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End all connections; jobs run on."""
        assert self._server is not None
        self._server.close()
        await cancel_all(self._tasks)
        await self._runner.cleanup()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=REQUEST_BYTES, middlewares=[_errors])
        for method, path, handler in (
            ("GET", "watch", self._watch),
            ("POST", "act", self._act),
            ("POST", "submit", self._submit),
            ("GET", "log", self._log),
            ("GET", "results", self._results),
            ("GET", "files", self._files),
            ("GET", "audit", self._audit),
        ):
            application.router.add_route(method, f"/v{VERSION}/{path}", handler)
        application.router.add_route("*", "/{rest:.*}", _other_version)
        return application

    async def _beat(self) -> None:
        trouble = ""
        while True:
            try:
                self._feed.look()
                trouble = ""
            except ConsoleError:
                # The journal's trouble is told by whoever writes it.
                pass
            except Exception as error:
                # Whatever cannot be shown now, the next look may; it is told once.
                if trouble != repr(error):
                    trouble = repr(error)
                    said = {"message": "The lab's queue cannot be shown", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(said)
            await asyncio.sleep(BEAT_S)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        caller = _caller(request)
        socket = web.WebSocketResponse(heartbeat=SLOW_S, max_msg_size=4096, compress=False)
        await socket.prepare(request)
        telling = asyncio.ensure_future(self._tell(socket, caller))
        try:
            async for message in socket:
                # A console says nothing here.
                if message.type is not WSMsgType.PONG:
                    break
        finally:
            await cancel_all([telling])
        return socket

    async def _tell(self, socket: web.WebSocketResponse, caller: Caller) -> None:
        def may_see(job: Job) -> bool:
            return self._rights.may_act_on(caller, job)

        feed = self._feed
        try:
            await _send(socket, packed(Message(hello=self._hello(caller))))
            sent = feed.beat.number
            await _send(socket, feed.whole())
            await _send(socket, feed.own(may_see))
            while True:
                if feed.beat.number == sent:
                    await feed.next()
                if feed.beat.number == sent + 1:
                    changes, own = feed.beat.changes, feed.own_changes(may_see)
                else:
                    # It was too slow for the beats between: it hears everything again.
                    changes, own = feed.whole(), feed.own(may_see)
                sent = feed.beat.number
                # What is the user's own goes first: it says more of the same jobs.
                for message in filter(None, (own, changes)):
                    await _send(socket, message)
        except (ConnectionError, asyncio.TimeoutError):
            await socket.close()

    def _hello(self, caller: Caller) -> Hello:
        session = self._session
        hosts = session.hosts.snapshot().hosts
        triage = session.settings.triage.model_copy(update={"webhook": ""})
        return Hello(
            VERSION,
            caller.name,
            self._rights.is_operator(caller),
            session.settings.model_copy(update={"triage": triage}),
            session.simulated,
            session._journal.id,
            {host.name: session._context.default_image(host.name) for host in hosts},
        )

    async def _act(self, request: web.Request) -> web.Response:
        wanted = REQUEST.validate_json(await request.read())
        jobs = await self._acts.do(_caller(request), wanted)
        return _json(ANSWER.dump_json(Answer(tuple(jobs))))

    async def _submit(self, request: web.Request) -> web.Response:
        caller = _caller(request)
        with self._uploading(caller):
            parts = await request.multipart()
            first = await parts.next()
            if not isinstance(first, BodyPartReader) or first.name != "submission":
                raise UsageError("Wrong submission", "It begins with no submission.")
            submission = SUBMISSION.validate_json(await _read(first, REQUEST_BYTES))
            subject = submission.jobs[0].task.name if submission.jobs else ""
            try:
                # Before a large project is taken, and once more when it is queued.
                self._intake.require(caller, submission)
                second = await parts.next()
                if not isinstance(second, BodyPartReader) or second.name != "bundle":
                    raise UsageError("Wrong submission", "It has no packed project.")
                async with self._received(second) as bundle:
                    self._intake.require(caller, submission)
                    jobs = self._intake.take(caller, submission, bundle)
            except ConsoleError as error:
                self._acts.record(caller, "submit", subject, refused=error.message)
                raise
        ids = " ".join(job.id for job in jobs[:20])
        self._acts.record(caller, "submit", ids, f"{subject}: {len(jobs)}")
        return _json(ANSWER.dump_json(Answer(jobs)))

    @contextlib.contextmanager
    def _uploading(self, caller: Caller) -> Any:
        """Let an account send a few projects at once: each takes space on the disk."""
        if self._uploads[caller.uid] >= MOST_UPLOADS:
            raise RefusedError("Too many submissions at once", "Wait for the others to end.")
        self._uploads[caller.uid] += 1
        try:
            yield
        finally:
            self._uploads[caller.uid] -= 1

    @contextlib.asynccontextmanager
    async def _received(self, part: BodyPartReader) -> AsyncIterator[Path]:
        """Give the file that a part is written to; it is removed unless it was moved."""
        limit = int(self._session.settings.code_size_limit * MIB)
        make_folder(self._bundles)
        handle, name = tempfile.mkstemp(dir=self._bundles, prefix=_UPLOAD)
        bundle, size = Path(name), 0
        try:
            with os.fdopen(handle, "wb") as file:
                while chunk := await part.read_chunk(256 * 1024):
                    size += len(chunk)
                    if size > limit:
                        raise UsageError(
                            "Project is too large",
                            f"The lab takes {limit // MIB} MiB packed.",
                            "Leave data out with a .gitignore, or mount it.",
                        )
                    await asyncio.to_thread(file.write, chunk)
            yield bundle
        finally:
            await asyncio.to_thread(bundle.unlink, missing_ok=True)

    async def _log(self, request: web.Request) -> web.Response:
        job = self._own_job(request)
        attempt, rank = _number(request, "attempt"), _number(request, "rank")
        offset = _number(request, "offset")
        path = log_file(self._session._journal.folder, job.id, attempt, rank)
        wait_s = LOG_WAIT_S if _number(request, "wait") else 0.0
        deadline = asyncio.get_running_loop().time() + wait_s
        while True:
            # First whether more may come, then what there is: in the other order the end is lost.
            over = self._is_over(job.id, attempt) and not is_being_copied(path)
            data = await asyncio.to_thread(_part, path, offset)
            if data or over or asyncio.get_running_loop().time() >= deadline:
                over = over and len(data) < LOG_BYTES
                return web.Response(body=data, headers={"X-Over": "1" if over else "0"})
            await asyncio.sleep(BEAT_S)

    def _is_over(self, job_id: str, attempt: int) -> bool:
        job = self._session._journal.job(job_id)
        if job is None or job.attempt is None or job.state.ended:
            return True
        return job.attempt.number > attempt

    async def _results(self, request: web.Request) -> web.StreamResponse:
        job, host = self._own_job(request), request.query.get("host", "")
        _require_host(job, host)
        engine = await self._session.hosts.engine(host)
        chunks = (
            engine.checkpoint(job.id)
            if request.query.get("what") == "checkpoint"
            else engine.results(job.id)
        )
        async with contextlib.aclosing(chunks) as stream:  # type: ignore[type-var]
            # What fails before the first byte is said as any error is.
            first = await anext(stream, None)
            response = web.StreamResponse()
            await response.prepare(request)
            if first is not None:
                # Who does not read holds the link to the host that everybody's jobs need.
                await within(SLOW_S, response.write(first))
                async for chunk in stream:
                    await within(SLOW_S, response.write(chunk))
            await response.write_eof()
        return response

    async def _files(self, request: web.Request) -> web.Response:
        job, host = self._own_job(request), request.query.get("host", "")
        _require_host(job, host)
        engine = await self._session.hosts.engine(host)
        return _json(FILES.dump_json(await engine.list_results(job.id)))

    async def _audit(self, request: web.Request) -> web.Response:
        caller = _caller(request)
        limit = min(_number(request, "limit"), MOST_ACTS)
        user = "" if self._rights.is_operator(caller) else caller.name
        return _json(ACTS.dump_json(self._session._journal.acts(limit, user)))

    def _own_job(self, request: web.Request) -> Job:
        job = self._session._journal.job(request.query.get("job", ""))
        if job is None:
            raise UsageError("No such job", "The lab's queue has no such job.")
        self._rights.require_own(_caller(request), job)
        return job


MOST_UPLOADS = 4
"""Projects that an account may send at once."""


def _clear(path: Path) -> None:
    """Remove the socket of a service that has died; nothing else may stand there."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.stat(follow_symlinks=False).st_mode):
            path.unlink()


def _caller(request: web.Request) -> Caller:
    transport = request.transport
    if transport is None:
        raise ConnectionResetError
    return caller_of(transport)


def _number(request: web.Request, name: str) -> int:
    text = request.query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise UsageError("Wrong request", f"`{name}` is no number.")
    return int(text)


def _require_host(job: Job, host: str) -> None:
    """Raise UsageError for a host that a job has not run on."""
    ran = {part.host for attempt in job.attempts for part in attempt.parts}
    if host not in ran:
        raise UsageError("Wrong host", f"Job {job.id} has not run on {clean(host, 80)!r}.")


def _part(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(LOG_BYTES)
    except FileNotFoundError:
        return b""


async def _send(socket: web.WebSocketResponse, message: bytes) -> None:
    await within(SLOW_S, socket.send_bytes(message))


async def _read(part: BodyPartReader, limit: int) -> bytes:
    data = bytearray()
    while chunk := await part.read_chunk():
        data += chunk
        if len(data) > limit:
            raise UsageError("Submission is too large", f"It has more than {limit} bytes.")
    return bytes(data)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


@web.middleware
async def _errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Send errors for people as what they are, and what a client did wrong as its error."""
    try:
        return await handler(request)
    except ConsoleError as error:
        return _json(REFUSAL.dump_json(refusal_of(error)), _STATUS[error.exit_code])
    except (ValidationError, ValueError) as error:
        wrong = UsageError("Wrong request", clean(str(error).splitlines()[0], 300))
        return _json(REFUSAL.dump_json(refusal_of(wrong)), 400)


async def _other_version(request: web.Request) -> web.StreamResponse:
    version = request.path.split("/")[1].removeprefix("v")
    if version.isascii() and version.isdigit() and len(version) < 6 and int(version) != VERSION:
        raise outdated(int(version))
    raise UsageError("No such request", "The lab's queue does not know it.")
