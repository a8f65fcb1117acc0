"""Images of the lab's hosts as its users handle them: the service fetches, checks and copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuconsole.core.images import Progress, parse_reference
from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.placement.prepull import Fetch
from gpuconsole.session.images.copy import Copied
from gpuconsole.session.images.service import FetchedImage, Imaging, PullProgress, silent
from gpuconsole.session.lab_service.protocol import (
    CHECKED,
    COPIED,
    NO_DEVICE,
    PULLED,
    Operation,
    Pulled,
    error_of,
)
from gpuconsole.state.files.images import ImageCheck

if TYPE_CHECKING:
    from gpuconsole.session.lab_service.console.lab_session import LabQueueSession

_MOST_FAULTS = 20


class LabImaging(Imaging):
    """Looks at images, pins them here, and has the service do the rest."""

    def __init__(self, session: LabQueueSession) -> None:
        super().__init__(session._context)
        self._session = session

    async def fetch(
        self, fetches: Sequence[Fetch], progress: PullProgress = silent
    ) -> tuple[FetchedImage, ...]:
        """Have images pulled by policy; cancelling ends the pulls, layers that are whole stay."""
        self._context.require_writable("Fetching images")
        if not fetches:
            return ()
        pairs = tuple((fetch.host, fetch.image) for fetch in fetches)
        answer = await self._session.operate(Operation("pull", fetches=pairs), progress)
        by_pair = {(pulled.host, pulled.image): pulled for pulled in PULLED.validate_json(answer)}
        return tuple(_fetched(fetch, by_pair.get((fetch.host, fetch.image))) for fetch in fetches)

    async def check(
        self, image: str, host: str, progress: Progress = silent, *, device: bool = True
    ) -> tuple[ImageCheck, list[str]]:
        """Have Paddle run in an image on a host; returns what it said and what speaks against it.

        The service remembers it for placement, this console for what it tells of images.
        """
        self._context.require_writable("Checking an image")
        parse_reference(image)
        wanted = Operation("check", image, host, device=None if device else NO_DEVICE)
        answer = await self._session.operate(wanted, lambda _, words: progress(words))
        said = CHECKED.validate_json(answer)
        check = ImageCheck(
            at=said.check.at,
            **{
                name: clean(str(getattr(said.check, name)), 2000)
                for name in ("id", "image", "host", "paddle", "cuda", "cudnn", "python",
                             "built_for", "device", "given", "error")
            },
        )  # fmt: skip
        if check.id:
            self.notes.keep(check)
        return check, [clean(fault, 2000) for fault in said.faults[:_MOST_FAULTS]]

    async def copy(
        self,
        image: str,
        source: str,
        target: str,
        progress: Progress = silent,
        *,
        replace: bool = False,
    ) -> Copied:
        """Have an image copied from host to host by the service; for operators."""
        self._require_copy(image, source, target)
        wanted = Operation("copy", image, target, source=source, replace=replace)
        answer = await self._session.operate(wanted, lambda _, words: progress(words))
        said = COPIED.validate_json(answer)
        return Copied(image, clean(said.id, 80), said.sent_mib, said.seconds, already=said.already)

    def _jobs(self) -> Sequence[Job]:
        # What the jobs of others run in is theirs alone.
        return [job for job in super()._jobs() if self._session.is_own(job)]


def _fetched(fetch: Fetch, said: Pulled | None) -> FetchedImage:
    if said is None or said.refusal is None:
        return FetchedImage(fetch)
    return FetchedImage(fetch, error_of(said.refusal))
