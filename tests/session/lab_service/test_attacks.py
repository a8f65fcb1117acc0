"""Clients that are not ours, and a service that is not: what they send harms nobody else."""

from __future__ import annotations

import asyncio
import io
import resource
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.incidents import Evidence, Incident, Severity
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.lab_service.rights import Caller, Policy, require_allowed
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.remote.docker.files import rewrite
from gpuconsole.session.fleet.changes import changes
from gpuconsole.session.lab_service import service as service_module
from gpuconsole.session.lab_service import uploads
from gpuconsole.session.lab_service.feed import Told
from gpuconsole.session.lab_service.http.connections import MOST, make_room
from gpuconsole.session.lab_service.job_checks import require_sound
from gpuconsole.session.lab_service.protocol import (
    ANSWER,
    Answer,
    Dispatching,
    Message,
    Own,
    Picture,
    Refusal,
    Submission,
    Wanted,
    error_of,
    packed,
    unpacked,
)
from gpuconsole.session.session import Session
from tests.session.lab_service.conftest import LabDesk, packed_project
from tests.waiting import until

NAN, ENDLESS = float("nan"), float("inf")
T = Task("t", script="/t.py")
SOUND_ESTIMATE = {
    "flops_per_step": 1e9, "bytes_per_step": 5, "kernels_per_step": 3, "flags": ["amp"],
    "memory": {"optimizer_mib": 3.5, "gradients_mib": None, "high_mib": 8},
    "batch_size": 8, "digest": "abc", "curve": [1, 2], "suggestions": [{"text": "smaller"}],
    "verdicts": [{"device": "V100", "verdict": "fits", "max_batch_size": None}],
}  # fmt: skip


def test_what_a_console_sends_is_sound() -> None:
    task = replace(
        T, deadline="2030-01-31T18:00:00Z", labels={"rack": "a-1"}, anti_labels={"old": ""},
        preferred_devices=("V100-32GB",), algorithm="best_fit", distributed_strategy="sharding",
        after=("0123456789",), account="grant-7", sweep="lr", memory_threshold=0.5, batch_size=8,
    )  # fmt: skip
    require_sound(Wanted(task, 3.0, SOUND_ESTIMATE))
    require_sound(Wanted(T, None, None))


@pytest.mark.parametrize(
    "odd",
    [
        # What JSON cannot say reaches consoles as null, which no console reads.
        {"preference_timeout_s": NAN},
        {"preference_timeout_s": ENDLESS},
        {"memory_threshold": NAN},
        {"memory_threshold": 0.0},
        {"run_time_s": NAN},
        # What the planner cannot read, it cannot read for anybody.
        {"deadline": "tomorrow"},
        {"algorithm": "mine"},
        {"backend": "quantum"},
        {"distributed_strategy": "mine"},
        {"framework": "x" * 10_000},
        {"batch_size": 10**400},
        {"sequence_length": -1},
        # What everybody is shown.
        {"name": "a\x9b31mred"},
        {"name": "a\u202egnp"},
        {"account": "a\x1b[2J"},
        {"sweep": "x" * 10**6},
        {"labels": {"k" * 10**6: ""}},
        {"anti_labels": {"\x1b[2J": ""}},
        {"labels": {str(number): "" for number in range(10**4)}},
        {"preferred_devices": ("V100",) * 10**5},
        {"after": ("a",) * 10**5},
    ],
)  # fmt: skip
def test_a_task_that_would_stop_the_queue_for_all_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        require_sound(Wanted(replace(T, **odd), 1.0, None))


@pytest.mark.parametrize(
    "odd",
    [
        {"flops_per_step": 1.0, "bytes_per_step": 1.0, "flags": 5},
        {"flops_per_step": NAN},
        {"flops_per_step": 10**400},
        {"bytes_per_step": -1.0},
        {"kernels_per_step": 10**400},
        {"memory": {"optimizer_mib": 10**400}},
        {"memory": {"gradients_mib": NAN}},
        {"verdicts": [5]},
        {"verdicts": 5},
        {"suggestions": 5},
        {"anything": "x" * 2**20},
    ],
)
def test_an_estimate_that_would_stop_the_queue_for_all_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        require_sound(Wanted(T, 1.0, {**SOUND_ESTIMATE, **odd}))


async def test_the_service_refuses_what_is_not_sound(lab: LabDesk) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    wanted = Wanted(replace(T, deadline="tomorrow"), 1.0, None)
    with pytest.raises(UsageError, match="deadline"):
        await lab.client().submit(Submission((wanted,), hold=False), bundle)
    assert lab.session.jobs() == ()


def test_an_open_number_of_devices_is_no_way_around_the_most() -> None:
    with pytest.raises(RefusedError, match="open number"):
        require_allowed(replace(T, devices=None), Policy(devices=8))
    require_allowed(replace(T, devices=None), Policy())


async def test_the_queue_takes_no_more_of_one_account_than_it_can_plan(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuconsole.session.lab_service.intake.MOST_JOBS", 3)
    bundle = lab.root / "bundle"

    async def submit(count: int) -> tuple[Job, ...]:
        bundle.write_bytes(packed_project())
        return await lab.client().submit(Submission((Wanted(T, 1.0, None),) * count, True), bundle)

    await submit(2)
    with pytest.raises(ConsoleError, match="at most 3"):
        await submit(2)
    lab.act_as("bob")
    assert len(await submit(3)) == 3


async def test_one_bad_look_ends_the_pictures_of_nobody(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    look, reported = lab.service._feed.look, []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: reported.append(said))

    def fails_at_first() -> None:
        looked.append("")
        if len(looked) < 3:
            raise TypeError("odd")
        look()

    monkeypatch.setattr(lab.service._feed, "look", fails_at_first)
    number = lab.service._feed.beat.number
    await until(lambda: lab.service._feed.beat.number > number)
    assert [type(said["exception"]) for said in reported] == [TypeError]


async def test_results_that_are_not_read_do_not_hold_a_host(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()

    class Endless:
        async def image_facts(self, image: str) -> None:
            return None

        def results(self, job: str) -> Any:
            return self._chunks()

        async def _chunks(self) -> Any:
            try:
                while True:
                    yield b"x" * 2**20
            finally:
                ended.set()

    async def engine(host: str) -> Endless:
        return Endless()

    async with lab.console("ada") as ada:
        script = str(lab.script)
        job = await ada.queue.submit(Task("t", script=script), force=True)
        await until(lambda: lab.session.job(job.id).state is JobState.SUCCEEDED)
        attempt = lab.session.job(job.id).attempt
        assert attempt is not None
        connector = aiohttp.UnixConnector(path=str(lab.service.path))
        with monkeypatch.context() as patch:
            patch.setattr(service_module, "SLOW_S", 0.2)
            patch.setattr(lab.session.hosts, "engine", engine)
            async with aiohttp.ClientSession(connector=connector) as http:
                asked = {"job": job.id, "host": attempt.host}
                async with http.get("http://lab/v1/results", params=asked):
                    await asyncio.wait_for(ended.wait(), 60)


def test_the_service_may_open_what_several_accounts_are_allowed_to() -> None:
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= 1024:
        pytest.skip("this host allows no more")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
        make_room()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 4 * MOST
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


JOB = Job("0123456789", T, "ada", JobState.QUEUED, 1.0)


@pytest.mark.parametrize("named", ["../../../etc/x", "/etc/x", "", "a" * 200, "a\x1b[2J", "A.b"])
def test_a_service_names_no_file_of_a_console(named: str) -> None:
    assert unpacked(packed(Message(own=Own((JOB,))))).own == Own((JOB,))
    hostile = replace(JOB, id=named)
    with pytest.raises(ValueError, match="no id"):
        unpacked(packed(Message(own=Own((hostile,)))))
    with pytest.raises(ValueError, match="no id"):
        ANSWER.validate_json(ANSWER.dump_json(Answer((hostile,))))


def test_what_a_service_says_does_nothing_to_a_terminal() -> None:
    hostile = replace(
        JOB, user="a\x1b[2Jda", cause="\x9b31mred", detail="\x1b]0;x\x07d",
        task=replace(T, name="a\u202et"),
    )  # fmt: skip
    reports = unpacked(packed(Message(own=Own((hostile,))))).own
    assert reports is not None
    heard = reports.jobs[0]
    assert all(map(str.isprintable, (heard.user, heard.cause, heard.detail, heard.task.name)))
    error = error_of(Refusal("refused", "\x1b[2Jno", "\x9b1mwhy\nand", "\x1b[2J"))
    assert str(error.title).isprintable()
    assert error.hint == ""
    assert all(map(str.isprintable, error.message.splitlines()))


async def test_nobody_crowds_the_acts_of_others_out_of_the_record(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuconsole.state.tables.audit.KEPT", 5)
    ada, bob = Caller(1001, "ada"), Caller(1002, "bob")
    lab.service._acts.record(ada, "cancel", "0123456789", refused="no")
    for number in range(20):
        lab.service._acts.record(bob, "cancel", str(number))
    acts = lab.session._journal.acts(100)
    assert [act.user for act in acts] == ["bob"] * 5 + ["ada"]
    assert acts[0].subject == "19"


async def test_what_a_killed_service_left_of_uploads_is_removed(lab: LabDesk) -> None:
    bundles = lab.root / "state" / "bundles"
    bundles.mkdir(exist_ok=True)
    await lab.service.__aexit__()
    (bundles / ".upload-left").write_bytes(b"x")
    (bundles / "job.tar.gz").write_bytes(b"x")
    await lab.service.__aenter__()
    assert [path.name for path in bundles.iterdir()] == ["job.tar.gz"]


@pytest.mark.parametrize(
    "entries",
    [
        [("../data/x", tarfile.REGTYPE, "")],
        [("/data/x", tarfile.REGTYPE, "")],
        [("x", tarfile.SYMTYPE, "/data"), ("x/y", tarfile.REGTYPE, "")],
        [("x", tarfile.SYMTYPE, "/data/y"), ("x", tarfile.REGTYPE, "")],
        [("x", tarfile.LNKTYPE, "etc/shadow")],
        [("x", tarfile.BLKTYPE, "")],
        [("x", tarfile.FIFOTYPE, "")],
    ],
)
def test_a_packed_project_writes_nothing_into_what_is_mounted(
    tmp_path: Path, entries: list[tuple[str, bytes, str]]
) -> None:
    bundle = tmp_path / "bundle.tar.gz"
    with tarfile.open(bundle, "w:gz") as made:
        for name, kind, target in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            made.addfile(entry)
    with pytest.raises(UsageError, match="cannot be read"):
        rewrite(bundle, io.BytesIO(), "/workspace", "1000:1000")


def test_nothing_in_a_packed_project_has_special_rights(tmp_path: Path) -> None:
    bundle, archive = tmp_path / "bundle.tar.gz", io.BytesIO()
    with tarfile.open(bundle, "w:gz") as made:
        entry = tarfile.TarInfo("x")
        entry.mode = 0o6755
        made.addfile(entry)
    rewrite(bundle, archive, "/workspace", "1000:1000")
    with tarfile.open(fileobj=archive) as written:
        assert written.getmember("workspace/x").mode == 0o755


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0" * 10_000,
        b"POST /v1/act HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"FFFFFFFFFFFFFFFFF\r\n",
        b"GET /v1/" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /v1/submit HTTP/1.1\r\nHost: a\r\nContent-Length: 30009\r\n"
        b"Content-Type: multipart/form-data; boundary=X\r\n\r\n--X\r\nH: " + b"a" * 30_001,
    ],
)
async def test_what_is_no_http_is_refused_and_fills_no_log(
    lab: LabDesk, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_unix_connection(str(lab.service.path))
    writer.write(sent)
    answer = await reader.readuntil(b"\r\n")
    writer.close()
    assert b" 400 " in answer
    assert caplog.records == []


async def test_one_submission_holds_the_service_for_no_more_than_a_sweep(lab: LabDesk) -> None:
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    wanted = Wanted(Task("t", script="/t.py"), None, None)
    with pytest.raises(UsageError, match="1 to 1000 jobs"):
        await lab.client().submit(Submission((wanted,) * 1001, hold=True), bundle)


async def test_projects_leave_room_for_the_journal(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "SPARE_BYTES", 2**60)
    bundle = lab.root / "bundle"
    bundle.write_bytes(packed_project())
    wanted = Wanted(Task("t", script="/t.py"), None, None)
    with pytest.raises(RefusedError, match="disk is nearly full"):
        await lab.client().submit(Submission((wanted,), hold=True), bundle)
    assert list((lab.root / "state" / "bundles").glob("*")) == []
    lab.act_as("ada")
    assert lab.session.jobs() == ()


async def test_one_account_leaves_the_others_as_much_of_the_disk_as_it_takes(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = len(packed_project())
    bundle = lab.root / "bundle"
    wanted = Wanted(Task("t", script="/t.py"), None, None)

    async def submit() -> None:
        bundle.write_bytes(packed_project())
        await lab.client().submit(Submission((wanted, wanted), hold=True), bundle)

    def left(free: int) -> Callable[[Path], SimpleNamespace]:
        return lambda folder: SimpleNamespace(free=uploads.SPARE_BYTES + free)

    monkeypatch.setattr(uploads.shutil, "disk_usage", left(2 * taken))
    await submit()  # two jobs of one project, which is there once
    await submit()
    with pytest.raises(RefusedError, match="take too much of the lab's disk"):
        await submit()
    lab.act_as("eve")
    await submit()


async def test_nobody_is_shown_the_arguments_of_what_others_run(lab: LabDesk) -> None:
    await until(lambda: _has_arguments(lab.session))
    async with lab.console("bob") as bob, lab.console("root-cat") as operator:
        await until(lambda: _has_arguments(operator))
        assert any(_commands(bob))
        assert not _has_arguments(bob)


def _commands(session: Session) -> list[str]:
    devices = [device for host in session.snapshot().hosts for device in host.devices]
    return [process.command for device in devices for process in device.processes]


def _has_arguments(session: Session) -> bool:
    return any(" " in command for command in _commands(session))


def test_incidents_tell_others_neither_arguments_nor_what_a_job_printed() -> None:
    evidence = (
        Evidence(1.0, "process", "pid 7, ada, 900 MiB: /usr/bin/python3 a.py --token hunter2"),
        Evidence(1.0, "process", "pid 8, ?, 1 MiB: ?"),
        Evidence(1.0, "job", "train failed: Exit code 1. ValueError: hunter2"),
        Evidence(1.0, "device", "utilisation 0 %"),
    )
    incident = Incident("r", "s", Severity.INFO, "t", "h", 1.0, 1.0, evidence=evidence)
    picture = Picture(
        True, changes(None, FleetSnapshot(), {}), (), (), (), (), (), (incident,),
        Dispatching("", 0.0),
    )  # fmt: skip
    reports = Told(picture)

    def heard(*, operator: bool) -> list[str]:
        message = unpacked(reports.message(everything=operator)).picture
        assert message is not None
        return [one.text for one in message.incidents[0].evidence]

    assert heard(operator=True) == [one.text for one in evidence]
    assert heard(operator=False) == [
        "pid 7, ada, 900 MiB: python3", "pid 8, ?, 1 MiB: ?", "train failed.", "utilisation 0 %",
    ]  # fmt: skip
