"""New records out of old ones."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.util.fast_replace import Evolving

device = Device("GPU-1", 0, "A100", utilization=5.0, throttle=("power-cap",))
evolve = Evolving(Device)


@pytest.mark.parametrize("changes", [{}, {"utilization": 7.0, "xid": 79}, {"uuid": "GPU-2"}])
def test_it_does_what_replace_does(changes: dict[str, object]) -> None:
    made, meant = evolve(device, changes), replace(device, **changes)  # type: ignore[arg-type]
    assert made == meant
    assert hash(made) == hash(meant)
    assert repr(made) == repr(meant)
    assert type(made) is Device
    assert device.utilization == 5.0


def test_what_it_makes_is_frozen() -> None:
    made = evolve(device, {"index": 3})
    with pytest.raises(FrozenInstanceError):
        made.index = 4  # type: ignore[misc]
    assert evolve(made, {"index": 5}).index == 5


def test_a_field_that_there_is_not() -> None:
    with pytest.raises(AttributeError, match="colour"):
        evolve(device, {"colour": "red"})


def test_other_classes() -> None:
    host = Host("a100-01", labels={"rack": "r07"}, devices=(device,))
    made = Evolving(Host)(host, {"state": HostState.UP})
    assert made == replace(host, state=HostState.UP)
    assert made.devices is host.devices


def test_values_that_every_new_record_has() -> None:
    blank = Evolving(Device, {"utilization": None, "throttle": ()})
    assert blank(device) == replace(device, utilization=None, throttle=())
    assert blank(device, {"index": 3, "throttle": ("x",)}).throttle == ("x",)
