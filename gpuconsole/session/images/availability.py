"""Which host can run which image, from what their engines said: asked beside placement, never by
it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import lru_cache

from gpuconsole.core.containers import Hosts, ImageFacts
from gpuconsole.core.fleet import FleetSnapshot, Host, HostFacts, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.errors import ConsoleError
from gpuconsole.placement.model import Request
from gpuconsole.placement.rules.image_compatibility import image_fault, image_note
from gpuconsole.placement.rules.rules import Suits, any_image
from gpuconsole.session.clock import Clock

LOOK_EVERY_S = 2.0
KNOWN_S = 600.0
"""How long what an engine said of an image is believed: its name may mean another one later."""
ABSENT_S = 60.0
"""The same where the host does not have it, or could not be asked."""
FORGET_S = 3600.0
"""What was not asked for so long (s) is forgotten."""
PARALLEL = 8

_Key = tuple[str, str]
"""Host and image."""
_Env = tuple[tuple[str, str], ...]
_Facts = tuple[_Env, str, str]
"""Variables, Paddle's version and its CUDA: all by which an image is judged, and hashable."""


class ImageBoard:
    """Knows the images on hosts, as far as somebody wanted to place a job with them there."""

    def __init__(
        self,
        hosts: Hosts,
        clock: Clock,
        default_image: Callable[[str], str],
        checked: Callable[[ImageFacts], ImageFacts] = lambda facts: facts,
    ) -> None:
        """`checked` adds what a check has found in an image."""
        self._hosts = hosts
        self._clock = clock
        self._default_image = default_image
        self._checked = checked
        self._wanted: dict[_Key, float] = {}
        self._seen: dict[_Key, tuple[float, ImageFacts | None]] = {}
        self._slots = asyncio.Semaphore(PARALLEL)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Ask the engines of hosts that are up about images somebody wants to know of."""
        if not self._wanted:
            return
        now = self._clock.now()
        wanted = dict(self._wanted)
        for key, asked_at in wanted.items():
            if now - asked_at > FORGET_S:
                self._wanted.pop(key, None)
                self._seen.pop(key, None)
        hosts = self._hosts.snapshot().hosts
        up = {host.name for host in hosts if host.state is HostState.UP}
        due = [key for key in self._wanted if key[0] in up and self._is_due(key, now)]
        await asyncio.gather(*(self._ask(key, now) for key in due))

    def fault(self, task: Task, host: Host) -> str:
        """Return why a host cannot run a task's image, as a sentence, or ""."""
        if not any(device.backend == task.backend for device in host.devices):
            return ""
        return _judged(image_fault, *self._known(task, host))

    def image_of(self, task: Task, host: str) -> str:
        """Return the image in which a task runs on a host."""
        return task.image or self._default_image(host)

    def note(self, task: Task, host: Host) -> str:
        """Return what is uncertain about a task's image on a host, or ""."""
        return _judged(image_note, *self._known(task, host))

    def rule(self, tasks: Iterable[Task], snapshot: FleetSnapshot) -> Suits:
        """Return the rule by which hosts are left out for these tasks; where there is nothing to
        leave out it is `any_image`, with which placement need not ask each host."""
        kinds = {(task.backend, task.image): task for task in tasks}
        # All are asked, so that all are looked at.
        faults = [self.fault(task, host) for task in kinds.values() for host in snapshot.hosts]
        return self._suits if any(faults) else any_image

    def _suits(self, request: Request, host: Host) -> str:
        return self.fault(request.task, host)

    def _known(self, task: Task, host: Host) -> tuple[str, str, _Facts | None, str, str]:
        image = self.image_of(task, host.name)
        key = (host.name, image)
        self._wanted[key] = self._clock.now()
        _, facts = self._seen.get(key, (0.0, None))
        image_known: _Facts | None = None
        if facts is not None:
            facts = self._checked(facts)
            image_known = (tuple(sorted(facts.env.items())), facts.paddle, facts.paddle_cuda)
        return (
            task.backend,
            image,
            image_known,
            host.facts.driver_version,
            host.facts.runtime_version,
        )

    def _is_due(self, key: _Key, now: float) -> bool:
        at, facts = self._seen.get(key, (float("-inf"), None))
        return now - at >= (ABSENT_S if facts is None else KNOWN_S)

    async def _ask(self, key: _Key, now: float) -> None:
        async with self._slots:
            try:
                engine = await self._hosts.engine(key[0])
                self._seen[key] = (now, await engine.image_facts(key[1]))
            except ConsoleError:
                # Its name speaks until it can be asked.
                self._seen[key] = (now, self._seen.get(key, (0.0, None))[1])


@lru_cache(maxsize=4096)
def _judged(
    judge: Callable[[str, str, ImageFacts | None, HostFacts], str],
    backend: str,
    image: str,
    image_facts: _Facts | None,
    driver: str,
    runtime: str,
) -> str:
    facts = None
    if image_facts is not None:
        env, paddle, cuda = image_facts
        facts = ImageFacts(dict(env), paddle=paddle, paddle_cuda=cuda)
    return judge(backend, image, facts, HostFacts(driver_version=driver, runtime_version=runtime))
