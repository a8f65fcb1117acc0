"""What a standby has is what the leading head has written, and nothing is done that it lacks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gpuconsole.config import NotifySection
from gpuconsole.core.containers import LeadMark
from gpuconsole.core.jobs import JobState
from gpuconsole.core.lab_service.rights import Caller
from gpuconsole.errors import RefusedError, UnreachableError, UsageError
from gpuconsole.session.lab_service.console.client import HeadsWay, LocalWay, head_at
from gpuconsole.session.messages.service import UserSettings
from gpuconsole.session.standby import lead as lead_module
from gpuconsole.session.standby.follower import Follower
from gpuconsole.session.standby.lead import Lead, fenced
from gpuconsole.session.standby.witnesses import Witnesses
from gpuconsole.state import Journal
from gpuconsole.state.backup.backups import install
from gpuconsole.state.files.head_state import StandingFile
from tests.session.standby.conftest import LeadDesk
from tests.waiting import until


@contextlib.asynccontextmanager
async def following(desk: LeadDesk, name: str = "standby") -> AsyncIterator[Follower]:
    """Follow until the end of the block."""
    follower = desk.follower(name)
    task = asyncio.ensure_future(follower.run())
    try:
        await until(lambda: follower.store.held.in_step or task.done())
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        follower.close()


class Engine:
    """Notes what it is asked."""

    def __init__(self, *marks: LeadMark) -> None:
        self.asked: list[str] = []
        self.marks = marks

    async def lead_marks(self, journal: str) -> tuple[LeadMark, ...]:
        return self.marks

    def __getattr__(self, name: str) -> Any:
        async def asked(*words: object) -> None:
            self.asked.append(name)

        return asked


def engine_of(desk: LeadDesk, engine: Engine) -> Any:
    return fenced(engine, desk.hosts[0], desk.lead)  # type: ignore[arg-type]


async def test_a_standby_has_jobs_projects_and_secrets(desk: LeadDesk) -> None:
    desk.add(1, project=b"packed" * 1000, secrets={"TOKEN": "word"})
    async with following(desk) as follower:
        later = desk.add(2, project=b"another")
        await desk.lead.copied()
        path = follower.store.written()
        folder = desk.root / "standby"
        install(folder, path, 1.0, made_at=0.0, hold=False)
        taken = Journal(folder, clock=desk.session.now)
        assert [job.id for job in taken.jobs()] == ["1job", later.id]
        bundles = {path.name: path.read_bytes() for path in (folder / "bundles").iterdir()}
        assert bundles == {"1job.tar.gz": b"packed" * 1000, "2job.tar.gz": b"another"}
        assert follower._secrets.values("1job") == {"TOKEN": "word"}


async def test_secrets_leave_a_standby_with_the_end_of_their_job(desk: LeadDesk) -> None:
    job = desk.add(1, secrets={"TOKEN": "word"})
    async with following(desk) as follower:
        assert follower._secrets.values(job.id) == {"TOKEN": "word"}
        queue = desk.session.queue
        await queue.cancel(job.id)
        await desk.lead.copied()
        assert desk.session.job(job.id).state is JobState.CANCELLED
        assert follower._secrets.values(job.id) == {}


async def test_nothing_starts_or_goes_away_before_the_standby_has_it(desk: LeadDesk) -> None:
    engine = Engine()
    async with following(desk):
        await engine_of(desk, engine).start("c")
        assert engine.asked == ["start"]
    # It confirms no more, and may take over: without the hosts nothing is started.
    silent = Witnesses(desk.hosts, desk.session.hosts)
    silent.names = ("away-1", "away-2")
    desk.lead.witnesses = silent
    waiting = [
        asyncio.ensure_future(engine_of(desk, engine).start("c")),
        asyncio.ensure_future(engine_of(desk, engine).remove("c")),
    ]
    await until(lambda: any("too few hosts answer" in words for words in desk.said))
    assert engine.asked == ["start"]
    # Once they answer, the head takes the next epoch, and goes on alone.
    desk.lead.witnesses = Witnesses(desk.hosts, desk.session.hosts)
    await asyncio.gather(*waiting)
    assert sorted(engine.asked) == ["remove", "start", "start"]
    assert desk.lead.standing.present.epoch == 1
    assert not desk.lead.standing.present.in_step


async def test_a_host_that_knows_a_later_head_refuses(desk: LeadDesk) -> None:
    desk.lead.standing.change(followed=True)
    engine = Engine(LeadMark(9, "b" * 32, "second"))
    for verb, words in (("start", ("c",)), ("stop", ("c", 1.0)), ("remove", ("c",))):
        with pytest.raises(UnreachableError, match=r"has given epoch 9 .* to second"):
            await getattr(engine_of(desk, engine), verb)(*words)
    assert engine.asked == []


async def test_a_head_steps_down_for_one_that_a_majority_knows(desk: LeadDesk) -> None:
    desk.lead.standing.change(followed=True)
    for name in desk.hosts[:2]:
        engine = await desk.session.hosts.engine(name)
        await engine.mark_lead(desk.session._journal.id, LeadMark(1, "b" * 32, "second"))
    await until(desk.lead.deposed.is_set)
    assert not StandingFile(desk.root / "lead").present.leads
    state = await head_at(desk.way())
    assert (state.leads, state.active) == (False, "second")
    with pytest.raises(UnreachableError, match="Another head leads"):
        await engine_of(desk, Engine()).start("c")


async def test_a_head_that_starts_again_asks_whether_it_still_leads(desk: LeadDesk) -> None:
    journal, standing = desk.session._journal.id, desk.lead.standing

    def again(names: tuple[str, ...] = desk.hosts) -> Lead:
        return Lead(standing, "first", Witnesses(names, desk.session.hosts))

    assert await again(("away",)).may_lead(journal) is True
    standing.change(followed=True)
    assert await again().may_lead(journal) is True
    assert await again(("away-1", desk.hosts[0])).may_lead(journal) is None
    for name in desk.hosts[:2]:
        engine = await desk.session.hosts.engine(name)
        await engine.mark_lead(journal, LeadMark(1, "b" * 32, "second"))
    assert await again().may_lead(journal) is False


async def test_only_the_services_account_reads_the_journal(desk: LeadDesk) -> None:
    desk.caller = Caller(4242, "ada")
    follower = desk.follower()
    with pytest.raises(UnreachableError, match="refuses a standby"):
        await follower._follow()
    assert follower.store.held.journal == ""
    follower.close()


async def test_one_standby_at_a_time_and_with_the_same_hosts(desk: LeadDesk) -> None:
    async with following(desk):
        other = desk.follower("third")
        with pytest.raises(UnreachableError, match="refuses a standby"):
            await other._follow()
        other.close()
        with pytest.raises(RefusedError, match="follows first already"):
            await desk.lead.follow(desk.session._context, "third", "third", Engine().send)
    another = desk.follower("fourth")
    another._voters = ("elsewhere",)
    await until(lambda: desk.lead.standby == "")
    with pytest.raises(UsageError, match="The heads name other hosts"):
        await another.run()
    another.close()


async def test_a_state_folder_with_another_queue_is_left_alone(desk: LeadDesk) -> None:
    Journal(desk.root / "standby", clock=desk.session.now).close()
    follower = desk.follower()
    with pytest.raises(UsageError, match="has a queue of its own"):
        await follower.run()
    follower.close()


async def test_an_act_that_nobody_can_confirm_is_not_acknowledged(
    desk: LeadDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lead_module, "CONFIRM_S", 0.2)
    monkeypatch.setattr(lead_module, "LOST_S", 0.1)
    desk.lead.gated = True
    desk.lead.witnesses.names = ("away-1", "away-2")
    with pytest.raises(UnreachableError, match="another head may lead"):
        await desk.lead.confirmed()


async def test_a_standby_takes_over_by_itself_and_tells_consoles_before_where_to_go(
    desk: LeadDesk,
) -> None:
    job = desk.add(1, project=b"packed")
    stop, led = asyncio.Event(), asyncio.Event()

    async def serve(lead: Lead) -> None:
        led.set()
        await stop.wait()

    head = desk.head(after_s=0.5)
    running = asyncio.ensure_future(head.run(serve, stop))
    own = LocalWay(desk.root / "standby.sock")
    await until(lambda: head._follower is not None and head._follower.store.held.in_step)
    state = await head_at(own)
    assert (state.leads, state.active, state.in_step) == (False, "first", True)
    assert await HeadsWay([own, desk.way()]).socket() == desk.service.path
    # The first one is gone from one moment to the next.
    await desk.service._server.end()
    await until(lambda: led.is_set() or running.done())
    stop.set()
    await running
    standing = StandingFile(desk.root / "standby").present
    assert (standing.leads, standing.epoch) == (True, 1)
    taken = Journal(desk.root / "standby", clock=desk.session.now)
    assert [(one.id, one.state) for one in taken.jobs()] == [(job.id, JobState.HELD)]
    assert taken.restoration() is None
    assert any("was silent for" in words for words in desk.said)


async def test_a_copy_that_may_be_old_is_taken_over_by_force_alone(desk: LeadDesk) -> None:
    job = desk.add(1, project=b"packed")
    desk.session._journal.save(job, replace(job, state=JobState.QUEUED))
    head = desk.head()
    stop = asyncio.Event()

    async def serve(lead: Lead) -> None:
        await stop.wait()

    running = asyncio.ensure_future(head.run(serve, stop))
    await until(lambda: head._follower is not None and head._follower.store.held.in_step)
    assert head._follower is not None
    # The first one has gone on alone since.
    await head._pause()
    await until(lambda: desk.lead.standing.present.epoch == 1)
    await desk.service._server.end()
    with pytest.raises(RefusedError, match="given epoch 1 to first"):
        await head._take_over(False)
    await head._take_over(True)
    stop.set()
    await running
    taken = Journal(desk.root / "standby", clock=desk.session.now)
    assert taken.jobs()[0].state is JobState.HELD
    assert taken.restoration() is not None
    await until(desk.lead.deposed.is_set)


async def test_one_hostile_host_of_three_deposes_nobody(desk: LeadDesk) -> None:
    """Nor does it keep a standby from following, or an operator from a take-over by force."""
    desk.add(1, project=b"packed")
    journal = desk.session._journal.id
    hostile = await desk.session.hosts.engine(desk.hosts[2])
    for epoch in (1, 2, 999_999_999):
        await hostile.mark_lead(journal, LeadMark(epoch, "e" * 32, "evil"))
    async with following(desk):
        looked = desk.lead._looked_at
        desk.lead._looked_at = float("-inf")
        await until(lambda: desk.lead._looked_at > looked)
        await desk.lead.copied()
        assert not desk.lead.deposed.is_set()
        # Nothing starts there, and the standby is not dismissed for it.
        with pytest.raises(UnreachableError, match="999999999"):
            await desk.lead.require(desk.hosts[2], hostile)
        assert not desk.lead._suspected
    assert await desk.lead.may_lead(journal) is True
    head, stop = desk.head(), asyncio.Event()

    async def serve(lead: Lead) -> None:
        await stop.wait()

    running = asyncio.ensure_future(head.run(serve, stop))
    await until(lambda: head._follower is not None and head._follower.store.held.in_step)
    await desk.service._server.end()
    await head._take_over(True)
    stop.set()
    await running
    assert StandingFile(desk.root / "standby").present.leads
    await until(desk.lead.deposed.is_set)
    assert desk.lead.leader is not None
    assert desk.lead.leader.name == "standby"


async def test_a_take_over_by_force_needs_a_majority_of_the_hosts(desk: LeadDesk) -> None:
    head, stop = desk.head(), asyncio.Event()

    async def serve(lead: Lead) -> None:
        await stop.wait()

    running = asyncio.ensure_future(head.run(serve, stop))
    await until(lambda: head._follower is not None and head._follower.store.held.in_step)
    head._settings = replace(head._settings, voters=("away-1", "away-2", desk.hosts[2]))
    await desk.service._server.end()
    with pytest.raises(RefusedError, match="2 must give their word"):
        await head._take_over(True)
    assert not desk.lead.deposed.is_set()
    stop.set()
    await running
    assert not StandingFile(desk.root / "standby").present.leads


async def test_what_users_have_set_and_marked_follows(desk: LeadDesk) -> None:
    users = desk.service._users
    users.keep("ada", NotifySection(about=("failed",)))
    folder = desk.root / "standby"
    async with following(desk):
        await desk.lead.copied()
        kept = UserSettings(SimpleNamespace(state=folder))  # type: ignore[arg-type]
        assert kept.of("ada").about == users.of("ada").about != NotifySection().about
        # Alone, without a word in the journal, and what is removed goes there too.
        users.keep("bob", NotifySection(about=("oom",)))
        (desk.root / "lead" / "incident-marks.json").write_text("[]")
        await desk.lead.copied()
        assert kept.of("bob").about == users.of("bob").about
        assert (folder / "incident-marks.json").read_text() == "[]"
        assert (folder / "notify.json").stat().st_mode & 0o777 == 0o600
        (desk.root / "lead" / "incident-marks.json").unlink()
        await desk.lead.copied()
        assert not (folder / "incident-marks.json").exists()


@pytest.mark.parametrize("how", ["by command", "by force", "by itself"])
async def test_a_take_over_is_on_record(desk: LeadDesk, how: str) -> None:
    head = desk.head(after_s=0.5 if how == "by itself" else None)
    stop = asyncio.Event()

    async def serve(lead: Lead) -> None:
        await stop.wait()

    running = asyncio.ensure_future(head.run(serve, stop))
    await until(lambda: head._follower is not None and head._follower.store.held.in_step)
    await desk.service._server.end()
    who = Caller(7, "ops-cat", origin="sshd (pid 5)")
    if how != "by itself":
        await head._pause()
        await until(lambda: desk.lead.standby == "")
        if how == "by force":
            await until(lambda: desk.lead.standing.present.epoch == 1)
            with pytest.raises(RefusedError):
                await head._asked_to_take_over(False, who)
            assert any("ops-cat (uid 7, sshd (pid 5)) asked" in words for words in desk.said)
        await head._asked_to_take_over(how == "by force", who)
    await until(lambda: head._won.is_set() or running.done())
    stop.set()
    await running
    taken = Journal(desk.root / "standby", clock=desk.session.now)
    (act,) = (one for one in taken.acts(10) if one.verb == "takeover")
    assert act.subject == "standby"
    assert f"from first, {how}" in act.detail
    asked = ("ops-cat", 7, "sshd (pid 5)")
    own = (pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), "the service")
    assert (act.user, act.uid, act.origin) == (own if how == "by itself" else asked)
