"""Several fields of a record at once."""

from __future__ import annotations

from operator import attrgetter

import pytest

from gpuconsole.core.fleet import Device, DeviceProcess
from gpuconsole.core.util.field_reader import reader


def test_it_does_what_attrgetter_does() -> None:
    device = Device("GPU-1", 0, "A100", utilization=5.0, throttle=("power-cap",))
    names = ("uuid", "utilization", "throttle")
    assert reader(*names)(device) == attrgetter(*names)(device) == ("GPU-1", 5.0, ("power-cap",))


def test_a_single_field_is_a_tuple_too_and_so_is_none() -> None:
    assert reader("pid")(DeviceProcess(7)) == (7,)
    assert reader()(DeviceProcess(7)) == ()


def test_a_field_that_there_is_not() -> None:
    with pytest.raises(AttributeError, match="colour"):
        reader("colour")(DeviceProcess(7))
