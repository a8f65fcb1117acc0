"""What a job gets by the kind of its devices: image, maker, runtime, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import ContainerSpec, EngineInfo, HostAccount
from gpuconsole.core.engines.device_requests import handover
from gpuconsole.core.fleet import Device, FleetSnapshot, Host
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.vendors import VENDORS
from gpuconsole.errors import UsageError
from gpuconsole.session.dispatch.attempt.container_spec import WANTED, container_spec
from gpuconsole.session.dispatch.attempt.vendor_runtime import by_kind, maker_of, runtime_of

USUAL = "paddle:cuda"
HOSTS = (
    Host("cuda", devices=(Device("g", 0, "A100"),)),
    Host("ascend", devices=(Device("n", 0, "910B3", "npu", vendor="ascend"),)),
    Host("amd", devices=(Device("d", 3, "MI210", "dcu", vendor="amd"),)),
    Host("enflame", devices=(Device("e", 1, "S60", "gcu", vendor="enflame"),)),
    Host("empty"),
)
FLEET: Any = SimpleNamespace(snapshot=lambda: FleetSnapshot(hosts=HOSTS))


def host(name: str) -> Host:
    return next(one for one in HOSTS if one.name == name)


def attempt(name: str) -> Attempt:
    devices = host(name).devices
    return Attempt(1, name, tuple(d.uuid for d in devices), tuple(d.index for d in devices), "c-n")


def spec(name: str, backend: str, **settings: Any) -> ContainerSpec:
    job = Job("j", Task("x", script="t.py", backend=backend), "ada", JobState.LAUNCHING, 1.0)
    return container_spec(
        job,
        attempt(name),
        command=("python", "t.py"),
        image="i",
        account=HostAccount(1000, 100, "/r/j", (44,)),
        journal="journal",
        settings=LabSettings(**settings),
        host=host(name),
    )


def test_an_image_follows_the_kind_of_devices_where_nobody_names_one() -> None:
    named = {"amd": "own:1"}
    image_of = by_kind(FLEET, {"npu": "lab/npu:1"}, USUAL, lambda name: named.get(name, USUAL))
    assert image_of("cuda") == image_of("empty") == image_of("unknown") == USUAL
    assert image_of("ascend") == "lab/npu:1"
    assert image_of("amd") == "own:1"
    # Made for CUDA is worse than none: why it waits says which is missing.
    assert image_of("enflame") == ""


def test_the_lab_may_have_an_image_of_its_own_for_cuda() -> None:
    assert by_kind(FLEET, {"gpu": "lab/gpu:1"}, USUAL, lambda name: USUAL)("cuda") == "lab/gpu:1"


def test_images_by_kind_are_read_from_the_settings() -> None:
    assert LabSettings.model_validate({"images": {"npu": "a:1"}}).images == {"npu": "a:1"}
    with pytest.raises(ValueError, match="abacus"):
        LabSettings.model_validate({"images": {"abacus": "a:1"}})


def test_the_maker_of_the_devices_reaches_the_container() -> None:
    made = spec("amd", "dcu")
    assert (made.vendor, made.node_groups) == ("amd", (44,))
    assert handover(made).nodes == ("/dev/kfd", "/dev/dri")
    assert handover(made).groups == ("44",)
    assert handover(made).env["HIP_VISIBLE_DEVICES"] == "3"
    assert made.env[WANTED] == "dcu"


def test_without_devices_nothing_is_held_against_them() -> None:
    made = spec("cuda", "cpu")
    assert WANTED not in made.env
    assert made.vendor == ""
    assert (
        maker_of(Task("x", backend="npu"), replace(attempt("ascend"), device_uuids=()), None)
        is None
    )


def test_a_privileged_container_needs_a_word_of_the_lab() -> None:
    with pytest.raises(UsageError, match="privileged") as refused:
        spec("enflame", "gcu")
    assert "allow_privileged" in refused.value.hint
    assert handover(spec("enflame", "gcu", allow_privileged=True)).privileged


@pytest.mark.parametrize(
    ("maker", "runtimes", "chosen"),
    [("ascend", ("ascend", "runc"), "ascend"), ("ascend", ("runc",), ""), ("amd", ("amd",), "")],
)
async def test_a_makers_runtime_is_used_where_the_engine_has_it(
    maker: str, runtimes: tuple[str, ...], chosen: str
) -> None:
    class Engine:
        async def info(self) -> EngineInfo:
            return EngineInfo("1", runtimes)

    engine: Any = Engine()
    assert await runtime_of(VENDORS[maker], engine) == chosen
    assert await runtime_of(None, engine) == ""
