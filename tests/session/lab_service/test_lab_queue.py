"""One queue for several accounts: what each sees, what each may do, and what is written of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import AllowedSection, LabSettings
from gpuconsole.core.jobs import Job, JobState, Mount, Task
from gpuconsole.core.lab_rights import Caller
from gpuconsole.errors import ConsoleError, RefusedError, UnreachableError, UsageError
from gpuconsole.session.lab_service.client import LocalWay
from gpuconsole.session.lab_service.lab_session import LabSession, known_settings
from gpuconsole.session.lab_service.protocol import Request, Submission, Wanted
from tests.session.lab_service.conftest import LabDesk
from tests.waiting import until


def task(lab: LabDesk, name: str = "train", **more: object) -> Task:
    return Task(name, script=str(lab.script), **more)  # type: ignore[arg-type]


async def submitted(lab: LabDesk, console: LabSession, name: str, **more: object) -> Job:
    return await console.queue.submit(task(lab, name, **more), hold=True, force=True)


async def test_what_one_submits_all_see_and_it_runs_under_its_own_name(lab: LabDesk) -> None:
    async with lab.console("ada") as ada, lab.console("bob") as bob:
        lab.act_as("ada")
        job = await ada.queue.submit(task(lab, env={"TOKEN": "secret-word"}), force=True)
        assert (job.user, ada.user, bob.user) == ("ada", "ada", "bob")
        await until(lambda: [one.id for one in bob.jobs()] == [job.id])
        seen = bob.job(job.id)
        assert (seen.user, seen.task.name) == ("ada", "train")
        assert (seen.task.script, dict(seen.task.env), seen.estimate) == ("", {}, None)
        await until(lambda: ada.job(job.id).state is JobState.SUCCEEDED)
        await until(lambda: bob.job(job.id).state is JobState.SUCCEEDED)
        assert ada.job(job.id).task.env["TOKEN"] == "secret-word"
        assert lab.session.job(job.id).user == "ada"


async def test_only_the_owner_and_operators_act_on_a_job(lab: LabDesk) -> None:
    async with lab.console("ada") as ada, lab.console("bob") as bob:
        lab.act_as("ada")
        job = await submitted(lab, ada, "train")
        await until(lambda: bob.jobs() != ())
        lab.act_as("bob")
        with pytest.raises(RefusedError, match=f"Job {job.id} belongs to ada; you are bob"):
            await bob.queue.cancel(job.id)
        with pytest.raises(RefusedError, match="belongs to ada"):
            await bob.client.log(job.id, 1, 0, 0, wait=False)
        with pytest.raises(RefusedError, match="Draining hosts is for the lab's operators"):
            await bob.drains.drain(lab.session.snapshot().hosts[0].name, "mine", "bob")
        assert lab.session.job(job.id).state is JobState.HELD
        lab.act_as("root-cat")
        assert (await bob.queue.cancel(job.id)).state is JobState.CANCELLED
        assert "Cancelled by root-cat" in lab.session.job(job.id).cause


async def test_acts_are_on_record_with_who_and_why_not(lab: LabDesk) -> None:
    async with lab.console("ada") as ada:
        job = await submitted(lab, ada, "train")
        with pytest.raises(RefusedError, match="priorities up to 0, not 5"):
            await ada.queue.set_priority(job.id, 5)
        await ada.queue.set_priority(job.id, -5)
        lab.act_as("grace")
        with pytest.raises(RefusedError, match="belongs to ada"):
            await ada.queue.set_priority(job.id, 5)
        lab.act_as("ada")
        acts = await ada.audit(10)
        assert [(act.user, act.verb, act.detail, bool(act.refused)) for act in acts] == [
            ("ada", "priority", "-5", False),
            ("ada", "priority", "5", True),
            ("ada", "submit", "train: 1", False),
        ]
        lab.act_as("root-cat")
        everything = await ada.audit(10)
        assert [act.user for act in everything] == ["grace", "ada", "ada", "ada"]
        assert everything[0].origin == "test"


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({"priority": 1}, "priorities up to 0"),
        ({"mounts": (Mount("/etc", "/etc"),)}, "Mounting /etc is not allowed"),
        ({"mounts": (Mount("/data", "/data", read_only=False),)}, "for writing"),
        ({"mounts": (Mount("/scratch/ada", "/s", read_only=False),)}, "Mounting /scratch/ada"),
        ({"mounts": (Mount("/scratch/link", "/s"),)}, "Mounting /scratch/link"),
        ({"network": "full"}, "`network: full`"),
        ({"devices": 9}, "9 devices"),
    ],
)
async def test_no_task_gets_more_than_the_lab_allows(
    lab: LabDesk, more: dict[str, object], refused: str
) -> None:
    async with lab.console("ada") as ada:
        with pytest.raises(RefusedError, match=refused):
            await submitted(lab, ada, "train", **more)
    assert lab.session.jobs() == ()
    assert list((lab.root / "state" / "bundles").glob("*")) == []


async def test_what_is_allowed_no_more_is_not_queued_again(lab: LabDesk) -> None:
    async with lab.console("ada") as ada:
        job = await submitted(lab, ada, "train")
        await ada.queue.cancel(job.id)
        old = lab.session.job(job.id)
        task_then = replace(old.task, mounts=(Mount("/old", "/old"),))
        lab.session._journal.save(old, replace(old, task=task_then))
        with pytest.raises(RefusedError, match="Mounting /old is not allowed"):
            await ada.queue.retry(job.id)


def test_nobody_runs_containers_as_root() -> None:
    policy = AllowedSection(run_as="user", ids={"bob": "3001:3002"}).policy()
    assert policy.run_as(Caller(1001, "ada", gid=100)) == "1001:100"
    assert policy.run_as(Caller(0, "bob")) == "3001:3002"
    for caller in (Caller(0, "root"), Caller(1001, "ada", gid=0)):
        with pytest.raises(RefusedError, match="none as root"):
            policy.run_as(caller)
    assert AllowedSection().policy().run_as(Caller(0, "root")) == ""
    with pytest.raises(ValueError, match="ids"):
        AllowedSection(run_as="user", ids={"bob": "0:0"})


async def test_what_the_lab_allows_is_mounted(lab: LabDesk) -> None:
    async with lab.console("ada") as ada:
        mounts = (Mount("/data/sets", "/data"), Mount("/scratch", "/s", read_only=False))
        job = await submitted(lab, ada, "train", mounts=mounts)
        assert lab.session.job(job.id).task.mounts == mounts


@pytest.mark.parametrize(
    "hostile",
    [
        Task("a\x1b[31m\n", script="/t.py"),
        Task("t", script=""),
        Task("t", script="/t.py", devices=0),
        Task("t", script="/t.py", devices=10**9),
        Task("t", script="/t.py", priority=-(10**9)),
        Task("t", script="/t.py", retries=10**9),
        Task("t", script="/t.py", env={"A=B": "1"}),
        Task("t", script="/t.py", mounts=(Mount("/data/../etc", "/x"),)),
        Task("t", script="/t.py", mounts=(Mount("data", "/x"),)),
        Task("t", script="/t.py", after=("nothing",)),
        Task("t", script="/t.py", folder="../.."),
        Task("t", script="/t.py", checkpoint_dir="/"),
        Task("t", script="/t.py", kind="adopted"),
        Task("t", script="/t.py", memory_limit_mib=-1.0),
    ],
)
async def test_a_client_that_is_not_ours_gets_nothing_by_its_task(
    lab: LabDesk, hostile: Task
) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(b"x")
    client = lab.client()
    with pytest.raises(ConsoleError):
        await client.submit(Submission((Wanted(hostile, None, None),), hold=True), bundle)
    assert lab.session.jobs() == ()


async def test_no_file_of_the_service_is_named_by_a_client(lab: LabDesk) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(b"x")
    wanted = Task("t", script="/etc/shadow", project="/etc", ship=("/etc/passwd",), auto_batch=True)
    job = (await lab.client().submit(Submission((Wanted(wanted, 1.0, {}),), True), bundle))[0]
    # It would be read again to find a smaller batch.
    assert (job.task.ship, job.task.auto_batch) == ((), False)


async def test_a_project_over_the_limit_is_refused_before_it_fills_the_disk(lab: LabDesk) -> None:
    lab.session.settings = lab.session.settings.model_copy(update={"code_size_limit": 1.0})
    bundle = lab.root / "bundle"
    bundle.write_bytes(b"x" * (2 * 2**20))
    wanted = Wanted(Task("t", script="/t.py"), None, None)
    with pytest.raises(UsageError, match="takes 1 MiB packed"):
        await lab.client().submit(Submission((wanted,), hold=True), bundle)
    assert list((lab.root / "state" / "bundles").glob("*")) == []


@pytest.mark.parametrize(
    "request_",
    [
        Request("format-disks"),
        Request("cancel"),
        Request("cancel", ("nothing",)),
        Request("cancel", ("x",) * 20_000),
        Request("drain", host="nowhere"),
    ],
)
async def test_acts_that_cannot_be_are_refused_in_words(lab: LabDesk, request_: Request) -> None:
    lab.act_as("root-cat")
    with pytest.raises(ConsoleError):
        await lab.client().act(request_)


async def test_logs_come_through_the_service(lab: LabDesk) -> None:
    async with lab.console("ada") as ada:
        job = await ada.queue.submit(task(lab), force=True)
        lines = [line async for line in ada.logs(job.id, follow=True)]
        assert lines
        again = [line async for line in ada.logs(job.id, follow=False)]
        assert again == lines
        assert ada.log_path(job.id).is_relative_to(lab.root / "state-ada")


async def test_while_the_service_is_away_consoles_say_so_and_queue_nothing(lab: LabDesk) -> None:
    async with lab.console("ada") as ada:
        job = await submitted(lab, ada, "train")
        assert ada.away == ""
        await lab.service.__aexit__()
        await until(lambda: ada.away != "")
        assert ada.dispatcher == ""
        assert [one.id for one in ada.jobs()] == [job.id]
        with pytest.raises(UnreachableError, match="does not answer"):
            await ada.queue.release(job.id)
        with pytest.raises(UnreachableError):
            await submitted(lab, ada, "second")
        await lab.service.__aenter__()
        await until(lambda: ada.away == "")
        assert (await ada.queue.release(job.id)).state is JobState.QUEUED


async def test_a_console_without_a_service_is_told_at_once(tmp_path: Path) -> None:
    session = LabSession(LocalWay(tmp_path / "none"), LabSettings(), "ada", tmp_path)
    with pytest.raises(UnreachableError, match="There is no"):
        async with session:
            pass


async def test_the_settings_of_the_lab_are_known_to_the_next_console(lab: LabDesk) -> None:
    mine = LabSettings(theme="paper")
    async with lab.console("ada"):
        pass
    known = known_settings(lab.root / "state-ada", mine)
    assert known is not None
    assert (known.allowed.devices, known.theme) == (8, "paper")


async def test_operators_see_everything_and_drain(lab: LabDesk) -> None:
    async with lab.console("root-cat") as cat:
        lab.act_as("ada")
        host = lab.session.snapshot().hosts[0].name
        job = (await lab.client().submit(*_one(lab)))[0]
        await until(lambda: [one.task.script for one in cat.jobs()] == ["/t.py"])
        lab.act_as("root-cat")
        await cat.drains.drain(host, "fans", "somebody else")
        await until(lambda: (cat.snapshot().host(host) or 0).drained != "")  # type: ignore[union-attr]
        assert lab.session._journal.drains()[host].by == "root-cat"
        assert cat.job(job.id).user == "ada"


def _one(lab: LabDesk) -> tuple[Submission, Path]:
    bundle = lab.root / "bundle"
    bundle.write_bytes(b"x")
    return Submission((Wanted(Task("t", script="/t.py"), 1.0, {}),), hold=True), bundle


async def test_a_large_job_goes_before_the_stream_of_somebody_else(lab: LabDesk) -> None:
    """With queues of their own the stream never let it start."""
    # On the others somebody works who is in no queue, for as long as they like.
    free = [
        sum(not device.processes for device in host.devices)
        for host in lab.session.snapshot().hosts
    ]

    async def stream(count: int) -> None:
        lab.act_as("bob")
        bundle = lab.root / "bundle"
        for number in range(count):
            bundle.write_bytes(b"x")
            wanted = Wanted(Task(f"small-{number}", script="/t.py"), 500.0, None)
            await lab.client().submit(Submission((wanted,), hold=False), bundle)

    async with lab.console("grace") as grace:
        await stream(3 * sum(free))
        lab.act_as("grace")
        large = await grace.queue.submit(
            task(lab, "large", devices=max(free), priority=100), force=True
        )
        await stream(2 * sum(free))
        await until(lambda: grace.job(large.id).state is not JobState.QUEUED)
        waiting = [job for job in grace.jobs() if job.state is JobState.QUEUED]
        assert {job.user for job in waiting} == {"bob"}
