"""Services on real hosts and engines: restarted, checked, moved from a host and lost with one."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import select
import shutil
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.services import SERVICE, HealthCheck, Service
from gpuconsole.errors import ConsoleError
from gpuconsole.session.ports import service_port
from gpuconsole.session.ports.forwards import HOME
from gpuconsole.session.session import Session
from tests.real.rig import forks
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, seen, until, wait_until

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
    # On a busy machine checks are answered late, and each connection takes its time.
    patient = service(desk, page(failures=100), replicas=2, drain_s=PATIENCE_S)
    jobs = await session.queue.serve(patient, force=True)
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
    assert answers[left.id]
    assert all(answers[job.id] for job in now)
    gone = session.job(left.id)
    assert gone.state_word == "retired"
    assert gone.cause.startswith(f"{host} is drained: ")


async def test_a_crash_is_restarted_after_longer_and_longer_pauses(
    session: Session, desk: Desk
) -> None:
    (job,) = await session.queue.serve(service(desk, page()), force=True)
    pauses = []
    for restarts in (1, 2):
        await until(lambda: session.job(job.id).is_healthy, what="healthy")
        forward = await session.forward(job.id)
        with pytest.raises(OSError, match=r"\w"):
            await asyncio.to_thread(asked, forward.local_port, "/crash")
        await session.close_forward(forward.local_port)
        await until(lambda: session.job(job.id).state_word == "backing off", what="backing off")
        waiting = session.job(job.id)
        why = session.why_now(job.id)
        assert waiting.attempt is not None
        assert waiting.replica is not None
        assert waiting.replica.restarts == restarts
        assert why.estimated_start == waiting.replica.restart_at
        assert "Exit code 3" in why.reason
        assert "It is restarted at" in why.reason
        assert waiting.attempt.exit_code == 3
        pauses.append((waiting.replica.restart_at or 0.0) - (waiting.queued_at or 0.0))
    assert pauses[1] == pytest.approx(2 * pauses[0])
    await until(lambda: session.job(job.id).is_healthy, what="healthy again")
    assert session.job(job.id).attempt.number == 3  # type: ignore[union-attr]
    await session.cancel("serve[1]")
    await asyncio.sleep(3.0)
    assert not live(session), "a service that was cancelled stays so"


async def test_one_that_never_becomes_healthy_says_so_with_the_last_check(
    session: Session, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_port, "WAIT_S", 5.0)
    check = page("/never", start_s=3.0, failures=2)
    (job,) = await session.queue.serve(service(desk, check), force=True)
    await until(lambda: session.job(job.id).state_word == "unhealthy", what="unhealthy")
    reason = session.why_now(job.id).reason
    assert "It has never been healthy" in reason
    assert "GET /never: 503 Service Unavailable: the model is missing" in reason
    forward = await session.forward("serve")
    with pytest.raises(OSError, match=r"\w"):
        await asyncio.to_thread(asked, forward.local_port)
    assert "no healthy replica" in session.forwards.at(forward.local_port).info.trouble
    await until(lambda: session.job(job.id).state_word == "backing off", what="restarted")
    waiting = session.job(job.id)
    assert waiting.attempt is not None
    assert waiting.attempt.ended_by == "unhealthy"
    assert "the model is missing" in waiting.attempt.cause
    await session.cancel(job.id)


async def test_a_command_may_be_the_check_and_its_words_are_kept(
    session: Session, desk: Desk
) -> None:
    words = (
        "python3",
        "-c",
        "import os, sys; sys.exit(os.path.exists('/tmp/ill') and 'it is ill')",
    )
    check = HealthCheck("command", command=words, interval_s=1.0, failures=2)
    (job,) = await session.queue.serve(service(desk, check, restart="never"), force=True)
    await until(lambda: session.job(job.id).is_healthy, what="healthy")
    attempt = session.job(job.id).attempt
    assert attempt is not None
    name = f"{attempt.host}:{attempt.container_name}"
    await session.run_in_container(name, ("touch", "/tmp/ill"))
    await until(lambda: session.job(job.id).state_word == "unhealthy", what="unhealthy")
    assert "it is ill" in session.job(job.id).detail
    await session.run_in_container(name, ("rm", "/tmp/ill"))
    await until(lambda: session.job(job.id).is_healthy, what="healthy again")
    await session.cancel(job.id)


async def test_with_its_host_lost_a_replica_begins_elsewhere_and_the_dispatcher_may_change(
    hosts: list[LabHost], desk: Desk
) -> None:
    async with desk.session() as session:
        await seen(session)
        (job,) = await session.queue.serve(service(desk, page()), force=True)
        await until(lambda: session.job(job.id).is_healthy, what="healthy")
        before = session.job(job.id).attempt
        assert before is not None
    # Another dispatcher finds it as it was, and goes on with its checks.
    async with desk.session() as session:
        await seen(session)
        assert session.job(job.id).is_healthy
        (lost,) = [host for host in hosts if host.name == before.host]
        lost.stop_sshd()
        await until(
            lambda: session.snapshot().host(before.host).state is HostState.DOWN,  # type: ignore[union-attr]
            what="the host is lost",
        )
        await until(
            lambda: (
                session.job(job.id).is_healthy and session.job(job.id).attempt.host != before.host
            ),  # type: ignore[union-attr]
            what="healthy elsewhere",
        )
        forward = await session.forward("serve")
        assert (await asyncio.to_thread(asked, forward.local_port))[0] == 200
        assert session.job(job.id).attempts[0].ended_by == "lost-host"
        lost.start_sshd()
        engine = await session.hosts.engine(session.job(job.id).attempt.host)  # type: ignore[union-attr]
        assert await engine.inspect(session.job(job.id).attempt.container_name)  # type: ignore[union-attr]

        async def gone() -> bool:
            try:
                old = await session.hosts.engine(before.host)
                return await old.inspect(before.container_name) is None
            except ConsoleError:
                return False

        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not await gone():
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.5)
        await session.cancel(job.id)


async def test_scaled_up_and_down(session: Session, desk: Desk) -> None:
    await session.queue.serve(service(desk, page(), drain_s=5.0), force=True)
    await session.scale("serve", 3)
    await until(lambda: len(healthy(session)) == 3, what=f"three: {live(session)}")
    forward = await session.forward("serve")
    answered = {(await asyncio.to_thread(asked, forward.local_port))[1] for _ in range(6)}
    assert answered == {job.id for job in healthy(session)}
    await session.scale("serve", 1)
    await until(lambda: len(live(session)) == 1, what="one is left")
    (left,) = live(session)
    assert left.task.name == "serve[1]"
    await session.cancel("serve[1]")


def run(desk: Desk, *words: str) -> str:
    """Run a command that must end well; return what it prints."""
    done = forks.typed(desk.command(*words), PATIENCE_S, desk.project)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_is_trained_served_and_asked(desk: Desk) -> None:
    """The shipped examples from end to end, by the commands that the page on services names."""
    examples = Path(str(resources.files("gpuconsole"))) / "data" / "examples"
    for name in ("mnist_cnn.py", "serve_mnist.py", "serve_mnist.yaml"):
        shutil.copy(examples / name, desk.project)
    job = run(desk, "submit", "mnist_cnn.py", "--", "--steps", "60").strip()
    run(desk, "wait", job)
    run(desk, "fetch", job)
    shutil.copy(desk.project / job / "model.pdparams", desk.project)
    dispatching = subprocess.Popen(desk.command("dispatch"), cwd=desk.project)
    forward = None
    try:
        assert run(desk, "submit", "--task", "serve_mnist.yaml").strip() == "serve_mnist"
        words = desk.command("forward", "serve_mnist", "--json")
        forward = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert forward.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += forward.stdout.readline()
        found = json.loads(text)
        assert (found["job"], found["port"]) == ("serve_mnist", 8040)

        def listed() -> Any:
            return json.loads(run(desk, "services", "serve_mnist", "--json"))["services"][0]

        wait_until(lambda: listed()["healthy"] == 2, what="two healthy replicas")
        images, labels = [], []
        for label in range(10):
            image = [[0.25] * 28 for _ in range(28)]
            row, column = 2 + 12 * (label // 5), 1 + 5 * (label % 5)
            for line in image[row : row + 6]:
                line[column : column + 5] = [1.25] * 5
            images.append(image)
            labels.append(label)
        request = urllib.request.Request(
            f"{found['url']}predict",
            json.dumps({"images": images}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert json.loads(answer.read())["digits"] == labels
        estimate = {job["estimate_mib"] for job in listed()["replicas"]}
        assert len(estimate) == 1
        assert None not in estimate
        run(desk, "cancel", "serve_mnist")
        assert forward.wait(PATIENCE_S) == 0
    finally:
        for process in (forward, dispatching):
            if process is not None:
                process.terminate()
                process.wait(PATIENCE_S)


async def test_clients_that_keep_their_connection_move_between_two_requests(
    session: Session, desk: Desk
) -> None:
    """HTTP/1.1 with keep-alive: no request fails while its host is drained."""
    script = SERVE.replace("    def do_GET", '    protocol_version = "HTTP/1.1"\n    def do_GET')
    task = replace(desk.task(script, "serve"), kind=SERVICE)
    task = replace(task, service=Service(8040, check=page(), drain_s=20.0))
    (job,) = await session.queue.serve(task, force=True)
    await until(lambda: session.job(job.id).is_healthy, what="healthy")
    forward = await session.forward("serve")
    over = threading.Event()

    def ask() -> tuple[list[str], int]:
        """Ask again and again over one connection, as far as it lasts; how often it was renewed."""
        answers: list[str] = []
        links = 0
        while not over.is_set():
            link = http.client.HTTPConnection(HOME, forward.local_port, timeout=60)
            links += 1
            with contextlib.closing(link):
                while not over.is_set():
                    if links and link.sock is not None and select.select([link.sock], [], [], 0)[0]:
                        break  # closed between two requests, as a client's pool finds out
                    link.request("GET", "/")
                    answers.append(link.getresponse().read().decode())
                    over.wait(0.5)
        return answers, links

    asking = asyncio.ensure_future(asyncio.to_thread(ask))
    attempt = session.job(job.id).attempt
    assert attempt is not None
    await session.drain(attempt.host, "a new driver")
    await until(lambda: session.job(job.id).state is JobState.CANCELLED, what="it has left")
    await until(lambda: bool(healthy(session)), what="another is healthy")
    await asyncio.sleep(2.0)
    over.set()
    answers, links = await asking
    (now,) = healthy(session)
    assert set(answers) == {job.id, now.id}
    assert answers[-1] == now.id
    assert links == 2
    gone = session.job(job.id)
    assert gone.attempt is not None
    assert gone.attempt.ended_at is not None
