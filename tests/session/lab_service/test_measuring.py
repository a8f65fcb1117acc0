"""Measuring through the lab's service: what it refuses, and what a console hears."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.jobs import Mount
from gpuconsole.errors import (
    ConsoleError,
    HostBusyError,
    NotHereError,
    RefusedError,
    ScriptFailedError,
    UsageError,
)
from gpuconsole.placement.rules.quotas import Limits, Quota
from gpuconsole.session.estimate.measurement_on_host import Asked
from gpuconsole.session.lab_service import measuring
from gpuconsole.session.lab_service.console.client import NO_ANSWER, LabClient, _streamed
from gpuconsole.session.lab_service.http import streams
from gpuconsole.session.lab_service.protocol import Measurement
from tests.session.lab_service.conftest import LabDesk, packed_project
from tests.waiting import until

IMAGE = "paddle:3"


@pytest.fixture
async def client(lab: LabDesk) -> AsyncIterator[LabClient]:
    """Give a client of a lab that measures: the simulated lab says no before anything else."""
    lab.session.simulated = False
    client = lab.client()
    yield client
    await client.close()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "project.tar.gz"
    path.write_bytes(packed_project())
    return path


def _wanted(lab: LabDesk, **changes: Any) -> Measurement:
    host = lab.session.snapshot().hosts[0].name
    return replace(Measurement(host, IMAGE, (), {"script": "train.py"}), **changes)


async def test_what_is_measured_comes_back_with_its_progress(
    lab: LabDesk, client: LabClient, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def measure(context: Any, host: Host, wanted: Asked) -> bytes:
        asked.append((host.name, wanted.user, wanted.bundle.read_bytes(), dict(wanted.request)))
        wanted.progress(0.5, "half\x1b[2J way")
        await asyncio.sleep(2 * streams.BEAT_S)
        return b'{"answer": 1}'

    monkeypatch.setattr(measuring, "measure_on_host", measure)
    heard: list[tuple[float, str]] = []
    wanted = _wanted(lab, mounts=(Mount("/data/sets", "/data"),))
    lab.act_as("ada")
    said = await client.measure(wanted, bundle, lambda share, stage: heard.append((share, stage)))
    assert said == b'{"answer": 1}'
    assert asked == [(wanted.host, "ada", bundle.read_bytes(), {"script": "train.py"})]
    assert any(share == 0.5 and "half" in stage and "\x1b" not in stage for share, stage in heard)
    await until(lambda: not list((lab.root / "state" / "bundles").glob(".upload-*")))


@pytest.mark.parametrize(
    "error",
    [
        ScriptFailedError("It failed", "here", file="train.py", line=3),
        HostBusyError("Busy", "host"),
        RefusedError("No", "because"),
    ],
)
async def test_why_nothing_was_measured_is_told_as_it_is(
    lab: LabDesk,
    client: LabClient,
    bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: ConsoleError,
) -> None:
    async def measure(context: Any, host: Host, wanted: Asked) -> bytes:
        raise error

    monkeypatch.setattr(measuring, "measure_on_host", measure)
    lab.act_as("ada")
    with pytest.raises(type(error)) as caught:
        await client.measure(_wanted(lab), bundle, lambda share, stage: None)
    assert type(caught.value) is type(error)
    assert (caught.value.title, caught.value.message) == (error.title, error.message)
    if isinstance(caught.value, ScriptFailedError):
        assert (caught.value.file, caught.value.line) == ("train.py", 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mounts": (Mount("/etc", "/etc"),)}, "Mounting /etc is not allowed"),
        ({"mounts": (Mount("/data/../etc", "/x"),)}, "no path below /"),
        ({"image": ""}, "no name of an image"),
        ({"image": "a\x1b[2J"}, "no name of an image"),
        ({"host": "elsewhere"}, "no host that is up"),
    ],
)
async def test_nothing_is_measured_beyond_the_policy(
    lab: LabDesk, client: LabClient, bundle: Path, changes: dict[str, Any], said: str
) -> None:
    lab.act_as("ada")
    with pytest.raises((RefusedError, UsageError)) as caught:
        await client.measure(_wanted(lab, **changes), bundle, lambda share, stage: None)
    assert said in caught.value.message


async def test_where_the_lab_measures_nothing_it_says_so(
    lab: LabDesk, client: LabClient, bundle: Path
) -> None:
    lab.session.settings = lab.session.settings.model_copy(update={"measure": "never"})
    lab.act_as("ada")
    with pytest.raises(RefusedError, match="measure: never"):
        await client.measure(_wanted(lab), bundle, lambda share, stage: None)


async def test_a_console_that_goes_away_calls_its_measurement_off(
    lab: LabDesk, client: LabClient, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def measure(context: Any, host: Host, wanted: Asked) -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return b""

    monkeypatch.setattr(measuring, "measure_on_host", measure)
    lab.act_as("ada")
    asking = [
        asyncio.ensure_future(client.measure(_wanted(lab), bundle, lambda share, stage: None))
        for _ in range(measuring.MOST_AT_ONCE)
    ]
    await until(lambda: lab.service._measuring._running.total() == measuring.MOST_AT_ONCE)
    with pytest.raises(RefusedError, match="at once"):
        await client.measure(_wanted(lab), bundle, lambda share, stage: None)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    await until(ended.is_set)
    await until(lambda: lab.service._measuring._running.total() == 0)


async def test_a_console_is_told_which_image_a_host_has(lab: LabDesk, client: LabClient) -> None:
    host = lab.session.snapshot().hosts[0].name
    lab.act_as("ada")
    engine = await lab.session.hosts.engine(host)
    for image in (lab.session._context.default_image(host), "no/such:1"):
        assert await client.image(host, image) == await engine.image_facts(image)
    lab.service._images._policy = replace(lab.service._images._policy, images=("lab/*",))
    with pytest.raises(RefusedError, match="not allowed"):
        await client.image(host, "other:1")


async def test_what_is_no_measurement_is_no_answer(lab: LabDesk) -> None:
    """A service that sends other lines is taken for one that does not answer."""
    for said in (b"[]\n", b'{"document": -1}\n', b'{"document": 1e999}\n', b'{"a": 1}\n', b"x\n"):
        reader = asyncio.StreamReader()
        reader.feed_data(said)
        reader.feed_eof()
        with pytest.raises(NO_ANSWER):
            await _streamed(reader, lambda said: said["progress"])  # type: ignore[arg-type]


async def test_a_device_is_taken_where_the_service_finds_it_idle(
    lab: LabDesk, client: LabClient, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    async def measure(context: Any, host: Host, device: Device, wanted: Asked) -> bytes:
        taken.append((host.name, device.uuid, wanted.user))
        return b"{}"

    monkeypatch.setattr(measuring, "measure_on_device", measure)
    host = next(one for one in lab.session.snapshot().hosts if one.devices)
    idle = next(one for one in host.devices if not one.processes)
    wanted = replace(
        _wanted(lab, device=idle.uuid),
        host=host.name,
        image=lab.session._context.default_image(host.name),
    )
    lab.act_as("ada")
    assert await client.measure(wanted, bundle, lambda share, stage: None) == b"{}"
    assert taken == [(host.name, idle.uuid, "ada")]
    # Whatever the console says, one that is leased is not.
    engine = await lab.session.hosts.engine(host.name)
    await engine.claim([Lease(idle.uuid, "x", "x-1", "bob", "journal", lab.session.now())])
    for uuid in (idle.uuid, "GPU-of-nobody"):
        with pytest.raises(NotHereError, match="in use, leased"):
            await client.measure(replace(wanted, device=uuid), bundle, lambda share, stage: None)
    lab.service._measuring._rights = replace(lab.service._rights, measure_on_device=("bob",))
    with pytest.raises(RefusedError, match="without a device alone"):
        await client.measure(wanted, bundle, lambda share, stage: None)
    acts = [(act.user, act.verb, act.subject, bool(act.refused))
            for act in lab.session._journal.acts(10)]  # fmt: skip
    assert acts == [
        ("ada", "measure", host.name, True),
        *[("ada", "measure", host.name, False)] * 3,
    ]
    assert len(taken) == 1


async def test_a_measurement_takes_no_device_beyond_its_users_quota(
    lab: LabDesk, client: LabClient, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure(context: Any, host: Host, device: Device, wanted: Asked) -> bytes:
        return b"{}"

    monkeypatch.setattr(measuring, "measure_on_device", measure)
    limits = Limits((Quota("ada", devices=0), Quota("bob", devices=1)))
    monkeypatch.setattr(lab.session._planning.placer, "_limits", limits)
    host = next(one for one in lab.session.snapshot().hosts if one.devices)
    idle = next(one for one in host.devices if not one.processes)
    wanted = replace(
        _wanted(lab, device=idle.uuid),
        host=host.name,
        image=lab.session._context.default_image(host.name),
    )
    lab.act_as("ada")
    with pytest.raises(RefusedError, match="User ada may have 0 devices at once"):
        await client.measure(wanted, bundle, lambda share, stage: None)
    lab.act_as("bob")
    assert await client.measure(wanted, bundle, lambda share, stage: None) == b"{}"


async def test_users_take_turns_on_a_host(
    lab: LabDesk, client: LabClient, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    go_on = asyncio.Semaphore(0)

    async def measure(context: Any, host: Host, wanted: Asked) -> bytes:
        begun.append(wanted.user)
        await go_on.acquire()
        return b"{}"

    monkeypatch.setattr(measuring, "measure_on_host", measure)
    image = lab.session._context.default_image(_wanted(lab).host)
    said: list[str] = []
    asking = []
    for number, user in enumerate(("ada", "ada", "bob")):
        lab.act_as(user)
        asking.append(
            asyncio.ensure_future(
                client.measure(
                    _wanted(lab, image=image), bundle, lambda share, stage: said.append(stage)
                )
            )
        )
        running = lab.service._measuring._running
        await until(lambda: running.total() == number + 1)  # noqa: B023
        turns = lab.service._measuring._turns
        await until(lambda: len(turns._waiting) + len(begun) == number + 1)  # noqa: B023
    for number in range(3):
        await until(lambda: len(begun) == number + 1)  # noqa: B023
        go_on.release()
    await asyncio.gather(*asking)
    assert begun == ["ada", "bob", "ada"]
    assert any("waiting for another measurement" in stage for stage in said)
