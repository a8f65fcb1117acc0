"""A session whose container its engine cannot remove: it ends, its device is free, and the console
reports the container until it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import docker
import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.session.dispatch import cleanup, dispatcher
from gpuconsole.session.session import Session
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, job_is, until


@pytest.mark.fault(
    "A container dies and its engine cannot remove it: device or resource busy",
    "Its job ends and releases its device, the container is reported until it is gone, and keeps "
    "no other from being removed",
)
async def test_a_session_ends_of_which_the_engine_does_not_remove_the_container(
    session: Session, desk: Desk, host: LabHost, engine: LabDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Half a minute each, which proves no more here.
    monkeypatch.setattr(cleanup, "REFUSED_S", 5.0)
    monkeypatch.setattr(dispatcher, "LEFT_AGAIN_S", 5.0)
    client = engine.client()
    # Listed behind the other, as it is older.
    await asyncio.to_thread(old_container, client, journal_of(desk))
    job = await session.shell()
    container = await running(session, job)
    with held_by_a_mount(host, layer_of(client, container)):
        # As `docker rm -f` of somebody: the container runs no more, and its files cannot go.
        with pytest.raises(docker.errors.APIError, match="busy"):
            await asyncio.to_thread(client.remove_container, container, force=True)
        assert client.inspect_container(container)["State"]["Status"] == "dead"
        await until(lambda: session.job(job.id).state.ended, what="it ends")
        ended = session.job(job.id)
        assert ended.state is JobState.FAILED
        assert ended.cause.startswith("Something else removed its container")
        assert "busy" in ended.cause
        # Its device is free for the next one, which leaves nothing.
        second = await session.shell()
        await running(session, second)
        await session.cancel(second.id)
        await until(lambda: session.job(second.id).state.ended, what="the second ends")
        await until(lambda: len(client.containers(all=True)) == 2, what="nothing left of it")
        await until(lambda: reported(desk), what="it is reported")
        (said,) = reported(desk)
        name = client.inspect_container(container)["Name"].lstrip("/")
        for words in (f"The engine of {host.name} does not remove {name}", "busy", "restart"):
            assert words in said, said
        # Who prunes hears of it too, and all else is removed.
        await pruned_in_vain(session, desk)
        assert [item["Id"] for item in client.containers(all=True)] == [container]
    await until(lambda: not client.containers(all=True), what="it is removed")
    await until(lambda: f"{name} is removed from {host.name}." in host_events(desk))


async def running(session: Session, job: Job) -> str:
    """Return a session's container once it runs."""
    now = await job_is(session, job, JobState.RUNNING)
    assert now.attempt is not None
    return now.attempt.container_id


def host_events(desk: Desk) -> list[str]:
    """Return what the console has reported of hosts' containers."""
    with desk.journal() as journal:
        events = [event.message for _, event in journal.events_after(0) if event.kind == "host"]
    return [text for text in events if "remov" in text]


async def pruned_in_vain(session: Session, desk: Desk) -> None:
    """Prune until that is refused: not while the container's removal is being tried."""
    deadline = time.monotonic() + PATIENCE_S
    while not any(text.startswith("Not pruned. ") for text in host_events(desk)):
        assert time.monotonic() < deadline, host_events(desk)
        await session.prune()


def reported(desk: Desk) -> list[str]:
    return [text for text in host_events(desk) if "does not remove" in text]


def journal_of(desk: Desk) -> str:
    with desk.journal() as journal:
        return journal.id


def old_container(client: docker.APIClient, journal: str) -> None:
    """Leave the ended container of a job that the journal has no more."""
    labels = {f"gpuconsole.{key}": "gone" for key in ("job", "attempt", "nonce")}
    labels["gpuconsole.journal"] = journal
    old = client.create_container("lab/paddle:1", ["sh", "-c", "exit 0"], labels=labels)["Id"]
    client.start(old)
    client.wait(old)


def layer_of(client: docker.APIClient, container: str) -> str:
    return str(client.inspect_container(container)["GraphDriver"]["Data"]["UpperDir"])


@contextlib.contextmanager
def held_by_a_mount(host: LabHost, folder: str) -> Iterator[None]:
    """Keep a folder from being removed, by a mount that the engine does not find at its path: an
    engine that is restarted in the middle of a copy leaves such a one."""
    beside = "/run/lab/beside"
    host.run(["mkdir", "-p", beside]).check_returncode()
    # Without the mounts below it, among them that of the engine's own folder.
    host.run(["mount", "--bind", "/", beside]).check_returncode()
    host.run(["mount", "--bind", beside + folder, beside + folder]).check_returncode()
    try:
        yield
    finally:
        host.run(["umount", beside + folder]).check_returncode()
        host.run(["umount", beside]).check_returncode()
