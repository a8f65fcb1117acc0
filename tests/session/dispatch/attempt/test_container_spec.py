"""The container of an attempt follows task, settings and host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.config import AllowedSection, LabSettings
from gpuconsole.core.containers import ContainerSpec, HostAccount
from gpuconsole.core.fleet import Device, Host, HostFacts
from gpuconsole.core.jobs import Attempt, Job, JobState, Mount, Task
from gpuconsole.errors import UsageError
from gpuconsole.session.dispatch.attempt.container_spec import container_spec, require_safe_source

ATTEMPT = Attempt(2, "h", ("GPU-0", "GPU-1"), (0, 1), "gpuconsole-j-2-nonce")
HOST = Host(
    "h",
    devices=tuple(Device(f"GPU-{n}", n, "A100", numa_node=n // 2) for n in range(4)),
    facts=HostFacts(memory_total_mib=1000.0, numa_cpus=("0-15,32-47", "16-31")),
)


def spec(
    task: Task | None = None,
    *,
    attempt: Attempt = ATTEMPT,
    host: Host | None = HOST,
    account: HostAccount = HostAccount(1000, 100, "/r/j"),  # noqa: B008
    settings: LabSettings | None = None,
) -> ContainerSpec:
    job = Job("j", task or Task("x", script="/p/t.py"), "ada", JobState.LAUNCHING, 1.0)
    return container_spec(
        job,
        attempt,
        command=("python", "t.py"),
        image="paddle",
        account=account,
        journal="journal",
        settings=settings or LabSettings(),
        host=host,
    )


def test_processors_are_those_near_the_devices() -> None:
    assert spec().cpuset == "0-15,32-47"
    assert spec(attempt=replace(ATTEMPT, device_uuids=("GPU-1", "GPU-2"))).cpuset == ""
    assert spec(attempt=replace(ATTEMPT, device_uuids=("GPU-9",))).cpuset == ""
    assert spec(host=None).cpuset == ""
    hostile = replace(HOST, facts=HostFacts(numa_cpus=("0-15; rm -rf /",)))
    assert spec(host=hostile).cpuset == ""


def test_memory_is_the_tasks_limit_or_the_labs_within_what_there_is() -> None:
    assert spec().memory_limit_mib == 1000.0
    assert spec(host=None).memory_limit_mib == 65536.0
    assert spec(Task("x", memory_limit_mib=5.0)).memory_limit_mib == 5.0
    bounded = LabSettings(allowed=AllowedSection(memory=100.0))
    assert spec(settings=bounded).memory_limit_mib == 100.0
    assert spec(settings=bounded, host=None).memory_limit_mib == 100.0


def test_shared_memory_is_the_tasks_or_the_labs() -> None:
    settings = LabSettings(shm_size=1024.0)
    assert spec(settings=settings).shm_size_mib == 1024.0
    assert spec(Task("x", shm_size_mib=64.0), settings=settings).shm_size_mib == 64.0


@pytest.mark.parametrize(
    ("task", "lab", "network"),
    [
        ("", "none", "none"),
        ("", "lab", "gpuconsole-lab"),
        ("full", "none", "bridge"),
        ("none", "full", "none"),
    ],
)
def test_the_tasks_network_policy_wins_over_the_labs(task: str, lab: str, network: str) -> None:
    settings = LabSettings.model_validate({"network": lab})
    assert spec(Task("x", network=task), settings=settings).network == network


def test_root_needs_the_labs_word() -> None:
    root = HostAccount(0, 0, "/r/j")
    with pytest.raises(UsageError, match="root"):
        spec(account=root)
    allowed = LabSettings.model_validate({"allow_root": True})
    assert spec(account=root, settings=allowed).user == "0:0"


def test_mounts_env_and_labels() -> None:
    made = spec(Task("x", env={"GPUCONSOLE_JOB": "mine"}, mounts=(Mount("/d", "/d"),)))
    assert made.mounts == (Mount("/d", "/d"), Mount("/r/j", "/results", read_only=False))
    assert made.env["GPUCONSOLE_JOB"] == "mine"
    assert made.env["GPUCONSOLE_ATTEMPT"] == "2"
    assert made.labels == {
        "gpuconsole.job": "j",
        "gpuconsole.attempt": "j-2",
        "gpuconsole.user": "ada",
        "gpuconsole.name": "x",
        "gpuconsole.journal": "journal",
        "gpuconsole.kind": "training",
        "gpuconsole.nonce": "nonce",
    }


@pytest.mark.parametrize(
    "source",
    [
        "/home/u/.local/state/gpuconsole/results/ada-1/data",
        "/disk/gpuconsole/results/ada-1.checkpoint/a/b",
        "/home/u/.local/state/gpuconsole/results/x/../ada-1/./data",
        "/data/../disk/gpuconsole/results/ada-1/data/",
    ],
)
def test_a_mount_from_within_what_a_job_has_written_is_refused(source: str) -> None:
    with pytest.raises(UsageError, match="may be a link to") as caught:
        require_safe_source(Mount(source, "/data"))
    assert "/gpuconsole/results/ada-1" in caught.value.hint


@pytest.mark.parametrize(
    "source",
    [
        "/data",
        "/",
        "/home/u/.local/state/gpuconsole/results/ada-1",
        "/results/a/b",
        "/gpuconsole/x",
    ],
)
def test_other_mounts_are_left_alone(source: str) -> None:
    require_safe_source(Mount(source, "/data"))
