"""The rules asked about one host, each only where its answer could be yes.

Eight thousand devices are looked at every few seconds, and nearly all of them are well: what a rule
needs is held against the device's fields first, all of them in one look.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from gpuconsole.core.fleet import Device, HostState
from gpuconsole.triage.model import DeviceTest, Finding, Rule, Scene
from gpuconsole.triage.rules import DEVICE_RULES, HOST_RULES

Told = tuple[Rule, Device | None, Finding]
"""A rule that holds, of which device (None: of the host), and what it says."""
_Asked = tuple[tuple[Rule, DeviceTest], ...]


def findings(scene: Scene) -> Iterator[Told]:
    """Give what the rules say of a host and its devices."""
    up = scene.host.state is HostState.UP
    for rule in HOST_RULES:
        finding = rule.test(scene) if rule.test is not None and (up or rule.blind) else None
        if finding is not None:
            yield rule, None, finding
    for device in scene.host.devices if up else ():
        for rule, test in _worth_asking(scene, device):
            finding = test(scene, device)
            if finding is not None:
                yield rule, device, finding


def _asked(rules: Iterator[Rule]) -> _Asked:
    return tuple((rule, rule.device_test) for rule in rules if rule.device_test is not None)


_FIELDS = tuple(dict.fromkeys(rule.needs for rule in DEVICE_RULES if rule.needs))
_fields = attrgetter(*_FIELDS)
_KNOWN: dict[tuple[bool, tuple[bool, ...]], _Asked] = {}
"""What is asked of a device: by whether it is claimed, and which of the fields say something."""


def _worth_asking(scene: Scene, device: Device) -> _Asked:
    """Return the rules that could hold of a device."""
    leases = scene.leases
    claimed = device.uuid in scene.holders or (leases is not None and device.uuid in leases)
    says = tuple(map(bool, _fields(device)))
    asked = _KNOWN.get((claimed, says))
    if asked is None:
        there = dict(zip(_FIELDS, says, strict=True))
        asked = _KNOWN[claimed, says] = _asked(
            rule
            for rule in DEVICE_RULES
            if (claimed or not rule.claimed) and (not rule.needs or there[rule.needs])
        )
    return asked
