"""Ports of a lab's jobs, reached through its service by users who have no account on the hosts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import aiohttp
import pytest

from gpuconsole.core.engines.terminals import SESSION, SOCKET
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.lab_service import inside
from gpuconsole.session.lab_service.console.lab_session import LabQueueSession
from gpuconsole.session.lab_service.protocol import Submission, Wanted
from gpuconsole.session.ports.forwards import HOME
from tests.session.fakes import EchoStream
from tests.session.lab_service.conftest import LabDesk, packed_project
from tests.waiting import until


async def running(lab: LabDesk, console: LabQueueSession) -> Job:
    lab.act_as(console.user)
    script = lab.script
    script.write_text("import time\ntime.sleep(6000)\n")
    job = await console.queue.submit(Task("serve", str(script)), force=True)
    await until(lambda: console.job(job.id).state is JobState.RUNNING)
    return console.job(job.id)


async def test_a_page_is_read_through_the_service_and_the_audit_has_it_once(lab: LabDesk) -> None:
    async with lab.console("ada") as ada:
        job = await running(lab, ada)
        made = await ada.forward(job.id, 6006)
        async with aiohttp.ClientSession() as http:
            for _ in range(3):
                async with http.get(made.url) as page:
                    assert await page.text() == "Port 6006 of serve, in the simulated lab.\n"
        acts = [act for act in await ada.audit() if act.verb == "connect"]
        assert [(act.user, act.subject, act.detail) for act in acts] == [("ada", job.id, "6006")]


async def test_bytes_go_both_ways_and_nothing_is_left(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: list[EchoStream] = []

    async def connect(engine: object, container: str, target: str) -> EchoStream:
        streams.append(EchoStream())
        return streams[-1]

    monkeypatch.setattr("gpuconsole.simulated_lab.engine.SimulatedEngine.connect", connect)
    async with lab.console("ada") as ada:
        job = await running(lab, ada)
        made = await ada.forward(job.id, 6006)
        reader, writer = await asyncio.open_connection(HOME, made.local_port)
        writer.write(b"x" * 300_000)
        assert await reader.readexactly(300_000) == b"x" * 300_000
        writer.write_eof()
        assert await reader.read() == b"over"
        second, _ = await asyncio.open_connection(HOME, made.local_port)
        await until(lambda: len(streams) == 2)
        await ada.close_forward(made.local_port)
        assert await second.read() == b""
        await until(lambda: all(stream.closed for stream in streams))


async def test_much_is_said_in_parts_of_which_the_service_takes_one_at_a_time(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int] = []

    class Kept(EchoStream):
        async def write(self, data: bytes) -> None:
            said.append(len(data))
            await super().write(data)

    async def connect(engine: object, container: str, target: str) -> EchoStream:
        return Kept()

    monkeypatch.setattr("gpuconsole.simulated_lab.engine.SimulatedEngine.connect", connect)
    async with lab.console("ada") as ada:
        job = await running(lab, ada)
        assert job.attempt is not None
        stream = await (await ada.hosts.engine(job.attempt.host)).connect(
            job.attempt.container_id, "6006"
        )
        await stream.write(b"x" * 1_000_000)
        await until(lambda: sum(said) == 1_000_000)
        assert max(said) <= inside.SENT_BYTES
        await stream.close()


async def test_nobody_reaches_into_a_job_of_somebody_else(lab: LabDesk) -> None:
    async with lab.console("ada") as ada, lab.console("bob") as bob:
        job = await running(lab, ada)
        assert job.attempt is not None
        lab.act_as("bob")
        engine = await bob.hosts.engine(job.attempt.host)
        with pytest.raises(RefusedError):
            await engine.connect(job.attempt.container_id, "6006")
        lab.act_as("ops-cat")
        refused = next(act for act in lab.session._journal.acts(10) if act.refused)
        assert (refused.user, refused.verb, refused.subject) == ("bob", "connect", job.id)


@pytest.mark.parametrize("target", ["0", "65536", "000080123", "/run/docker.sock", "", "٣", "80 "])
async def test_what_is_no_port_is_refused(lab: LabDesk, target: str) -> None:
    async with lab.console("ada") as ada:
        job = await running(lab, ada)
        assert job.attempt is not None
        engine = await ada.hosts.engine(job.attempt.host)
        with pytest.raises(UsageError, match="no port"):
            await engine.connect(job.attempt.container_id, target)


async def test_what_runs_in_no_job_of_the_queue_is_refused(lab: LabDesk) -> None:
    async with lab.console("ada") as ada:
        job = await running(lab, ada)
        assert job.attempt is not None
        engine = await ada.hosts.engine(job.attempt.host)
        for container in ("", "c" * 64):
            with pytest.raises(UsageError, match="No job"):
                await engine.connect(container, "6006")


async def test_an_account_has_a_bound(lab: LabDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "MOST_AT_ONCE", 2)
    async with lab.console("ada") as ada:
        job = await running(lab, ada)
        assert job.attempt is not None
        engine = await ada.hosts.engine(job.attempt.host)
        held = [await engine.connect(job.attempt.container_id, "6006") for _ in range(2)]
        with pytest.raises(RefusedError, match="at once"):
            await engine.connect(job.attempt.container_id, "6006")
        await held[0].close()
        await until(lambda: lab.service._inside._running.of(lab.caller.uid) == 1)
        await held[1].close()


async def test_a_session_is_opened_and_used_through_the_service(lab: LabDesk) -> None:
    async with lab.console("ada") as ada, lab.console("bob") as bob:
        lab.act_as("ada")
        job = await ada.shell(name="work", idle_stop_s=3600.0)
        await until(lambda: ada.job(job.id).state is JobState.RUNNING)
        assert ada.job(job.id).task.idle_stop_s == 3600.0
        terminal = await ada.attach(job.id)
        await terminal.write(b"ls\r")
        written = b""
        while b"Nothing is run" not in written:
            said = await terminal.read()
            assert said is not None
            written += said.data
        lab.act_as("bob")
        attempt = lab.session.job(job.id).attempt
        assert attempt is not None
        engine = await bob.hosts.engine(attempt.host)
        with pytest.raises(RefusedError):
            await engine.connect(attempt.container_id, SOCKET)
        lab.act_as("ada")
        await terminal.write(b"exit\r")
        while (await terminal.read()) is not None:
            pass
        assert await terminal.exit_code() == 0
        await terminal.close()
        await until(lambda: ada.job(job.id).state is JobState.SUCCEEDED)


@pytest.mark.parametrize(
    "wrong",
    [
        {"workspace": "../../up"},
        {"args": ("-c", "id")},
        {"script": "train.py"},
        {"retries": 3},
        {"idle_stop_s": 1.0},
        {"until": 1e300},
    ],
)
async def test_a_session_that_no_console_sends_is_refused(
    lab: LabDesk, wrong: dict[str, object]
) -> None:
    task = Task("work", kind=SESSION, retries=0, folder="")
    wanted = Wanted(replace(task, **wrong), None, None)  # type: ignore[arg-type]
    bundle = lab.root / "bundle.tar.gz"
    bundle.write_bytes(packed_project())
    lab.act_as("ada")
    with pytest.raises(UsageError):
        await lab.client().submit(Submission((wanted,), hold=False), bundle, lambda *_: None)
    assert not lab.session.jobs()
