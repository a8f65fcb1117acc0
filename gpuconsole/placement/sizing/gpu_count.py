"""How many devices a job gets when its task leaves that open, and what each of them must hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement.sizing.data_parallel_speedup import (
    NETWORK,
    SpeedUp,
    bandwidth_gb_s,
    speed_up,
)
from gpuconsole.preflight.roofline import Work, roofline

STEPS = (1, 2, 4, 8, 16)
"""Numbers of devices that `auto` tries."""
LEAST_EFFICIENCY = 0.8
"""`auto` takes more devices only while each of them does so much of what one alone would."""
SPREADING = ("ddp", "sharding")
"""Strategies by which a script trains on several devices."""

Links = tuple[tuple[str, ...], ...]


class Group(NamedTuple):
    """Devices of one model that a job could use together."""

    model: str
    memory_mib: float
    link: str
    """The slowest link between the closest of them; `network` when they are on several hosts, ""
    when the host does not tell."""
    hosts: int
    free: bool
    """Whether they are unused now."""


Groups = Mapping[tuple[str, int], Collection[Group]]
"""By back end and number of devices."""


class DeviceCount(NamedTuple):
    """A number of devices, and why, as a sentence; "" where the task names it itself."""

    devices: int
    reason: str


class Room(NamedTuple):
    """How far a number that is left open may grow."""

    spare: int | None = None
    """Free devices for which no job waits; None for any number."""
    ceiling: int | None = None
    """Devices that a quota leaves to who asks; None for any number."""


def need_on(task: Task, need_mib: float, optimizer_mib: float, count: int) -> float:
    """Return the upper bound of memory (MiB) on each of `count` devices; `need_mib` is one's alone.

    Data parallel training (`ddp`) keeps everything on every device, and a batch size counts per
    device: more devices never make a job fit. `sharding` divides at least the optimizer's states
    (its first stage; the others divide more, so the bound holds for them too).
    """
    if task.distributed_strategy != "sharding":
        return need_mib
    return need_mib - optimizer_mib * (1.0 - 1.0 / count)


def devices_wanted(
    task: Task,
    need_mib: float | None,
    optimizer_mib: float,
    groups: Groups,
    most: float,
    work: Work | None = None,
    gradients_mib: float = 0.0,
    room: Room = Room(),  # noqa: B008
) -> DeviceCount:
    """Return how many devices a task gets; `most` is the lab's memory threshold.

    The task's own number wins. Left open (`auto`) it is the smallest of 1, 2, 4, 8, 16 on which
    each one's part fits, and 1 if there is none or the memory is unknown. It grows from there while
    there is room, and while the speed-up that `work` and the links predict is worth it.
    """
    if task.devices is not None:
        return DeviceCount(task.devices, "")
    if need_mib is None:
        return DeviceCount(1, "1 device is taken, as its memory is unknown.")
    threshold = task.threshold(most)

    def fitting(count: int) -> list[Group]:
        need = need_on(task, need_mib, optimizer_mib, count)
        return [
            group
            for group in groups.get((task.backend, count), ())
            if need <= threshold * group.memory_mib and group.hosts <= task.hosts
        ]

    least = next((count for count in STEPS if fitting(count)), None)
    if least is None:
        return DeviceCount(1, "1 device is taken: it fits on no number of them.")
    if task.distributed_strategy not in SPREADING:
        return DeviceCount(
            least, f"{_number(least)} taken: the task names no way to train on several."
        )
    chosen, why, end = least, f"it fits on {'1' if least == 1 else f'no fewer than {least}'}", ""
    for count in STEPS[STEPS.index(least) + 1 :]:
        free = [group for group in fitting(count) if group.free]
        end = _full(count, least, free, room)
        gain = None if end else _best(free, count, work, gradients_mib)
        if gain is None:
            end = end or f"the gain of {count} is unknown"
            break
        if gain[0].efficiency < LEAST_EFFICIENCY:
            end = f"{_gain(count, *gain)}, below the {LEAST_EFFICIENCY:.0%} that are asked"
            break
        chosen, why = count, _gain(count, *gain)
    return DeviceCount(chosen, f"{_number(chosen)} taken: {why}{f'; {end}' if end else ''}.")


def _full(count: int, least: int, free: Sequence[Group], room: Room) -> str:
    """Return why there is no room for so many, or ""."""
    if room.ceiling is not None and count > room.ceiling:
        return f"a quota leaves no room for {count}"
    if not free:
        return f"{count} that fit are not free together"
    if room.spare is not None and count - least > room.spare:
        return "other jobs wait for the rest"
    return ""


def largest_groups(snapshot: FleetSnapshot, held: Collection[str] = ()) -> Groups:
    """Return the devices of a fleet that could work together, each kind of group once.

    `held` are UUIDs of devices that jobs hold: with those they are not free.
    """
    groups: dict[tuple[str, int], set[Group]] = defaultdict(set)
    sizes: dict[tuple[str, str, float], list[tuple[int, int]]] = defaultdict(list)
    for host in snapshot.hosts:
        for devices in _alike(host):
            free = _free(host, devices, held)
            _on_one_host(groups, devices, free)
            first = devices[0]
            if first.parent_uuid:
                # Instances cannot work together.
                continue
            key = (first.backend, first.model, first.memory_total_mib or 0.0)
            sizes[key].append((len(devices), len(free)))
    _on_several_hosts(groups, sizes)
    return {key: sorted(groups) for key, groups in groups.items()}


def free_devices(snapshot: FleetSnapshot, held: Collection[str]) -> Mapping[str, int]:
    """Return the number of unused devices, by back end."""
    return Counter(
        device.backend for host in snapshot.hosts for device in _free(host, host.devices, held)
    )


def _alike(host: Host) -> Iterator[list[Device]]:
    """Yield the devices of a host model by model."""
    models: dict[tuple[str, float | None], list[Device]] = defaultdict(list)
    for device in host.devices:
        if device.divided:
            continue
        models[device.model, device.memory_total_mib].append(device)
    yield from models.values()


def _on_one_host(
    groups: dict[tuple[str, int], set[Group]], devices: list[Device], free: list[Device]
) -> None:
    first = devices[0]
    memory = first.memory_total_mib or 0.0
    every = _links(devices)
    spare = every if len(free) == len(devices) else _links(free)
    for count in STEPS[:1] if first.parent_uuid else STEPS:
        if count <= len(devices):
            link = closest_link(spare if count <= len(free) else every, count)
            group = Group(first.model, memory, link, 1, count <= len(free))
            groups[first.backend, count].add(group)


def _on_several_hosts(
    groups: dict[tuple[str, int], set[Group]],
    sizes: Mapping[tuple[str, str, float], Sequence[tuple[int, int]]],
) -> None:
    """Add groups with equally many devices on each of several hosts; `sizes` are, for each kind,
    how many a host has and how many of them are free."""
    for (backend, model, memory), present in sizes.items():
        for count in STEPS:
            for hosts in (number for number in STEPS if 1 < number <= count):
                each = count // hosts
                if sum(size >= each for size, _ in present) >= hosts:
                    free = sum(size >= each for _, size in present) >= hosts
                    groups[backend, count].add(Group(model, memory, NETWORK, hosts, free))


def _free(host: Host, devices: Sequence[Device], held: Collection[str]) -> list[Device]:
    if host.state is not HostState.UP or host.drained or host.engine_error:
        return []
    return [
        device
        for device in devices
        if device.uuid not in held and not device.processes and not device.divided
    ]


def _links(devices: list[Device]) -> Links:
    """Return the kind of link between each two devices."""
    kinds = [{peer.uuid: peer.kind for peer in device.peers} for device in devices]
    return tuple(tuple(row.get(other.uuid, "") for other in devices) for row in kinds)


@lru_cache(maxsize=1024)
def closest_link(links: Links, count: int) -> str:
    """Return the slowest link among the `count` devices that are closest to each other.

    `links` is the kind of link between each two; grown from every device by the fastest link, as
    hosts with equal wiring have equal answers.
    """
    if count < 2:
        return ""
    best = ""
    for start in range(len(links)):
        chosen, slowest = [start], ""
        while len(chosen) < count:
            rest = (other for other in range(len(links)) if other not in chosen)
            ways = ((min((links[o][c] for c in chosen), key=_rate), -o) for o in rest)
            way, other = max(ways, key=lambda pair: (_rate(pair[0]), pair[1]))
            chosen.append(-other)
            slowest = way if len(chosen) == 2 else min(slowest, way, key=_rate)
        best = slowest if not start else max(best, slowest, key=_rate)
    return best


def _rate(kind: str) -> float:
    # An unknown one counts less than any other.
    return bandwidth_gb_s(kind) if kind else 0.0


def _best(
    groups: list[Group], count: int, work: Work | None, gradients_mib: float
) -> tuple[SpeedUp, Group] | None:
    """Return the fastest of the groups; None if no step's time is known."""
    options = []
    for group in groups:
        spec = Catalogue.load().lookup(group.model, group.memory_mib)
        compute_s = None if spec is None or work is None else roofline(work, spec)
        if spec is not None and compute_s:
            size = gradients_mib * 2**20
            options.append((speed_up(compute_s, size, count, group.link, spec.interconnect), group))
    return min(options, key=lambda pair: (pair[0].step_s, pair[1]), default=None)


def _gain(count: int, speed_up: SpeedUp, group: Group) -> str:
    by = f" by {group.link}" if group.link else ""
    where = f" on {group.hosts} hosts" if group.hosts > 1 else ""
    return (
        f"{count} {group.model}{by}{where} should train {speed_up.factor:.1f} times as fast as one"
        f" ({speed_up.efficiency:.0%} each)"
    )


def _number(count: int) -> str:
    return "1 device is" if count == 1 else f"{count} devices are"
