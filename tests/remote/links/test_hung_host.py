"""A host that takes connections and says nothing, beside hosts that answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncssh
import pytest

from benchmarks.console.stream_hosts import Door, Readings
from gpuconsole.core.fleet import HostState
from gpuconsole.remote.hosts import RemoteHosts
from gpuconsole.remote.inventory import parse_inventory
from gpuconsole.remote.links import connect_limits
from tests.waiting import DEADLINE_S, until

LIVE = 15
PLACES = 2


def write_keys(folder: Path) -> None:
    for name in ("host", "user"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(folder / name))
        key.write_public_key(str(folder / f"{name}.pub"))
        (folder / name).chmod(0o600)


def inventory_text(folder: Path, hung: int, live: int) -> str:
    known = folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{live} {(folder / 'host.pub').read_text()}")
    access = f"user: bench, identity_file: {folder / 'user'}, known_hosts: {known}"
    ports = [hung, *[live] * LIVE]
    names = (
        f"  - {{name: n{at:02d}, address: 127.0.0.1, port: {port}}}\n"
        for at, port in enumerate(ports)
    )
    # Fewer places than hosts, one of which the hung one holds.
    poll = f"connect_timeout: {2 * DEADLINE_S:.0f}s, parallel_connects: {PLACES}"
    lab = f"lab: {{poll: {{{poll}}}}}\n"
    return f"version: 1\n{lab}defaults: {{{access}}}\nhosts:\n{''.join(names)}"


async def test_a_hung_host_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its place among those that connect is never given away, and its own time never over: what the
    # others wait for, if they do, does not come.
    monkeypatch.setattr(connect_limits, "SLOW_S", 2 * DEADLINE_S)
    write_keys(tmp_path)
    silent: list[asyncio.StreamWriter] = []
    hung = await asyncio.start_server(lambda _, writer: silent.append(writer), "127.0.0.1", 0)
    readings = Readings.made(1)
    live = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=lambda: Door(readings),
        server_host_keys=[str(tmp_path / "host")],
        authorized_client_keys=str(tmp_path / "user.pub"),
        encoding=None,
    )
    text = inventory_text(tmp_path, hung.sockets[0].getsockname()[1], live.get_port())
    hosts = RemoteHosts(parse_inventory(text, "lab"))
    try:
        await hosts.start()
        await until(
            lambda: all(host.state is HostState.UP for host in hosts.snapshot().hosts[1:]),
            f"{hosts.snapshot()}",
        )
        assert all(host.devices for host in hosts.snapshot().hosts[1:])
        assert hosts.snapshot().hosts[0].state is HostState.CONNECTING
        assert silent, "nothing was connected to the hung one"
    finally:
        await hosts.close()
        live.close()
        for writer in silent:
            writer.close()
        hung.close()
