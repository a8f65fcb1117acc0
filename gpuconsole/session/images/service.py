"""`Imaging`: the images of a lab's hosts, what waiting jobs need of them, and which are pinned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpuconsole.core.containers import Engine, ImageFacts
from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.images import (
    ImageRecord,
    ImageStore,
    KeepsImages,
    Progress,
    familiar,
    parse_reference,
)
from gpuconsole.core.jobs import Job, Task
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import (
    ConsoleError,
    EngineError,
    ImageError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from gpuconsole.placement.prepull import Fetch, lanes, wanted
from gpuconsole.placement.rules.image_compatibility import image_fault, image_note
from gpuconsole.session.context import Context
from gpuconsole.session.images import check as imagecheck
from gpuconsole.session.images.copy import Copied, End, copy_image
from gpuconsole.state.files.images import ImageCheck, ImageNotes, Pin

PARALLEL = 4
"""Roads over which images are fetched at once."""
PullProgress = Callable[[str, str], None]
"""Hears a host's name and a sentence."""


def silent(*words: object) -> None:
    """Hear how something goes on, and say nothing."""


@dataclass(frozen=True, slots=True)
class HostImages:
    """The images of one host, or why they are unknown."""

    host: Host
    images: tuple[ImageRecord, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class FetchedImage:
    """How a fetch ended: `error` says why the host does not have the image."""

    fetch: Fetch
    error: ConsoleError | None = None


class Imaging:
    """The images of a lab's hosts, as `Session.images`: look, fetch, pin, check, copy. Nothing
    here starts a job. A host is asked once it has answered: see `Session.status`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.notes = ImageNotes(context.state)

    def learned(self, facts: ImageFacts) -> ImageFacts:
        """Return what an engine said of an image with what a check has found in it."""
        return imagecheck.learned(facts, self.notes.checks().get(facts.id))

    def image_of(self, task: Task, host: str) -> str:
        """Return the image that a task runs in on a host."""
        return task.image or self._context.default_image(host)

    def default(self, host: str = "") -> str:
        """Return the image of tasks that name none, on a host or on any."""
        hosts = self._context.hosts.snapshot().hosts
        return self._context.default_image(host or (hosts[0].name if hosts else ""))

    def wanted(self, hosts: Sequence[str] = ()) -> tuple[Fetch, ...]:
        """Return the images that waiting jobs need on hosts where they may come to run."""
        return wanted(
            self._jobs(),
            [host for host in self._context.hosts.snapshot().hosts if _named(host, hosts)],
            self.image_of,
            lambda task, host: image_fault(
                task.backend, self.image_of(task, host.name), None, host.facts
            ),
        )

    def _jobs(self) -> Sequence[Job]:
        """Return the jobs with images that are known here."""
        return self._context.journal.jobs()

    async def listing(self, hosts: Sequence[str] = ()) -> tuple[HostImages, ...]:
        """Ask hosts for their images, all at once; those that cannot be asked say why."""
        self._require(hosts)
        hosts_now = self._context.hosts.snapshot().hosts
        # Nodes of a cluster keep no images of ours.
        asked = [host for host in hosts_now if _named(host, hosts) and (hosts or not host.cluster)]
        return tuple(await asyncio.gather(*(self._listed(host) for host in asked)))

    async def fetch(
        self, fetches: Sequence[Fetch], progress: PullProgress = silent
    ) -> tuple[FetchedImage, ...]:
        """Pull images by policy: the order given, one at a time on each road. Cancelling ends the
        pulls; layers that are whole stay. The result names every fetch, also those of hosts that
        had the image."""
        self._context.require_writable("Fetching images")
        roads, broken = await self._roads({fetch.host for fetch in fetches})
        present, ended = set(), []
        for fetch in fetches:
            fault = broken.get(fetch.host)
            if fault is None and await self._has(fetch):
                present.add((fetch.host, fetch.image))
            if fault is not None or (fetch.host, fetch.image) in present:
                ended.append(FetchedImage(fetch, fault))
        due = [fetch for fetch in fetches if fetch.host not in broken]
        slots = asyncio.Semaphore(PARALLEL)

        async def drive(lane: Sequence[Fetch]) -> list[FetchedImage]:
            async with slots:
                return [await self._pull(fetch, progress) for fetch in lane]

        for lane in await asyncio.gather(*(drive(lane) for lane in lanes(due, roads, present))):
            ended += lane
        return tuple(ended)

    async def pin(self, image: str, host: str = "") -> Pin:
        """Find the one image that a name means and remember it: tasks that are submitted from now
        on with that name run that image.

        By the digest that hosts know it by, else its registry, else its id. RefusedError if hosts
        hold different images under the name and `host` is not given.
        """
        self._context.require_writable("Pinning an image")
        pin = await self.resolve(image, host)
        self.notes.pin(pin)
        return pin

    async def resolve(self, image: str, host: str = "") -> Pin:
        """Return what `pin` would remember, and remember nothing."""
        reference = parse_reference(image)
        if reference.pinned:
            raise UsageError(
                "It is pinned", msg("{image} can only mean one image already.", image=image), ""
            )
        holders = await self._holders(image, host)
        ids = {record.id for _, record in holders}
        if len(ids) > 1:
            each = ", ".join(f"{name} {record.id[7:19]}" for name, record in holders)
            raise RefusedError(
                "Hosts hold different images",
                msg("{image}: {each}.", image=image, each=each),
                "Name the host with --host HOST.",
            )
        digest = next(
            (
                known_digest
                for _, record in holders
                if (known_digest := record.digest_of(reference.name))
            ),
            "",
        )
        image_id = holders[0][1].id if holders else ""
        digest = digest or await self._asked(image, host, must=not image_id)
        named = f"{reference.name}@{digest}" if digest else image_id
        return Pin(image, named, image_id, self._context.user, self._context.clock.now())

    def unpin(self, image: str) -> None:
        """Forget a pin; RefusedError when there is none."""
        self._context.require_writable("Unpinning an image")
        if not self.notes.unpin(image):
            raise RefusedError(
                "It is not pinned", msg("{image} has no pin here.", image=clean(image, 200))
            )

    async def check(
        self, image: str, host: str, progress: Progress = silent, *, device: bool = True
    ) -> tuple[ImageCheck, list[str]]:
        """Run Paddle in an image on a host; returns what it said and what speaks against it.

        With `device` on an idle device of the host, where there is one. What was found is
        remembered, and placement holds it against every host's driver.
        """
        self._context.require_writable("Checking an image")
        parse_reference(image)
        engine, entry = await self._reached(host)
        idle = _idle(entry) if device else None
        check = await imagecheck.run_check(self._context, engine, entry, idle, image, progress)
        if check.id:
            self.notes.keep(check)
        facts = await engine.image_facts(image)
        backend = idle.backend if idle is not None else _backend(entry)
        return check, imagecheck.faults(check, backend, entry, facts)

    async def copy(
        self,
        image: str,
        source: str,
        target: str,
        progress: Progress = silent,
        *,
        replace: bool = False,
    ) -> Copied:
        """Copy an image host to host through this console, for a host that cannot pull. Nothing is
        stored on the way; with `replace` the name is taken from another image there."""
        self._require_copy(image, source, target)
        ends = []
        for name in (source, target):
            engine, _ = await self._reached(name)
            ends.append(End(name, _store(engine, name)))
        return await copy_image(
            image, ends[0], ends[1], self._context.clock, progress, replace=replace
        )

    def _require_copy(self, image: str, source: str, target: str) -> None:
        """Raise ReadOnlyError or UsageError for a copy that cannot be asked for."""
        self._context.require_writable("Copying an image")
        parse_reference(image)
        if source == target:
            raise UsageError(
                "Same host", msg("{source} cannot be both ends.", source=source), "Name two hosts."
            )

    def doubts(self, image: str, backend: str, record: ImageRecord, host: Host) -> str:
        """Return why a host cannot run one of its images, or what is not known of that."""
        facts = self.learned(ImageFacts(record.env, record.architecture, record.id))
        judged = (backend, image, facts, host.facts)
        return image_fault(*judged) or image_note(*judged)

    async def _listed(self, host: Host) -> HostImages:
        try:
            engine = await self._context.hosts.engine(host.name)
            return HostImages(host, await _store(engine, host.name).list())
        except ConsoleError as error:
            return HostImages(host, (), f"{error.title}: {error.message}")

    async def _roads(self, hosts: set[str]) -> tuple[dict[str, str], dict[str, ConsoleError]]:
        roads: dict[str, str] = {}
        broken: dict[str, ConsoleError] = {}
        for name in sorted(hosts):
            try:
                roads[name] = _store(await self._context.hosts.engine(name), name).road
            except ConsoleError as error:
                broken[name] = error
        return roads, broken

    async def _has(self, fetch: Fetch) -> bool:
        try:
            engine = await self._context.hosts.engine(fetch.host)
            return await engine.image_facts(fetch.image) is not None
        except ConsoleError:
            # The pull itself will say what is wrong.
            return False

    async def _pull(self, fetch: Fetch, progress: PullProgress) -> FetchedImage:
        try:
            engine = await self._context.hosts.engine(fetch.host)
            await engine.ensure_image(fetch.image, lambda words: progress(fetch.host, words))
        except ConsoleError as error:
            return FetchedImage(fetch, error)
        progress(fetch.host, f"has {fetch.image}")
        return FetchedImage(fetch)

    async def _holders(self, image: str, host: str) -> list[tuple[str, ImageRecord]]:
        """Return hosts that have an image, with its record."""
        self._require((host,) if host else ())
        holders = []
        for candidate in self._context.hosts.snapshot().hosts:
            if _can_tell(candidate, host):
                try:
                    store = _store(await self._context.hosts.engine(candidate.name), candidate.name)
                    record = await store.find(image)
                except (EngineError, UnreachableError):
                    if host:
                        raise
                    continue
                if record is not None:
                    holders.append((candidate.name, record))
        return holders

    async def _asked(self, image: str, host: str, *, must: bool) -> str:
        """Return the digest that the image's registry tells, or ""; where it `must`, ImageError."""
        hosts = self._context.hosts.snapshot().hosts
        try:
            # What one host cannot reach the next will hardly; one question is enough.
            candidate = next((each for each in hosts if _can_tell(each, host)), None)
            if candidate is None:
                raise ImageError(
                    "No terminal to ask",
                    msg("No host is up that could look for {image}.", image=image),
                    "",
                )
            store = _store(await self._context.hosts.engine(candidate.name), candidate.name)
            return await store.registry_digest(image)
        except (EngineError, UnreachableError):
            if must:
                raise
            return ""

    async def _reached(self, name: str) -> tuple[Engine, Host]:
        self._require((name,))
        host = self._context.hosts.snapshot().host(name)
        assert host is not None
        return await self._context.hosts.engine(name), host

    def _require(self, names: Sequence[str]) -> None:
        host_names = [host.name for host in self._context.hosts.snapshot().hosts]
        for name in names:
            if name not in host_names:
                listed = ", ".join(host_names[:10])
                raise UsageError(
                    "No such host",
                    msg("The inventory has no {name}.", name=f"{clean(name, 80)!r}"),
                    msg("Known: {listed}", listed=listed),
                )


def pinned(notes: ImageNotes, default_image: Callable[[str], str]) -> Callable[[str], str]:
    """Return the hosts' default images as their pins have them."""
    return lambda host: notes.resolved(default_image(host))


def with_pin(task: Task, notes: ImageNotes) -> Task:
    """Return a task with the pinned image; UsageError if it names no image at all."""
    if not task.image:
        return task
    parse_reference(task.image)
    return replace(task, image=notes.resolved(task.image))


def same_image(record: ImageRecord, image: str) -> bool:
    """Tell whether a record is the image that a name means on its host."""
    wanted_name = familiar(image)
    names = {familiar(name) for name in (*record.names, *record.digests)}
    return wanted_name in names or f"{wanted_name}:latest" in names or image == record.id


def _store(engine: Engine, host: str) -> ImageStore:
    if isinstance(engine, KeepsImages):
        return engine.images
    raise EngineError(
        "No images", msg("{host} has no container engine that keeps images.", host=host)
    )


def _named(host: Host, names: Sequence[str]) -> bool:
    # What runs a command on a cluster's nodes, and from which image, is the cluster's matter.
    return host.name in names if names else not host.cluster


def _can_tell(candidate: Host, host: str) -> bool:
    """Whether a host may be asked about an image, where one is named only that."""
    return candidate.state is HostState.UP and (
        candidate.name == host if host else not candidate.cluster
    )


def _idle(host: Host) -> Device | None:
    free = (
        device for device in host.devices if not (device.processes or device.lost or device.divided)
    )
    return next(free, None)


def _backend(host: Host) -> str:
    return host.devices[0].backend if host.devices else "cpu"
