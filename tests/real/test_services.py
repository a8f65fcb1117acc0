"""Services on real hosts and engines: restarted, checked, moved from a host and lost with one."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.services import SERVICE, HealthCheck, Service
from gpuconsole.session.ports.forwards import HOME
from gpuconsole.session.session import Session
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.sessions import Desk, seen, until

SERVE = """
import http.server, os, sys

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/crash":
            print("asked to crash", flush=True)
            os._exit(3)
        well = self.path != "/never"
        body = (os.environ["GPUCONSOLE_JOB"] if well else "the model is missing").encode()
        self.send_response(200 if well else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass

print("serving", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", 8040), Answer).serve_forever()
"""
"""Answers with the id of its replica; the lab's default network is `none`."""
REQUESTS = 1000
CLIENTS = 4


@pytest.fixture
def hosts(docker_lab: Lab) -> list[LabHost]:
    made = [docker_lab.add(), docker_lab.add()]
    for host in made:
        host.start_engine()
    return made


@pytest.fixture
def desk(docker_lab: Lab, hosts: list[LabHost], tmp_path: Path) -> Desk:
    return Desk(docker_lab, tmp_path)


@pytest.fixture
async def session(desk: Desk) -> AsyncIterator[Session]:
    async with desk.session() as session:
        await seen(session)
        yield session


def service(desk: Desk, check: HealthCheck, **changes: object) -> Task:
    """Return the task of a service that runs `SERVE`."""
    task = desk.task(SERVE, "serve")
    return replace(task, kind=SERVICE, service=Service(8040, check=check, **changes))  # type: ignore[arg-type]


def page(path: str = "/health", **changes: object) -> HealthCheck:
    return HealthCheck("http", path=path, interval_s=1.0, **changes)  # type: ignore[arg-type]


def live(session: Session) -> list[Job]:
    return [job for job in session.jobs() if not job.state.ended]


def healthy(session: Session) -> list[Job]:
    return [job for job in session.jobs() if job.is_healthy]


def asked(port: int, path: str = "/") -> tuple[int, str]:
    """Ask once, over a connection of its own."""
    link = http.client.HTTPConnection(HOME, port, timeout=60)
    try:
        link.request("GET", path)
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    finally:
        link.close()


async def test_a_host_is_drained_and_of_a_thousand_requests_none_fails(
    session: Session, desk: Desk
) -> None:
    jobs = await session.queue.serve(service(desk, page(), replicas=2, drain_s=30.0), force=True)
    assert [job.task.name for job in jobs] == ["serve[1]", "serve[2]"]
    await until(lambda: len(healthy(session)) == 2, what=f"{live(session)} healthy")
    forward = await session.forward("serve")
    answers: Counter[str] = Counter()
    failed: list[str] = []
    started = threading.Event()

    def ask(number: int) -> None:
        try:
            status, body = asked(forward.local_port)
            answers[body] += 1
            if status != 200:
                failed.append(f"{number}: {status}")
        except OSError as error:
            failed.append(f"{number}: {error!r}")
        if number >= REQUESTS // 10:
            started.set()

    with ThreadPoolExecutor(CLIENTS) as pool:
        asking = [pool.submit(ask, number) for number in range(REQUESTS)]
        await asyncio.to_thread(started.wait)
        left = healthy(session)[0]
        assert left.attempt is not None
        host = left.attempt.host
        await session.drain(host, "a new driver")
        await until(
            lambda: all(
                job.state is JobState.CANCELLED
                for job in session.jobs() if job.attempt and job.attempt.host == host
            ),
            what=f"{host} is empty",
        )  # fmt: skip
        await asyncio.gather(*map(asyncio.wrap_future, asking))
    assert failed == []
    assert sum(answers.values()) == REQUESTS
    now = healthy(session)
    assert len(now) == 2
    assert all(job.attempt is not None and job.attempt.host != host for job in now)
    # The replica that left and the one in its place have both answered.
    assert answers[left.id] and all(answers[job.id] for job in now)
    gone = session.job(left.id)
    assert gone.state_word == "retired"
    assert gone.cause.startswith(f"{host} is drained: ")
    print(f"{REQUESTS} requests, {dict(answers)}, failed: {len(failed)}")
