"""What a host says about its way to the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from gpuconsole.core.containers import HostNetwork
from gpuconsole.errors import EngineError
from gpuconsole.remote.gang_network import ask
from gpuconsole.remote.links.protocol import Channel, Completed

SAID = """\
Welcome to gpu-01: reached by many
reached 192.168.7.9 50022 10.0.0.11 22
default via 192.168.7.1 dev wlan0 proto dhcp metric 600
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: eno1    inet 10.0.0.11/24 brd 10.0.0.255 scope global eno1\\       valid_lft forever
2: eno1    inet 10.0.0.99/24 scope global secondary eno1\\       valid_lft forever
3: ib0    inet 10.9.0.11/16 brd 10.9.255.255 scope global ib0\\       valid_lft forever
4: wlan0    inet 192.168.7.20/24 scope global dynamic wlan0\\       valid_lft 80000sec
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0B00000A:8F1C 0900000A:0016 01 00000000:00000000 02:000AE1F4 00000000     0        0 2
   0: 00000000000000000000000000000000:4E20 00000000000000000000000000000000:0000 0A 00000000:0
"""


class Says:
    """A link to a host that answers with a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        return Completed(0, self._text.encode(), b"")

    def stream(self, argv: Sequence[str]) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def open(self, argv: Sequence[str]) -> Channel:
        raise NotImplementedError

    async def forward_socket(self, path: str) -> str:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


async def test_a_host_is_met_where_ssh_reached_it() -> None:
    found = await ask(Says(SAID), "gpu-01")
    assert found == HostNetwork("10.0.0.11", "eno1", frozenset({22, 20000}))


async def test_the_inventory_may_name_another_interface() -> None:
    assert (await ask(Says(SAID), "gpu-01", "ib0")).address == "10.9.0.11"
    with pytest.raises(EngineError, match="no IPv4 address on ib1"):
        await ask(Says(SAID), "gpu-01", "ib1")


async def test_without_ssh_the_default_route_tells() -> None:
    here = SAID.replace("reached 192.168.7.9 50022 10.0.0.11 22", "reached ")
    assert (await ask(Says(here), "here")).interface == "wlan0"
    behind_nat = SAID.replace("10.0.0.11 22", "203.0.113.5 22")
    assert (await ask(Says(behind_nat), "nat")).interface == "wlan0"
    with pytest.raises(EngineError, match="bare has no IPv4 address") as refused:
        await ask(Says("reached \n"), "bare")
    assert "`interface:`" in refused.value.hint
