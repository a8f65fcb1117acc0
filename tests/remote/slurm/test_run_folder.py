"""A run's status, from its folder and from what Slurm says of it."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.engines.batch_job import Batch, Script
from gpuconsole.errors import DocumentError, EngineError, UnreachableError, UsageError
from gpuconsole.remote.inventory import SlurmSection, parse_inventory, unread
from gpuconsole.remote.links.local import LocalLink
from gpuconsole.remote.links.protocol import Completed
from gpuconsole.remote.slurm import calls
from gpuconsole.remote.slurm import engine as engines
from gpuconsole.remote.slurm.calls import SlurmCalls
from gpuconsole.remote.slurm.cluster import Cluster
from gpuconsole.remote.slurm.engine import SlurmEngine
from gpuconsole.remote.slurm.parse import Picture, Row
from gpuconsole.remote.slurm.run_folder import (
    FORGOTTEN,
    Look,
    pack,
    read_look,
    status_of,
    status_of_row,
)
from tests.waiting import DEADLINE_S

AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
GONE = "slurm_load_jobs error: Invalid job id specified"


def look(said: str = "", number: str = "7", began: str = "1795281000", end: str = "") -> Look:
    parts = {
        "labels": "gpuconsole.job=j1\n",
        "id": number,
        "began": began,
        "exit": end,
        "slurm": said,
    }
    text = "".join(f"N {name}\n{text}\n" for name, text in parts.items())
    return read_look("run", text, "N")


def record(state: str, code: str = "0:0", **more: str) -> str:
    rest = " ".join(f"{key}={value}" for key, value in more.items())
    head = f"JobId=7 JobName=run JobState={state} Reason=None ExitCode={code}"
    return f"{head} EndTime=1795281009 {rest}"


@pytest.mark.parametrize(
    ("seen", "state", "code"),
    [
        (look(number="", began=""), "created", None),
        (look(record("PENDING"), began=""), "pending", None),
        (look(record("RUNNING", NodeList="n[1-2]")), "running", None),
        (look(record("SUSPENDED")), "paused", None),
        # Slurm has the last word: until it is final a run may still be one that it ended.
        (look(record("COMPLETING"), end="0 1795281009"), "running", None),
        (look(record("COMPLETED"), end="0 1795281009"), "exited", 0),
        (look(record("FAILED", "3:0"), end="3 1795281009"), "exited", 3),
        (look(record("FAILED", "4:0")), "exited", 4),
        (look(record("FAILED", "0:9")), "exited", 137),
        (look(GONE, end="0 1795281009"), "exited", 0),
        (look(GONE), "exited", None),
        (look(AWAY, end="0 1795281009"), "exited", 0),
        # Begun, and whoever handed it over could not note its number.
        (look(number=""), "running", None),
    ],
)
def test_folder_and_slurm_tell_the_state(seen: Look, state: str, code: int | None) -> None:
    status = status_of("run", "hpc", seen)
    assert (status.state, status.exit_code) == (state, code)
    assert status.labels == {"gpuconsole.job": "j1"}


@pytest.mark.parametrize(
    ("state", "code", "reported"),
    [
        ("TIMEOUT", 143, "time limit"),
        ("CANCELLED", 143, "not by this console"),
        ("PREEMPTED", 143, "goes first"),
        ("NODE_FAIL", None, "node failed"),
        ("OUT_OF_MEMORY", 137, "memory"),
    ],
)
def test_an_end_that_slurm_made_is_no_success(state: str, code: int | None, reported: str) -> None:
    end = {"TIMEOUT": "0 1795281009", "OUT_OF_MEMORY": "137 1795281009"}.get(state, "")
    status = status_of("run", "hpc", look(record(state), end=end))
    assert status.exit_code == code
    assert reported in status.error
    assert status.oom_killed == (state == "OUT_OF_MEMORY")


def test_a_waiting_run_tells_why_and_when_slurm_expects_to_start_it() -> None:
    text = record("PENDING", StartTime="1795281001").replace("Reason=None", "Reason=Resources")
    note = status_of("run", "hpc", look(text, began="")).note
    assert note == (
        "In Slurm's queue: No node has free what it asks for; it is first in line (Slurm says "
        "Resources). It is job 7 on hpc. Slurm expects to start it by 2026-11-21 17:20 UTC."
    )
    row = Row("7", "PENDING", "ann", reason="Priority")
    seen = status_of_row("run", "hpc", row, {})
    assert seen is not None
    assert seen.note.endswith("(Slurm says Priority). It is job 7 on hpc.")


def test_a_job_that_slurm_forgot_without_an_exit_code_says_so() -> None:
    assert status_of("run", "hpc", look(GONE)).error == FORGOTTEN


def test_what_a_script_wrote_over_its_own_files_is_not_believed() -> None:
    seen = look("", number="7; rm -rf /", began="soon", end="0 now")
    assert (seen.number, seen.began_at, seen.exit_code) == ("", None, None)


def test_a_number_that_became_anothers_says_nothing_of_the_run() -> None:
    seen = look(record("FAILED", "9:0").replace("JobName=run", "JobName=other"))
    assert seen.record is None
    assert seen.forgotten
    array = "N labels\n\nN array\ngroup-1 4\nN id\n7_4\nN slurm\n"
    text = "JobId=9 ArrayJobId=7 ArrayTaskId=4 JobName=group-1 JobState=RUNNING "
    assert read_look("run", array + text, "N").record is not None


def test_a_new_run_has_all_its_files() -> None:
    script = Script("r1", ("python", "t.py"), Batch(after=("r0",)), folder="/shared/runs/r1")
    with tarfile.open(fileobj=io.BytesIO(pack(script, {"gpuconsole.job": "j1"}))) as tar:
        names = tar.getnames()
        after = tar.extractfile("after")
        assert after is not None
        assert after.read() == b"r0\n"
    assert {"work", "reporter", "labels", "batch.sh", "body.sh", "log"} <= set(names)


def test_a_fresh_picture_answers_for_a_run_and_an_old_one_does_not() -> None:
    now = [100.0]
    cluster = Cluster(lambda: now[0])
    cluster.know("run", "7")
    cluster.saw(Picture(rows={"7": Row("7", "PENDING", "ann", submitted_at=50.0)}), 100.0)
    # A number alone may have become another job's.
    assert cluster.row("run") is None
    cluster.know("run", "7", 50.0)
    assert cluster.row("run") is not None
    assert cluster.row("other") is None
    now[0] = 200.0
    assert cluster.row("run") is None
    now[0] = 100.0
    cluster.lost()
    assert cluster.row("run") is None


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def engine(tmp_path: Path) -> tuple[SlurmEngine, Path]:
    commands = tmp_path / "bin"
    commands.mkdir()
    settings = SlurmSection(folder=str(tmp_path / "shared"), commands=str(commands))
    return SlurmEngine(LocalLink("hpc"), "hpc", settings, Cluster(lambda: 0.0)), commands


async def test_slurms_own_words_come_back_when_it_refuses(tmp_path: Path) -> None:
    one, commands = engine(tmp_path)
    program(commands, "scontrol", "echo 'scontrol: error: no \033[1mway' >&2; exit 1")
    with pytest.raises(EngineError, match=r"no .*way") as caught:
        await one.info()
    assert "\x1b" not in caught.value.message


async def test_a_controller_that_is_away_is_out_of_reach(tmp_path: Path) -> None:
    one, commands = engine(tmp_path)
    program(commands, "scontrol", f"echo '{AWAY}' >&2; exit 1")
    with pytest.raises(UnreachableError, match="Unable to contact"):
        await one.info()


@pytest.mark.parametrize(
    "said",
    [
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
        "sbatch: error: Batch job submission failed: Resource temporarily unavailable",
        'sbatch: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2"',
        "slurm_load_jobs error: Socket timed out on send/recv operation",
    ],
)
async def test_what_passes_by_itself_fails_no_job(tmp_path: Path, said: str) -> None:
    one, commands = engine(tmp_path)
    program(commands, "scontrol", f"echo '{said}' >&2; exit 1")
    with pytest.raises(UnreachableError):
        await one.info()


async def test_a_command_that_hangs_is_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, commands = engine(tmp_path)
    program(commands, "scontrol", "exec sleep 30")
    monkeypatch.setattr(calls, "TIMEOUT_S", 0.3)
    with pytest.raises(UnreachableError, match="did not end"):
        await one.info()


async def test_missing_commands_are_named_with_the_remedy(tmp_path: Path) -> None:
    settings = SlurmSection(commands=str(tmp_path))
    asked = SlurmCalls(LocalLink("hpc"), "hpc", settings)
    with pytest.raises(EngineError, match="not there") as caught:
        await asked.ask("no-such-command-of-slurm", doing="asking")
    assert "commands:" in caught.value.hint


async def test_an_answer_that_is_cut_short_is_no_picture(tmp_path: Path) -> None:
    one, commands = engine(tmp_path)
    program(commands, "scontrol", "exit 0")
    program(commands, "squeue", "exit 0")
    assert (await one._calls.picture()).nodes == ()
    program(commands, "squeue", "echo slow >&2; exit 3")
    with pytest.raises(EngineError, match="slow"):
        await one._calls.picture()


def made_run(tmp_path: Path, name: str) -> Path:
    run = tmp_path / "shared" / "runs" / name
    run.mkdir(parents=True)
    (run / "labels").write_text("gpuconsole.job=j1\n")
    (run / "id").write_text("7")
    (run / "log").write_text(f"begin {name}\n")
    return run


async def test_many_logs_are_followed_over_few_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "REST_EVERY_S", 0.1)
    one, commands = engine(tmp_path)
    state = tmp_path / "state"
    state.write_text("RUNNING")
    # Every run is asked about by its own name.
    program(
        commands, "scontrol", f'echo "JobId=7 JobName=$(basename "$PWD") JobState=$(cat {state})"'
    )
    runs = [made_run(tmp_path, f"r{number}") for number in range(engines.FOLLOWED + 3)]
    open_now, most = 0, 0
    usual = one._link.stream

    async def counted(argv: Sequence[str]) -> AsyncIterator[bytes]:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        try:
            async for chunk in usual(argv):
                yield chunk
        finally:
            open_now -= 1

    monkeypatch.setattr(one._link, "stream", counted)

    async def read(name: str) -> bytes:
        return b"".join([chunk async for chunk in one.logs(name, follow=True)])

    reads = [asyncio.ensure_future(read(run.name)) for run in runs]
    for run in runs:
        with (run / "log").open("a") as log:
            log.write("end\n")
    state.write_text("COMPLETED")
    for run in runs:
        (run / "exit").write_text("0 1795281009\n")
    said = await asyncio.wait_for(asyncio.gather(*reads), DEADLINE_S)
    assert said == [f"begin {run.name}\nend\n".encode() for run in runs]
    assert most <= engines.FOLLOWED + engines.TRANSFERS


async def test_an_old_picture_does_not_bring_back_a_run_that_has_ended(tmp_path: Path) -> None:
    one, commands = engine(tmp_path)
    said = "JobId=7 JobName=r1 SubmitTime=1795280980 JobState"
    made_run(tmp_path, "r1")
    program(commands, "scontrol", f"echo {said}=RUNNING")
    assert await one.inspect("r1") is not None
    row = Row("7", "RUNNING", "ann", submitted_at=1795280980.0)
    one._cluster.saw(Picture(rows={"7": row}), 0.0)
    program(commands, "scontrol", "exit 1")
    # The picture answers, without a question to Slurm.
    known = await one.inspect("r1")
    assert known is not None
    assert known.state == "running"
    program(commands, "scontrol", f"echo {said}=CANCELLED")
    program(commands, "scancel", "exit 0")
    await one.stop("r1", 1.0)
    ended = await one.inspect("r1")
    assert ended is not None
    assert ended.state == "exited"


async def test_few_commands_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, commands = engine(tmp_path)
    program(commands, "scontrol", "echo JobId=7 JobName=x JobState=RUNNING")
    names = [made_run(tmp_path, f"r{number}").name for number in range(10)]
    running, most = 0, 0
    usual = one._link.run

    async def counted(argv: Sequence[str], **options: Any) -> Completed:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await usual(argv, **options)
        finally:
            running -= 1

    monkeypatch.setattr(one._link, "run", counted)
    found = await asyncio.gather(*(one._look(name) for name in names))
    assert all(found)
    assert most == calls.COMMANDS


async def test_names_that_lead_elsewhere_are_refused(tmp_path: Path) -> None:
    one, _ = engine(tmp_path)
    for name in ("../x", "a/b", "-rf", "", "a b", "x\ny"):
        with pytest.raises(UsageError):
            await one.inspect(name)
    with pytest.raises(UsageError):
        await one.prepare("../../etc")


async def test_a_folder_that_a_batch_line_cannot_hold_is_refused(tmp_path: Path) -> None:
    settings = SlurmSection(folder="/shared/my lab")
    one = SlurmEngine(LocalLink("hpc"), "hpc", settings, Cluster(lambda: 0.0))
    with pytest.raises(EngineError, match="cannot take"):
        await one.prepare("j1")


def test_an_inventory_names_a_cluster() -> None:
    text = """\
version: 1
defaults: {poll_interval: 2}
hosts:
  - {name: a}
  - name: hpc
    address: login.lab
    engine: slurm
    slurm: {folder: /shared/gpuconsole, devices: {a100: A100-SXM4-80GB}, partition: gpu}
"""
    plain, cluster = parse_inventory(text, "t").hosts
    assert plain.slurm is None
    assert unread(plain).cluster == ""
    assert cluster.slurm is not None
    assert cluster.slurm.devices == {"a100": "A100-SXM4-80GB"}
    # A controller serves all users: it is not asked as often as a host's own agent.
    assert (plain.poll_interval, cluster.poll_interval) == (2, 5)
    assert unread(cluster).cluster == "hpc"
    with pytest.raises(DocumentError, match="no Slurm cluster"):
        parse_inventory("version: 1\nhosts: [{name: a, slurm: {python: python3}}]\n", "t")
    often = "version: 1\nhosts: [{name: a, engine: slurm, poll_interval: 0.5}]\n"
    assert parse_inventory(often, "t").hosts[0].poll_interval == 0.5
