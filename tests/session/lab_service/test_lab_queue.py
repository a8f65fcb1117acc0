"""One queue for several accounts: what each sees, what each may do, and what is written of it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuconsole.config import AllowedSection, LabSettings
from gpuconsole.core.devices.device_use import DeviceUse
from gpuconsole.core.incidents import Incident, Severity
from gpuconsole.core.jobs import Attempt, Job, JobState, Mount, SmallerBatch, Task
from gpuconsole.core.lab_service.rights import Caller, Rights
from gpuconsole.core.units import MIB
from gpuconsole.errors import ConsoleError, RefusedError, UnreachableError, UsageError
from gpuconsole.session.estimate.tier_ladder import Watching
from gpuconsole.session.lab_service.console.client import LocalWay
from gpuconsole.session.lab_service.console.lab_session import LabQueueSession, known_settings
from gpuconsole.session.lab_service.protocol import Request, Submission, Wanted
from gpuconsole.session.report.model import Query
from gpuconsole.state.journal import _insert
from gpuconsole.state.tables import rows
from tests.session.lab_service.conftest import LabDesk, packed_project
from tests.waiting import until


def task(lab: LabDesk, name: str = "train", **more: object) -> Task:
    return Task(name, script=str(lab.script), **more)  # type: ignore[arg-type]


async def submitted(lab: LabDesk, console: LabQueueSession, name: str, **more: object) -> Job:
    return await console.queue.submit(task(lab, name, **more), hold=True, force=True)


async def test_the_page_names_every_request(lab: LabDesk) -> None:
    lead = SimpleNamespace()
    lab.patch.setattr(lab.service, "_lead", lead)
    routes = lab.service._application().router.routes()
    served = {f"{route.method} {route.resource.canonical}" for route in routes if route.resource}
    page = (Path(__file__).parents[3] / "docs" / "lab-queue.md").read_text("utf-8")
    named = set(re.findall(r"^\| `((?:GET|POST) /v1/[^`]*)` \|", page, re.M))
    assert len(named) > 10
    assert named == {one for one in served if one.startswith(("GET", "POST"))}


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


async def test_a_submission_tells_how_much_of_its_project_is_sent(lab: LabDesk) -> None:
    (lab.script.parent / "table.py").write_text(f"ROWS = {os.urandom(MIB).hex()!r}")
    heard: list[tuple[float, str]] = []
    user = Watching(sending=lambda share, stage: heard.append((share, stage)))
    async with lab.console("ada") as ada:
        lab.act_as("ada")
        await ada.queue.submit(task(lab), hold=True, force=True, user=user)
    shares, stages = zip(*heard, strict=True)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert len(set(shares)) > 3
    assert list(shares) == sorted(shares)
    assert stages[0].startswith("sending the project, 1.")
    assert stages[-1] == "queueing"


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


async def test_users_have_reports_of_their_own_jobs_and_operators_of_all(lab: LabDesk) -> None:
    async with lab.console("ada") as console:
        for user in ("ada", "bob"):
            lab.act_as(user)
            job = await console.queue.submit(task(lab, f"of-{user}"), force=True)
            await until(lambda: lab.session.job(job.id).state is JobState.SUCCEEDED)  # noqa: B023
        query = Query(lab.session.now() - 3600.0, lab.session.now() + 60.0)
        lab.act_as("ada")
        own = await console.usage_report(query)
        assert (own.user, [row.words for row in own.rows]) == ("ada", [("ada",)])
        assert own.total.jobs == 1
        lab.act_as("root-cat")
        everything = await console.usage_report(query)
        assert (everything.user, everything.total.jobs) == ("", 2)
        assert {row.words for row in everything.rows} == {("ada",), ("bob",)}
        assert everything.total.held_s > own.total.held_s > 0.0


async def test_idle_leases_are_shown_to_everybody(lab: LabDesk) -> None:
    async with lab.console("ada") as console:
        now = lab.session.now()
        began = now - 3 * 3600.0
        attempt = Attempt(
            1, "h", ("GPU-0",), (0,), "c", created_at=began, starting_at=began, started_at=began
        )
        job = Job("20300101-idle", Task(name="sits"), "bob", JobState.RUNNING, began,
                  attempts=(attempt,))  # fmt: skip
        journal = lab.session._context.journal
        with journal._writing() as (connection, revision):
            values = rows.job_values(job) | {"id": job.id, "revision": revision}
            _insert(connection, "jobs", values)
            key = {"job": job.id, "number": 1}
            _insert(connection, "attempts", key | rows.attempt_values(attempt))
        journal.measure_use(
            [DeviceUse(job.id, 1, began, "h", "A100", 1, 0.0, 600.0, 0.0, 0.0, now, None)]
        )
        query = Query(now - 3600.0, now + 60.0)
        lab.act_as("ada")
        own = await console.usage_report(query)
        assert (own.user, own.rows) == ("ada", ())
        assert [(lease.user, lease.name, lease.host) for lease in own.idle] == [
            ("bob", "sits", "h")
        ]


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"since": "0", "until": "1", "by": "colour"},
        {"since": "nan", "until": "inf", "by": "user"},
        {"since": "1", "until": "1e300", "by": "user"},
        {"since": "x" * 1000, "until": "1", "by": "user"},
    ],
)
async def test_a_report_that_cannot_be_meant_is_refused(
    lab: LabDesk, words: dict[str, str]
) -> None:
    async with lab.console("ada") as console:
        with pytest.raises(UsageError):
            await console.client._ask("GET", "report", words)


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
        ({"memory_limit_mib": 2049.0}, "`memory_limit: 2.0 GiB` is not allowed here"),
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


async def test_only_who_may_submits_jobs_over_several_hosts(lab: LabDesk) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    wanted = Task("t", script="/t.py", hosts=2, devices=2, network="lab")
    submission = Submission((Wanted(wanted, None, None),), hold=True)
    rights = replace(lab.service._rights, gangs=("grace",))
    set_rights(lab, rights)
    lab.act_as("ada")
    with pytest.raises(RefusedError, match="ada may have jobs on one host alone"):
        await lab.client().submit(submission, bundle)
    for user in ("grace", "root-cat"):
        lab.act_as(user)
        (job,) = await lab.client().submit(submission, bundle)
        assert job.user == user
    set_rights(lab, replace(rights, gangs=()))
    lab.act_as("root-cat")
    lab.session._journal.save(job, replace(job, user="grace", state=JobState.CANCELLED))
    lab.act_as("grace")
    with pytest.raises(RefusedError, match="grace may have jobs on one host alone"):
        await lab.client().act(Request("retry", (job.id,)))


def set_rights(lab: LabDesk, rights: Rights) -> None:
    for part in (lab.service, lab.service._intake, lab.service._acts):
        lab.patch.setattr(part, "_rights", rights)


async def test_where_jobs_run_as_their_users_none_goes_to_slurm(lab: LabDesk) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    lab.act_as("ada")
    wanted = Task("t", script="/t.py", labels={"slurm": "c1"})
    submission = Submission((Wanted(wanted, None, None),), hold=True)
    assert await lab.client().submit(submission, bundle)
    policy = AllowedSection(run_as="user").policy()
    lab.patch.setattr(lab.service._intake, "_policy", policy)
    with pytest.raises(RefusedError, match="c1 would run this one as the account of the lab"):
        await lab.client().submit(submission, bundle)


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
    bundle.write_bytes(packed_project())
    client = lab.client()
    with pytest.raises(ConsoleError):
        await client.submit(Submission((Wanted(hostile, None, None),), hold=True), bundle)
    assert lab.session.jobs() == ()


async def test_no_file_of_the_service_is_named_by_a_client(lab: LabDesk) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
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
    session = LabQueueSession(LocalWay(tmp_path / "none"), LabSettings(), "ada", tmp_path)
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
    bundle.write_bytes(packed_project())
    return Submission((Wanted(Task("t", script="/t.py"), 1.0, {}),), hold=True), bundle


async def test_a_large_job_goes_before_the_stream_of_somebody_else(lab: LabDesk) -> None:
    """With queues of their own the stream never let it start."""
    # On the others somebody works who is in no queue, for as long as they like.
    free = [
        sum(not device.processes for device in host.devices)
        for host in lab.session.snapshot().hosts
    ]

    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    # So many that some wait for long, on a slow machine too.
    small = [Wanted(Task(f"small-{n}", script="/t.py"), 500.0, None) for n in range(60 * sum(free))]

    async with lab.console("grace") as grace:
        lab.act_as("grace")
        wanted = task(lab, "large", devices=max(free), priority=100)
        large = await grace.queue.submit(wanted, hold=True, force=True)
        lab.act_as("bob")
        await lab.client().submit(Submission(tuple(small), hold=False), bundle)
        await until(lambda: any(job.attempts for job in lab.session.jobs()))
        lab.act_as("grace")
        await grace.queue.release(large.id)
        await until(lambda: bool(lab.session.job(large.id).attempts))
        placed_at = lab.session.job(large.id).attempts[0].created_at
        behind = [
            job
            for job in lab.session.jobs()
            if job.user == "bob" and (not job.attempts or job.attempts[0].created_at > placed_at)
        ]
        assert len(behind) > sum(free)


async def test_what_operators_say_of_incidents_all_see(lab: LabDesk) -> None:
    async with lab.console("grace") as grace, lab.console("cat") as cat:
        await until(lambda: grace.triage.incidents())
        incident = next(one for one in grace.triage.incidents() if not one.jobs)
        lab.act_as("grace")
        with pytest.raises(RefusedError, match="operator"):
            await grace.triage.acknowledge(incident.id)
        lab.caller = Caller(7, "ops-cat", frozenset({"ops"}))
        await cat.triage.acknowledge(incident.id)
        await until(lambda: grace.triage.incident(incident.id).marked == "acknowledged")
        assert grace.triage.incident(incident.id).marked_by == "ops-cat"
        await cat.triage.snooze(incident.id, 60.0)
        await until(lambda: grace.triage.incident(incident.id).marked == "snoozed")
        await cat.triage.reopen(incident.id)
        await until(lambda: grace.triage.incident(incident.id).marked == "")


def shared_incident(lab: LabDesk, *jobs: str) -> Incident:
    """Let the journal have one incident, that hits jobs; the rules neither end nor change it."""
    now = lab.session.now()
    host = lab.session.snapshot().hosts[0].name
    made = Incident("throttling", "GPU-x", Severity.WARNING, "Slow", host, now, now, jobs=jobs)
    journal = lab.session._journal
    kept = (made,)
    lab.patch.setattr(journal, "incidents", lambda: kept)
    lab.patch.setattr(journal, "mark_incident", lambda marked: True)
    return made


async def test_a_users_mark_holds_for_nobody_else(lab: LabDesk) -> None:
    async with lab.console("ada") as ada, lab.console("bob") as bob:
        lab.act_as("ada")
        hers = await ada.queue.submit(task(lab, "hers"), hold=True)
        lab.act_as("bob")
        his = await bob.queue.submit(task(lab, "his"), hold=True)
        made = shared_incident(lab, hers.id, his.id)
        await until(lambda: all(one.triage.incidents() == (made,) for one in (ada, bob)))
        lab.act_as("ada")
        await ada.triage.resolve(made.id)
        await until(lambda: ada.triage.incident(made.id).marked == "resolved")
        assert ada.triage.incident(made.id).marked_by == "ada"
        # Neither the other user nor the service, which ends idle jobs by it, takes it for all.
        await until(lambda: bob._mirror.fleet.taken_at > lab.session.now() - 1.0)
        assert bob.triage.incident(made.id).marked == ""
        assert lab.session.triage.incident(made.id).marked == ""
        async with lab.console("ada") as again:
            await until(lambda: again.triage.incidents() != ())
            assert again.triage.incident(made.id).marked == "resolved"
        await ada.triage.reopen(made.id)
        await until(lambda: ada.triage.incident(made.id).marked == "")
        # An operator's holds for all, and takes the place of what users have said.
        await ada.triage.snooze(made.id, 60.0)
        await until(lambda: ada.triage.incident(made.id).marked == "snoozed")
        lab.caller = Caller(7, "ops-cat", frozenset({"ops"}))
        await bob.triage.reopen(made.id)
        await until(lambda: ada.triage.incident(made.id).marked == "")


async def test_a_users_mark_holds_for_all_while_it_hits_their_jobs_alone(lab: LabDesk) -> None:
    async with lab.console("ada") as ada, lab.console("bob") as bob:
        lab.act_as("ada")
        hers = await ada.queue.submit(task(lab, "hers"), hold=True)
        lab.act_as("bob")
        his = await bob.queue.submit(task(lab, "his"), hold=True)
        made = shared_incident(lab, hers.id)
        await until(lambda: all(one.triage.incidents() == (made,) for one in (ada, bob)))
        lab.act_as("ada")
        await ada.triage.acknowledge(made.id)
        await until(lambda: bob.triage.incident(made.id).marked_by == "ada")
        wider = (replace(made, jobs=(hers.id, his.id)),)
        lab.patch.setattr(lab.session._journal, "incidents", lambda: wider)
        await until(lambda: bob.triage.incident(made.id).marked == "")
        assert ada.triage.incident(made.id).marked == "acknowledged"


async def test_only_operators_end_what_runs_on_hosts(lab: LabDesk) -> None:
    async with lab.console("ada") as ada:
        host, process = next(
            (host, process)
            for host in ada.snapshot().hosts
            for device in host.devices
            for process in device.processes
        )
        with pytest.raises(RefusedError, match="operator"):
            await ada.processes.signal(host.name, process.pid, "TERM")
        with pytest.raises(RefusedError, match="operator"):
            await ada.processes.stop_container(host.name, "0" * 64)
        lab.caller = Caller(7, "ops-cat", frozenset({"ops"}))
        with pytest.raises(UsageError, match="TERM, INT, KILL"):
            await ada.processes.signal(host.name, process.pid, "STOP")
        with pytest.raises(UsageError, match="no id of a container"):
            await ada.processes.stop_container(host.name, "../x")
        await ada.processes.signal(host.name, process.pid, "KILL")
        await until(lambda: process.pid not in _pids(ada, host.name))


def _pids(console: LabQueueSession, host: str) -> set[int]:
    found = console.snapshot().host(host)
    assert found is not None
    return {process.pid for device in found.devices for process in device.processes}


BY_ARGUMENT = """import argparse

import paddle

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
options = parser.parse_args()
net = paddle.nn.Linear(8, 8)
opt = paddle.optimizer.SGD(parameters=net.parameters())
for _ in range(3):
    loss = net(paddle.rand([options.batch_size, 8])).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


async def test_smaller_batches_are_worked_out_by_the_console_and_sent_along(lab: LabDesk) -> None:
    async with lab.console("ada") as console:
        script = lab.script
        script.write_text(BY_ARGUMENT)
        wanted = Task("t", script=str(script), auto_batch=True, retries=2)
        job = await console.queue.submit(wanted, hold=True)
        there = lab.session.job(job.id)
        assert there.task.auto_batch
        batches = [(one.was, one.size, one.args[-1]) for one in there.task.smaller]
        assert batches == [(64, 32, "32"), (32, 16, "16")]
        assert all((one.estimate_mib or 0) > 0 for one in there.task.smaller)
        # A number in the script is out of reach: the service changes no files.
        script.write_text(BY_ARGUMENT.replace("options.batch_size", "64"))
        job = await console.queue.submit(replace(wanted, name="fixed"), hold=True)
        assert not lab.session.job(job.id).task.auto_batch
        await until(lambda: any("tried again by itself" in one for one in console.warnings(job.id)))


@pytest.mark.parametrize(
    "smaller",
    [
        (SmallerBatch(8, 16, ("\0",)),),
        (SmallerBatch(16, 8, ()),),
        (SmallerBatch(8, 16, ()), SmallerBatch(8, 16, ())),
        (SmallerBatch(8, 16, (), -1.0),),
        (SmallerBatch(0, 16, ()),),
        tuple(SmallerBatch(size, size + 1, ()) for size in range(30, 1, -1)),
    ],
)
async def test_smaller_batches_that_no_console_would_send_are_refused(
    lab: LabDesk, smaller: tuple[SmallerBatch, ...]
) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    wanted = Task("t", script="train.py", auto_batch=True, smaller=smaller)
    with pytest.raises(UsageError):
        await lab.client().submit(Submission((Wanted(wanted, 1.0, {}),), True), bundle)


TRIAL = Task("t", script="train.py", sweep="t", goal="min loss", space=("--lr=1..2",))


@pytest.mark.parametrize(
    "wrong",
    [
        replace(TRIAL, stop_if=("loss is bad",)),
        replace(TRIAL, stop_if=("loss is nan",) * 9),
        replace(TRIAL, space=()),
        replace(TRIAL, space=("--lr=2..1",)),
        replace(TRIAL, goal="lowest"),
        replace(TRIAL, goal=""),
        replace(TRIAL, sweep=""),
        replace(TRIAL, trial={"--lr": "9"}),
    ],
)
async def test_rules_and_searches_that_no_console_would_send_are_refused(
    lab: LabDesk, wrong: Task
) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    with pytest.raises(UsageError):
        await lab.client().submit(Submission((Wanted(wrong, 1.0, {}),), True), bundle)


async def test_the_trials_of_a_search_are_held_in_the_labs_queue(lab: LabDesk) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    wanted = tuple(Wanted(replace(TRIAL, name=f"t {n}"), 1.0, {}) for n in range(3))
    queued = await lab.client().submit(Submission(wanted, True), bundle)
    found = [lab.session.job(job.id) for job in queued]
    assert {job.state for job in found} == {JobState.HELD}
    assert {(job.task.goal, job.task.space) for job in found} == {("min loss", ("--lr=1..2",))}
