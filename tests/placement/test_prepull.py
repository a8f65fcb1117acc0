"""Which images are fetched where before their jobs start."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.placement.prepull import Fetch, lanes, wanted


def host(name: str, backend: str = "gpu", **fields: object) -> Host:
    device = Device(f"U-{name}", 0, "A100", backend=backend)  # type: ignore[arg-type]
    return replace(Host(name, HostState.UP, devices=(device,)), **fields)  # type: ignore[arg-type]


def job(number: int, image: str, *, state: JobState = JobState.QUEUED, **fields: object) -> Job:
    task = Task(f"t{number}", image=image, **fields)  # type: ignore[arg-type]
    return Job(f"job-{number}", task, "ann", state, float(number), queued_at=float(number))


def plan(jobs: list[Job], hosts: list[Host], faults: dict[str, str] | None = None) -> list[Fetch]:
    return list(
        wanted(
            jobs,
            hosts,
            lambda task, name: task.image or f"default-{name}",
            lambda task, one: (faults or {}).get(one.name, ""),
        )
    )


def test_the_most_urgent_come_first_and_each_host_once() -> None:
    jobs = [job(1, "a"), job(2, "b", priority=5), job(3, "a")]
    found = plan(jobs, [host("x"), host("y")])
    assert found == [
        Fetch("x", "b", ("job-2",)),
        Fetch("y", "b", ("job-2",)),
        Fetch("x", "a", ("job-1", "job-3")),
        Fetch("y", "a", ("job-1", "job-3")),
    ]


def test_only_where_the_job_may_come() -> None:
    hosts = [
        host("down", state=HostState.DOWN),
        host("drained", drained="by ann"),
        host("npu", "npu"),
        host("old"),
        host("plain"),
        host("fast", labels={"net": "ib", "room": "2"}),
    ]
    labelled = job(1, "a", labels={"net": "ib"})
    assert [one.host for one in plan([labelled], hosts)] == ["fast"]
    shy = job(1, "a", anti_labels={"room": ""})
    assert [one.host for one in plan([shy], hosts, {"old": "driver too old"})] == ["plain"]


def test_jobs_that_do_not_wait_want_nothing() -> None:
    states = [JobState.RUNNING, JobState.HELD, JobState.SUCCEEDED]
    assert plan([job(1, "a", state=state) for state in states], [host("x")]) == []


def test_a_task_without_an_image_wants_the_hosts_own() -> None:
    assert plan([job(1, "")], [host("x")])[0].image == "default-x"


def test_hosts_of_one_road_follow_each_other() -> None:
    fetches = [Fetch("x", "a"), Fetch("y", "a"), Fetch("z", "a"), Fetch("x", "b")]
    found = lanes(fetches, {"x": "gate", "y": "gate", "z": "z"}, {("y", "a")})
    assert found == ((Fetch("x", "a"), Fetch("x", "b")), (Fetch("z", "a"),))
