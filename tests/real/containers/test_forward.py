"""Ports of jobs' containers, forwarded through real SSH and a real engine."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import subprocess
import urllib.request
from functools import partial
from subprocess import PIPE

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.ports.forwards import HOME
from gpuconsole.session.session import Session
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, job_is, until

SERVERS = """
import http.server, os, socket, threading, time

class Echo(threading.Thread):
    def run(self):
        listener = socket.create_server(("127.0.0.1", 7007))
        while True:
            link, _ = listener.accept()
            threading.Thread(target=self.answer, args=(link,), daemon=True).start()
    def answer(self, link):
        while True:
            data = link.recv(65536)
            if not data:
                break
            link.sendall(data[::-1])
        link.sendall(b"over")
        link.close()

Echo(daemon=True).start()
os.chdir("/tmp")
open("hello.txt", "w").write("from inside")
web = http.server.ThreadingHTTPServer(("127.0.0.1", 8040), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=web.serve_forever, daemon=True).start()
print("serving", flush=True)
while not os.path.exists(os.environ["GPUCONSOLE_RESULTS"] + "/go"):
    time.sleep(0.05)
"""
"""Listens on the container's own loopback alone; the lab's default network is `none`."""


async def serving(session: Session, desk: Desk) -> Job:
    """Return a running job whose servers listen."""
    job = await session.queue.submit(desk.task(SERVERS, "serve"), force=True)
    running = await job_is(session, job, JobState.RUNNING)
    async for line in session.logs(job.id, follow=True):
        if line == "serving":
            break
    return running


async def fetched(url: str) -> bytes:
    """Return the page's text. Read in a thread to its end: this one carries the forward."""

    def fetch() -> bytes:
        with urllib.request.urlopen(f"{url}hello.txt", timeout=PATIENCE_S) as answer:
            text: bytes = answer.read()
        return text

    return await asyncio.to_thread(fetch)


def relays(engine: LabDocker) -> int:
    """Return how many processes in containers pass bytes on."""
    client = engine.client()
    tops = [client.top(one["Id"], "-efww")["Processes"] or [] for one in client.containers()]
    return sum("-IS" in " ".join(process) for top in tops for process in top)


async def test_a_page_and_a_thousand_bytes_both_ways(session: Session, desk: Desk) -> None:
    job = await serving(session, desk)
    page = await session.forward(job.id, 8040)
    assert await fetched(page.url) == b"from inside"
    echo = await session.forward(job.id, 7007)
    reader, writer = await asyncio.open_connection(HOME, echo.local_port)
    sent = random.Random(7).randbytes(1000)
    writer.write(sent)
    assert await reader.readexactly(1000) == sent[::-1]
    # That one side says no more is no end of what the other says.
    writer.write_eof()
    assert await reader.read() == b"over"
    writer.close()
    await session.queue.cancel(job.id)
    ended = session.forwards.open_now()
    await until(lambda: not session.forwards.open_now(), what=f"{ended} over with the job")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(HOME, page.local_port)


async def test_what_is_wrong_is_said(session: Session, desk: Desk) -> None:
    job = await serving(session, desk)
    dead = await session.forward(job.id, 9)
    reader, _ = await asyncio.open_connection(HOME, dead.local_port)
    assert await reader.read() == b""
    assert "Connection refused" in session.forwards.at(dead.local_port).info.trouble
    with socket.create_server((HOME, 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(UsageError, match="already") as said:
            await session.forward(job.id, 8040, local_port=number)
        offered = int(said.value.hint.rpartition(" ")[2].rstrip("."))
    assert (await session.forward(job.id, 8040, local_port=offered)).local_port == offered
    held = await session.queue.submit(Task("held", str(desk.script("0"))), force=True, hold=True)
    with pytest.raises(RefusedError, match="held"):
        await session.forward(held.id, 8040)


async def test_twenty_opened_and_closed_at_random_leave_nothing(
    session: Session, desk: Desk, engine: LabDocker
) -> None:
    job = await serving(session, desk)
    dice, links = random.Random(20), []
    for _ in range(20):
        made = await session.forward(job.id, 7007)
        reader, writer = await asyncio.open_connection(HOME, made.local_port)
        writer.write(b"ab")
        assert await reader.readexactly(2) == b"ba"
        links.append((made, writer))
        if dice.random() < 0.5:
            closed, gone = links.pop(dice.randrange(len(links)))
            if dice.random() < 0.5:
                gone.close()
            await session.close_forward(closed.local_port)
    ports = [made.local_port for made, _ in links]
    assert len(set(ports)) == len(ports) == len(session.forwards.open_now())
    assert relays(engine) >= len(ports)
    await session.forwards.close()
    await until(lambda: not relays(engine), what="no relay left in the container")
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOME, port)
    assert (await job_is(session, job, JobState.RUNNING)).id == job.id


async def test_the_link_is_cut_and_the_forward_goes_on(
    session: Session, desk: Desk, host: LabHost, engine: LabDocker
) -> None:
    job = await serving(session, desk)
    made = await session.forward(job.id, 7007)
    reader, writer = await asyncio.open_connection(HOME, made.local_port)
    writer.write(b"ab")
    assert await reader.readexactly(2) == b"ba"
    # What killed connections are: each sshd that serves one ends, new ones are made.
    host.stop_sshd()
    host.start_sshd()
    assert await reader.read() == b""
    writer.close()

    async def again() -> bytes:
        reader, writer = await asyncio.open_connection(HOME, made.local_port)
        writer.write(b"cd")
        try:
            return await reader.read(2)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while await again() != b"dc":
        assert asyncio.get_running_loop().time() < deadline
    await until(lambda: relays(engine) <= 1, what="no relay left of the lost link")


async def test_the_command_prints_an_address_and_ends_with_ctrl_c(
    session: Session, desk: Desk, engine: LabDocker
) -> None:
    job = await serving(session, desk)
    words = desk.command("forward", "--json", job.id, "8040")
    running = await asyncio.to_thread(partial(subprocess.Popen, words, stdout=PIPE, text=True))
    assert running.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = await asyncio.to_thread(running.stdout.readline)
        assert line, text
        text += line
    url = json.loads(text)["url"]
    assert await fetched(url) == b"from inside"
    running.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(running.wait, PATIENCE_S) == 0
    await until(lambda: not relays(engine), what="no relay left")
