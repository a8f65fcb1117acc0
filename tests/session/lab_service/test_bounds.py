"""What an account can ask of the lab's service in all: nothing adds up to more than it may have,
and nothing that was allowed once stays allowed for ever."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest

from gpuconsole.config import AllowedSection, RightsSection, WindowSection
from gpuconsole.core.containers import ResultFile
from gpuconsole.core.jobs import Attempt, Job, JobState, Mount, Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.lab_service.host_reads import OF_ACCOUNT
from gpuconsole.session.lab_service.http.bodies import ACT_BYTES, AT_ONCE
from gpuconsole.session.lab_service.http.rates import new_jobs
from gpuconsole.session.lab_service.protocol import Request, Submission, Wanted
from gpuconsole.session.queue.commands import find, find_all
from gpuconsole.session.submit.submit import new_ids
from tests.session.lab_service.conftest import LabDesk, packed_project
from tests.waiting import until

T = Task("t", script="/t.py")


async def _submit(lab: LabDesk, user: str, *tasks: Task, hold: bool = True) -> tuple[Job, ...]:
    lab.act_as(user)
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    wanted = tuple(Wanted(task, 1.0, None) for task in tasks)
    return await lab.client().submit(Submission(wanted, hold=hold), bundle)


async def test_nobody_puts_jobs_into_the_sweep_of_another(lab: LabDesk) -> None:
    ada = await _submit(lab, "ada", replace(T, sweep="lr"), replace(T, sweep="lr"))
    for name in ("lr", ada[0].id):
        with pytest.raises(UsageError, match="is taken"):
            await _submit(lab, "bob", replace(T, sweep=name))
    assert await _submit(lab, "ada", replace(T, sweep="lr"))
    assert await _submit(lab, "bob", replace(T, sweep="lr-2"))


def test_a_name_means_ones_own_job_first() -> None:
    def job(number: int, user: str, **words: str) -> Job:
        return Job(f"{number:010}", replace(T, **words), user, JobState.QUEUED, 1.0)

    jobs = (job(1, "ada", name="train"), job(2, "bob", name="train"), job(3, "bob", sweep="s"),
            job(4, "bob", name="only"), job(15, "ada", name="s"))  # fmt: skip
    assert find(jobs, "train", "ada").id == jobs[0].id
    assert find(jobs, "train", "bob").id == jobs[1].id
    assert find(jobs, "only", "ada").id == jobs[3].id
    with pytest.raises(UsageError, match="may be any of"):
        find(jobs, "train", "cy")
    assert find(jobs, jobs[1].id, "ada").id == jobs[1].id
    assert find_all(jobs, "s", "ada") == (jobs[4],)
    assert find_all(jobs, "s", "bob") == find_all(jobs, "s", "cy") == (jobs[2],)
    assert find_all(jobs, jobs[2].id, "ada") == (jobs[2],)


async def test_a_command_acts_on_ones_own_job_of_a_name(lab: LabDesk) -> None:
    for user in ("bob", "ada"):
        await _submit(lab, user, replace(T, name="train"))
    async with lab.console("ada") as console:
        await until(lambda: len(console.jobs()) == 2)
        cancelled = await console.queue.cancel("train")
        assert (cancelled.user, console.group("train")) == ("ada", (cancelled,))


async def test_retries_are_no_way_around_the_most_jobs(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuconsole.session.lab_service.intake.MOST_JOBS", 3)
    first = await _submit(lab, "ada", T, T)
    await lab.client().act(Request("cancel", tuple(job.id for job in first)))
    await _submit(lab, "ada", T, T)
    assert await lab.client().act(Request("retry", (first[0].id,)))
    with pytest.raises(RefusedError, match="at most 3 jobs"):
        await lab.client().act(Request("retry", (first[1].id,)))


async def test_no_request_holds_the_service_for_long(lab: LabDesk) -> None:
    ids = new_ids(lab.session.now(), 1001)
    jobs = [Job(one, T, "ada", JobState.HELD, 1.0, queued_at=1.0) for one in ids]
    lab.session._journal.add_all(jobs)
    lab.act_as("ada")
    for verb, most in (("priority", 1000), ("retry", 100), ("preempt", 100)):
        with pytest.raises(UsageError, match=f"1 to {most} jobs"):
            await lab.client().act(Request(verb, tuple(ids[: most + 1])))
    async with lab.console("ada") as console:
        await until(lambda: len(console.jobs()) == 1001)
        assert len(await console.queue.cancel_all(ids)) == 1001


async def test_an_account_that_acts_on_many_jobs_without_end_must_wait(lab: LabDesk) -> None:
    ids = new_ids(lab.session.now(), 1000)
    jobs = [Job(one, T, "ada", JobState.HELD, 1.0, queued_at=1.0) for one in ids]
    lab.session._journal.add_all(jobs)
    lab.act_as("ada")
    lab.patch.setattr(lab.service._rates, "_clock", lambda: 0.0)
    client, wanted = lab.client(), Request("priority", tuple(ids), number=-1)
    for _ in range(11):
        await client.act(wanted)
    with pytest.raises(RefusedError, match="requests a second"):
        await client.act(wanted)


async def test_the_journal_takes_only_so_many_jobs_of_one_account(lab: LabDesk) -> None:
    lab.patch.setattr(lab.service._intake, "_new", new_jobs(lambda: 0.0, at_once=5))
    for _ in range(2):
        jobs = await _submit(lab, "ada", T, T)
        await lab.client().act(Request("cancel", tuple(job.id for job in jobs)))
    with pytest.raises(RefusedError, match="new jobs"):
        await _submit(lab, "ada", T, T)
    assert await _submit(lab, "bob", T, T)


async def test_a_job_that_waited_through_a_change_of_the_policy_is_held(lab: LabDesk) -> None:
    (odd,) = await _submit(lab, "ada", replace(T, mounts=(Mount("/data", "/data"),)))
    (fine,) = await _submit(lab, "ada", T)
    await lab.client().act(Request("release", (odd.id, fine.id)))
    await lab.service.__aexit__()
    policy = AllowedSection(mounts=("/other",), devices=8).policy()
    lab.patch.setattr(lab.service._intake, "_policy", policy)
    journal = lab.session._journal
    for job in (odd, fine):
        # The dispatcher may have begun it meanwhile.
        found = journal.job(job.id)
        assert found is not None
        waiting = replace(found, state=JobState.QUEUED, attempts=())
        await lab.session.queue.cancel(job.id)
        found = journal.job(job.id)
        assert found is not None
        lab.session._journal.save(found, replace(waiting, revision=found.revision))
    await lab.service.__aenter__()
    held = journal.job(odd.id)
    assert held is not None
    assert (held.state, "Mounting /data is not allowed" in held.detail) == (JobState.HELD, True)
    after = journal.job(fine.id)
    assert after is not None
    assert after.state is not JobState.HELD
    with pytest.raises(RefusedError, match="Mounting /data is not allowed"):
        await lab.client().act(Request("release", (odd.id,)))


async def test_a_job_is_tried_again_under_the_numbers_that_hold_now(lab: LabDesk) -> None:
    (job,) = await _submit(lab, "ada", T)
    await lab.client().act(Request("cancel", (job.id,)))
    policy = AllowedSection(run_as="user", ids={"ada": "3001:3002"}).policy()
    lab.patch.setattr(lab.service._intake, "_policy", policy)
    lab.act_as("root-cat")
    with pytest.raises(RefusedError, match="was queued before jobs ran as their users"):
        await lab.client().act(Request("retry", (job.id,)))
    lab.act_as("ada")
    await lab.client().act(Request("retry", (job.id,)))
    found = lab.session._journal.job(job.id)
    assert found is not None
    assert found.run_as == "3001:3002"


@pytest.mark.parametrize("ticket", [{"labels": {"course": "ml"}}, {"account": "course"}])
async def test_a_reserved_window_is_entered_by_right(
    lab: LabDesk, ticket: dict[str, object]
) -> None:
    window = WindowSection(
        name="course", begins="2030-01-14T10:00Z", ends="2030-01-14T12:00Z", users=("tea",),
        accounts=("course",), labels={"course": "ml"},
    )  # fmt: skip
    settings = lab.session.settings.model_copy(update={"windows": (window,)})
    lab.patch.setattr(lab.session, "settings", settings)
    wanted = replace(T, **ticket)  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="to which ada has no right"):
        await _submit(lab, "ada", wanted)
    for user in ("tea", "root-cat"):
        assert await _submit(lab, user, wanted)
    rights = RightsSection(windows={"course": ("ada",)}).rights()
    lab.patch.setattr(lab.service._intake, "_rights", rights)
    assert await _submit(lab, "ada", wanted)
    if "account" in ticket:
        rights = RightsSection(accounts={"course": ("bob",)}).rights()
        lab.patch.setattr(lab.service._intake, "_rights", rights)
        assert await _submit(lab, "bob", wanted)


async def test_who_looks_at_what_is_not_theirs_is_on_record(lab: LabDesk) -> None:
    (job,) = await _submit(lab, "ada", T)
    client = lab.client()
    for user in ("bob", "root-cat", "ada"):
        lab.act_as(user)
        for _ in range(2):
            try:
                await client.log(job.id, 1, 0, 0, wait=False)
            except RefusedError:
                assert user == "bob"
    acts = lab.session._journal.acts(10)
    looked = [(act.user, act.verb, act.subject, bool(act.refused)) for act in acts]
    assert looked == [
        ("root-cat", "log", job.id, False), ("bob", "log", job.id, True),
        ("ada", "submit", job.id, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [
        {"image": "a b"},
        {"image": "x\x1b[2J"},
        {"image": "../../containers/json"},
        {"mounts": tuple(Mount("/data", f"/d{n}") for n in range(101))},
        {"mounts": (Mount("/data", "/x"), Mount("/data/b", "/x/"))},
        {"mounts": (Mount("/data", "/proc/sys"),)},
        {"mounts": (Mount("/data", "/dev/nvidia0"),)},
        {"mounts": (Mount("/data", "/results"),)},
        {"mounts": (Mount("/data", "/x\ny"),)},
        {"env": {f"A{n}": "x" * 100_000 for n in range(12)}},
    ],
)
async def test_what_no_engine_could_start_is_refused(lab: LabDesk, odd: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        await _submit(lab, "ada", replace(T, **odd))  # type: ignore[arg-type]
    assert lab.session.jobs() == ()


@pytest.mark.parametrize("value", ["a\0b", "x" * 200_000])
async def test_a_secret_value_that_no_engine_takes_is_refused(lab: LabDesk, value: str) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    wanted = Submission((Wanted(T, 1.0, None),), hold=True, secrets={"TOKEN": value})
    with pytest.raises(UsageError):
        await lab.client().submit(wanted, bundle)
    assert lab.session.jobs() == ()


async def test_requests_that_stop_half_way_hold_little_memory(lab: LabDesk) -> None:
    """Of an account a few are read at once, and none that is larger than any act."""
    lab.act_as("eve")
    links = []
    for length in (200_000,) * 40:
        reader, writer = await asyncio.open_unix_connection(str(lab.service.path))
        head = f"POST /v1/act HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
        writer.write(head.encode() + b"x")
        links.append((reader, writer))
    try:
        await until(lambda: lab.service._bodies.waiting(lab.caller.uid) == 40 - AT_ONCE)
        lab.act_as("ada")
        connector = aiohttp.UnixConnector(path=str(lab.service.path))
        async with aiohttp.ClientSession(connector=connector) as http:
            async with http.post("http://lab/v1/act", json={"verb": "x"}) as response:
                assert (response.status, "is none" in await response.text()) == (400, True)
            for large in (b" " * (ACT_BYTES + 1), _endless()):
                async with http.post("http://lab/v1/act", data=large) as response:
                    assert "Request is too large" in await response.text()
    finally:
        for _, writer in links:
            writer.close()


async def _endless() -> AsyncIterator[bytes]:
    for _ in range(100):
        yield b" " * 100_000


async def test_no_account_takes_all_ways_to_a_host(lab: LabDesk) -> None:
    """Each copy of results is a session of the one connection to a host, which has a few."""
    hosts = [host.name for host in lab.session.snapshot().hosts]
    attempt = Attempt(1, hosts[0], (), created_at=1.0, ended_at=2.0)
    for number, user in enumerate(("eve", "ada")):
        job = lab.session._journal.add(Job(f"{number:010}", T, user, JobState.SUCCEEDED, 1.0))
        lab.session._journal.save(job, replace(job, attempts=(attempt,)))
    opened: list[str] = []

    class Slow:
        def results(self, job: str) -> AsyncIterator[bytes]:
            return self._chunks(job)

        async def list_results(self, job: str) -> tuple[ResultFile, ...]:
            opened.append(job)
            return ()

        async def _chunks(self, job: str) -> AsyncIterator[bytes]:
            opened.append(job)
            while True:
                await asyncio.sleep(0.01)
                yield b"x"

    async def engine(host: str) -> Slow:
        return Slow()

    lab.patch.setattr(lab.session.hosts, "engine", engine)
    connector = aiohttp.UnixConnector(path=str(lab.service.path))
    async with (
        aiohttp.ClientSession(connector=connector) as http,
        contextlib.AsyncExitStack() as all_,
    ):
        eves, adas = ({"job": f"{number:010}", "host": hosts[0]} for number in (0, 1))
        lab.act_as("eve")
        for _ in range(OF_ACCOUNT):
            begun = await all_.enter_async_context(http.get("http://lab/v1/results", params=eves))
            assert begun.status == 200, await begun.text()
        more = [asyncio.ensure_future(http.get("http://lab/v1/files", params=eves)) for _ in "abc"]
        await until(lambda: lab.service._reads.waiting == len(more))
        lab.act_as("ada")
        async with http.get("http://lab/v1/files", params=adas) as response:
            assert response.status == 200
        assert opened == [eves["job"]] * OF_ACCOUNT + [adas["job"]]
        lab.patch.setattr("gpuconsole.session.lab_service.host_reads.WAIT_S", 0.01)
        lab.act_as("eve")
        async with http.get("http://lab/v1/files", params=eves) as response:
            assert "read from hosts at once" in await response.text()
        for task in more:
            task.cancel()
