"""Where a script can be measured by itself: hosts that could run its job, and this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuconsole.core.containers import ImageFacts
from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostFacts, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.errors import UnreachableError, UsageError
from gpuconsole.preflight.tiers.ladder import Site
from gpuconsole.session.estimate import measurement_sites
from gpuconsole.session.estimate.measurement_sites import host_sites, local_sites

TASK = Task("train", "/p/train.py")


def host(name: str, *, busy: bool = False, free: float | None = None, **more: Any) -> Host:
    processes = (DeviceProcess(1, "python", 900.0),) if busy else ()
    device = Device(f"GPU-{name}", 0, "A100", processes=processes)
    facts = HostFacts() if free is None else HostFacts(memory_total_mib=free, memory_used_mib=0.0)
    return Host(name, **{"state": HostState.UP, "devices": (device,), "facts": facts, **more})


class Engines:
    """Hosts of which some have the image, and some cannot be reached."""

    def __init__(self, have: set[str], unreachable: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        self._have, self._unreachable = have, unreachable

    async def engine(self, name: str) -> Any:
        if name in self._unreachable:
            raise UnreachableError("Gone", name)
        return _Engine(name in self._have)


class _Engine:
    def __init__(self, has: bool) -> None:
        self._has = has

    async def image_facts(self, image: str) -> ImageFacts | None:
        return ImageFacts() if self._has else None


async def found(
    *hosts: Host, have: str = "abcdef", away: str = "", task: Task = TASK
) -> tuple[tuple[str, ...], str]:
    engines: Any = Engines(set(have), set(away))
    places, why = await host_sites(task, engines, FleetSnapshot(1, 1.0, hosts), lambda _: "paddle")
    return tuple(site.host for site in places), why


async def test_the_idlest_hosts_that_have_the_image_are_taken() -> None:
    hosts = (host("a", busy=True), host("b", free=8000), host("c", free=90_000), host("d"))
    assert await found(*hosts) == (("d", "c"), "")
    assert await found(*hosts, have="ab") == (("b", "a"), "")
    assert await found(*hosts, away="d") == (("c", "b"), "")


@pytest.mark.parametrize(
    "unfit",
    [
        host("a", state=HostState.DOWN),
        host("a", cluster="slurm"),
        host("a", drained="for repair"),
        host("a", free=500),
        host("a", labels={"room": "2"}),
        host("a", labels={"room": "1", "old": "yes"}),
        host("a", devices=()),
        host("a", devices=(Device("NPU-0", 0, "Ascend", backend="npu"),)),
    ],
)
async def test_a_host_that_could_not_run_the_job_is_left_out(unfit: Host) -> None:
    task = replace(TASK, labels={"room": "1"}, anti_labels={"old": ""})
    good = host("b", labels={"room": "1"})
    assert await found(unfit, good, task=task) == (("b",), "")
    places, why = await found(unfit, task=task)
    assert places == ()
    assert why == "no host is up that could run it"


async def test_no_image_is_fetched_for_a_measurement() -> None:
    places, why = await found(host("a"), have="")
    assert places == ()
    assert why == "no host that could run it has the image (paddle)"


async def test_a_job_for_the_processor_needs_no_device() -> None:
    assert (await found(host("a", devices=()), task=replace(TASK, backend="cpu")))[0] == ("a",)


async def test_slurm_measures_nothing() -> None:
    places, why = await found(host("a"), task=replace(TASK, labels={"slurm": "big"}))
    assert places == ()
    assert "big" in why


def test_this_machine_needs_paddle_a_sandbox_and_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement_sites.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr("gpuconsole.remote.isolation.sandbox.require_sandbox", lambda: None)
    for kind in ("bubblewrap", "files-open"):
        monkeypatch.setattr("gpuconsole.remote.isolation.sandbox.Sandbox.kind", kind)
        agreed = kind.__eq__
        assert local_sites(agreed) == ((Site(isolation=kind),), "")
        assert local_sites(lambda _: False) == ((Site(consent=True, isolation=kind),), "")

    def none() -> None:
        raise UsageError("No sandbox", "This system has no namespaces.")

    monkeypatch.setattr("gpuconsole.remote.isolation.sandbox.require_sandbox", none)
    assert local_sites(lambda _: True) == ((), "This system has no namespaces")
    monkeypatch.setattr(measurement_sites.importlib.util, "find_spec", lambda name: None)
    assert local_sites(lambda _: True) == ((), "Paddle is not installed on this machine")
