"""Pulls, checks, copies, calibration and clearing through the lab's service: who may, what a
console hears, and what is on record."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest

from gpuconsole.core.devices.run_history import HostCalibration
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.placement.prepull import Fetch
from gpuconsole.session.lab_service import host_operations
from gpuconsole.session.lab_service.console.lab_session import LabQueueSession
from gpuconsole.session.lab_service.protocol import Operation
from gpuconsole.simulated_lab import engine as engine_module
from gpuconsole.state.files.images import ImageCheck
from tests.session.lab_service.conftest import LabDesk
from tests.waiting import until

IMAGE = "lab/train:7"


def _host(lab: LabDesk, number: int = 0) -> str:
    return lab.session.snapshot().hosts[number].name


def _acts(lab: LabDesk) -> list[tuple[str, str, str, str, bool]]:
    return [
        (act.user, act.verb, act.subject, act.detail, bool(act.refused))
        for act in lab.session._journal.acts(100)
    ]


async def test_an_image_is_pulled_by_the_service_with_its_progress(lab: LabDesk) -> None:
    host, heard = _host(lab), []
    async with lab.console("ada") as console:
        (done,) = await console.images.fetch(
            (Fetch(host, IMAGE),), lambda name, said: heard.append((name, said))
        )
        assert done.error is None
        engine = await lab.session.hosts.engine(host)
        assert await engine.image_facts(IMAGE) is not None
        # Another screen shows it as on a queue of one's own.
        (listed,) = await console.images.listing((host,))
    assert any(IMAGE in image.names for image in listed.images)
    assert (host, f"has {IMAGE}") in heard
    assert [said for name, said in heard if name == host and "%" in said]
    assert _acts(lab) == [("ada", "pull", host, IMAGE, False)]


async def test_why_a_host_did_not_get_an_image_is_told_for_each(lab: LabDesk) -> None:
    host = _host(lab)
    async with lab.console("ada") as console:
        done = await console.images.fetch(
            (Fetch(host, "nowhere.invalid/x:1"), Fetch(host, IMAGE)), lambda *said: None
        )
    errors = {one.fetch.image: one.error for one in done}
    assert errors[IMAGE] is None
    failed = errors["nowhere.invalid/x:1"]
    assert failed is not None
    assert "no registry answers" in failed.message


async def test_nothing_is_pulled_beyond_the_policy(lab: LabDesk) -> None:
    host = _host(lab)
    lab.service._images._policy = replace(lab.service._images._policy, images=("lab/*",))
    async with lab.console("ada") as console:
        for fetch, said in (
            (Fetch(host, "other/x:1"), "other/x:1 is not allowed"),
            (Fetch(host, "lab/../x:1"), "no name of an image"),
            (Fetch("elsewhere", IMAGE), "no host 'elsewhere'"),
        ):
            with pytest.raises((RefusedError, UsageError), match=said):
                await console.images.fetch((Fetch(host, IMAGE), fetch), lambda *reported: None)
    engine = await lab.session.hosts.engine(host)
    assert await engine.image_facts(IMAGE) is None
    assert [act[4] for act in _acts(lab)] == [True] * 3


async def test_a_console_that_goes_away_ends_its_pull(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_PULL_STEP_S", 3600.0)
    host, begun = _host(lab), asyncio.Event()
    engine = await lab.session.hosts.engine(host)
    async with lab.console("ada") as console:
        pulling = asyncio.ensure_future(
            console.images.fetch((Fetch(host, IMAGE),), lambda *said: begun.set())
        )
        await begun.wait()
        pulling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pulling
        await until(lambda: not lab.service._operations._running.total())
    assert await engine.image_facts(IMAGE) is None


async def test_an_account_has_a_few_operations_at_once(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stand(*words: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(lab.session, "_prune_of", stand)
    lab.act_as("ada")
    clients = [lab.client() for _ in range(host_operations.MOST_AT_ONCE)]
    asked = [
        asyncio.ensure_future(client.operate(Operation("prune"), lambda *said: None))
        for client in clients
    ]
    await until(lambda: lab.service._operations._running.total() == host_operations.MOST_AT_ONCE)
    with pytest.raises(RefusedError, match="operations on hosts at once"):
        await lab.client().operate(Operation("prune"), lambda *said: None)
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    await until(lambda: not lab.service._operations._running.total())


async def test_a_user_is_shown_the_images_that_jobs_may_name(lab: LabDesk) -> None:
    host = _host(lab)
    engine = await lab.session.hosts.engine(host)
    for image in (IMAGE, "secret/x:1"):
        await engine.ensure_image(image, lambda said: None)
    lab.service._images._policy = replace(lab.service._images._policy, images=("lab/*",))

    def names(console: LabQueueSession) -> Any:
        return console.images.listing((host,))

    async with lab.console("ada") as console:
        (shown,) = await names(console)
        assert (await console.images.resolve(IMAGE)).image == IMAGE
        with pytest.raises(RefusedError, match="not allowed"):
            await console.images.resolve("secret/x:1", host)
    found = {name for image in shown.images for name in image.names}
    assert IMAGE in found
    assert "secret/x:1" not in found
    async with lab.console("root-cat") as console:
        (all_of_them,) = await names(console)
    assert "secret/x:1" in {name for image in all_of_them.images for name in image.names}


async def test_what_changes_the_lab_for_all_is_for_operators(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = _host(lab, 0), _host(lab, 1)
    engine = await lab.session.hosts.engine(here)
    await engine.ensure_image(IMAGE, lambda said: None)
    found = HostCalibration(here, "card", 1.0, "seen\x1b[2J", context_mib=512.0)

    async def calibrate(host: str, device: int | None, image: str, progress: Any) -> Any:
        assert (host, device, image) == (here, 1, "lab/other:1")
        progress("begins")
        return found

    monkeypatch.setattr(lab.session, "calibrate", calibrate)
    async with lab.console("ada") as console:
        with pytest.raises(RefusedError, match="for the lab's operators; you are ada"):
            await console.images.copy(IMAGE, here, there, lambda said: None)
        with pytest.raises(RefusedError, match="for the lab's operators; you are ada"):
            await console.calibrate(here, 1, "lab/other:1", lambda said: None)
    heard: list[str] = []
    async with lab.console("root-cat") as console:
        copied = await console.images.copy(IMAGE, here, there, heard.append)
        assert (copied.image, copied.already) == (IMAGE, False)
        assert await console.calibrate(here, 1, "lab/other:1", heard.append) == found
        assert console._journal.calibrations() == (found,)
    assert await (await lab.session.hosts.engine(there)).image_facts(IMAGE) is not None
    assert "begins" in heard
    assert any("looking at what arrived" in said for said in heard)
    assert sorted(_acts(lab)) == sorted(
        [
            (user, verb, host, detail, user == "ada")
            for user in ("ada", "root-cat")
            for verb, host, detail in (
                ("copy", there, f"{IMAGE} from {here}"),
                ("calibrate", here, "lab/other:1 device 1"),
            )
        ]
    )


async def test_a_user_clears_what_is_their_own_and_an_operator_all(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    inner = lab.session._prune_of

    async def prune(user: str = "") -> Any:
        asked.append(user)
        return await inner(user)

    monkeypatch.setattr(lab.session, "_prune_of", prune)
    for user in ("ada", "root-cat"):
        async with lab.console(user) as console:
            done = await console.prune()
            assert set(done) <= {host.name for host in lab.session.snapshot().hosts}
            assert done
    assert asked == ["ada", ""]


async def test_a_check_is_remembered_here_and_there(
    lab: LabDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = _host(lab)
    found = ImageCheck("sha256:" + "1" * 64, IMAGE, host, 1.0, paddle="3.3\x1b[2J.1", given="")

    async def check(image: str, where: str, progress: Any, *, device: bool) -> Any:
        assert (image, where, device) == (IMAGE, host, False)
        return found, ["no\x1b[2J good"]

    monkeypatch.setattr(lab.session.images, "check", check)
    async with lab.console("ada") as console:
        said, faults = await console.images.check(IMAGE, host, lambda reported: None, device=False)
        assert said.id in console.images.notes.checks()
    assert "\x1b" not in f"{said.paddle}{faults}"
    assert said.paddle.startswith("3.3")
    assert len(faults) == 1


async def test_a_check_on_a_device_takes_the_right_to_one(lab: LabDesk) -> None:
    rights = replace(lab.service._rights, measure_on_device=("grace",))
    lab.service._operations._rights = rights
    async with lab.console("ada") as console:
        with pytest.raises(RefusedError, match="without a device alone"):
            await console.images.check(IMAGE, _host(lab), lambda reported: None)


async def test_what_a_service_of_before_does_not_do_is_said(lab: LabDesk) -> None:
    host = _host(lab)
    async with lab.console("ada") as console:
        hello = console._mirror.hello
        assert hello is not None
        console._mirror.hello = replace(hello, offers=())
        with pytest.raises(RefusedError, match="more than the service of this lab does"):
            await console.images.fetch((Fetch(host, IMAGE),), lambda *said: None)
        (listed,) = await console.images.listing((host,))
    assert "The lab's service is older" in listed.error
    assert _acts(lab) == []
