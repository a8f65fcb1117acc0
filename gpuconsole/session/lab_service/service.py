"""The lab's service: it owns the queue, and serves it to everybody on a unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from gpuconsole.config import NotifySection
from gpuconsole.core.jobs import Job
from gpuconsole.core.lab_service.rights import Caller
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.lab_service.feed import Feed
from gpuconsole.session.lab_service.host_operations import Operations
from gpuconsole.session.lab_service.host_reads import HostReads
from gpuconsole.session.lab_service.http.bodies import ACT_BYTES, OPERATION_BYTES, Bodies
from gpuconsole.session.lab_service.http.callers import caller_of
from gpuconsole.session.lab_service.http.rates import Rates
from gpuconsole.session.lab_service.http.unix_server import (
    Handler,
    UnixServer,
    errors_as_answers,
    json_answer,
    require_version,
)
from gpuconsole.session.lab_service.images import LabImages
from gpuconsole.session.lab_service.inside import Inside
from gpuconsole.session.lab_service.intake import Intake
from gpuconsole.session.lab_service.measuring import Measuring
from gpuconsole.session.lab_service.measuring_turns import MeasuringTurns
from gpuconsole.session.lab_service.protocol import (
    ACTS,
    ANSWER,
    DIGEST,
    FILES,
    IMAGE,
    IMAGES,
    MOST_THROUGH,
    NOTIFIED,
    NOTIFY,
    OFFERS,
    REPORT,
    REQUEST,
    REQUEST_BYTES,
    SUBMISSION,
    THROUGH,
    VERSION,
    Answer,
    Hello,
    Message,
    Notified,
    packed,
)
from gpuconsole.session.lab_service.queue_actions import Acts, cost_of
from gpuconsole.session.lab_service.reports import Reports
from gpuconsole.session.lab_service.uploads import Uploads, read_document
from gpuconsole.session.logs.follow import is_being_copied, log_file
from gpuconsole.session.messages.delivery import Ways
from gpuconsole.session.messages.service import UserSettings, read_settings, refused_ways
from gpuconsole.session.messages.webhooks import Guard
from gpuconsole.session.standby.lead import Lead
from gpuconsole.session.standby.routes import add_routes, is_service
from gpuconsole.session.triage.own_marks import OwnMarks
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
TEST_AGAIN_S = 5.0
"""Rest between two test messages of an account."""


class LabService:
    """Serves a session's queue while it is entered; the session is the one that dispatches."""

    def __init__(self, session: Session, path: Path, lead: Lead | None = None) -> None:
        """`path` is the socket's; callers are identified by their account. With `lead` a
        standby may follow, and what callers ask for is safe there before it is answered."""
        settings = session.settings
        self._session = session
        self.path = path
        self._lead = lead
        self._rights = settings.rights.rights()
        policy = settings.allowed.policy()
        allowed = settings.allowed
        self._users = UserSettings(session._context)
        self._ways = Ways(
            session.now, settings.sendmail, Guard(allowed.webhooks), allowed.mail, desktop=False
        )
        session.messages.serve(self._ways, self._users.of)
        self._marks = OwnMarks(session._context)
        session.triage.shared = self._marks.shared
        self._intake = Intake(session, self._rights, policy)
        self._acts = Acts(session, self._rights, self._intake, self._marks)
        self._reports = Reports(session, self._rights)
        self._uploads = Uploads(session._context.bundle("x").parent)
        self._images = LabImages(session, self._rights, policy)
        turns, record = MeasuringTurns(), self._acts.record
        self._measuring = Measuring(
            session, self._rights, policy, self._images, self._uploads, turns, record
        )
        self._operations = Operations(session, self._rights, self._images, turns, record)
        self._inside = Inside(session, self._rights, record, session.now)
        self._feed = Feed(session, session.now, self._marks)
        self._tasks: list[asyncio.Task[None]] = []
        self._server = UnixServer(self._application(), path)
        self._tested: dict[int, float] = {}
        self._rates = Rates(time.monotonic)
        self._bodies = Bodies()
        self._reads = HostReads()
        self._looked: dict[tuple[int, str, str], None] = {}
        """Who has looked at what of somebody else's job: it is recorded once."""

    async def __aenter__(self) -> LabService:
        """Begin to serve. UsageError where the socket cannot be made."""
        self._uploads.clear()
        self._intake.hold_forbidden()
        self._feed.look()
        await self._server.start()
        self._tasks = [asyncio.ensure_future(self._beat())]
        if self._lead is not None:
            leading = self._lead.run(self._session._context)
            self._tasks.append(asyncio.ensure_future(leading))
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End all connections; jobs run on."""
        self._server.close()
        await cancel_all(self._tasks)
        await self._server.end()

    def _application(self) -> web.Application:
        application = web.Application(
            client_max_size=REQUEST_BYTES, middlewares=[errors_as_answers, self._counted]
        )
        for method, path, handler in (
            ("GET", "watch", self._watch),
            ("POST", "act", self._act),
            ("POST", "submit", self._submit),
            ("POST", "measure", self._measure),
            ("POST", "operation", self._operation),
            ("GET", "image", self._image),
            ("GET", "images", self._listed),
            ("GET", "digest", self._digest),
            ("GET", "log", self._log),
            ("GET", "results", self._results),
            ("GET", "files", self._files),
            ("GET", "inside", self._connect),
            ("GET", "audit", self._audit),
            ("POST", "notify", self._notify),
            ("GET", "report", self._report),
        ):
            application.router.add_route(method, f"/v{VERSION}/{path}", handler)
        if self._lead is not None:
            add_routes(application, self._session._context, self._lead, _caller)
        application.router.add_route("*", "/{rest:.*}", _other_version)
        return application

    @web.middleware
    async def _counted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        caller = _caller(request)
        if not (request.path.startswith(f"/v{VERSION}/journal") and is_service(caller)):
            # A standby asks once for each job; no other account gets an answer there.
            self._rates.take(caller.uid)
        return await handler(request)

    async def _beat(self) -> None:
        trouble = ""
        while True:
            try:
                self._feed.look()
                trouble = ""
            except ConsoleError:
                # The writer of the journal reports its errors.
                pass
            except Exception as error:
                # What cannot be shown now may be at the next look; the error is reported once.
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

        feed, user = self._feed, caller.name
        everything = self._rights.is_operator(caller)
        try:
            await _send(socket, packed(Message(hello=self._hello(caller))))
            sent = feed.beat.number
            await _send(socket, feed.whole().message(everything=everything))
            await _send(socket, feed.own(user, may_see, everything=everything))
            while True:
                if feed.beat.number == sent:
                    await feed.next()
                if feed.beat.number == sent + 1:
                    changes = feed.beat.changes
                    own = feed.own_changes(user, may_see, everything=everything)
                else:
                    # It was too slow for the beats between: it hears everything again.
                    changes, own = feed.whole(), feed.own(user, may_see, everything=everything)
                sent = feed.beat.number
                # What is the user's own goes first: it says more of the same jobs.
                for message in filter(None, (own, changes.message(everything=everything))):
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
            # The recipients of the service's account are its own.
            session.settings.model_copy(update={"triage": triage, "notify": NotifySection()}),
            session.simulated,
            session._journal.id,
            {host.name: session._context.default_image(host.name) for host in hosts},
            OFFERS,
        )

    async def _act(self, request: web.Request) -> web.Response:
        caller = _caller(request)
        wanted = REQUEST.validate_json(await self._bodies.read(request, caller.uid, ACT_BYTES))
        self._rates.take(caller.uid, cost_of(wanted))
        jobs = await self._acts.do(caller, wanted)
        await self._confirmed()
        return json_answer(ANSWER.dump_json(Answer(tuple(jobs))))

    async def _submit(self, request: web.Request) -> web.Response:
        caller = _caller(request)
        with self._uploads.turn(caller):
            parts = await request.multipart()
            first = await read_document(await parts.next(), "submission", REQUEST_BYTES)
            submission = SUBMISSION.validate_json(first)
            subject = submission.jobs[0].task.name if submission.jobs else ""
            try:
                # Before a large project is taken, and once more when it is queued.
                self._intake.require(caller, submission)
                limit_mib = self._session.settings.code_size_limit
                stored = await self._intake.stored(caller)
                async with self._uploads.received(await parts.next(), limit_mib, stored) as bundle:
                    self._intake.require(caller, submission)
                    jobs = self._intake.take(caller, submission, bundle)
            except ConsoleError as error:
                self._acts.record(caller, "submit", subject, refused=error.message)
                raise
        ids = " ".join(job.id for job in jobs[:20])
        self._acts.record(caller, "submit", ids, f"{subject}: {len(jobs)}")
        await self._confirmed()
        return json_answer(ANSWER.dump_json(Answer(jobs)))

    async def _confirmed(self) -> None:
        """Wait until what was just written survives this head, where a standby is to see to it."""
        if self._lead is not None:
            await self._lead.confirmed()

    async def _measure(self, request: web.Request) -> web.StreamResponse:
        return await self._measuring.answer(_caller(request), request, await request.multipart())

    async def _image(self, request: web.Request) -> web.Response:
        query = request.query
        async with self._look(request) as host:
            facts = await self._images.facts(host, query.get("image", ""))
        return json_answer(IMAGE.dump_json(facts))

    async def _operation(self, request: web.Request) -> web.StreamResponse:
        caller = _caller(request)
        body = await self._bodies.read(request, caller.uid, OPERATION_BYTES)
        return await self._operations.answer(caller, request, body)

    async def _listed(self, request: web.Request) -> web.Response:
        image = request.query.get("image", "")
        async with self._look(request) as host:
            if image:
                records = await self._images.found(host, image)
            else:
                records = await self._images.listed(_caller(request), host)
        return json_answer(IMAGES.dump_json(records))

    async def _digest(self, request: web.Request) -> web.Response:
        query = request.query
        async with self._look(request) as host:
            digest = await self._images.digest(host, query.get("image", ""))
        return json_answer(DIGEST.dump_json(digest))

    async def _log(self, request: web.Request) -> web.Response:
        job = self._own_job(request, "log")
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
        wanted = request.query.get("what", "")
        what = wanted if wanted in ("checkpoint", "records") else "results"
        job, host = self._own_job(request, what), request.query.get("host", "")
        _require_host(job, host)
        async with self._reads.turn(_caller(request).uid, host):
            engine = await self._session.hosts.engine(host)
            if what == "checkpoint":
                chunks = engine.checkpoint(job.id)
            elif what == "records":
                chunks = engine.records(job.id)
            else:
                chunks = engine.results(job.id)
            return await _sent_on(request, chunks)

    async def _files(self, request: web.Request) -> web.Response:
        job, host = self._own_job(request, "results"), request.query.get("host", "")
        _require_host(job, host)
        async with self._reads.turn(_caller(request).uid, host):
            engine = await self._session.hosts.engine(host)
            return json_answer(FILES.dump_json(await engine.list_results(job.id)))

    @contextlib.asynccontextmanager
    async def _look(self, request: web.Request) -> AsyncIterator[str]:
        """Hold a look at the host that a request names, which must be up."""
        host = request.query.get("host", "")
        self._images.require_up(host)
        async with self._reads.turn(_caller(request).uid, host):
            yield host

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        return await self._inside.answer(_caller(request), request)

    async def _audit(self, request: web.Request) -> web.Response:
        caller = _caller(request)
        limit = min(_number(request, "limit"), MOST_ACTS)
        user = "" if self._rights.is_operator(caller) else caller.name
        return json_answer(ACTS.dump_json(self._session._journal.acts(limit, user)))

    async def _report(self, request: web.Request) -> web.Response:
        report = await self._reports.make(_caller(request), request.query)
        return json_answer(REPORT.dump_json(report))

    async def _notify(self, request: web.Request) -> web.Response:
        caller = _caller(request)
        wanted = NOTIFY.validate_json(await self._bodies.read(request, caller.uid, ACT_BYTES))
        settings = read_settings(wanted.settings)
        if self._users.keep(caller.name, settings) or wanted.test:
            # Of the settings themselves the audit says nothing: addresses are secret.
            self._acts.record(caller, "notify", "test" if wanted.test else "settings")
        refused, way = refused_ways(settings, self._ways), ""
        if wanted.test:
            with self._testing(caller):
                way, refused = await self._session.messages.test(caller.name, settings)
        return json_answer(NOTIFIED.dump_json(Notified(way, tuple(refused))))

    @contextlib.contextmanager
    def _testing(self, caller: Caller) -> Iterator[None]:
        """Let an account have one test message sent at a time, and not too often."""
        now = asyncio.get_running_loop().time()
        if now < self._tested.get(caller.uid, 0.0):
            raise RefusedError("Too many tests", "Wait a few seconds before the next one.")
        self._tested[caller.uid] = float("inf")
        try:
            yield
        finally:
            self._tested[caller.uid] = asyncio.get_running_loop().time() + TEST_AGAIN_S

    def _own_job(self, request: web.Request, what: str) -> Job:
        """Return the job with the log or results that are requested; requests for those of another
        user are audited, also refused ones."""
        caller = _caller(request)
        job = self._session._journal.job(request.query.get("job", ""))
        if job is None:
            raise UsageError("No such job", "The lab's queue has no such job.")
        refused = ""
        try:
            self._rights.require_own(caller, job)
        except RefusedError as error:
            refused = error.message
            raise
        finally:
            if job.user != caller.name and (caller.uid, what, job.id) not in self._looked:
                self._acts.record(caller, what, job.id, refused=refused)
                self._looked[caller.uid, what, job.id] = None
                if len(self._looked) > MOST_ACTS:
                    del self._looked[next(iter(self._looked))]
        return job


def _caller(request: web.Request) -> Caller:
    transport = request.transport
    if transport is None:
        raise ConnectionResetError
    caller, through = caller_of(transport), request.headers.get(THROUGH, "")
    if not through:
        return caller
    said = clean(through, MOST_THROUGH)
    return replace(caller, origin=f"{caller.origin}, through {said}")


async def _sent_on(request: web.Request, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    """Answer with a host's data."""
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


def _number(request: web.Request, name: str) -> int:
    text = request.query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise UsageError("Wrong request", msg("`{name}` is no number.", name=name))
    return int(text)


def _require_host(job: Job, host: str) -> None:
    """Raise UsageError for a host that a job has not run on."""
    ran = {part.host for attempt in job.attempts for part in attempt.parts}
    if host not in ran:
        raise UsageError(
            "Wrong host",
            msg("Job {id} has not run on {value}.", id=job.id, value=f"{clean(host, 80)!r}"),
        )


def _part(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(LOG_BYTES)
    except FileNotFoundError:
        return b""


async def _send(socket: web.WebSocketResponse, message: bytes) -> None:
    await within(SLOW_S, socket.send_bytes(message))


async def _other_version(request: web.Request) -> web.StreamResponse:
    require_version(request)
    raise UsageError("No such request", "The lab's queue does not know it.")
