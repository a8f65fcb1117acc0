"""Hosts are shown before what reaches them is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import HostState
from gpuconsole.errors import UsageError
from gpuconsole.remote.inventory import parse_inventory
from gpuconsole.remote.lazy_hosts import LazyHosts

TEXT = """\
version: 1
hosts:
  - {name: a, address: 127.0.0.1, port: 9, labels: {rack: r1}, drain: new fans}
  - {name: b, local: true}
"""


def made() -> LazyHosts:
    return LazyHosts(parse_inventory(TEXT, "lab"), LabSettings())


async def test_the_first_picture_is_that_of_the_inventory() -> None:
    hosts = made()
    first = hosts.snapshot()
    assert [(host.name, host.state) for host in first.hosts] == [
        ("a", HostState.CONNECTING),
        ("b", HostState.CONNECTING),
    ]
    assert (first.hosts[0].labels, first.hosts[0].drained) == (
        {"rack": "r1"},
        "drained in the inventory: new fans",
    )
    assert hosts.snapshot() is first
    await hosts.close()


async def test_the_real_ones_show_the_same_before_they_hear_anything() -> None:
    hosts = made()
    first = hosts.snapshot()
    with pytest.raises(UsageError):
        await hosts.engine("nobody")
    assert hosts.snapshot().hosts == first.hosts
    await hosts.close()


def test_no_ssh_is_imported_for_the_first_picture(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(TEXT)
    program = (
        "import sys; from pathlib import Path\n"
        "from gpuconsole.session.factory import open_session\n"
        f"session = open_session(Path({str(inventory)!r}), Path({str(tmp_path / 'state')!r}))\n"
        "assert len(session.snapshot().hosts) == 2\n"
        "assert not {'asyncssh', 'docker'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
