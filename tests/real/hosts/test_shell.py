"""Shells on leased devices: used, cut off and come back to, through real SSH and a real engine."""

from __future__ import annotations

import asyncio
import io
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.errors import RefusedError
from gpuconsole.session.interactive.attached import AttachedTerminal
from gpuconsole.session.ports.forwards import HOME
from gpuconsole.session.session import Session
from gpuconsole.waiting import within
from tests.real.rig import terminal as rig
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import LabHost
from tests.real.rig.image import BARE_IMAGE, PADDLE_IMAGE, with_python_2, without_python
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, job_is, until, wait_until


async def begun(session: Session, **more: object) -> Job:
    """Open a session and return it once it runs."""
    return await job_is(session, await session.shell(**more), JobState.RUNNING)  # type: ignore[arg-type]


async def hears(terminal: AttachedTerminal, words: str) -> str:
    """Read until something is written; return all of it."""
    written = ""

    async def reading() -> str:
        nonlocal written
        while words not in written:
            said = await terminal.read()
            assert said is not None, written
            written += said.data.decode(errors="replace")
        return written

    try:
        return await within(PATIENCE_S, reading())
    except asyncio.TimeoutError:
        raise AssertionError(f"{words!r} is not in {written!r}") from None


async def does(terminal: AttachedTerminal, line: str, answer: str) -> str:
    await terminal.write(line.encode() + b"\n")
    return await hears(terminal, answer)


async def test_used_cut_off_and_come_back_to(
    session: Session, host: LabHost, engine: LabDocker
) -> None:
    job = await begun(session)
    assert job.attempt is not None
    assert len(job.attempt.device_uuids) == 1
    terminal = await session.attach(job.id, 100, 30)
    await does(terminal, "kept=here; stty size; id -u; pwd", "/workspace\r\n")
    await does(terminal, "touch mine && echo made-$?; echo $HOME", "made-0\r\n/workspace\r\n")
    await cut_off_come_back_to_and_left(session, host, engine, job, terminal, "made-0", b"exit\n")
    with pytest.raises(RefusedError, match="succeeded"):
        await session.attach(job.id)


async def cut_off_come_back_to_and_left(
    session: Session, host: LabHost, engine: LabDocker, job: Job, terminal: AttachedTerminal,
    written: str, leaving: bytes,
) -> None:  # fmt: skip
    """Break the connection of a terminal, attach again, and leave the shell: what was `written` is
    shown again, the shell, which has `kept=here`, is the same, and nothing is left of it."""
    host.stop_sshd()
    host.start_sshd()
    await read_to_its_end(terminal)
    assert terminal.lost
    await terminal.close()
    again = await attached(session, job)
    await hears(again, written)
    await does(again, "echo still-$kept", "still-here\r\n")
    await again.write(leaving)
    await read_to_its_end(again)
    assert (await again.exit_code(), again.lost) == (0, False)
    await again.close()
    ended = await job_is(session, job, JobState.SUCCEEDED)
    assert len(ended.attempts) == 1
    client = engine.client()
    # Neither a container nor a lease is left.
    await until(lambda: not client.containers(all=True), what="nothing left on the engine")
    log = [line async for line in session.logs(job.id)]
    assert any("still-here" in line for line in log)


async def read_to_its_end(terminal: AttachedTerminal) -> None:
    while (await terminal.read()) is not None:
        pass


async def attached(session: Session, job: Job) -> AttachedTerminal:
    """Attach as soon as the host is back."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        try:
            return await session.attach(job.id, 100, 30)
        except Exception:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.2)


async def test_a_project_is_copied_and_a_workspace_is_kept(session: Session, desk: Desk) -> None:
    desk.script("print('of the project')", "tool.py")
    job = await begun(session, project=str(desk.project))
    terminal = await session.attach(job.id)
    await does(terminal, "python tool.py", "of the project\r\n")
    await terminal.write(b"exit\n")
    await job_is(session, job, JobState.SUCCEEDED)
    await terminal.close()
    for turn in ("first", "second"):
        job = await begun(session, workspace="mine")
        terminal = await session.attach(job.id)
        if turn == "first":
            await does(terminal, "echo by-''hand > note; cat note", "by-hand\r\n")
        else:
            assert job.task.labels == {"host": job.attempt.host if job.attempt else ""}
            await does(terminal, "cat note", "by-hand\r\n")
        await terminal.write(b"exit\n")
        await job_is(session, job, JobState.SUCCEEDED)
        await terminal.close()


async def test_several_look_and_one_types(session: Session) -> None:
    job = await begun(session)
    first = await session.attach(job.id)
    await does(first, "echo $((20+1))", "21\r\n")
    watching = await session.attach(job.id, watch=True)
    second = await session.attach(job.id)
    await hears(first, "types now; you watch.")
    await does(second, "echo $((20+2))", "22\r\n")
    await hears(watching, "22\r\n")
    for one in (first, second, watching):
        await one.close()
    assert (await job_is(session, job, JobState.RUNNING)).state is JobState.RUNNING
    await session.cancel(job.id)
    assert session.job(job.id).state is JobState.CANCELLED


async def test_an_image_without_python_has_a_shell_that_is_left_and_come_back_to(
    session: Session, host: LabHost, engine: LabDocker
) -> None:
    await asyncio.to_thread(without_python, engine)
    job = await begun(session, image=BARE_IMAGE, idle_stop_s=3600.0)
    assert job.attempt is not None
    terminal = await session.attach(job.id, 100, 30)
    await hears(terminal, "All who look may type here.")
    # Its only programs are those of the shell: there is no PATH.
    await does(terminal, "kept=here; echo $((40+2))-$0", "42-/bin/bash\r\n")
    await does(terminal, "/usr/bin/stty size", "30 100\r\n")
    await terminal.resize(90, 20)
    await does(terminal, "/usr/bin/stty size; pwd", "20 90\r\n/workspace\r\n")
    watching = await session.attach(job.id, watch=True)
    await hears(watching, "30 100")
    await watching.write(b"echo watched; exit 3\n")
    second = await session.attach(job.id, 80, 24)
    await does(second, "echo both-$((20+1))", "both-21\r\n")
    assert "watched" not in await hears(terminal, "both-21\r\n")
    probe = await session.attach(job.id, watch=True)
    state = await probe.state()
    assert 0.0 <= state.idle_s < PATIENCE_S
    # What the dispatcher has to say, such as a warning, is shown to all.
    await probe.say("This session ends in 5m.")
    await hears(terminal, "This session ends in 5m.\r\n")
    for one in (probe, second, watching):
        await one.close()
    await cut_off_come_back_to_and_left(
        session, host, engine, job, terminal, "both-21", b"exit 3\n"
    )
    # It is cancelled at once, though an interactive shell ignores SIGTERM.
    job = await begun(session, image=BARE_IMAGE)
    await session.cancel(job.id)
    await until(lambda: session.job(job.id).state is JobState.CANCELLED)
    client = engine.client()
    await until(lambda: not client.containers(all=True), what="nothing left on the engine")


async def test_an_image_without_a_shell_says_so_and_others_are_offered(
    desk: Desk, session: Session, engine: LabDocker
) -> None:
    begun_before = await begun(session, image=PADDLE_IMAGE)
    terminal = await session.attach(begun_before.id)
    await terminal.write(b"exit\n")
    await job_is(session, begun_before, JobState.SUCCEEDED)
    await terminal.close()
    engine.client().import_image_from_data(
        empty_image(), repository="lab/empty", tag="1", changes=["ENV PATH=/bin"]
    )
    job = await session.shell(image="lab/empty:1")
    await until(lambda: session.job(job.id).state.ended)
    ended = session.job(job.id)
    assert ended.state is JobState.FAILED
    assert ended.cause == "The image has no shell: /bin/sh is not there."
    words = desk.command("shell", job.id)
    # It asks for a terminal before all else.
    done = await asyncio.to_thread(
        subprocess.run, ["script", "-qec", shlex.join(words), "/dev/null"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "The session is over" in said
    assert "The image has no shell" in said
    assert f"Images of that host that have what it needs: {PADDLE_IMAGE}." in said


def empty_image() -> bytes:
    """Return a file system without any program."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("tmp", "etc", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
    return out.getvalue()


@pytest.mark.parametrize(
    "names", [("python2.7", "python2", "python"), ("python", "python2")], ids=("links", "files")
)
async def test_an_image_of_python_2_has_a_shell_and_no_ports(
    session: Session, engine: LabDocker, names: tuple[str, ...]
) -> None:
    image = await asyncio.to_thread(with_python_2, engine, *names)
    job = await begun(session, image=image)
    terminal = await session.attach(job.id, 100, 30)
    await hears(terminal, "All who look may type here.")
    await does(terminal, "echo $((40+2))-$0", "42-/bin/bash\r\n")
    await session.forward(job.id, 7007)
    (forward,) = session.forwards.open_now()
    reader, writer = await asyncio.open_connection(HOME, forward.info.local_port)
    assert await within(PATIENCE_S, reader.read()) == b""
    writer.close()
    assert "has no Python 3.6 or later, through which its ports are reached" in str(
        forward.info.trouble
    )
    await terminal.write(b"exit\n")
    await job_is(session, job, JobState.SUCCEEDED)
    await terminal.close()
    lab = await session.jupyter(image=image)
    await until(lambda: session.job(lab.id).state.ended)
    assert session.job(lab.id).cause == "The image has no JupyterLab."


async def test_a_python_that_is_too_old_and_does_not_show_it_is_said(
    session: Session, engine: LabDocker
) -> None:
    image = await asyncio.to_thread(with_python_2, engine, "python")
    job = await session.shell(image=image)
    await until(lambda: session.job(job.id).state.ended)
    ended = session.job(job.id)
    assert (ended.state, ended.cause) == (
        JobState.FAILED, "The image has no Python 3.6 or later."
    )  # fmt: skip


async def test_the_command_in_a_terminal(
    desk: Desk, host: LabHost, engine: LabDocker, tmp_path: Path
) -> None:
    """Opened, left by keys, come back to, cut off, found again by itself, ended."""
    reason = rig.why_not()
    if reason:
        pytest.skip(reason)
    await asyncio.to_thread(in_a_terminal, desk, host, engine, tmp_path)


def in_a_terminal(desk: Desk, host: LabHost, engine: LabDocker, folder: Path) -> None:
    client = engine.client()
    (folder / "a").mkdir()
    with rig.Terminal(folder / "a", desk.command("shell", "--memory", "1g"), (90, 24)) as one:
        one.shows("Ctrl-P Ctrl-Q leaves it running")
        one.until(lambda text: text.rstrip().endswith(("$", "#")))
        one.type("kept=here; stty size")
        one.press("Enter")
        one.shows("24 90")
        one.press("C-p", "C-q")
        one.shows("It runs on. Come back to it with: gpuconsole shell")
    (folder / "b").mkdir()
    with rig.Terminal(folder / "b", desk.command("shell", "shell"), (90, 24)) as two:
        two.shows("24 90")
        two.type("echo a-$kept")
        two.press("Enter")
        two.shows("a-here")
        host.stop_sshd()
        two.shows("The connection is lost; the session runs on.")
        host.start_sshd()
        two.until(lambda text: text.count("a-here") >= 2)
        two.type("echo b-$kept")
        two.press("Enter")
        two.shows("b-here")
        two.type("exit")
        two.press("Enter")
        assert two.ended() == 0
    # Once it ends, its devices are free: whatever dispatched has seen to it.
    wait_until(lambda: not client.containers(all=True), what="nothing left on the engine")
