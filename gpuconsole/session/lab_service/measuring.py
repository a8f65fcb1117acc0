"""Scripts of callers measured on the lab's hosts: their consoles have no link to these."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import MultipartReader, web

from gpuconsole.core.estimate import Estimate
from gpuconsole.core.fleet import Device
from gpuconsole.core.jobs import Task
from gpuconsole.core.lab_service.rights import Caller, Policy, Rights, require_allowed
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, NotHereError, RefusedError
from gpuconsole.session.dispatch.attempt.container_spec import (
    require_safe_source,
    require_targets,
)
from gpuconsole.session.estimate.measurement_on_device import measure_on_device
from gpuconsole.session.estimate.measurement_on_host import Asked, clear, measure_on_host
from gpuconsole.session.lab_service.http.rates import Underway
from gpuconsole.session.lab_service.http.streams import send_while
from gpuconsole.session.lab_service.images import LabImages
from gpuconsole.session.lab_service.intake import require_mounts
from gpuconsole.session.lab_service.measuring_turns import MeasuringTurns
from gpuconsole.session.lab_service.protocol import MEASUREMENT, REQUEST_BYTES, Measurement
from gpuconsole.session.lab_service.uploads import Uploads, read_document

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

MOST_AT_ONCE = 2
"""Measurements of one account that run or wait; a host takes one at a time from all."""
Record = Callable[[Caller, str, str, str, str], None]
"""Writes an act: who, what, to what, more of it, and why it was refused."""


class Measuring:
    """Measures for callers, within the lab's policy."""

    def __init__(
        self,
        session: Session,
        rights: Rights,
        policy: Policy,
        images: LabImages,
        uploads: Uploads,
        turns: MeasuringTurns,
        record: Record,
    ) -> None:
        """`record` writes an act into the audit."""
        self._session = session
        self._rights = rights
        self._policy = policy
        self._images = images
        self._uploads = uploads
        self._turns = turns
        self._record = record
        self._cleared: set[str] = set()
        """Hosts on which nothing is left of the measurements of a service before."""
        self._running = Underway()

    async def answer(
        self, caller: Caller, request: web.Request, parts: MultipartReader
    ) -> web.StreamResponse:
        """Measure what a request asks for, and send lines: `{"progress": …, "stage": …}` while it
        goes on, then what `streams.send_while` says.

        ConsoleError where it is refused before it begins. A console that goes away calls it off.
        """
        document = await read_document(await parts.next(), "measurement", REQUEST_BYTES)
        wanted = MEASUREMENT.validate_json(document)
        subject, detail = clean(wanted.host, 80), f"device {wanted.device}" * bool(wanted.device)
        try:
            task = self._require(caller, wanted)
            turn = self._account(caller)
        except ConsoleError as error:
            self._record(caller, "measure", subject, detail, error.message)
            raise
        with turn, self._uploads.turn(caller):
            limit_mib = self._session.settings.code_size_limit
            async with self._uploads.received(await parts.next(), limit_mib) as bundle:
                self._record(caller, "measure", subject, detail, "")
                said: deque[dict[str, object]] = deque(maxlen=1)
                asked = Asked(
                    task,
                    wanted.image,
                    bundle,
                    wanted.request,
                    lambda share, stage: said.append(
                        {"progress": share, "stage": clean(stage, 80)}
                    ),
                    wanted.patient,
                    user=caller.name,
                    run_as=self._policy.run_as(caller),
                )
                asked.progress(0.0, "starting")
                return await send_while(
                    request, self._measured(caller, wanted, asked), lambda: tuple(said)
                )

    async def _measured(self, caller: Caller, wanted: Measurement, asked: Asked) -> bytes:
        context, name = self._session._context, wanted.host
        entry = context.hosts.snapshot().host(name)
        assert entry is not None
        engine = await context.hosts.engine(name)
        # Before the turn: a pull may take an hour, and the host measures for others meanwhile.
        await engine.ensure_image(asked.image, lambda words: asked.progress(0.0, words))
        waiting = f"waiting for another measurement on {name}"
        async with self._turns.turn(
            caller.uid,
            name,
            patient=wanted.patient,
            on_wait=lambda: asked.progress(0.0, waiting),
        ):
            if name not in self._cleared:
                # A service that was killed left its container, and the device of that.
                with contextlib.suppress(ConsoleError):
                    await clear(context, name, alone=True)
                self._cleared.add(name)
            if not wanted.device:
                return await measure_on_host(context, entry, asked)
            device = await self._spare_device(caller, wanted)
            return await measure_on_device(context, entry, device, asked)

    async def _spare_device(self, caller: Caller, wanted: Measurement) -> Device:
        """Return the device that was asked for. NotHereError unless a job of the caller could
        start there now and nothing uses, leases or is about to take it, whatever the console says
        of it; RefusedError where the caller's quota is used up."""
        host = self._session.snapshot().host(wanted.host)
        device = next(
            (device for device in host.devices if device.uuid == wanted.device)
            if host
            else iter(()),
            None,
        )
        if device is not None:
            task = Task("measure", image=wanted.image, backend=device.backend, devices=1)
            unread = Estimate("", None, None, device.backend, "static", 0.0, None)
            self._session._leases.forget(wanted.host)
            spare = await self._session.estimates.spare.find(task, unread, wanted.host, caller.name)
            if any(each.device.uuid == device.uuid for each in spare):
                return device
        raise NotHereError(
            "No device is idle",
            msg(
                "The device that was asked for on {host} is in use, leased, or "
                "wanted by a job that is about to start.",
                host=wanted.host,
            ),
            "Wait until one is idle, or measure without a device (--tier traced).",
        )

    def _require(self, caller: Caller, wanted: Measurement) -> Task:
        """Return what is measured. ConsoleError for what the lab does not allow."""
        session = self._session
        if session.settings.measure == "never":
            raise RefusedError("The lab measures nothing", "Its settings say `measure: never`.")
        if session.simulated:
            raise RefusedError("The simulated lab measures nothing", "Its hosts run no containers.")
        self._images.require_up(wanted.host)
        if wanted.device:
            self._rights.require_device(caller)
        task = Task("measure", image=wanted.image, mounts=wanted.mounts, backend="cpu")
        require_mounts(task)
        require_allowed(replace(task, devices=1), self._policy)
        self._images.require_image(wanted.image)
        self._policy.run_as(caller)
        require_targets(task)
        for mount in task.mounts:
            require_safe_source(mount)
        return task

    def _account(self, caller: Caller) -> contextlib.AbstractContextManager[None]:
        """Return what counts a measurement of an account. RefusedError where it has too many."""
        if self._running.of(caller.uid) >= MOST_AT_ONCE:
            raise RefusedError(
                "Too many measurements at once",
                msg("An account has {most_at_once} at once.", most_at_once=MOST_AT_ONCE),
            )
        return self._running.one_more(caller.uid)
