"""A script that lays links where its checkpoints and results lie gets nothing of its host by them.

The account on the host is a usual one, as is its home; the engine is a real one, which would open
as root whatever path it is given.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.engines.transfers import LeftOut, TransferLimits
from gpuconsole.core.jobs import Job, JobState, Mount
from gpuconsole.errors import RefusedError, UnreachableError, UsageError
from gpuconsole.session.session import Session
from tests.real.rig.engines import spec
from tests.real.rig.hosts import USER, Lab, LabHost
from tests.real.rig.sessions import Desk, job_is, seen

HOME = f"/home/{USER}"
SECRET = "what only the account may read"
ATTACK = f"""
import os, stat, sys, time

results, folder = os.environ["GPUCONSOLE_RESULTS"], os.environ["GPUCONSOLE_CHECKPOINT"]
mark = os.path.join(folder, "mark")

def attempt(call, *names):
    try:
        call(*names)
        print("done", call.__name__, *names, flush=True)
    except OSError as error:
        print("refused", call.__name__, *names, error.strerror, flush=True)

if os.environ["GPUCONSOLE_ATTEMPT"] == "1":
    with open(mark, "w") as out:
        out.write("saved")
    os.link(mark, os.path.join(folder, "latest"))
    os.symlink("mark", os.path.join(folder, "newest"))
    os.symlink({HOME!r}, os.path.join(folder, "home"))
    os.symlink("{HOME}/.ssh/id_lab", os.path.join(folder, "key"))
    os.mkfifo(os.path.join(folder, "pipe"))
    for place in (folder, results):
        attempt(os.rename, place, place + ".moved")
    inside = os.path.join(results, "checkpoint")
    if os.path.exists(inside):
        os.rename(inside, inside + ".moved")
    os.symlink({HOME!r}, inside)
    print("laid", flush=True)
    sys.exit(1)

print("found", *sorted(os.listdir(folder)), flush=True)
if os.path.exists(mark):
    print("mark", open(mark).read(), flush=True)
for place in (folder, os.path.join(folder, "home"), os.path.join(results, "checkpoint")):
    try:
        print("STOLEN", open(os.path.join(place, ".ssh", "id_lab")).read(), flush=True)
    except OSError as error:
        print("nothing at", place, error.strerror, flush=True)
    attempt(os.mkdir, os.path.join(place, "planted"))
"""


def desk_of(lab: Lab, folder: Path, hosts: int) -> Desk:
    """Return a desk on hosts whose account has a key."""
    for _ in range(hosts):
        lab.add(devices=1, files={".ssh/id_lab": SECRET}).start_engine()
    return Desk(lab, folder / "desk")


async def attacked(desk: Desk, session: Session) -> Job:
    """Return the job once its first attempt has laid its links."""
    await seen(session)
    task = replace(desk.task(ATTACK, "attack"), checkpoint_dir="runs/ckpt")
    job = await session.queue.submit(task, force=True)
    done = await session.wait(job.id)
    assert "laid" in log(session, job, 1), done.cause
    return done


def log(session: Session, job: Job, attempt: int) -> str:
    """Return what an attempt has printed."""
    return session.log_path(job.id, attempt).read_text()


def assert_safe(host: LabHost, said: str) -> None:
    """Hold what a second attempt said, and what is on the host now, against an escape."""
    assert SECRET not in said
    assert "STOLEN" not in said
    assert "mark saved" in said
    found = host.run(["find", HOME, "-name", "planted", "-not", "-path", "*/results/*"])
    assert found.stdout == b""
    assert host.run(["ls", "-A", HOME]).stdout.split() == [b".local", b".ssh"]


@pytest.mark.fault(
    "A script puts a link to its host's home in the place of its checkpoint",
    "The next attempt does not follow it; its checkpoint is as it was",
)
@pytest.mark.fault("Results were removed on their host", "`fetch` says that they are gone")
async def test_the_next_attempt_does_not_follow_a_link_in_the_results(
    docker_lab: Lab, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path, 1)
    async with desk.session() as session:
        job = await attacked(desk, session)
        assert "refused rename" in log(session, job, 1)
        await session.queue.retry(job.id)
        await job_is(session, job, JobState.SUCCEEDED)
        said = log(session, job, 2)
        assert "found home key latest mark newest pipe" in said
        assert_safe(docker_lab.hosts[0], said)
        fetched = await session.fetch_results(job.id, tmp_path / "out")
        names = sorted(str(path.relative_to(fetched.folder)) for path in fetched.folder.rglob("*"))
        assert names == [
            *("checkpoint", "checkpoint/latest", "checkpoint/mark", "checkpoint/newest"),
            "checkpoint/planted",
        ]
        assert (fetched.folder / "checkpoint" / "newest").read_text() == "saved"
        assert (fetched.folder / "checkpoint" / "latest").stat().st_nlink == 2
        assert sorted(one.name for one in fetched.left_out.named) == [
            *("checkpoint", "checkpoint/home", "checkpoint/key", "checkpoint/pipe"),
        ]
        folder = f"{HOME}/.local/state/gpuconsole/results"
        docker_lab.hosts[0].run(["rm", "-r", f"{folder}/{job.id}"]).check_returncode()
        with pytest.raises(RefusedError, match="gone"):
            await session.fetch_results(job.id, tmp_path / "again")


@pytest.mark.fault(
    "A script keeps hard links, and links out of its folder, and goes on on another host",
    "What stays in the folder arrives; no link is followed on the way",
)
async def test_no_link_is_followed_on_the_way_to_another_host(
    docker_lab: Lab, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path, 2)
    async with desk.session() as session:
        job = await attacked(desk, session)
        assert job.attempt is not None
        first = job.attempt.host
        await session.drains.drain(first, "the next attempt runs elsewhere", session.user)
        await session.queue.retry(job.id)
        done = await job_is(session, job, JobState.SUCCEEDED)
        assert done.attempt is not None
        assert done.attempt.host != first
        said = log(session, job, 2)
        assert "found latest mark newest" in said
        for host in docker_lab.hosts:
            assert_safe(host, said)


def hostile(*names: str) -> bytes:
    """Return a tar with files of these names, and beside them whatever a tar may hold."""
    kinds = {
        "./block": tarfile.BLKTYPE,
        "./character": tarfile.CHRTYPE,
        "./pipe": tarfile.FIFOTYPE,
        "./home": tarfile.SYMTYPE,
        "./shadow": tarfile.LNKTYPE,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in ("./net", *names, *kinds, "./home/planted", "./latest"):
            entry = tarfile.TarInfo(name)
            entry.type = kinds.get(name, tarfile.REGTYPE)
            entry.mode, entry.devmajor, entry.linkname = 0o6777, 8, HOME
            if name == "./latest":
                entry.type, entry.linkname = tarfile.LNKTYPE, "./net"
            entry.size = 3 if entry.isreg() else 0
            tar.addfile(entry, io.BytesIO(b"net"))
    return buffer.getvalue()


async def sent(*parts: bytes | Exception) -> AsyncIterator[bytes]:
    for part in parts:
        if isinstance(part, Exception):
            raise part
        yield part


@pytest.mark.fault(
    "A host sends devices, links and names out of the folder as a checkpoint, or stops half-way",
    "None of it is made on the other host; what was there before comes back",
)
async def test_a_hostile_host_makes_nothing_on_another_with_its_checkpoint(
    docker_lab: Lab, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path, 1)
    host = docker_lab.hosts[0]
    async with desk.session() as session:
        await seen(session)
        engine = await session.hosts.engine(host.name)
        account = await engine.prepare("job-held", checkpoint=True)
        place = account.checkpoint_dir
        made = spec("held", "true", mounts=(Mount(place, "/workspace/runs/ckpt", False),))
        container = await engine.create(replace(made, user=f"{account.uid}:{account.gid}"))
        host.run(["sh", "-c", f"echo older >{place}/net"]).check_returncode()

        async def restore(*parts: bytes | Exception) -> LeftOut:
            limits = TransferLimits(2**20, 100)
            target = "/workspace/runs/ckpt"
            return await engine.restore("job-held", container, sent(*parts), target, limits)

        def tree() -> list[str]:
            found = host.run(["find", place, "-mindepth", "1", "-printf", "%P %y %m %U\n"])
            return sorted(found.stdout.decode().splitlines())

        for name in ("/workspace/train.py", "../../data/planted"):
            with pytest.raises(UsageError, match="leads out"):
                await restore(hostile(name))
        whole = hostile()
        for broken in (whole[:2000], whole + bytes(2**24), b"garbage" * 200):
            with pytest.raises(UsageError):
                await restore(broken)
        with pytest.raises(UnreachableError, match="lost"):
            await restore(whole[:512], UnreachableError("lost", "The other host is lost."))
        # Whatever came of these is undone when the job is launched again.
        await engine.prepare("job-held", checkpoint=True)
        assert host.run(["cat", f"{place}/net"]).stdout == b"older\n"
        left_out = await restore(whole)
        assert [one.name for one in left_out.named] == [
            *("block", "character", "pipe", "home", "shadow"),
        ]
        assert tree() == [
            "home d 755 21000",
            *("home/planted f 777 21000", "latest f 777 21000", "net f 777 21000"),
        ]
        links = host.run(["stat", "-c", "%h", f"{place}/net"])
        assert links.stdout == b"2\n"
        assert host.run(["ls", f"{place}.before"]).returncode != 0
