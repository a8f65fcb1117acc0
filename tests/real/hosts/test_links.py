"""SSH to real sshd hosts: keys, shells that print, cuts and what is left behind."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.fleet import Host, HostState
from gpuconsole.errors import EngineError, HostKeyError, UnreachableError
from gpuconsole.remote.check import trust_host
from gpuconsole.remote.hosts import RemoteHosts
from gpuconsole.remote.inventory import HostEntry, Inventory, parse_inventory
from gpuconsole.remote.links import ssh
from gpuconsole.remote.links.errors import LoginError
from gpuconsole.remote.links.ssh import SshLink
from gpuconsole.remote.links.wakeups import Wakeups
from tests import waiting
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.patience import PATIENCE_S

NOISE = 'echo \'@gpuc {"hello": "noise"}\'\necho error noise >&2\n'
RC_FILES = {
    ".bashrc": NOISE,
    ".profile": NOISE,
    ".tcshrc": 'echo "motd from csh"\n',
    ".config/fish/config.fish": NOISE,
}
SHELLS = ["/bin/bash", "/bin/dash", "/usr/bin/fish", "/bin/tcsh"]


def entry(lab: Lab, host: LabHost) -> HostEntry:
    return next(e for e in parse_inventory(lab.inventory(), "lab").hosts if e.name == host.name)


@asynccontextmanager
async def linked(entry: HostEntry) -> AsyncIterator[SshLink]:
    link = SshLink(entry, timeout=PATIENCE_S)
    try:
        yield link
    finally:
        await link.close()


async def until(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_readers_of_many_commands_are_woken_together_and_get_every_line(lab: Lab) -> None:
    link = SshLink(entry(lab, lab.add()), timeout=PATIENCE_S, wakeups=Wakeups(0.05))
    try:
        commands = [await link.open(["cat"]) for _ in range(3)]
        for number in range(4):
            for at, command in enumerate(commands):
                command.write(b"%d of %d\n" % (number, at))
            lines = await asyncio.gather(*(command.read_line() for command in commands))
            assert lines == [b"%d of %d" % (number, at) for at in range(3)]
        for command in commands:
            command.write_eof()
            assert await command.read_line() is None
    finally:
        await link.close()


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_command_means_the_same_under_every_login_shell(lab: Lab, shell: str) -> None:
    if not os.path.exists(shell):
        pytest.skip(f"{shell} is not installed")
    host = lab.add(shell=shell, files=RC_FILES, motd="Welcome!\n")
    words = ["a b", "c'd\"e", "$(id)`id`$HOME", "f\ng", "!h", "\\i\\n", "é Á 中 \udcff", "*?~", ""]
    async with linked(entry(lab, host)) as link:
        program = (
            "import sys,os; sys.stdout.buffer.write(b'|'.join(map(os.fsencode, sys.argv[1:])))"
        )
        done = await link.run(["python3", "-c", program, *words])
        assert done.exit_status == 0, done
        assert done.stdout == b"|".join(os.fsencode(word) for word in words)
        assert done.stderr == b""
        done = await link.run(["sh", "-c", "cat; echo no >&2; exit 3"], stdin=b"\x00in\xff\n")
        assert (done.exit_status, done.stdout, done.stderr) == (3, b"\x00in\xff\n", b"no\n")
        size = sum(
            [len(chunk) async for chunk in link.stream(["head", "-c", "3000000", "/dev/zero"])]
        )
        assert size == 3_000_000
    async with polled(lab) as hosts:
        await until(lambda: hosts.snapshot().hosts[0].devices)


async def test_commands_that_fail_say_so(lab: Lab) -> None:
    host = lab.add()
    async with linked(entry(lab, host)) as link:
        assert (await link.run(["no-such-command"])).exit_status == 127
        with pytest.raises(EngineError, match=r"did not end within 0\.5 s"):
            await link.run(["sleep", "1000"], timeout=0.5)
        with pytest.raises(EngineError, match="exit status 4: the reason"):
            async for _ in link.stream(["sh", "-c", "echo the reason >&2; exit 4"]):
                pass


@pytest.mark.fault("The account's shell refuses logins", "The host says so")
async def test_a_login_shell_that_lets_nobody_in_is_said(lab: Lab) -> None:
    host = lab.add(shell="/usr/sbin/nologin")
    async with linked(entry(lab, host)) as link:
        with pytest.raises(UnreachableError, match="Login shell"):
            await link.run(["true"])


async def test_an_unknown_key_is_shown_and_trusted_only_when_asked(
    lab: Lab, tmp_path: Path
) -> None:
    host = lab.add()
    known = tmp_path / "ssh" / "known_hosts"
    unknown = replace(entry(lab, host), known_hosts=known)
    async with linked(unknown) as link:
        with pytest.raises(HostKeyError, match=r"Unknown host key.*SHA256:") as caught:
            await link.connect()
        assert f"check --trust {host.name}" in caught.value.hint
    inventory = Inventory("lab", (unknown,))
    with pytest.raises(HostKeyError):
        await trust_host(inventory, host.name, lambda key: False)
    assert not known.exists()
    (added,) = await trust_host(inventory, host.name, lambda key: True)
    assert added.fingerprint.startswith("SHA256:")
    async with linked(unknown) as link:
        assert (await link.run(["echo", "in"])).stdout == b"in\n"


@pytest.mark.fault("A host key has changed", "Refused; the old line stays")
async def test_a_changed_key_is_refused_and_never_trusted_over_the_old(lab: Lab) -> None:
    host = lab.add()
    known = entry(lab, host)
    before = known.known_hosts.read_text()
    host.new_host_key()
    host.stop_sshd()
    host.start_sshd()
    async with linked(known) as link:
        with pytest.raises(HostKeyError, match="Host key has changed") as caught:
            await link.connect()
        assert "ssh-keygen" in caught.value.hint
    with pytest.raises(HostKeyError, match="Host key has changed"):
        await trust_host(Inventory("lab", (known,)), host.name, lambda key: True)
    assert known.known_hosts.read_text() == before


async def test_a_wrong_key_and_a_missing_one_are_told_apart(lab: Lab, tmp_path: Path) -> None:
    host = lab.add()
    process = await asyncio.create_subprocess_exec(
        "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")
    )
    assert await process.wait() == 0
    async with linked(replace(entry(lab, host), identity_file=tmp_path / "other")) as link:
        with pytest.raises(LoginError, match="Login refused"):
            await link.connect()
    async with linked(replace(entry(lab, host), identity_file=tmp_path / "none")) as link:
        with pytest.raises(LoginError, match="none"):
            await link.connect()


@pytest.mark.fault(
    "Names that do not resolve, closed ports, no route",
    "Each is named as what it is",
)
async def test_what_stops_a_connection_is_said(lab: Lab) -> None:
    host = lab.add()
    good = entry(lab, host)
    async with linked(replace(good, port=2222)) as link:
        with pytest.raises(UnreachableError, match="refuses connections"):
            await link.connect()
    async with linked(replace(good, address="no-such-host.invalid")) as link:
        with pytest.raises(UnreachableError, match="cannot be resolved"):
            await link.connect()
    host.freeze()
    link = SshLink(good, timeout=1.0)
    with pytest.raises(UnreachableError, match="did not answer within 1 s"):
        await link.connect()
    host.thaw()
    await waiting.until(lambda: reached(link))
    await link.close()


@pytest.mark.fault(
    "sshd allows fewer sessions over a connection, or logins at once, than are asked for",
    "Its setting is named, with what to do",
)
async def test_the_limits_of_sshd_are_named(lab: Lab) -> None:
    host = lab.add()
    known = entry(lab, host)
    host.stop_sshd()
    host.limit_sshd(MaxSessions=1, MaxStartups=1)
    host.start_sshd()
    async with linked(known) as link:
        held = await link.open(["cat"])
        held.write(b"here\n")
        assert await held.read_line() == b"here"
        with pytest.raises(UnreachableError, match="sshd allows no more sessions") as caught:
            await link.run(["true"])
        assert "`MaxSessions`" in caught.value.hint
        await held.close()
        await waiting.until(lambda: reached(link))
    # Who does not log in takes the only place of those who do.
    reader, writer = await asyncio.open_connection(host.address, 22)
    assert (await reader.readline()).startswith(b"SSH-2.0")
    async with linked(known) as link:
        with pytest.raises(UnreachableError, match="ended the connection before") as caught:
            await link.connect()
        assert "`MaxStartups`" in caught.value.hint
        writer.close()
        await waiting.until(lambda: reached(link))


async def reached(link: SshLink) -> bool:
    try:
        return (await link.run(["echo", "in"])).stdout == b"in\n"
    except UnreachableError:
        return False


async def test_a_host_is_reached_through_another(lab: Lab, tmp_path: Path) -> None:
    gate = lab.add()
    jump = SshLink(entry(lab, gate), timeout=PATIENCE_S)
    link = SshLink(replace(entry(lab, gate), name="inner"), jump=jump, timeout=PATIENCE_S)
    try:
        assert (await link.run(["hostname"])).stdout.decode().strip() == gate.name
    finally:
        await link.close()


async def test_the_ssh_config_is_followed_with_its_jump_hosts(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = lab.add()
    folder = tmp_path / ".ssh"
    folder.mkdir()
    common = f"  HostName {host.address}\n  User ops\n  IdentityFile {lab.key}\n"
    (folder / "config").write_text(f"Host gpu\n{common}Host behind\n{common}  ProxyJump gpu\n")
    (folder / "known_hosts").write_text(lab.known_hosts().read_text())
    monkeypatch.setenv("HOME", str(tmp_path))
    inventory = "version: 1\nhosts:\n  - name: gpu\n  - name: behind\n"
    for named in parse_inventory(inventory, "lab").hosts:
        async with linked(named) as link:
            assert (await link.run(["id", "-un"])).stdout == b"ops\n"
            direct = await link.target()
            assert direct == ((host.address, 22) if named.name == "gpu" else None)


async def test_a_forwarded_socket_is_private_works_again_and_is_removed(lab: Lab) -> None:
    host = lab.add()
    path = "/home/ops/echo.sock"
    program = (
        f"import os,socket;s=socket.socket(socket.AF_UNIX);s.bind('{path}');"
        f"os.chmod('{path}',0o777);s.listen();\n"
        "while 1:\n c=s.accept()[0];c.sendall(b'hi');c.close()"
    )
    server = host.popen(["python3", "-c", program])
    try:
        async with linked(entry(lab, host)) as link:
            await until(lambda: host.run(["test", "-S", path]).returncode == 0)
            local = await link.forward_socket(path)
            assert await link.forward_socket(path) == local
            assert stat.S_IMODE(os.stat(local).st_mode) == 0o600
            assert stat.S_IMODE(os.stat(os.path.dirname(local)).st_mode) == 0o700
            assert await read_all(local) == b"hi"
            link.drop()
            assert await read_all(await link.forward_socket(path)) == b"hi"
        assert not os.path.lexists(os.path.dirname(local))
    finally:
        server.kill()
        server.wait()


async def read_all(path: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    data = await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    return data


@asynccontextmanager
async def polled(lab: Lab) -> AsyncIterator[RemoteHosts]:
    inventory = parse_inventory(lab.inventory() + "lab: {poll: {stale_after: 3s}}\n", "lab")
    hosts = RemoteHosts(inventory, random=lambda: 0.2)
    await hosts.start()
    try:
        yield hosts
    finally:
        await hosts.close()


@pytest.mark.fault(
    "Packets of a host are dropped",
    "Its figures are marked stale and go on afterwards; other hosts see nothing",
)
async def test_a_cut_host_is_stale_then_goes_on_and_the_others_see_nothing(lab: Lab) -> None:
    lab.add()
    away = lab.add()

    async with polled(lab) as hosts:

        def host(number: int) -> Host:
            return hosts.snapshot().hosts[number]

        await until(lambda: host(0).devices and host(1).devices)
        away.cut()
        await until(lambda: host(1).state is HostState.STALE)
        assert "no frame" in host(1).error
        assert host(1).devices, "the last picture stays"
        seen = host(0).sampled_at or 0.0
        await until(lambda: (host(0).sampled_at or 0.0) > seen + 1)
        assert host(0).state is HostState.UP
        away.heal()
        await until(lambda: host(1).state is HostState.UP)
        assert host(1).error == ""


@pytest.mark.fault(
    "sshd is killed with all sessions and comes back",
    "The host comes back by itself",
)
async def test_a_host_that_restarts_comes_back_and_one_that_is_away_is_refused_at_once(
    lab: Lab,
) -> None:
    host = lab.add()
    async with polled(lab) as hosts:
        await until(lambda: hosts.snapshot().hosts[0].devices)
        await asyncio.to_thread(host.stop_sshd)
        await until(lambda: hosts.snapshot().hosts[0].state is HostState.DOWN)
        with pytest.raises(UnreachableError):
            await hosts.engine(host.name)
        host.start_sshd()
        await until(lambda: hosts.snapshot().hosts[0].state is HostState.UP)


@pytest.mark.fault(
    "27 hosts of 30 accept connections and never say a word",
    "The others have their turn before a dead one has a second; one behind a jump host comes up",
)
async def test_dead_hosts_hold_up_no_live_one(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, gate, plain = lab.add(), lab.add(), lab.add()
    lines = lab.inventory().splitlines()
    first = lines.index("hosts:") + 1
    names = [f"dead-{number:02d}" for number in range(27)]
    silent = [f"  - {{name: {name}, address: {dead.address}}}" for name in names]
    behind = f"  - {{name: behind, address: {gate.address}, jump: {gate.name}}}"
    entry_lines = 3
    live = lines[first + entry_lines :]
    # A dead host would hold its turn for as long as a test may take.
    patient = f"lab: {{poll: {{connect_timeout: {PATIENCE_S:g}s}}}}"
    text = "\n".join([*lines[:first], *silent, behind, *live, patient, ""])
    inventory = parse_inventory(text, "lab")
    assert len(inventory.hosts) == 30
    tried: list[str] = []
    connect = SshLink._connect

    async def noted(link: SshLink) -> object:
        tried.append(link.host)
        return await connect(link)

    monkeypatch.setattr(SshLink, "_connect", noted)
    dead.freeze()
    hosts = RemoteHosts(inventory, random=lambda: 0.2)
    await hosts.start()
    try:
        wanted = ("behind", gate.name, plain.name)
        await until(lambda: all(host_of(hosts, name).devices for name in wanted))
    finally:
        await hosts.close()
        dead.thaw()
    again = next((at for at, name in enumerate(tried) if name in tried[:at]), len(tried))
    assert {*names, gate.name, plain.name} <= set(tried[:again])


def host_of(hosts: RemoteHosts, name: str) -> Host:
    return next(host for host in hosts.snapshot().hosts if host.name == name)


async def test_closing_leaves_no_agent_behind_and_waits_for_no_host(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing but closing itself can end the link to a host that has stopped.
    monkeypatch.setattr(ssh, "KEEPALIVE_S", 3600)
    machine = lab.add()
    frozen = lab.add()
    async with polled(lab) as hosts:
        await until(lambda: all(host.devices for host in hosts.snapshot().hosts))
        frozen.freeze()
        await hosts.close()
    await until(lambda: not machine.agents())
    frozen.thaw()
