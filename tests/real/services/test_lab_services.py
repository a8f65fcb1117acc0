"""A service of a user whose queue is that of the lab's service: it moves from a drained host while
its user asks it, through the lab's service alone."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.session.ports.forwards import HOME
from tests.real.rig.hosts import Lab
from tests.real.rig.lab_queue import Service, served_on_two_hosts
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import wait_until
from tests.real.services.test_services import CLIENTS, SERVE

pytestmark = pytest.mark.real
REQUESTS = 200
"""Over a connection each: the service begins a program in a container for every one."""
TASK = """task:
  type: service
  script: serve.py
  service:
    port: 8040
    replicas: 2
    health: {http: /health, interval: 1s}
    drain: 10s
"""


@pytest.fixture
def service(docker_lab: Lab, tmp_path: Path) -> Iterator[Service]:
    with served_on_two_hosts(docker_lab, tmp_path, SERVE) as made:
        yield made


def replicas(service: Service) -> list[dict[str, Any]]:
    (found,) = service.json("ada", "services", "serve")["services"]
    return [one for one in found["replicas"] if one["state"] != "cancelled"]


def healthy(service: Service) -> list[dict[str, Any]]:
    return [one for one in replicas(service) if one["service"]["health"] == "healthy"]


def asked(port: int) -> tuple[int, str]:
    link = http.client.HTTPConnection(HOME, port, timeout=PATIENCE_S)
    try:
        link.request("GET", "/")
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    finally:
        link.close()


def forwarded(service: Service, user: str) -> tuple[subprocess.Popen[str], int]:
    """Open a forward as a user; return its command and its port."""
    words, environment = service.command(user, "forward", "serve", "--json")
    running = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert running.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = running.stdout.readline()
        assert line, text + service.said()
        text += line
    return running, int(json.loads(text)["local_port"])


def test_a_host_is_drained_and_of_two_hundred_requests_through_the_service_none_fails(
    service: Service,
) -> None:
    (service.script.parent / "serve.py").write_text(SERVE)
    task = service.script.parent / "serve.yaml"
    task.write_text(TASK)
    done = service.run("ada", "submit", "--task", str(task), "--force")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: len(healthy(service)) == 2, what="two healthy replicas")
    # Others see that it runs, and do not get in.
    for words in (("forward", "serve[1]", "8040"), ("cancel", "serve[1]")):
        refused = service.run("bob", *words)
        assert refused.returncode == 1
        assert "belongs to ada" in " ".join(refused.stderr.split())
    forward, port = forwarded(service, "ada")
    answers: Counter[str] = Counter()
    failed: list[str] = []
    begun = threading.Event()

    def ask(number: int) -> None:
        try:
            status, body = asked(port)
            answers[body] += 1
            if status != 200:
                failed.append(f"{number}: {status}")
        except OSError as error:
            failed.append(f"{number}: {error!r}")
        if number >= REQUESTS // 10:
            begun.set()

    try:
        with ThreadPoolExecutor(CLIENTS) as pool:
            for number in range(REQUESTS):
                pool.submit(ask, number)
            assert begun.wait(PATIENCE_S)
            left = next(one for one in replicas(service) if one["host"] != service.head.name)
            drained = service.run("eve", "drain", left["host"], "--reason", "a new driver")
            assert drained.returncode == 0, drained.stderr
            wait_until(
                lambda: (
                    len(healthy(service)) == 2
                    and all(one["host"] == service.head.name for one in replicas(service))
                ),
                what="the host is empty",
            )
        assert failed == []
        assert sum(answers.values()) == REQUESTS
        assert answers[left["id"]]
        (gone,) = service.json("ada", "jobs", left["id"])["jobs"]
        assert (gone["state"], gone["ended_by"]) == ("cancelled", "retired")
        # Both answer now, as a new client finds out.
        assert {asked(port)[1] for _ in range(4)} == {one["id"] for one in healthy(service)}
        assert service.run("ada", "cancel", "serve").returncode == 0
        assert forward.wait(PATIENCE_S) == 0
    finally:
        forward.kill()
        forward.wait(PATIENCE_S)
    acts = {(act["user"], act["verb"], bool(act["refused"])) for act in
            service.json("eve", "audit")["acts"]}  # fmt: skip
    assert {("ada", "submit", False), ("ada", "connect", False), ("eve", "drain", False)} <= acts
