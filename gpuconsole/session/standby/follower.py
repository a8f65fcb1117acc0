"""A standby's end of the journal: copies taken over as they come, and the files that jobs need."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import aiohttp
from pydantic import ValidationError

from gpuconsole.core.file_trust import private
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, JournalError, UnreachableError, UsageError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.lab_service.console.client import CONNECT_S, Way, leading
from gpuconsole.session.lab_service.protocol import VERSION
from gpuconsole.session.standby.protocol import (
    CONFIRMED,
    FRAME_BYTES,
    Confirmed,
    Frame,
    KeptName,
    Need,
    unpacked,
)
from gpuconsole.state.backup.copies import CopyStore, Held
from gpuconsole.state.files.secrets import LARGEST, SecretStore
from gpuconsole.state.filesystem import make_folder
from gpuconsole.state.journal_guard import identity_of

AGAIN_S = 1.0
"""Pause before the other heads are asked again which of them leads."""
SILENT_S = 10.0
"""A connection on which nothing came for so long has broken."""
CONFIRM_EVERY_S = 1.0
_CHUNK = 256 * 1024


class Follower:
    """Follows whichever of the other heads leads."""

    def __init__(
        self,
        ways: Sequence[Way],
        folder: Path,
        name: str,
        head: str,
        voters: Sequence[str],
        say: Callable[[str], None],
    ) -> None:
        """`ways` lead to the other heads; `name` and `head` are this one's name and id; `voters`
        are the hosts of its inventory that bear witness."""
        self._ways = ways
        self._folder = folder
        self._name = name
        self._head = head
        self._voters = tuple(voters)
        self._say = say
        self._said = ""
        self._secrets = SecretStore(folder)
        self._projects: dict[str, Path] = {}
        self._number = 0
        self._blocks: dict[int, bytes] = {}
        self.store = CopyStore(folder)
        self.active = ""
        """Name of the head that was heard last."""
        self.heard_at = asyncio.get_running_loop().time()
        """When it was, on the event loop's clock; at first, when this began."""
        self.following = False

    async def run(self) -> None:
        """Follow until cancelled. UsageError where this head must not hold the copy."""
        while True:
            try:
                await self._follow()
            except UsageError as error:
                if not isinstance(error, JournalError):
                    raise
                self._note(error)
            except ConsoleError as error:
                self._note(error)
            finally:
                self.following = False
            await asyncio.sleep(AGAIN_S)

    def close(self) -> None:
        """Let go of the copy."""
        self.store.close()

    async def _follow(self) -> None:
        way = await self._leading()
        path = await way.socket()
        connector = aiohttp.UnixConnector(path=str(path))
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        try:
            async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
                query = {"head": self._head, "name": self._name}
                async with http.ws_connect(
                    _url("journal"), params=query, max_msg_size=FRAME_BYTES
                ) as socket:
                    await self._hear(http, socket)
        except aiohttp.WSServerHandshakeError as error:
            raise UnreachableError(
                "The leading head refuses a standby",
                msg("{name}: HTTP {status}.", name=way.name, status=error.status),
                "Its log says why; both must run under one account.",
            ) from error  # fmt: skip
        except (aiohttp.ClientError, OSError, ValidationError, ValueError) as error:
            words = clean(str(error), 200) or type(error).__name__
            raise UnreachableError(
                "The leading head is lost", msg("{name}: {words}.", name=way.name, words=words)
            ) from error
        finally:
            way.lost()

    async def _leading(self) -> Way:
        """Return the way to the head that leads. UnreachableError where none is found."""
        leader, said = await leading(self._ways)
        if leader is not None:
            return leader
        raise UnreachableError(
            "No other head leads", "; ".join(said) + "." if said else "None of them leads.", ""
        )

    async def _hear(
        self, http: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse[bool]
    ) -> None:
        self._number, self._blocks = 0, {}
        confirming = asyncio.ensure_future(self._confirm(socket))
        try:
            while True:
                message = await socket.receive(timeout=SILENT_S)
                if message.type is not aiohttp.WSMsgType.BINARY:
                    raise ConnectionError("it has closed the connection")
                frame, blocks = await asyncio.to_thread(unpacked, message.data)
                self._heard(frame)
                await self._take(http, frame, blocks)
                await _confirmed(socket, self._number)
        except asyncio.TimeoutError as error:
            raise ConnectionError(
                msg("nothing was heard for {silent_s} s", silent_s=f"{SILENT_S:.0f}")
            ) from error
        finally:
            await cancel_all([confirming])

    def _heard(self, frame: Frame) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        if sorted(frame.voters) != sorted(self._voters):
            own, other = ", ".join(self._voters), ", ".join(map(clean, frame.voters))
            raise UsageError(
                "The heads name other hosts",
                msg("{name} has {other}; this head {own}.", name=frame.name, other=other, own=own),
                "Use one inventory on both: a majority of its hosts decides who leads.",
            )
        if not self.following:
            self.following, self.active, self._said = True, frame.name, ""
            self._say(f"information: Follows {frame.name}.")

    async def _take(
        self, http: aiohttp.ClientSession, frame: Frame, blocks: dict[int, bytes]
    ) -> None:
        if frame.files is not None:
            await asyncio.to_thread(self._keep, frame.files)
        if not frame.changed:
            if self._number:
                self.store.note(in_step=frame.in_step, epoch=frame.epoch)
                self._number = frame.number
            return
        self._blocks.update(blocks)
        if not frame.digest:
            return
        self._require_own(frame.journal)
        await self._fetch(http, frame)
        held = Held(frame.journal, frame.epoch, frame.in_step, frame.made_at, frame.size)
        taken, self._blocks = self._blocks, {}
        await asyncio.to_thread(self.store.take, held, taken, frame.digest)
        self._number = frame.number

    def _keep(self, files: Mapping[KeptName, str]) -> None:
        """Write the small files that lie beside the journal."""
        for name, text in files.items():
            target = self._folder / name
            if not text:
                target.unlink(missing_ok=True)
                continue
            draft = target.with_name(f".follow-{name}")
            draft.unlink(missing_ok=True)
            with _made(draft) as file:
                file.write(text.encode())
                _flush(file)
            os.replace(draft, target)

    def _require_own(self, journal: str) -> None:
        """Raise UsageError where this state folder has the journal of another queue."""
        try:
            own = identity_of(self._folder)
        except JournalError:
            return
        if own != journal:
            raise UsageError(
                "Another journal is here",
                msg("{folder} has a queue of its own.", folder=self._folder),
                "Choose an empty folder for the standby with --state DIR.",
            )

    async def _confirm(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        """Give signs of life while a large file is fetched."""
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            while True:
                await asyncio.sleep(CONFIRM_EVERY_S)
                await _confirmed(socket, self._number)

    async def _fetch(self, http: aiohttp.ClientSession, frame: Frame) -> None:
        """Fetch what new jobs need, and forget the secrets of those that need them no more."""
        for job_id in frame.over:
            self._secrets.discard(job_id)
        if not self._number:
            # What an earlier connection left: only what is needed now stays.
            wanted = {need.job for need in frame.needs if need.secrets}
            self._secrets.discard_if(lambda name, _: name not in wanted)
        for need in frame.needs:
            if need.secrets:
                await self._fetch_secrets(http, need.job)
            if need.project:
                await self._fetch_project(http, need)

    async def _fetch_secrets(self, http: aiohttp.ClientSession, job_id: str) -> None:
        data = bytearray()
        async for chunk in self._chunks(http, job_id, "secrets"):
            data += chunk
            if len(data) > LARGEST:
                raise ValueError("secret values without end")
        values = json.loads(data or b"{}")
        if not isinstance(values, dict) or not all(
            isinstance(value, str) for value in values.values()
        ):
            raise ValueError("secret values are damaged")
        self._secrets.put([job_id], values)

    async def _fetch_project(self, http: aiohttp.ClientSession, need: Need) -> None:
        target = self._folder / "bundles" / f"{need.job}.tar.gz"
        size = int(need.project.rpartition("-")[2], 16)
        if target.exists() and target.stat().st_size == size:
            self._projects[need.project] = target
            return
        make_folder(target.parent)
        draft = target.with_name(f".follow-{need.job}")
        draft.unlink(missing_ok=True)
        same = self._projects.get(need.project)
        if same is not None and same.exists():
            os.link(same, draft)
        else:
            await self._download(http, need.job, draft, size)
        if draft.stat().st_size != size:
            # Its job has ended meanwhile.
            draft.unlink()
            return
        os.replace(draft, target)
        self._projects[need.project] = target

    async def _download(
        self, http: aiohttp.ClientSession, job_id: str, draft: Path, size: int
    ) -> None:
        had = 0
        with await asyncio.to_thread(_made, draft) as file:
            async for chunk in self._chunks(http, job_id, "project"):
                had += len(chunk)
                if had > size:
                    break
                await asyncio.to_thread(file.write, chunk)
            await asyncio.to_thread(_flush, file)
        # A job that has ended meanwhile may have none any more; a whole one is as long as was said.
        if had not in (0, size):
            raise ValueError("a packed project came in part")

    async def _chunks(
        self, http: aiohttp.ClientSession, job_id: str, what: str
    ) -> AsyncIterator[bytes]:
        query = {"job": job_id, "what": what}
        async with http.get(_url("journal/file"), params=query) as response:
            if response.status in (400, 404):
                # Its job has ended meanwhile, and needs nothing any more.
                return
            if response.status != 200:
                raise ValueError(f"{what} of {job_id}: HTTP {response.status}")
            async for chunk in response.content.iter_chunked(_CHUNK):
                # It lives, however long its file takes.
                self.heard_at = asyncio.get_running_loop().time()
                yield chunk

    def _note(self, error: ConsoleError) -> None:
        words = f"{error.title}: {error.message}"
        if words != self._said:
            self._said = words
            self._say(f"warning: {words}")


def _made(path: Path) -> BinaryIO:
    return open(path, "wb", opener=private)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _url(route: str) -> str:
    return f"http://lab/v{VERSION}/{route}"


async def _confirmed(socket: aiohttp.ClientWebSocketResponse[bool], number: int) -> None:
    await socket.send_str(CONFIRMED.dump_json(Confirmed(number)).decode())
