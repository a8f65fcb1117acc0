"""Sessions ended at random in twenty-one ways, of which nothing is to be left.

`GPUCONSOLE_RANDOM_SESSIONS` says how many, 25 where it is not set; a hundred take four minutes and
meet all ways. Which they are the day decides, or `GPUCONSOLE_SEED`. A container that an engine
cannot remove, as a restart has left a mount in it, is to be reported, and goes as the report says.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import docker
import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.errors import ConsoleError
from gpuconsole.session.factory import open_session
from gpuconsole.session.interactive import idle_stop, shells
from gpuconsole.session.ports.forwards import HOME
from gpuconsole.session.session import Session
from gpuconsole.waiting import within
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import DOCKER_GID, Lab, LabHost
from tests.real.rig.image import paddle_image
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, seen, until, wait_until
from tests.real.rig.teletype import Teletype

AT_ONCE = 10
SESSIONS = int(os.environ.get("GPUCONSOLE_RANDOM_SESSIONS") or 25)
# A check that decides about a change takes the same ways each day.
TODAY = "2026-11-28" if os.environ.get("CI") else date.today().isoformat()
SEED = os.environ.get("GPUCONSOLE_SEED") or TODAY
WAYS = {
    # Of one session.
    "cancelled wherever its launch is": 10,
    "exit": 9,
    "left and cancelled": 6,
    "cancelled under who looks": 8,
    "cancelled by another console": 8,
    "idle": 5,
    "its time is up": 5,
    "container removed": 8,
    "container killed": 6,
    "jupyter": 10,
    "command killed": 4,
    "command terminated": 4,
    "terminal closed": 4,
    "forward killed": 3,
    "forward terminated": 3,
    # Of all that are there at that moment.
    "connections end": 2,
    "sshd restarted": 1,
    "network cut": 1,
    "engine restarted": 1,
    "host restarted": 1,
    "dispatcher killed": 1,
}
"""How sessions end, and how many of a hundred: which comes when, the seed decides."""
NOTEBOOK = "lab/notebook:1"
STANDIN = """
import http.server, json, os, sys, threading

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a notebook")

    def do_POST(self):
        self.do_GET()
        threading.Timer(0.1, os._exit, (0,)).start()

    def log_message(self, *said):
        pass

if __name__ == "__main__":
    port = next(int(word.rpartition("=")[2]) for word in sys.argv if ".port=" in word)
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
"""What stands for JupyterLab: it begins in a moment, answers, and ends when it is told to."""


@pytest.fixture
def host(docker_lab: Lab) -> LabHost:
    host = docker_lab.add(devices=AT_ONCE)
    host.driver.set({f"{index}.util": 0 for index in range(AT_ONCE)})
    return host


@pytest.fixture
def engine(host: LabHost) -> LabDocker:
    engine = host.start_engine()
    paddle_image(engine, NOTEBOOK, modules={"jupyterlab.py": STANDIN})
    return engine


@dataclass
class Place:
    """What the sessions have in common."""

    session: Session
    desk: Desk
    host: LabHost
    engine: LabDocker
    dispatcher: subprocess.Popen[bytes]
    cutting: asyncio.Lock = field(default_factory=asyncio.Lock)
    ports: set[int] = field(default_factory=set)
    done: list[str] = field(default_factory=list)


@pytest.mark.fault(
    "Sessions, their containers, commands, connections, hosts and consoles are ended at random",
    "None leaves a container, a lease, a forwarded port or a process",
)
async def test_none_leaves_a_container_a_lease_a_port_or_a_process(
    desk: Desk,
    host: LabHost,
    engine: LabDocker,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    print(f"GPUCONSOLE_SEED={SEED} GPUCONSOLE_RANDOM_SESSIONS={SESSIONS} gives the same order.")
    monkeypatch.setattr(shells, "LEAST_IDLE_S", 1.0)
    monkeypatch.setattr(idle_stop, "ASK_EVERY_S", 1.0)
    ways = chosen(SESSIONS)
    others = children()
    with dispatching(desk) as dispatcher:
        async with open_session(desk.inventory, desk.state) as session:
            await seen(session)
            place = Place(session, desk, host, engine, dispatcher)

            async def some(number: int) -> None:
                dice = random.Random(f"{SEED}-{number}")
                for way in ways[number::AT_ONCE]:
                    await one(place, way, dice)

            await asyncio.gather(*map(some, range(AT_ONCE)))
            await nothing_is_left(place, len(ways))
    # Each connection was closed by the other end, too.
    await until(
        lambda: not host_processes(host), what=f"no connection and no agent: {host_processes(host)}"
    )
    # What the host itself runs was begun again where it was restarted.
    assert children() - set(host.pids()) <= others
    with desk.journal() as journal:
        assert not journal.role().alive(time.time()), "somebody still dispatches"
    record_property("figure", f"{SESSIONS} sessions, {len(place.ports)} ports, 0 left")


def chosen(count: int) -> list[str]:
    """Return how so many sessions end, as the seed decides; of a few, one in 25 ends all others."""
    dice = random.Random(SEED)
    ways = [way for way, times in WAYS.items() for _ in range(times)]
    dice.shuffle(ways)
    if count >= len(ways):
        return ways + dice.choices(ways, k=count - len(ways))
    of_all = [way for way in ways if way in OF_ALL][: max(1, count // 25)]
    ways = [*of_all, *[way for way in ways if way not in OF_ALL][: count - len(of_all)]]
    dice.shuffle(ways)
    return ways


async def nothing_is_left(place: Place, count: int) -> None:
    session, client = place.session, place.engine.client()
    assert len(place.done) == count
    await until(lambda: all(job.state.ended for job in session.jobs()), what="all ended")
    assert len(session.jobs()) == count
    await until(lambda: not session.forwards.open_now(), what="all forwards ended")
    # A lease is a container, too: none of them is ever among those that are reported.
    await until(lambda: left_on(client) <= reported(place), what=f"but {left_on(client)}")
    if left := left_on(client):
        print(f"The engine does not remove {left}.")
        await asyncio.to_thread(remedied, place)
    await until(lambda: not left_on(client), what="nothing left on the engine")
    assert not client.volumes()["Volumes"]
    # Enough of them were used, whatever happened to the host meanwhile.
    assert len(place.ports) > count // 10
    for port in place.ports:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOME, port)


def left_on(client: docker.APIClient) -> set[str]:
    """Return the names of all containers on an engine."""
    return {item["Names"][0].lstrip("/") for item in client.containers(all=True)}


def reported(place: Place) -> set[str]:
    """Return the containers of which the console says that their engine does not remove them."""
    with place.desk.journal() as journal:
        events = [event.message for _, event in journal.events_after(0)]
    said = re.compile(
        rf"The engine of {place.host.name} does not remove ([\w-]+): .*restart Docker"
    )
    return {match[1] for text in events if (match := said.match(text))}


def remedied(place: Place) -> None:
    """Do what the console says then: stop the engine, unmount what is left in its folder, start."""
    place.engine.stop()
    mounts = place.host.run(["cat", "/proc/mounts"]).stdout.decode().splitlines()
    folders = [
        line.split()[1] for line in mounts if f"{place.engine.root}/data/" in line.split()[1]
    ]
    for folder in reversed(folders):
        place.host.run(["umount", folder])
    engine_started(place)


@contextlib.contextmanager
def dispatching(desk: Desk) -> Iterator[subprocess.Popen[bytes]]:
    """Give a console of its own that starts jobs, until it is killed."""
    said = desk.folder / "dispatcher.log"
    with said.open("wb") as log:
        process = subprocess.Popen(desk.command("dispatch"), stdout=log, stderr=log)
    try:
        wait_until(lambda: "Dispatching for" in said.read_text(), what="it dispatches")
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def children() -> set[int]:
    """Return the processes that this one has begun."""
    found = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with contextlib.suppress(OSError):
            found |= set(map(int, (task / "children").read_text().split()))
    return found


def host_processes(host: LabHost) -> list[str]:
    """Return the programs that a host runs for its account, or for a connection to it."""
    found = []
    for pid in host.pids():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            own = f"Uid:\t{host.uid}\t" in Path(f"/proc/{pid}/status").read_text()
            if own or words.startswith("sshd: "):
                found.append(words)
    return [words for words in found if "[listener]" not in words]


# -- one session ---------------------------------------------------------------------------------


async def one(place: Place, way: str, dice: random.Random) -> None:
    """Open a session and end it in a way; what others do to its host may end it before."""
    session = place.session
    options: dict[str, Any] = {"idle_stop_s": 3.0} if way == "idle" else {}
    if way == "its time is up":
        options["until"] = time.time() + 6.0
    opened = session.jupyter(image=NOTEBOOK) if way == "jupyter" else session.shell(**options)
    job = await opened
    if way == "cancelled wherever its launch is":
        await asyncio.sleep(dice.random() * 2.0)
        await cancelled(session, job)
    await until(lambda: begun_or_over(session, job), what=f"{way}: it begins")
    # Others may cut the host off, or end the session, at any moment.
    with contextlib.suppress(ConsoleError):
        await used(place, job, way, dice)
    if way not in ("idle", "its time is up"):
        await cancelled(session, job)
    await until(lambda: session.job(job.id).state.ended, what=f"{way}: it ends")
    place.done.append(way)


def begun_or_over(session: Session, job: Job) -> bool:
    state = session.job(job.id).state
    return state is JobState.RUNNING or state.ended


async def cancelled(session: Session, job: Job) -> None:
    """Cancel a session that has not ended, as soon as its host can be reached."""
    deadline = time.monotonic() + PATIENCE_S
    while not session.job(job.id).state.ended:
        with contextlib.suppress(ConsoleError):
            await session.cancel(job.id)
        assert time.monotonic() < deadline, session.job(job.id)
        await asyncio.sleep(0.05)


async def used(place: Place, job: Job, way: str, dice: random.Random) -> None:
    """Forward a port of a session, look at it, and do what the way says. ConsoleError where
    another has cut the host off."""
    if way == "jupyter":
        await notebook(place, job, dice)
        return
    port = (await place.session.forward(job.id, 7007)).local_port
    place.ports.add(port)
    if way in COMMANDS:
        await asyncio.to_thread(COMMANDS[way], place, job, dice)
        return
    terminal = await place.session.attach(job.id)
    try:
        if way in OF_ALL:
            async with place.cutting:
                await asyncio.to_thread(OF_ALL[way], place)
                await seen(place.session)
        elif way in OF_ONE:
            await OF_ONE[way](place, job)
        elif way == "exit":
            await terminal.write(b"exit\n")
        if way in ("exit", "container removed", "container killed", "idle", "its time is up"):
            await within(PATIENCE_S, to_the_end(terminal.read))
    finally:
        await terminal.close()


async def to_the_end(read: Callable[[], Awaitable[object]]) -> None:
    while (await read()) is not None:
        pass


async def notebook(place: Place, job: Job, dice: random.Random) -> None:
    """Use what stands for JupyterLab; it is ended while a connection to it is open."""
    address = await within(PATIENCE_S, place.session.jupyter_address(job.id))
    port = int(address.split(":")[2].split("/")[0])
    place.ports.add(port)
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(HOME, port)
        try:
            shut = dice.random() < 0.5
            verb = b"POST /api/shutdown" if shut else b"GET /lab"
            writer.write(verb + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            await within(PATIENCE_S, reader.read(1))
            await cancelled(place.session, job)
        finally:
            writer.close()


async def by_another(place: Place, job: Job) -> None:
    async with open_session(place.desk.inventory, place.desk.state, dispatch=False) as other:
        await cancelled(other, job)


async def looked_at(place: Place, job: Job) -> None:
    await cancelled(place.session, job)


async def removed(place: Place, job: Job) -> None:
    await asyncio.to_thread(behind_its_back, place, job, "remove")


async def killed_there(place: Place, job: Job) -> None:
    await asyncio.to_thread(behind_its_back, place, job, "kill")


def behind_its_back(place: Place, job: Job, verb: str) -> None:
    attempt = place.session.job(job.id).attempt
    assert attempt is not None
    client = place.engine.client()
    # It may be on its way out, or its engine.
    with contextlib.suppress(docker.errors.APIError, OSError):
        if verb == "kill":
            client.kill(attempt.container_id)
        else:
            client.remove_container(attempt.container_id, force=True)


OF_ONE: dict[str, Callable[[Place, Job], Awaitable[None]]] = {
    "cancelled under who looks": looked_at,
    "cancelled by another console": by_another,
    "container removed": removed,
    "container killed": killed_there,
}


# -- commands, and how they end ------------------------------------------------------------------


def command(place: Place, job: Job, end: Callable[[Teletype], None], *words: str) -> None:
    """Run a command of a session on a terminal of its own, and end it."""
    with Teletype(place.desk.command(words[0], job.id, *words[1:]), dict(os.environ)) as one:
        deadline = time.monotonic() + PATIENCE_S
        shown = "http://" if words[0] == "forward" else "leaves it running"
        while shown not in one.text and one.process.poll() is None:
            assert time.monotonic() < deadline, one.text
            time.sleep(0.05)
        end(one)
        one.ended()
        wait_until(lambda: not one.left_behind(), what="nothing left of the command")


def by_signal(number: signal.Signals, *words: str) -> Callable[[Place, Job, random.Random], None]:
    def run(place: Place, job: Job, dice: random.Random) -> None:
        def end(one: Teletype) -> None:
            time.sleep(dice.random())
            one.signal(number)

        command(place, job, end, *words)

    return run


def by_hang_up(place: Place, job: Job, dice: random.Random) -> None:
    def end(one: Teletype) -> None:
        time.sleep(dice.random())
        one.hang_up()

    command(place, job, end, "shell")


COMMANDS: dict[str, Callable[[Place, Job, random.Random], None]] = {
    "command killed": by_signal(signal.SIGKILL, "shell"),
    "command terminated": by_signal(signal.SIGTERM, "shell"),
    "terminal closed": by_hang_up,
    "forward killed": by_signal(signal.SIGKILL, "forward", "7008"),
    "forward terminated": by_signal(signal.SIGTERM, "forward", "7008"),
}


# -- what happens to all of them -----------------------------------------------------------------


def connections_end(place: Place) -> None:
    """End all connections to the host; its sshd stays."""
    for pid in place.host.pids():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_text()
            if words.startswith("sshd: ") and "[listener]" not in words:
                os.kill(pid, signal.SIGKILL)


def sshd_restarted(place: Place) -> None:
    place.host.stop_sshd()
    time.sleep(1.0)
    place.host.start_sshd()


def network_cut(place: Place) -> None:
    place.host.cut()
    time.sleep(20.0)
    place.host.heal()


def engine_restarted(place: Place) -> None:
    """Restart the engine: what runs on it ends."""
    place.engine.stop()
    engine_started(place)


def engine_started(place: Place) -> None:
    place.engine.start()
    place.engine.socket.chmod(0o660)
    os.chown(place.engine.socket, 0, DOCKER_GID)


def host_restarted(place: Place) -> None:
    """End all that the host runs, and start it again, its engine last."""
    place.host.stop_sshd()
    place.engine.stop()
    place.host.start_sshd()
    time.sleep(2.0)
    engine_started(place)


def dispatcher_killed(place: Place) -> None:
    """Kill the console that starts jobs; this one goes on in its place."""
    place.dispatcher.kill()
    place.dispatcher.wait(PATIENCE_S)


OF_ALL: dict[str, Callable[[Place], None]] = {
    "connections end": connections_end,
    "sshd restarted": sshd_restarted,
    "network cut": network_cut,
    "engine restarted": engine_restarted,
    "host restarted": host_restarted,
    "dispatcher killed": dispatcher_killed,
}
