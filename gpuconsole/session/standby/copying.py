"""Copies of the journal as they are sent to one standby, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from gpuconsole.core.jobs import Job
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.session.context import Context
from gpuconsole.session.standby.protocol import (
    BEAT_S,
    KEPT_BYTES,
    KEPT_NAMES,
    PART,
    Frame,
    KeptName,
    Need,
    packed,
)
from gpuconsole.state.backup.copies import Copy, digest_of_all, make_copy
from gpuconsole.state.files.json_file import KeptFile
from gpuconsole.waiting import within

if TYPE_CHECKING:
    from gpuconsole.session.standby.lead import Lead

IDLE_FACTOR = 5.0
"""Copies that are not awaited take a fifth of the time at the most: a large journal is
followed later, not at the price of a core."""


class Copying:
    """Sends the journal to a standby: whole at first, then what changed."""

    def __init__(
        self,
        context: Context,
        lead: Lead,
        name: str,
        head: str,
        send: Callable[[bytes], Awaitable[None]],
    ) -> None:
        """`send` sends one frame; it raises ConnectionError or asyncio.TimeoutError."""
        self._context = context
        self._lead = lead
        self.name = name
        self.head = head
        self._send = send
        self._digests: Sequence[bytes] = ()
        self._version: tuple[int, int] | None = None
        self._needs: dict[str, Need] = {}
        self._seen: tuple[Job, ...] | None = None
        self._asked = asyncio.Event()
        self._number, self._in_step = 0, False
        self._kept_files = {
            name: KeptFile(context.state / name, _text, KEPT_BYTES) for name in KEPT_NAMES
        }
        self._kept: dict[KeptName, str] | None = None
        self.whole = False
        """Whether all of a copy was sent."""

    def hurry(self) -> None:
        """Make a copy at once: somebody waits for it."""
        self._asked.set()

    async def run(self) -> None:
        """Send copies until cancelled or the connection breaks."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            await self._once()
            took = loop.time() - begun
            await self._rest(max(BEAT_S, took * IDLE_FACTOR))

    async def _rest(self, rest_s: float) -> None:
        """Wait for the next copy, with signs of life in between."""
        while rest_s > 0 and not self._lead.asked:
            try:
                await within(min(rest_s, BEAT_S), self._asked.wait())
            except asyncio.TimeoutError:
                rest_s -= BEAT_S
                if rest_s > 0:
                    await self._send(packed(self._frame(self._number, self._in_step)))
        self._asked.clear()

    async def _once(self) -> None:
        journal = self._context.journal
        # Together, without a pause: all that is written by now is in the copy of this number.
        number, version, in_step = self._lead.begin(), journal.version(), self._lead.gated
        self._number, self._in_step = number, in_step
        files = self._changed_kept()
        if version == self._version:
            await self._send(packed(self._frame(number, in_step, files=files)))
            return
        made_at = self._context.clock.now()
        copy = await asyncio.to_thread(make_copy, self._context.state)
        needs, over = self._changed_needs(journal.jobs())
        await self._send_copy(copy, number, in_step, made_at, needs, over, files)
        self._version, self._digests, self.whole = version, copy.digests, True

    async def _send_copy(
        self,
        copy: Copy,
        number: int,
        in_step: bool,
        made_at: float,
        needs: tuple[Need, ...],
        over: tuple[str, ...],
        files: dict[KeptName, str] | None,
    ) -> None:
        before = self._digests
        numbers = [
            place
            for place, digest in enumerate(copy.digests)
            if place >= len(before) or before[place] != digest
        ]
        parts = [numbers[at : at + PART] for at in range(0, len(numbers), PART)] or [[]]
        for place, part in enumerate(parts):
            last = place == len(parts) - 1
            frame = self._frame(
                number,
                in_step,
                made_at=made_at,
                size=copy.size,
                digest=digest_of_all(copy.digests) if last else "",
                blocks=tuple(part),
                changed=True,
                needs=needs if last else (),
                over=over if last else (),
                files=files if last else None,
            )
            await self._send(await asyncio.to_thread(_packed, frame, copy))

    def _frame(self, number: int, in_step: bool, **more: object) -> Frame:
        return Frame(
            number=number,
            epoch=self._lead.standing.present.epoch,
            in_step=in_step,
            name=self._lead.name,
            journal=self._context.journal.id,
            voters=self._lead.witnesses.names,
            **more,  # type: ignore[arg-type]
        )

    def _changed_kept(self) -> dict[KeptName, str] | None:
        """Return what the small files say; None where the standby has been sent it."""
        contents = {name: file.content() for name, file in self._kept_files.items()}
        if contents == self._kept:
            return None
        self._kept = contents
        return contents

    def _changed_needs(self, jobs: tuple[Job, ...]) -> tuple[tuple[Need, ...], tuple[str, ...]]:
        """Return what jobs need that are new among those which have not ended, and the ids of those
        that need nothing any more."""
        if jobs is self._seen:
            return (), ()
        self._seen = jobs
        waiting = {job.id: job for job in jobs if not job.state.ended}
        over = tuple(job_id for job_id in self._needs if job_id not in waiting)
        for job_id in over:
            del self._needs[job_id]
        fresh = {job_id: self._need(job_id) for job_id in waiting if job_id not in self._needs}
        self._needs.update(fresh)
        return tuple(fresh.values()), over

    def _need(self, job_id: str) -> Need:
        try:
            status = self._context.bundle(job_id).stat()
            project = f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}"
        except OSError:
            project = ""
        return Need(job_id, project, self._context.secrets.written_at(job_id) is not None)


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _packed(frame: Frame, copy: Copy) -> bytes:
    try:
        return packed(frame, copy.read(frame.blocks))
    except OSError as error:
        raise ConsoleError(
            "Journal was not copied",
            msg("{path}: {strerror}.", path=copy.path, strerror=error.strerror),
        ) from error
