"""Containers as data: found by a name, joined with devices and jobs, split from a reference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.engines.host_containers import (
    HostContainer,
    find,
    jobs_by_container,
    joined,
    split_reference,
)
from gpuconsole.core.fleet import Device, DeviceProcess, Host
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.errors import UsageError

WEB = HostContainer("h", "ab" * 32, "web", "serve:1", "running")
WEBS = HostContainer("h", "ac" * 32, "web-2", "serve:1", "exited")
OTHER = HostContainer("h", "bb" * 32, "train", "paddle:3", "running")
ALL = (WEB, WEBS, OTHER)


def test_a_name_an_id_and_the_only_beginning_are_found() -> None:
    assert find(ALL, "h", "web") is WEB
    assert find(ALL, "h", "web-") is WEBS
    assert find(ALL, "h", "bb" * 32) is OTHER
    assert find(ALL, "h", "bb") is OTHER
    assert find(ALL, "h", "tr") is OTHER


@pytest.mark.parametrize(
    ("wanted", "title", "says", "hint"),
    [
        *((begin, "Several containers are meant", f"On h `{begin}` begins: web, web-2.",
           "Write more of the name, or of the id.") for begin in ("w", "a")),
        ("none\x1b[2J", "No such container", "h has no container `none`.",
         "See: gpuconsole containers --all --host h"),
    ],
)  # fmt: skip
def test_several_and_none_are_named(wanted: str, title: str, says: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        find(ALL, "h", wanted)
    error = raised.value
    assert (error.title, error.message, error.hint) == (title, says, hint)


def test_a_reference_is_split_at_its_last_colon() -> None:
    assert split_reference("cluster/node:web") == ("cluster/node", "web")
    for wrong in ("web", ":web", "h:", ""):
        with pytest.raises(UsageError):
            split_reference(wrong)


def test_devices_users_and_jobs_come_from_what_is_seen() -> None:
    processes = (DeviceProcess(1, "ana\x07", 10.0, "x", WEB.id), DeviceProcess(2, "bo", 1.0, "y"))
    devices = tuple(Device(f"GPU-{n}", n, "A100", processes=processes) for n in (3, 1))
    attempt = Attempt(1, "h", (), (), "c", container_id=OTHER.id)
    job = Job("j-1", Task("t"), "ana", JobState.FAILED, 1.0, attempts=(attempt,))
    found = joined(ALL, Host("h", devices=devices), jobs_by_container([job]))
    assert found == (
        replace(WEB, devices=(1, 3), users=("ana",)), WEBS, replace(OTHER, job="j-1")
    )  # fmt: skip
    # A host of which nothing is seen takes nothing away.
    assert joined(ALL, None, {}) == ALL
