"""A cluster's nodes as hosts of the fleet, with their devices and who has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.engines.batch_job import CLUSTER_LABEL
from gpuconsole.core.fleet import Backend, Device, DeviceProcess, Host, HostFacts, HostState
from gpuconsole.remote.slurm.parse import Node, Picture, Row

_DOWN = frozenset({"DOWN", "FAIL", "ERROR", "NOT_RESPONDING", "POWERED_DOWN", "UNKNOWN"})
_SHOWN = ("DOWN", "DRAIN", "MAINT", "RESERVED", "MIXED", "ALLOCATED", "IDLE")
"""Of several words the one that is shown, first that is there."""


def hosts_of(
    login: Host,
    picture: Picture,
    models: Mapping[str, str],
    own: Mapping[str, str],
    now: float,
) -> tuple[Host, ...]:
    """Return the login node and its cluster's nodes.

    `models` names what Slurm's types are, `own` the containers' names of jobs by their numbers.
    """
    version = next((node.version for node in picture.nodes if node.version), "")
    entry = replace(
        login,
        state=HostState.UP,
        error="",
        sampled_at=now,
        labels={**login.labels, CLUSTER_LABEL: login.name},
        facts=HostFacts(source=f"slurm {version}".strip()),
    )
    return (entry, *(_host(entry, node, picture, models, own) for node in picture.nodes))


def out_of_sight(hosts: tuple[Host, ...], state: HostState, error: str) -> tuple[Host, ...]:
    """Return the hosts as last seen, none of which can be seen now."""
    return tuple(replace(host, state=state, error=error) for host in hosts)


def _host(
    login: Host, node: Node, picture: Picture, models: Mapping[str, str], own: Mapping[str, str]
) -> Host:
    down = bool(node.states & _DOWN)
    word = next((word for word in _SHOWN if word in node.states), "").lower()
    reason = f": {node.reason}" if node.reason else ""
    used = None
    if node.memory_mib is not None and node.free_mib is not None:
        used = max(0.0, node.memory_mib - node.free_mib)
    devices = tuple(
        _device(login.name, node, index, kind, picture.held.get((node.name, index)), models, own)
        for index, kind in enumerate(node.kinds)
    )
    return Host(
        name=f"{login.name}/{node.name}",
        state=HostState.DOWN if down else HostState.UP,
        address=node.address,
        labels={
            CLUSTER_LABEL: login.name,
            "partition": ",".join(node.partitions),
            "node-state": word,
            **({"features": ",".join(node.features)} if node.features else {}),
        },
        price_per_hour=login.price_per_hour,
        devices=devices,
        facts=HostFacts(
            cpu_count=node.cpus,
            memory_total_mib=node.memory_mib,
            memory_used_mib=used,
            load_1m=node.load,
            source=login.facts.source,
        ),
        sampled_at=login.sampled_at,
        error=f"Slurm says it is down{reason}" if down else "",
        drained=f"Slurm drains it{reason}" if "DRAIN" in node.states else login.drained,
        cluster=login.name,
    )


def _device(
    cluster: str,
    node: Node,
    index: int,
    kind: str,
    holder: Row | None,
    models: Mapping[str, str],
    own: Mapping[str, str],
) -> Device:
    model = models.get(kind) or kind or "GPU"
    spec = Catalogue.load().lookup(model)
    nominal = spec.memory_gib if spec is not None else None
    processes: tuple[DeviceProcess, ...] = ()
    if holder is not None:
        text = f"Slurm job {holder.id}"
        processes = (DeviceProcess(0, holder.user, None, text, own.get(holder.id, "")),)
    elif index in node.used:
        processes = (DeviceProcess(0, command="a Slurm job"),)
    return Device(
        uuid=f"{cluster}/{node.name}/{index}",
        index=index,
        model=model,
        backend=cast(Backend, spec.backend) if spec is not None and spec.backend else "gpu",
        memory_total_mib=None if nominal is None else nominal * 1024,
        processes=processes,
        gres=kind,
    )
