"""Work of callers on the lab's hosts that takes long: pulls, checks and copies of images,
calibration, and clearing what ended jobs left."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from aiohttp import web

from gpuconsole.core.lab_service.rights import Caller, Rights
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.placement.prepull import Fetch
from gpuconsole.session.lab_service.http.rates import Underway
from gpuconsole.session.lab_service.http.streams import send_while
from gpuconsole.session.lab_service.images import LabImages
from gpuconsole.session.lab_service.measuring import Record
from gpuconsole.session.lab_service.measuring_turns import MeasuringTurns
from gpuconsole.session.lab_service.protocol import (
    CALIBRATED,
    CHECKED,
    COPIED,
    NO_DEVICE,
    OPERATION,
    PRUNED,
    PULLED,
    Checked,
    Operation,
    Pulled,
    refusal_of,
)
from gpuconsole.waiting import within

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

MOST_AT_ONCE = 2
"""Operations of one account at once."""
MOST_IN_ALL = 32
"""Operations of all accounts at once."""
MOST_PULLS = 1000
"""Pulls of one operation."""
LONGEST_S = 4 * 3600.0
"""How long one operation may take, with what it waits for."""
_MOST_SAID = 100
"""Sentences that are kept for the next beat; the latest."""
_LONGEST_SAID = 500

Tell = Callable[[str, str], None]
"""Hears a host's name and a sentence."""
_Work = Callable[[Caller, Operation, Tell], Awaitable[bytes]]


class Operations:
    """Does for callers what takes a link to a host, where they may."""

    def __init__(
        self,
        session: Session,
        rights: Rights,
        images: LabImages,
        turns: MeasuringTurns,
        record: Record,
    ) -> None:
        """`record` writes an act into the audit."""
        self._session = session
        self._rights = rights
        self._images = images
        self._turns = turns
        self._record = record
        self._running = Underway()
        self._verbs: Mapping[str, tuple[Callable[[Caller, Operation], None], _Work]] = {
            "pull": (self._may_pull, self._pull),
            "check": (self._may_check, self._check),
            "copy": (self._may_copy, self._copy),
            "calibrate": (self._may_calibrate, self._calibrate),
            "prune": (self._may_prune, self._prune),
        }

    async def answer(self, caller: Caller, request: web.Request, body: bytes) -> web.StreamResponse:
        """Do what a request with such a body asks for, and send lines: `{"host": …, "said": …}`
        while it goes on, then what `streams.send_while` says.

        ConsoleError where it is refused before it begins; the audit has both. A console that goes
        away calls it off.
        """
        wanted = OPERATION.validate_json(body)
        subject, detail = _words(wanted)
        try:
            may, work = self._verbs.get(wanted.verb, (_unknown, None))
            may(caller, wanted)
            assert work is not None
            turn = self._account(caller)
        except ConsoleError as error:
            self._record(caller, wanted.verb, subject, detail, error.message)
            raise
        self._record(caller, wanted.verb, subject, detail, "")
        said: deque[dict[str, str]] = deque(maxlen=_MOST_SAID)

        def tell(host: str, words: str) -> None:
            said.append({"host": clean(host, 80), "said": clean(words, _LONGEST_SAID)})

        def news() -> list[dict[str, str]]:
            lines = list(said)
            said.clear()
            return lines

        with turn:
            return await send_while(request, _limited(work(caller, wanted, tell)), news)

    def _may_pull(self, caller: Caller, wanted: Operation) -> None:
        if not 0 < len(wanted.fetches) <= MOST_PULLS:
            raise UsageError(
                "Nothing to pull",
                msg("One request names 1 to {most_pulls} pulls.", most_pulls=MOST_PULLS),
            )
        names = {host.name for host in self._session.snapshot().hosts}
        for host, image in wanted.fetches:
            if host not in names:
                raise UsageError(
                    "No such host",
                    msg("The lab has no host {value}.", value=f"{clean(host, 80)!r}"),
                )
            self._images.require_image(image)

    async def _pull(self, caller: Caller, wanted: Operation, tell: Tell) -> bytes:
        fetches = [Fetch(host, image) for host, image in dict.fromkeys(wanted.fetches)]
        done = await self._session.images.fetch(fetches, tell)
        return PULLED.dump_json(
            tuple(
                Pulled(
                    pulled.fetch.host,
                    pulled.fetch.image,
                    None if pulled.error is None else refusal_of(pulled.error),
                )
                for pulled in done
            )
        )

    def _may_check(self, caller: Caller, wanted: Operation) -> None:
        self._images.require_up(wanted.host)
        self._images.require_image(wanted.image)
        if wanted.device != NO_DEVICE:
            self._rights.require_device(caller)

    async def _check(self, caller: Caller, wanted: Operation, tell: Tell) -> bytes:
        host = wanted.host
        engine = await self._session.hosts.engine(host)
        # Before the turn: a pull may take an hour, and the host measures for others meanwhile.
        await engine.ensure_image(wanted.image, lambda words: tell(host, words))
        waiting = f"waiting for a measurement on {host}"
        async with self._turns.turn(caller.uid, host, on_wait=lambda: tell(host, waiting)):
            check, faults = await self._session.images.check(
                wanted.image,
                host,
                lambda words: tell(host, words),
                device=wanted.device != NO_DEVICE,
            )
        return CHECKED.dump_json(Checked(check, tuple(faults)))

    def _may_copy(self, caller: Caller, wanted: Operation) -> None:
        # It assigns a name on a host to an image: all jobs that use the name run that.
        self._rights.require_operator(caller, "Copying images between hosts")
        self._images.require_up(wanted.source)
        self._images.require_up(wanted.host)

    async def _copy(self, caller: Caller, wanted: Operation, tell: Tell) -> bytes:
        copied = await self._session.images.copy(
            wanted.image,
            wanted.source,
            wanted.host,
            lambda words: tell(wanted.host, words),
            replace=wanted.replace,
        )
        return COPIED.dump_json(copied)

    def _may_calibrate(self, caller: Caller, wanted: Operation) -> None:
        # The estimates of all users rest on what it finds.
        self._rights.require_operator(caller, "Calibrating devices")
        self._images.require_up(wanted.host)

    async def _calibrate(self, caller: Caller, wanted: Operation, tell: Tell) -> bytes:
        calibration = await self._session.calibrate(
            wanted.host, wanted.device, wanted.image, lambda words: tell(wanted.host, words)
        )
        return CALIBRATED.dump_json(calibration)

    def _may_prune(self, caller: Caller, wanted: Operation) -> None:
        """Let everybody: of what is not their own nothing goes."""

    async def _prune(self, caller: Caller, wanted: Operation, tell: Tell) -> bytes:
        user = "" if self._rights.is_operator(caller) else caller.name
        return PRUNED.dump_json(await self._session._prune_of(user))

    def _account(self, caller: Caller) -> contextlib.AbstractContextManager[None]:
        """Return what counts an operation of an account. RefusedError where there are too many."""
        if self._running.of(caller.uid) >= MOST_AT_ONCE:
            raise RefusedError(
                "Too many operations at once",
                msg(
                    "An account has {most_at_once} operations on hosts at once.",
                    most_at_once=MOST_AT_ONCE,
                ),
                "Wait for the others to end, or end them with Ctrl-C.",
            )
        if self._running.total() >= MOST_IN_ALL:
            raise RefusedError(
                "Too many operations at once",
                msg(
                    "The lab's service does {most_in_all} operations on hosts at once.",
                    most_in_all=MOST_IN_ALL,
                ),
                "Ask again later.",
            )
        return self._running.one_more(caller.uid)


async def _limited(work: Awaitable[bytes]) -> bytes:
    try:
        return await within(LONGEST_S, work)
    except asyncio.TimeoutError:
        raise RefusedError(
            "It took too long",
            msg(
                "An operation through the lab's queue ends after {value} h.",
                value=f"{LONGEST_S / 3600:g}",
            ),
            "Ask for less at once. Layers of images that are whole stay.",
        ) from None


def _unknown(caller: Caller, wanted: Operation) -> None:
    raise UsageError(
        "No such operation", msg("{value} is none.", value=f"{clean(wanted.verb, 40)!r}")
    )


def _words(wanted: Operation) -> tuple[str, str]:
    """Return what the audit says of an operation: on what, and more of it."""
    if wanted.verb == "pull":
        hosts = " ".join(dict.fromkeys(host for host, _ in wanted.fetches[:20]))
        images = " ".join(dict.fromkeys(image for _, image in wanted.fetches[:20]))
        return hosts, images
    parts = [wanted.image, f"from {wanted.source}" * bool(wanted.source)]
    if wanted.device is not None:
        parts.append(
            "without a device" if wanted.device == NO_DEVICE else f"device {wanted.device}"
        )
    return wanted.host, " ".join(filter(None, parts))
