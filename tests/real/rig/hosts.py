"""Lab hosts: each a network and mount namespace with its own sshd, account, driver and sockets.

A host is as real as it can be without a second machine: its own address, host key, `/run`,
`/home`, `/etc/passwd`, login shell and driver library. Its programs share this machine's kernel,
`/usr` and process ids.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.real.rig import nvml
from tests.real.rig.docker import LabDocker
from tests.real.rig.image import paddle_image
from tests.real.rig.patience import PATIENCE_S

Made = TypeVar("Made")
USER = "ops"
UID = 21000
DOCKER_GID = 21999
SUBNET = "10.213"
NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of the kernel."""

SSHD_CONFIG = """
ListenAddress {address}:22
HostKey {root}/hostkey
PidFile {root}/sshd.pid
AuthorizedKeysFile {root}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PrintMotd yes
MaxStartups 100
AllowStreamLocalForwarding yes
Subsystem sftp internal-sftp
SetEnv PATH=/run/lab/bin:/usr/local/bin:/usr/bin:/bin
"""

# Runs inside the new namespaces; everything it mounts is seen by this host alone.
SETUP = """
set -e
mount --make-rprivate /
hostname "$NAME"
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /home
mkdir -p /run/sshd /run/lab/lib /run/lab/bin /run/fake-nvml /home/ops
for file in passwd group shadow motd; do
  [ -e /etc/$file ] && mount --bind "$ROOT/$file" /etc/$file
done
mount --bind "$ROOT/driver" /run/fake-nvml
cp "$ROOT"/lib/* /run/lab/lib/ 2>/dev/null || true
cp "$ROOT"/bin/* /run/lab/bin/ 2>/dev/null || true
cp -r "$ROOT"/home/. /home/ops/
chown -R "$OWNER" /home/ops
{ cat /etc/ld.so.conf; echo /run/lab/lib; } >"$ROOT/ld.so.conf"
ldconfig -f "$ROOT/ld.so.conf" -C "$ROOT/ld.so.cache"
mount --bind "$ROOT/ld.so.cache" /etc/ld.so.cache
if [ "$PYTHON" = none ]; then
  for program in /usr/bin/python3*; do
    if [ -f "$program" ] && [ ! -L "$program" ]; then mount --bind "$ROOT/nothing" "$program"; fi
  done
fi
"""


def why_not() -> str:
    """Return why no lab host can be made here, or ""."""
    if os.geteuid() != 0:
        return "lab hosts need root"
    programs = ("sshd", "ssh-keygen", "ip", "nsenter", "unshare", "ldconfig")
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [program for program in programs if not shutil.which(program, path=path)]
    if missing:
        return f"{', '.join(missing)} not installed"
    probe = subprocess.run(
        ["unshare", "--mount", "--net", "true"], capture_output=True, check=False
    )
    return "" if probe.returncode == 0 else "namespaces cannot be made here"


@dataclass(slots=True)
class LabHost:
    """A running host. `driver` changes what its GPUs say."""

    name: str
    number: int
    root: Path
    address: str
    link: str
    driver: nvml.DriverState
    key: Path
    user: str = USER
    uid: int = UID
    socket: str = "/var/run/docker.sock"
    _anchor: subprocess.Popen[bytes] | None = None
    _sshd: subprocess.Popen[bytes] | None = None
    _closers: list[Callable[[], None]] = field(default_factory=list)

    @property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of the host's devices, in index order."""
        count = int(self.driver._fields.get("count", "0"))
        return tuple(nvml.uuid(self.number, index) for index in range(count))

    def popen(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program inside the host, as root; the process is the program itself."""
        assert self._anchor is not None
        enter = ["nsenter", f"--target={self._anchor.pid}", "--mount", "--net", "--uts", "--ipc"]
        return subprocess.Popen([*enter, "--", *argv], **options)

    def run(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a program inside the host to its end."""
        process = self.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        out, err = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def in_network(self, make: Callable[[], Made]) -> Made:
        """Call something that opens sockets as if it did so on this host."""
        assert self._anchor is not None
        with open(f"/proc/{self._anchor.pid}/ns/net") as network:

            def enter_and_make() -> Made:
                # A thread has a network of its own to be in; the sockets keep it.
                if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), NEW_NETWORK) != 0:
                    raise OSError(ctypes.get_errno(), "cannot enter the host's network")
                return make()

            with ThreadPoolExecutor(1) as pool:
                return pool.submit(enter_and_make).result()

    def pids(self) -> list[int]:
        """List the processes that live in this host."""
        assert self._anchor is not None
        own = os.stat(f"/proc/{self._anchor.pid}/ns/net").st_ino
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if (entry / "ns/net").stat().st_ino == own:
                        found.append(int(entry.name))
        return found

    def agents(self) -> list[int]:
        """List the Python processes of the account: the agents that run now."""
        found = []
        for pid in self.pids():
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                if f"Uid:\t{self.uid}\t" in status and "Name:\tpython" in status:
                    found.append(pid)
        return found

    def start_sshd(self) -> None:
        """Start the host's sshd and wait until it listens."""
        self._sshd = self.popen(
            ["/usr/sbin/sshd", "-D", "-e", "-f", str(self.root / "sshd_config")],
            stderr=(self.root / "sshd.log").open("ab"),
        )
        deadline = time.monotonic() + PATIENCE_S
        while self.run(["sh", "-c", "ss -ltn 2>/dev/null | grep -q ':22 '"]).returncode:
            if self._sshd.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.root / "sshd.log").read_text())
            time.sleep(0.02)

    def limit_sshd(self, **settings: int) -> None:
        """Change settings of the host's sshd, which takes them when it is started again."""
        path = self.root / "sshd_config"
        others = [
            line for line in path.read_text().splitlines() if line.split(" ")[0] not in settings
        ]
        path.write_text(
            "\n".join([*others, *(f"{name} {settings[name]}" for name in settings), ""])
        )

    def stop_sshd(self) -> None:
        """End sshd with all its sessions, as a reboot would."""
        for pid in self.pids():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                    os.kill(pid, signal.SIGKILL)
        if self._sshd is not None:
            self._sshd.wait(PATIENCE_S)

    def start_engine(
        self, *, toolkit: bool = True, paddle: bool = True, live_restore: bool = False
    ) -> LabDocker:
        """Start a Docker engine in the host, at its usual socket, with the image of Paddle."""
        engine = LabDocker(
            self.root / "docker",
            uuids=self.uuids,
            toolkit=toolkit,
            live_restore=live_restore,
            popen=self.popen,
        ).start()
        self.at_close(engine.stop)
        if live_restore:
            self.at_close(engine.clear)
        # The account reaches the socket through its group, as on a usual host.
        engine.socket.chmod(0o660)
        os.chown(engine.socket, 0, DOCKER_GID)
        self.socket = str(engine.socket)
        if paddle:
            paddle_image(engine)
        return engine

    def new_host_key(self) -> None:
        """Give the host another key, as a reinstallation would; needs a restart of sshd."""
        for name in ("hostkey", "hostkey.pub"):
            (self.root / name).unlink(missing_ok=True)
        _keygen(self.root / "hostkey")

    def host_key_line(self) -> str:
        """Return the host's line for a known_hosts file."""
        kind, key = (self.root / "hostkey.pub").read_text().split()[:2]
        return f"{self.address} {kind} {key}\n"

    def cut(self) -> None:
        """Take the network away; nothing is told to either side."""
        self.run(["ip", "link", "set", "eth0", "down"])

    def heal(self) -> None:
        """Give the network back."""
        self.run(["ip", "link", "set", "eth0", "up"])

    def freeze(self) -> None:
        """Stop every process of the host; its kernel still answers."""
        assert self._anchor is not None
        for pid in self.pids():
            if pid != self._anchor.pid:
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen host go on."""
        for pid in self.pids():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)

    def at_close(self, closer: Callable[[], None]) -> None:
        """Run something before the host is taken down, last added first."""
        self._closers.append(closer)

    def close(self) -> None:
        """Take the host down."""
        self.thaw()
        for closer in reversed(self._closers):
            closer()
        for pid in self.pids():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for process in (self._sshd, self._anchor):
            if process is not None:
                process.wait(PATIENCE_S)
        subprocess.run(["ip", "link", "del", self.link], capture_output=True, check=False)


class Lab:
    """Makes hosts and takes them down; one key opens all of them."""

    def __init__(self) -> None:
        # Not pytest's folder: an account of a lab host must be able to pass through.
        self.root = Path(tempfile.mkdtemp(prefix="lab-"))
        self.root.chmod(0o755)
        self.hosts: list[LabHost] = []
        self.key = self.root / "id_ed25519"
        _keygen(self.key)
        self._library = nvml.build(self.root)

    def add(
        self,
        *,
        devices: int = 2,
        shell: str = "/bin/bash",
        files: dict[str, str] | None = None,
        programs: dict[str, str] | None = None,
        motd: str = "",
        python: bool = True,
        driver: bool = True,
        model: str = "NVIDIA A100-SXM4-40GB",
        accounts: Sequence[str] = (),
    ) -> LabHost:
        """Start a host. `files` go into the home folder, `programs` first on its PATH; `accounts`
        can log in with the lab's key and may do nothing else."""
        number = len(self.hosts) + 1
        root = self.root / f"host{number}"
        for name in ("driver", "lib", "bin", "home"):
            (root / name).mkdir(parents=True)
        fields: dict[str, object] = {"count": devices, "model": model}
        fields |= {f"{index}.uuid": nvml.uuid(number, index) for index in range(devices)}
        host = LabHost(
            name=f"lab-{number:02d}",
            number=number,
            root=root,
            address=f"{SUBNET}.{number}.2",
            link=f"gpuclab{number}",
            driver=nvml.DriverState(root / "driver" / "state", **fields),
            key=self.key,
        )
        self._write_files(host, shell, motd, accounts)
        for name, text in (files or {}).items():
            (root / "home" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "home" / name).write_text(text)
        for name, text in (programs or {}).items():
            (root / "bin" / name).write_text(text)
            (root / "bin" / name).chmod(0o755)
        if driver:
            shutil.copy(self._library, root / "lib")
        self.hosts.append(host)
        self._start(host, python)
        return host

    def known_hosts(self) -> Path:
        """Write and return a known_hosts file that names every host's present key."""
        path = self.root / "known_hosts"
        path.write_text("".join(host.host_key_line() for host in self.hosts))
        return path

    def inventory(self, *, image: str = "lab/paddle:1", poll_interval: float = 1.0) -> str:
        """Return an inventory of all hosts, as YAML."""
        lines = ["version: 1", "defaults:", f"  user: {USER}"]
        lines += [f"  identity_file: {self.key}", f"  known_hosts: {self.known_hosts()}"]
        lines += [f"  image: {image}", f"  poll_interval: {poll_interval}", "hosts:"]
        for host in self.hosts:
            lines += [f"  - name: {host.name}", f"    address: {host.address}"]
            lines += [f"    docker_socket: {host.socket}"]
        return "\n".join(lines) + "\n"

    def connect(self) -> None:
        """Let the hosts reach each other, through this process's network."""
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for host in self.hosts:
            route = ["ip", "route", "replace", "default", "via", f"{SUBNET}.{host.number}.1"]
            host.run(route).check_returncode()

    def close(self) -> None:
        """Take all hosts down."""
        for host in self.hosts:
            host.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def _write_files(
        self, host: LabHost, shell: str, motd: str, accounts: Sequence[str] = ()
    ) -> None:
        root = host.root
        _keygen(root / "hostkey")
        account = f"{USER}:x:{UID}:{UID}::/home/{USER}:{shell}\n"
        system = "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
        others = [
            f"{name}:x:{UID + 1 + number}:{UID + 1 + number}::/tmp:/bin/bash\n"
            for number, name in enumerate(accounts)
        ]
        (root / "passwd").write_text(system + account + "".join(others))
        (root / "group").write_text(
            f"root:x:0:\nvideo:x:44:\nnogroup:x:65534:\n{USER}:x:{UID}:\ndocker:x:{DOCKER_GID}:{USER}\n"
        )
        (root / "shadow").write_text(
            "".join(f"{name}:*:1::::::\n" for name in ("root", USER, *accounts))
        )
        (root / "motd").write_text(motd)
        (root / "nothing").write_text("")
        (root / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
        (root / "sshd_config").write_text(SSHD_CONFIG.format(address=host.address, root=root))

    def _start(self, host: LabHost, python: bool) -> None:
        anchor = ["unshare", "--mount", "--net", "--uts", "--ipc", "sleep", "infinity"]
        host._anchor = subprocess.Popen(anchor)
        _wait_for_namespace(host._anchor.pid)
        env = {
            **os.environ,
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
            "ROOT": str(host.root),
            "NAME": host.name,
            "OWNER": f"{UID}:{UID}",
            "PYTHON": "system" if python else "none",
        }
        done = host.run(["sh", "-c", SETUP], env=env)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        subprocess.run(["ip", "link", "del", host.link], capture_output=True, check=False)
        peer = ["peer", "name", "eth0", "netns", str(host._anchor.pid)]
        near = f"{SUBNET}.{host.number}.1/24"
        for command in (
            ["ip", "link", "add", host.link, "type", "veth", *peer],
            ["ip", "addr", "add", near, "dev", host.link],
            ["ip", "link", "set", host.link, "up"],
        ):
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
        for words in (
            ["addr", "add", f"{host.address}/24", "dev", "eth0"],
            ["link", "set", "lo", "up"],
            ["link", "set", "eth0", "up"],
        ):
            host.run(["ip", *words]).check_returncode()
        host.start_sshd()


@contextlib.contextmanager
def lab() -> Iterator[Lab]:
    """Give a lab and take it down whatever happens."""
    with private_network():
        made = Lab()
        try:
            yield made
        finally:
            made.close()


@contextlib.contextmanager
def private_network() -> Iterator[None]:
    """Move this process into a network of its own, so that labs at the same time never meet.

    Threads and programs started meanwhile are in it too.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    outside = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), "cannot make a network namespace")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=PATIENCE_S)
        yield
    finally:
        libc.setns(outside, NEW_NETWORK)
        os.close(outside)


def _keygen(path: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S)


def _wait_for_namespace(pid: int) -> None:
    own = os.stat("/proc/self/ns/net").st_ino
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError):
            # The mount namespace comes last of those that unshare makes before it runs the program.
            if (
                os.stat(f"/proc/{pid}/ns/net").st_ino != own
                and Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
            ):
                return
        if time.monotonic() > deadline:
            raise RuntimeError("unshare did not start")
        time.sleep(0.01)
