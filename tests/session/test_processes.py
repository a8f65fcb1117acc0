"""Ending what runs on devices: what is refused, what a job's container leads to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import DeviceProcess
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.errors import ReadOnlyError, RefusedError
from gpuconsole.remote.links.protocol import Completed
from gpuconsole.remote.process_signals import send
from gpuconsole.session.context import Context
from gpuconsole.session.processes import Processes
from tests.session.conftest import Lab

TRAIN = DeviceProcess(4100, "ana", 900.0, "python train.py", "c" * 64)


class Cancelled:
    def __init__(self) -> None:
        self.ids: list[str] = []

    async def __call__(self, reference: str) -> Job:
        self.ids.append(reference)
        return Job(reference, Task("t"), "ada", JobState.CANCELLED, 0.0)


def processes(lab: Lab, *, read_only: bool = False) -> tuple[Processes, Cancelled, Lab]:
    desk = lab.desk()
    host = desk.hosts.snapshots.hosts[0]
    busy = replace(host.devices[0], processes=(TRAIN,))
    hosts = (replace(host, devices=(busy, *host.devices[1:])),)
    desk.hosts.snapshots = replace(desk.hosts.snapshots, hosts=hosts)
    context = Context(
        desk.hosts, desk.journal, LabSettings(), "ada", lambda *_: None, lambda host: "",  # type: ignore[arg-type, return-value]
        read_only=read_only,
    )  # fmt: skip
    cancelled = Cancelled()
    return Processes(context, cancelled), cancelled, lab


async def test_a_process_that_is_shown_gets_the_signal(lab: Lab) -> None:
    made, _, _ = processes(lab)
    await made.signal("a", 4100, "TERM")
    assert lab.desks[0].hosts.signals == [("a", 4100, "TERM")]


async def test_one_that_is_not_shown_does_not(lab: Lab) -> None:
    made, _, _ = processes(lab)
    for host, pid in (("a", 1), ("b", 4100)):
        with pytest.raises(RefusedError, match="ended already"):
            await made.signal(host, pid, "TERM")
    assert lab.desks[0].hosts.signals == []


async def test_read_only_refuses_both(lab: Lab) -> None:
    made, cancelled, _ = processes(lab, read_only=True)
    with pytest.raises(ReadOnlyError):
        await made.signal("a", 4100, "KILL")
    with pytest.raises(ReadOnlyError):
        await made.stop_container("a", "c" * 64)
    assert lab.desks[0].hosts.signals == []
    assert cancelled.ids == []


async def test_the_container_of_a_job_is_cancelled_as_the_job(lab: Lab) -> None:
    made, cancelled, _ = processes(lab)
    journal = lab.desks[0].journal
    attempt = Attempt(1, "a", ("GPU-a-0",), (0,), container_name="n", container_id="c" * 64)
    queued = Job("ada-1", Task("t"), "ada", JobState.QUEUED, 0.0)
    journal.add(queued)
    launching = replace(queued, state=JobState.LAUNCHING, attempts=(attempt,))
    journal.save(queued, launching)
    journal.save(launching, replace(launching, state=JobState.RUNNING))
    job = await made.stop_container("a", "c" * 64)
    assert cancelled.ids == ["ada-1"]
    assert job is not None


async def test_a_container_that_is_gone_is_told(lab: Lab) -> None:
    made, cancelled, _ = processes(lab)
    with pytest.raises(RefusedError, match="no container dddddddddddd"):
        await made.stop_container("a", "d" * 64)
    assert cancelled.ids == []


class Shell:
    """A host's answers to `cat` and `kill`."""

    def __init__(self, cmdline: bytes | None, kill: Completed | None = None) -> None:
        self.cmdline, self.kill = cmdline, kill or Completed(0, b"", b"")
        self.unread = b"cat: /proc/4100/cmdline: No such file or directory"
        self.ran: list[tuple[str, ...]] = []

    async def run(self, argv, *, stdin: bytes = b"", timeout: float = 30.0) -> Completed:  # type: ignore[no-untyped-def]
        self.ran.append(tuple(argv))
        if "cat" not in argv:
            return self.kill
        if self.cmdline is None:
            return Completed(1, b"", self.unread)
        return Completed(0, self.cmdline, b"")


@pytest.mark.parametrize(
    ("cmdline", "known"),
    [
        (b"python\0train.py\0", "python train.py"),
        (b"python\0train.py\0--lr\x000.1\0", "python train.py --lr"),
        (b"/opt/bin/python\0train.py\0", "/opt/bin/python"),
        (b"", "nvidia-persist"),
        (b"python\0train.py\0", ""),
    ],
)
async def test_the_same_command_is_signalled(cmdline: bytes, known: str) -> None:
    shell = Shell(cmdline)
    await send(shell, "h", DeviceProcess(77, "ana", 1.0, known), "INT")  # type: ignore[arg-type]
    assert shell.ran[-1] == ("env", "LC_ALL=C", "kill", "-INT", "77")


async def test_another_command_under_the_pid_is_left_alone() -> None:
    shell = Shell(b"postgres\0")
    with pytest.raises(RefusedError, match="another process"):
        await send(shell, "h", TRAIN, "KILL")  # type: ignore[arg-type]
    assert ["cat" in argv for argv in shell.ran] == [True]


@pytest.mark.parametrize(
    ("unread", "title"),
    [
        (b"cat: /proc/4100/cmdline: No such file or directory", "It has ended already"),
        (b"cat: /proc/4100/cmdline: No such process", "It has ended already"),
        (b"env: 'cat': No such file or directory", "Process cannot be looked at"),
    ],
)
async def test_what_cannot_be_read_has_not_always_ended(unread: bytes, title: str) -> None:
    from gpuconsole.errors import ConsoleError

    shell = Shell(None)
    shell.unread = unread
    with pytest.raises(ConsoleError) as caught:
        await send(shell, "h", TRAIN, "TERM")  # type: ignore[arg-type]
    assert caught.value.title == title
    assert len(shell.ran) == 1


@pytest.mark.parametrize(
    ("reported", "title", "advice"),
    [
        (b"kill: (4100) - Operation not permitted", "Not permitted", "Ask ana"),
        (b"kill: (4100) - No such process", "It has ended already", ""),
        (b"kill: out of order", "Signal not sent", ""),
    ],
)
async def test_what_kill_says_is_told_in_words(reported: bytes, title: str, advice: str) -> None:
    from gpuconsole.errors import ConsoleError

    shell = Shell(b"python\0train.py\0", Completed(1, b"", reported))
    with pytest.raises(ConsoleError) as caught:
        await send(shell, "h", TRAIN, "TERM")  # type: ignore[arg-type]
    assert caught.value.title == title
    assert advice in caught.value.hint


@pytest.mark.parametrize(("pid", "signal"), [(1, "TERM"), (0, "KILL"), (-1, "KILL"), (77, "STOP")])
async def test_what_may_never_be_sent(pid: int, signal: str) -> None:
    shell = Shell(b"init\0")
    with pytest.raises(RefusedError):
        await send(shell, "h", DeviceProcess(pid, "root", 1.0, "init"), signal)  # type: ignore[arg-type]
    assert shell.ran == []


def test_no_shell_is_involved() -> None:
    from gpuconsole.remote import process_signals

    text = Path(process_signals.__file__).read_text()
    assert '"sh"' not in text
