"""`gpuconsole check`: each host tested step by step, with a remedy for what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import quote

from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import Host, HostState
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.vendors import Vendor, vendor_of
from gpuconsole.core.wording import joined, msg, name
from gpuconsole.errors import ConsoleError, HostKeyError, UnreachableError, UsageError
from gpuconsole.remote.check_findings import Finding, Result
from gpuconsole.remote.hosts import make_links
from gpuconsole.remote.inventory import HostEntry, Inventory, SlurmSection
from gpuconsole.remote.links.errors import LoginError, unreachable
from gpuconsole.remote.links.host_keys import OfferedKey, trust
from gpuconsole.remote.links.protocol import Link
from gpuconsole.remote.links.ssh import SshLink
from gpuconsole.remote.polling import sources
from gpuconsole.remote.polling.sources import NoSourceError
from gpuconsole.waiting import within

SSH_STEPS = ("name resolution", "tcp", "host key", "login")
HOST_STEPS = ("python", "driver", "devices", "docker", "gpu runtime", "image", "disk", "clock")
SLURM_STEPS = ("slurm", "nodes", "python", "folder")
LOW_DISK_MIB = 20 * 1024.0
"""An image of Paddle with CUDA takes about 10 GiB, twice that while it is unpacked."""
LARGE_SKEW_S = 2.0
FRAME_WAIT_S = 6.0


@dataclass(frozen=True, slots=True)
class HostReport:
    """All findings about one host, in the order of the steps."""

    host: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no step failed; warnings are no failure."""
        return all(finding.result != "fail" for finding in self.findings)

    def as_json(self) -> dict[str, object]:
        """Return the host's part of the `check --json` document."""
        findings = [finding.as_json() for finding in self.findings]
        return {"host": self.host, "ok": self.ok, "findings": findings}


async def check(
    inventory: Inventory,
    names: Sequence[str] = (),
    *,
    settings: LabSettings | None = None,
    clock: Callable[[], float] = time.time,
) -> tuple[HostReport, ...]:
    """Test hosts (all, or those named) in parallel; UsageError for a name that is not there."""
    entries = [_entry(inventory, name) for name in names] or list(inventory.hosts)
    links = make_links(inventory, settings or inventory.lab)
    try:
        checks = [_HostCheck(entry, links[entry.name], clock) for entry in entries]
        return tuple(await asyncio.gather(*(check_.report() for check_ in checks)))
    finally:
        await asyncio.gather(*(link.close() for link in links.values()))


async def trust_host(
    inventory: Inventory, name: str, confirm: Callable[[OfferedKey], bool]
) -> tuple[OfferedKey, ...]:
    """Show each unknown key on the way to a host and add those that `confirm` accepts.

    Returns the keys added; HostKeyError when a key has changed or is not accepted.
    """
    entry = _entry(inventory, name)
    links = make_links(inventory, inventory.lab)
    added: list[OfferedKey] = []
    try:
        link = links[entry.name]
        # Each round brings one more hop to light.
        while isinstance(link, SshLink):
            try:
                await link.connect()
                break
            except HostKeyError:
                hop = _refused(links)
                if hop is None or hop.check.offered is None or hop.check.offered.changed:
                    raise
                if hop.check.offered in added or not confirm(hop.check.offered):
                    raise
                trust(hop.check.offered, hop.entry.known_hosts)
                added.append(hop.check.offered)
            except LoginError:
                # The key is what was asked about; the login is another step's matter.
                break
    finally:
        await asyncio.gather(*(link.close() for link in links.values()))
    return tuple(added)


def _refused(links: dict[str, Link]) -> SshLink | None:
    for link in links.values():
        if isinstance(link, SshLink) and link.check.offered is not None:
            return link
    return None


def _entry(inventory: Inventory, name: str) -> HostEntry:
    entry = inventory.host(name)
    if entry is None:
        names = ", ".join(host.name for host in inventory.hosts)
        raise UsageError(
            "No such host",
            msg("{name} is not in the inventory.", name=name),
            msg("Known: {names}", names=names),
        )
    return entry


class _FailedError(Exception):
    """A step failed after which no other can be done."""


class _HostCheck:
    """The steps for one host."""

    def __init__(self, entry: HostEntry, link: Link, clock: Callable[[], float]) -> None:
        self._entry = entry
        self._link = link
        self._clock = clock
        self._findings: list[Finding] = []

    async def report(self) -> HostReport:
        """Do all steps; those that cannot be done any more are skipped."""
        try:
            if isinstance(self._link, SshLink):
                await self._connect(self._link)
            else:
                for step in SSH_STEPS:
                    self._add(step, "skip", "this machine")
            if self._entry.slurm is not None:
                await self._cluster(self._entry.slurm)
                return self._done()
            host = await self._frames()
            self._judge_devices(host)
            await self._engine(host)
            self._judge_host(host)
        except _FailedError:
            done = {finding.step for finding in self._findings}
            for step in self._steps:
                if step not in done:
                    self._add(step, "skip", "not reached")
        return self._done()

    @property
    def _steps(self) -> tuple[str, ...]:
        return (*SSH_STEPS, *(HOST_STEPS if self._entry.slurm is None else SLURM_STEPS))

    def _done(self) -> HostReport:
        order = self._steps
        self._findings.sort(key=lambda finding: order.index(finding.step))
        return HostReport(self._entry.name, tuple(self._findings))

    async def _cluster(self, settings: SlurmSection) -> None:
        from gpuconsole.remote.slurm.check import looked_at

        for step, result in await looked_at(self._link, self._entry.name, settings):
            if isinstance(result, ConsoleError):
                raise self._fail(step, result)
            self._add(step, "ok", result)

    def _add(self, step: str, result: Result, message: str, remedy: str = "") -> None:
        self._findings.append(Finding(step, result, message, remedy))

    def _fail(self, step: str, error: ConsoleError) -> _FailedError:
        self._add(step, "fail", joined(": ", (error.title, error.message)), error.hint)
        return _FailedError(step)

    async def _connect(self, link: SshLink) -> None:
        try:
            target = await link.target()
        except UnreachableError as error:
            raise self._fail("login", error) from error
        if target is None:
            for step in SSH_STEPS[:2]:
                self._add(step, "skip", "reached through another host")
        else:
            await self._reach(*target)
        try:
            await link.connect()
        except HostKeyError as error:
            raise self._fail("host key", error) from error
        except LoginError as error:
            self._add("host key", "ok", "trusted")
            raise self._fail("login", error) from error
        except UnreachableError as error:
            raise self._fail("login", error) from error
        self._add("host key", "ok", "trusted")
        self._add("login", "ok", msg("as {user}", user=link.username))

    async def _reach(self, address: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        where = f"{address} port {port}"
        try:
            addresses = await within(5.0, loop.getaddrinfo(address, port))
        except (OSError, asyncio.TimeoutError) as error:
            raise self._fail(
                "name resolution", unreachable(self._entry.name, address, error, 5.0)
            ) from error
        self._add("name resolution", "ok", str(addresses[0][4][0]))
        try:
            _, writer = await within(5.0, asyncio.open_connection(address, port))
        except (OSError, asyncio.TimeoutError) as error:
            raise self._fail("tcp", unreachable(self._entry.name, where, error, 5.0)) from error
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        self._add("tcp", "ok", msg("port {port} answers", port=port))

    async def _frames(self) -> Host:
        """Read the host as the console would, and say by which way."""
        base = Host(self._entry.name)
        refused: list[str] = []
        for way in sources.WAYS:
            frames = sources.frames(self._link, base, way, 1.0, self._clock)
            try:
                host = await within(FRAME_WAIT_S + 5, _whole(frames))
            except NoSourceError as error:
                refused.append(str(error))
                continue
            except (UnreachableError, asyncio.TimeoutError) as error:
                message = error.message if isinstance(error, UnreachableError) else "no frame came"
                self._add("python", "fail", message, "Look at the host's load and its log.")
                raise _FailedError("python") from error
            if way in sources.WITHOUT_PYTHON:
                why = "; ".join(refused)
                remedy = "Install Python 3.6 or later; without it less is shown, and more slowly."
                self._add(
                    "python", "warn", msg("{way} is used instead: {why}", way=way, why=why), remedy
                )
            else:
                self._add("python", "ok", msg("agent runs under {way}", way=way))
            return host
        remedy = "Install Python 3.6 or later, or the driver's nvidia-smi, on the account's PATH."
        self._add("python", "fail", "; ".join(refused), remedy)
        raise _FailedError("python")

    def _judge_devices(self, host: Host) -> None:
        facts = host.facts
        if not facts.driver_version and not host.devices:
            message = host.error or "the driver does not answer"
            remedy = (
                "Install the cards' driver; after an update, reboot. Its own tool (nvidia-smi,"
                " npu-smi, ...) shows more."
            )
            self._add("driver", "fail", message, remedy)
            self._add("devices", "skip", "no driver")
            return
        runtime = f", CUDA {facts.runtime_version}" if facts.runtime_version else ""
        version = name(facts.driver_version) if facts.driver_version else "the driver answers"
        self._add("driver", "ok", joined("", (version, runtime)))
        broken = [device for device in host.devices if device.lost or device.error]
        models = ", ".join(sorted({device.model for device in host.devices}))
        if not host.devices:
            self._add("devices", "fail", "the driver lists none", "Is the card seated? See lspci.")
        elif broken:
            what = "; ".join(f"{device.model} {device.index}: {device.error}" for device in broken)
            self._add("devices", "fail", what, "Drain the host and reset the card, or reboot.")
        else:
            self._add("devices", "ok", f"{len(host.devices)} x {models}")

    async def _engine(self, host: Host) -> None:
        from gpuconsole.remote.docker.engine import DockerEngine

        engine = DockerEngine(self._link, self._entry.name, self._entry.docker_socket)
        try:
            info = await within(20.0, engine.info())
        except (ConsoleError, asyncio.TimeoutError) as error:
            if isinstance(error, ConsoleError):
                self._add("docker", "fail", joined(": ", (error.title, error.message)), error.hint)
            else:
                self._add("docker", "fail", "the engine does not answer", "Restart Docker there.")
            for step in ("gpu runtime", "image"):
                self._add(step, "skip", "no engine")
            return
        finally:
            await engine.close()
        self._add("docker", "ok", msg("version {version}", version=info.version))
        makers = {vendor_of(device.backend, device.vendor) for device in host.devices}
        if makers and all(maker.backend != "gpu" for maker in makers):
            self._add("gpu runtime", *handed_over(makers, info.runtimes))
        elif info.gpu_runtime:
            self._add("gpu runtime", "ok", "containers can have GPUs")
        else:
            remedy = "Install the NVIDIA Container Toolkit there, then restart Docker."
            self._add("gpu runtime", "fail", "Docker cannot give GPUs to containers", remedy)
        await self._image()

    async def _image(self) -> None:
        image = self._entry.image
        try:
            path = await self._link.forward_socket(self._entry.docker_socket)
            present = await within(10.0, _has_image(path, image))
        except (ConsoleError, OSError, ValueError, asyncio.TimeoutError) as error:
            why = name(clean(str(error), 200)) if str(error) else "no answer"
            self._add("image", "warn", joined(": ", (name(image), why)))
            return
        if present:
            self._add("image", "ok", msg("{image} is there", image=image))
        else:
            remedy = msg(
                "The first job pulls it; `docker pull {image}` there saves the wait.", image=image
            )
            self._add("image", "warn", msg("{image} is not there yet", image=image), remedy)

    def _judge_host(self, host: Host) -> None:
        free = host.facts.disk_free_mib
        if free is None:
            self._add("disk", "skip", "unknown without Python")
        elif free < LOW_DISK_MIB:
            remedy = "Make room: `docker system prune` there shows and removes what is unused."
            self._add("disk", "warn", msg("only {size} are free", size=format_mib(free)), remedy)
        else:
            self._add("disk", "ok", msg("{n} free", n=format_mib(free)))
        skew = host.clock_skew_s
        if skew is None:
            self._add("clock", "skip", "unknown without Python")
        elif abs(skew) > LARGE_SKEW_S:
            side = "{time} ahead of this machine" if skew > 0 else "{time} behind this machine"
            message = msg(side, time=f"{abs(skew):.1f} s")
            self._add("clock", "warn", message, "Let chrony or systemd-timesyncd set it.")
        else:
            self._add("clock", "ok", msg("within {time}", time=f"{LARGE_SKEW_S:g} s"))


def handed_over(makers: Iterable[Vendor], runtimes: Sequence[str]) -> tuple[Result, str, str]:
    """Say how containers get the devices of other makers than NVIDIA, and what that needs."""
    words, remedy = [], ""
    for maker in sorted(makers, key=lambda maker: maker.title):
        way = f"by the runtime {maker.runtime}" if maker.runtime in runtimes else "as nodes"
        if maker.privileged:
            way = "to privileged containers alone"
            remedy = "Set `allow_privileged: true` in the lab's settings if that is meant."
        words.append(f"{maker.title}'s devices are given {way} (unproven)")
    return ("warn" if remedy else "ok"), "; ".join(words), remedy


async def _whole(frames: sources.Frames) -> Host:
    """Return the first frame that has devices and a clock, or the best after a while."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + FRAME_WAIT_S
    async with contextlib.aclosing(frames):
        async for host in frames:
            if host.state is not HostState.UP:
                continue
            agent = host.facts.source == "agent"
            # A driver or a vendor's tool may still be at work: what it says is worth the wait.
            timed = not agent or host.clock_skew_s is not None
            if timed and not host.unsettled and (host.devices or (agent and host.error)):
                return host
            if loop.time() > deadline:
                return host
    raise NoSourceError("it ended by itself")


async def _has_image(path: str, image: str) -> bool:
    """Ask the engine behind a socket whether it has an image."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        request = f"GET /images/{quote(image)}/json HTTP/1.0\r\nHost: docker\r\n\r\n"
        writer.write(request.encode())
        words = (await reader.readline()).split()
        if len(words) < 2 or words[1] not in (b"200", b"404"):
            raise ValueError("the engine does not say whether it has it")
        return words[1] == b"200"
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
