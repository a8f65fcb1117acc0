"""Devices, hosts and requests as the tests of placement describe them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement import Holder, Request

NOW = 1_000_000.0
GIB = 1024.0
A100 = "NVIDIA A100-SXM4-40GB"
V100 = "Tesla V100-SXM2-32GB"
RTX = "NVIDIA GeForce RTX 3090"
MEMORY = {A100: 40 * GIB, V100: 32 * GIB, RTX: 24 * GIB}


def card(uuid: str, model: str = RTX, **fields: Any) -> Device:
    fields.setdefault("memory_total_mib", MEMORY.get(model, 32 * GIB))
    fields.setdefault("memory_used_mib", 100.0)
    return Device(uuid, fields.pop("index", 0), model, **fields)


def up(name: str, *devices: Device, **fields: Any) -> Host:
    numbered = tuple(replace(device, index=index) for index, device in enumerate(devices))
    fields.setdefault("state", HostState.UP)
    return Host(name, devices=numbered, **fields)


def fleet(*hosts: Host) -> FleetSnapshot:
    return FleetSnapshot(1, NOW, hosts)


def wants(
    need_gib: float | None = 10, devices: int = 1, job: str = "j1", since: float = NOW, **task: Any
) -> Request:
    need = None if need_gib is None else need_gib * GIB
    return Request(job, Task(task.pop("name", "train"), **task), need, devices, since)


def held(job: str = "other", ends_at: float | None = None) -> Holder:
    return Holder(job, "night run", "bob", NOW - 3600, ends_at)
