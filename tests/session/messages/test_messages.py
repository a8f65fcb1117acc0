"""Messages sent to real HTTP servers and a stand-in sendmail, from what the journal tells."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpuconsole.config import LabSettings, NotifySection
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.lab_service.messages import Notice, message_of
from gpuconsole.errors import RefusedError
from gpuconsole.session.dispatch.preemption import interrupt
from gpuconsole.session.messages import delivery, webhooks
from gpuconsole.session.messages.delivery import Courier, Ways, sent
from gpuconsole.session.messages.service import Messages, UserSettings, read_settings
from gpuconsole.session.messages.webhooks import Guard, posted
from gpuconsole.yamldoc import parse
from tests.session.conftest import Desk, Lab, make_lab

NOW = 1_800_000_000.0
NOTICE = Notice(7, "failed", NOW, "ada", "job-1", "train", "a", "Exit code 1.")
MESSAGE = message_of((NOTICE,))


@dataclass
class Receiver:
    """A receiver on loopback."""

    url: str = ""
    status: int = 200
    answer: bytes = b"ok"
    location: str = ""
    got: list[Any] = field(default_factory=list)
    hangs: bool = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.got.append(await request.json())
        if self.hangs:
            await asyncio.Event().wait()
        headers = {"Location": self.location} if self.location else None
        return web.Response(status=self.status, body=self.answer, headers=headers)


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", made.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/services/VERYSECRETPART"
    try:
        yield made
    finally:
        await runner.cleanup()


def notify(*ways: str, about: str = "") -> NotifySection:
    text = f"notify: {{ways: [{', '.join(ways)}]{', about: ' + about if about else ''}}}"
    return parse(text, "config.yaml", LabSettings).notify


def sendmail(folder: Path, script: str) -> str:
    path = folder / "sendmail"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


async def test_a_message_is_posted_once_and_what_failed_names_no_secret() -> None:
    async with receiver() as one:
        assert await posted("slack", one.url, "", MESSAGE, NOW, Guard()) == ""
        assert one.got == [{"text": "gpuconsole: train failed\ntrain (job-1) failed. Exit code 1."}]
        one.status = 500
        assert await posted("slack", one.url, "", MESSAGE, NOW, Guard()) == "it answered 500"
    trouble = await posted("slack", one.url, "", MESSAGE, NOW, Guard())
    assert "SECRET" not in trouble
    assert trouble


async def test_redirects_are_not_followed() -> None:
    async with receiver() as inner, receiver() as outer:
        outer.status, outer.location = 307, inner.url
        trouble = await posted("webhook", outer.url, "", MESSAGE, NOW, Guard())
        assert "redirects are not followed" in trouble
        assert inner.got == []


async def test_a_receiver_that_hangs_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.2)
    async with receiver() as one:
        one.hangs = True
        assert "did not answer" in await posted("slack", one.url, "", MESSAGE, NOW, Guard())
        assert len(one.got) == 1


async def test_an_endless_answer_is_read_in_part() -> None:
    async with receiver() as one:
        one.answer = b'{"errcode": 0, "pad": "' + b"x" * 10_000_000
        assert "no JSON" in await posted("wecom", one.url, "", MESSAGE, NOW, Guard())


async def test_the_labs_guard_holds_before_anything_is_contacted() -> None:
    async with receiver() as one:
        port = one.url.split(":")[2].split("/")[0]
        for allowed in ((), ("hooks.slack.com",), (f"https://127.0.0.1:{port}",)):
            trouble = await posted("slack", one.url, "", MESSAGE, NOW, Guard(allowed))
            assert "sends no messages to" in trouble
        by_pattern = await posted("slack", one.url, "", MESSAGE, NOW, Guard((f"http://*:{port}",)))
        assert by_pattern == "a pattern allows names alone"
        # A name that a pattern allows, and that leads into the own network.
        named = one.url.replace("127.0.0.1", "localhost")
        trouble = await posted("slack", named, "", MESSAGE, NOW, Guard((f"http://local*:{port}",)))
        assert trouble == "it has no public address"
        assert one.got == []
        exact = Guard((f"http://127.0.0.1:{port}",))
        assert await posted("slack", one.url, "", MESSAGE, NOW, exact) == ""
        assert len(one.got) == 1


async def test_ways_are_tried_in_their_order_until_one_works(tmp_path: Path) -> None:
    mail = tmp_path / "mail"
    program = sendmail(tmp_path, f'{{ echo "$@"; cat; }} > {mail}')
    async with receiver() as first, receiver() as last:
        first.answer = b'{"errcode": 310000, "errmsg": "keywords not in content"}'
        ways = notify(
            f"{{dingtalk: '{first.url}'}}", "{mail: ada@lab.example}", f"{{slack: '{last.url}'}}"
        )
        send = Ways(lambda: NOW, program).send
        way, failed = await sent(ways.ways, MESSAGE, send)
        assert way == "mail (ada@lab.example)"
        assert failed[0].endswith("it refused: 310000 keywords not in content")
        assert "SECRET" not in failed[0]
        assert last.got == []
    said = mail.read_text()
    assert said.splitlines()[0] == "-i ada@lab.example"
    assert "To: ada@lab.example" in said
    assert "Subject: gpuconsole: train failed" in said
    assert "train (job-1) failed. Exit code 1." in said


@pytest.mark.parametrize(
    ("script", "why"), [("exit 75", "exit code 75"), ("sleep 1000", "did not end within")]
)
async def test_a_sendmail_that_fails_or_hangs_is_a_way_that_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    from gpuconsole.session.messages import programs

    monkeypatch.setattr(programs, "TIMEOUT_S", 2.0)
    assert why in await programs.mailed(sendmail(tmp_path, script), "a@b.c", MESSAGE)


async def test_a_name_with_lines_makes_no_header(tmp_path: Path) -> None:
    from gpuconsole.session.messages.programs import mailed

    mail = tmp_path / "mail"
    evil = message_of((replace(NOTICE, name="x\r\nBcc: eve@evil.org\r\n\r\nbody"),))
    assert await mailed(sendmail(tmp_path, f"cat > {mail}"), "a@b.c", evil) == ""
    head = mail.read_text().split("\n\n")[0]
    assert not any(line.startswith("Bcc") for line in head.splitlines())


async def test_a_desktop_gets_words_and_no_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuconsole.session.messages.programs import shown

    seen = tmp_path / "seen"
    program = sendmail(tmp_path, f'printf "%s\\n" "$@" > {seen}')
    evil = message_of((replace(NOTICE, name="--icon=<b>x"),))
    assert await shown(evil, program) == ""
    words = seen.read_text().splitlines()
    assert words[:2] == ["--app-name=gpuconsole", "--"]
    assert "&lt;b&gt;" in words[3]


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    made = make_lab(tmp_path / "state", hosts=("a",))
    yield made
    await made.close()


class Inbox:
    """Takes messages instead of a network."""

    def __init__(self) -> None:
        self.got: list[tuple[str, tuple[str, ...]]] = []
        self.works = True

    async def send(self, way: object, message: Any) -> str:
        if not self.works:
            return "it is away"
        self.got.append((message.subject, message.lines))
        return ""


def messages(desk: Desk, inbox: Inbox, settings: NotifySection | None = None) -> Messages:
    made = Messages(desk.context)
    wanted = settings or notify("{desktop: true}", about="[started, succeeded, failed, oom]")
    made.serve(inbox, lambda user: wanted)  # type: ignore[arg-type]
    return made


async def ended(lab: Lab, desk: Desk, name: str, code: int = 0) -> Job:
    job_id = lab.submit(desk, name)
    if desk.task is None:
        desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.finish(code)
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    return desk.job(job_id)


async def test_what_happens_to_a_job_is_told_in_order(lab: Lab) -> None:
    desk, inbox = lab.desk(), Inbox()
    service = messages(desk, inbox)
    service.look()
    job = await ended(lab, desk, "train", 3)
    service.look()
    await lab.clock.until(lambda: inbox.got)
    assert inbox.got == [
        (
            "jobs: 1 started, 1 failed",
            (f"train ({job.id}) started on a.", f"train ({job.id}) failed. Exit code 3."),
        )
    ]
    await service.close()


async def test_a_job_that_comes_back_into_sight_has_not_started_again(lab: Lab) -> None:
    desk, inbox = lab.desk(), Inbox()
    service = messages(desk, inbox, notify("{desktop: true}", about="[started]"))
    service.look()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.reachable = False
    lab.docker.notify()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN)
    lab.docker.reachable = True
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    service.look()
    await lab.clock.pass_time(30)
    assert [subject for subject, _ in inbox.got] == ["train started"]
    await service.close()


async def test_a_user_is_told_at_a_pace_and_the_rest_in_one(lab: Lab) -> None:
    desk, inbox = lab.desk(), Inbox()
    service = messages(desk, inbox, notify("{desktop: true}", about="[succeeded]"))
    service.look()
    await ended(lab, desk, "first")
    service.look()
    await lab.clock.until(lambda: inbox.got)
    for number in range(4):
        await ended(lab, desk, f"j{number}")
    service.look()
    await lab.clock.until(lambda: len(inbox.got) > 1)
    assert inbox.got[0][0] == "first succeeded"
    assert sum(len(lines) for _, lines in inbox.got) == 5
    assert len(inbox.got) <= 4
    await service.close()


async def test_what_no_way_took_is_tried_again_and_said_once_to_its_owner(lab: Lab) -> None:
    desk, inbox = lab.desk(), Inbox()
    service = messages(desk, inbox)
    service.look()
    inbox.works = False
    await ended(lab, desk, "train")
    service.look()
    await lab.clock.pass_time(200)
    said = [one for _, one in desk.journal.events_after(0) if "no message could be" in one.message]
    assert [(one.kind, one.severity) for one in said] == [("job", "warning")]
    inbox.works = True
    await lab.clock.until(lambda: inbox.got, within=2000)
    assert "1 succeeded" in inbox.got[0][0]
    await service.close()


async def test_the_next_console_sends_what_the_last_one_did_not(lab: Lab) -> None:
    desk, inbox = lab.desk(), Inbox()
    service = messages(desk, inbox)
    service.look()
    inbox.works = False
    await ended(lab, desk, "train")
    service.look()
    await lab.clock.pass_time(1)
    service.look()
    await service.close()
    inbox.works = True
    heir = messages(lab.desk(), inbox)
    heir.look()
    await lab.clock.until(lambda: inbox.got)
    await lab.clock.pass_time(30)
    heir.look()
    await heir.close()
    third = messages(lab.desk(), inbox)
    third.look()
    await lab.clock.pass_time(30)
    assert len(inbox.got) == 1, "once sent it is not sent again"
    await third.close()


async def test_a_journal_with_a_past_tells_nothing_of_it(lab: Lab) -> None:
    desk, inbox = lab.desk(), Inbox()
    await ended(lab, desk, "old")
    service = messages(desk, inbox)
    service.look()
    await lab.clock.pass_time(30)
    assert inbox.got == []
    await service.close()


async def test_old_news_is_given_up(lab: Lab) -> None:
    inbox, troubles = Inbox(), []
    wanted = notify("{desktop: true}")
    made = Courier(lambda: wanted, inbox.send, lab.clock, lambda *one: troubles.append(one))
    made.take(replace(NOTICE, at=lab.clock.now() - delivery.STALE_S - 1))
    await lab.clock.until(lambda: made.oldest is None)
    assert inbox.got == []


async def test_a_users_own_settings_are_kept_and_unreadable_ones_not_quoted(
    lab: Lab, tmp_path: Path
) -> None:
    desk = lab.desk()
    users = UserSettings(desk.context)
    mine = notify("{slack: 'https://hooks.slack.com/services/SECRET'}")
    text = mine.model_dump_json(exclude_unset=True)
    assert users.keep("ada", read_settings(text))
    assert not users.keep("ada", read_settings(text))
    assert UserSettings(desk.context).of("ada") == mine
    assert UserSettings(desk.context).of("bob") == NotifySection()
    path = desk.context.state / "notify.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for wrong in ("{", json.dumps({"ways": [{"slack": "SECRET"}]}), "x" * 100_000):
        with pytest.raises(RefusedError) as error:
            read_settings(wrong)
        assert "SECRET" not in str(error.value)


async def test_settings_that_leave_no_room_cost_nobody_theirs(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = lab.desk()
    users = UserSettings(desk.context)
    mine = notify("{slack: 'https://hooks.slack.com/services/SECRET'}")
    users.keep("ada", mine)
    monkeypatch.setattr("gpuconsole.session.messages.service.MAX_BYTES", 500)
    with pytest.raises(RefusedError, match="no room"):
        users.keep("eve", notify(f"{{slack: 'https://hooks.slack.com/{'x' * 500}'}}"))
    assert users.of("ada") == mine


async def test_a_job_that_breaks_its_rule_is_told_of_and_a_pruned_trial_is_not(lab: Lab) -> None:
    desk, inbox = lab.desk(), Inbox()
    service = messages(desk, inbox, notify("{desktop: true}", about="[rule]"))
    service.look()
    tasks = [Task("plain", script="/p/t.py"), Task("trial", script="/p/t.py", goal="min loss")]
    for task in tasks:
        job_id = lab.submit(desk, task=task)
        if desk.task is None:
            desk.start()
        await lab.clock.until(
            lambda job_id=job_id: desk.job(job_id).state is JobState.RUNNING  # type: ignore[misc]
        )
        interrupt(desk.journal, desk.job(job_id), "rule", "Stopped by the rule.", at=None)
        await lab.clock.until(
            lambda job_id=job_id: desk.job(job_id).state.ended  # type: ignore[misc]
        )
    service.look()
    await lab.clock.until(lambda: inbox.got)
    ((subject, lines),) = inbox.got
    assert "plain" in lines[0]
    assert not any("trial" in line for line in (subject, *lines))
    await service.close()
