"""Which rules could hold of a device, so that no other is asked.

A rule says beforehand what must be so: a field that says something, a share of memory that is held,
a mean that is low. Thousands of devices are looked at, and of nearly all of them nothing is so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from gpuconsole.config import Thresholds
from gpuconsole.core.devices.health_levels import memory_percent
from gpuconsole.core.fleet import Device
from gpuconsole.core.util.field_reader import reader
from gpuconsole.triage.device_rules import MOSTLY
from gpuconsole.triage.model import DeviceTest, Rule, Scene
from gpuconsole.triage.rules import DEVICE_RULES

Asked = tuple[tuple[Rule, DeviceTest], ...]
"""Rules about a device, and how each is asked."""

_FIELDS = tuple(dict.fromkeys(rule.needs for rule in DEVICE_RULES if rule.needs))
_fields: Callable[[object], tuple[object, ...]] = reader(*_FIELDS)
_seldom: Callable[[object], tuple[object, ...]] = reader(
    *(name for name in _FIELDS if name != "processes")
)
"""Fields that say nothing of a device that is well."""


class RuleFilter:
    """Picks the rules that are worth asking, for one set of thresholds."""

    def __init__(self, limits: Thresholds) -> None:
        shares = {rule.held for rule in DEVICE_RULES if rule.held}
        means = {rule.mean for rule in DEVICE_RULES if rule.mean}
        self._held = sorted((float(getattr(limits, name)), name) for name in shares)
        self._mean = sorted((float(getattr(limits, name)), name) for name in means)
        self._shares = [share for share, _ in self._held]
        self._means = [mean for mean, _ in self._mean]
        self._known: dict[tuple[int, ...], Asked] = {}
        """What is asked of a device: by whether it is claimed and has slowed itself, how many
        thresholds its memory and its mean have passed, and which of the fields say something."""

    def worth_asking(self, scene: Scene) -> Iterator[tuple[Device, Asked]]:
        """Yield the devices of a host of which a rule could hold, each with those rules."""
        holders, leases, past = scene.holders, scene.leases, scene.past
        shares, means, asked_of = self._shares, self._means, self._known
        fullest, lowest = shares[0], means[-1]
        says: tuple[int, ...]
        for device in scene.host.devices:
            uuid, reached, slowed, passed = device.uuid, 0, False, len(means)
            claimed = uuid in holders or (leases is not None and uuid in leases)
            held = memory_percent(device)
            if held is not None and held >= fullest:
                reached = bisect_right(shares, held)
            past_device = past.get(uuid)
            if past_device is not None:
                slowed, mean = past_device.slowed >= MOSTLY, past_device.utilization
                if mean is not None and mean <= lowest:
                    passed = bisect_left(means, mean)
            if any(_seldom(device)):
                says = (claimed, slowed, reached, passed, *map(bool, _fields(device)))
            else:
                says = (claimed, slowed, reached, passed, bool(device.processes))
            asked = asked_of.get(says)
            if asked is None:
                fields = [name for name in _FIELDS if getattr(device, name)]
                asked = asked_of[says] = self._asked(says, fields)
            if asked:
                yield device, asked

    def _asked(self, says: tuple[int, ...], fields: list[str]) -> Asked:
        claimed, slowed, reached, passed, *_ = says
        holds = {
            "",
            *fields,
            *(name for _, name in self._held[:reached]),
            *(name for _, name in self._mean[passed:]),
        }
        return tuple(
            (rule, rule.device_test)
            for rule in DEVICE_RULES
            if rule.device_test is not None
            and (claimed or not rule.claimed)
            and (slowed or not rule.slowed)
            and holds.issuperset((rule.needs, rule.held, rule.mean))
        )
